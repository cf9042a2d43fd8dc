// Shapes, dtypes and checks of masked.textproto; the work is the reduction engine's, which brings blocks to cache under
// the mask.
#include "masked/masked.h"

#include <optional>
#include <string_view>

#include "masked/masked_kernels.h"
#include "tensor/engine/reduce.h"
#include "tensor/ops/api.h"
#include "tensor/ops/create_kernels.h"
#include "tensor/ops/promotion.h"
#include "tensor/ops/reduce_extra.h"
#include "tensor/ops/strided.h"

namespace tessera::kernels {
namespace {

// `t` over these sizes.
Tensor over(const Tensor& t, IntList sizes) { return std::ranges::equal(t.sizes(), sizes) ? t : expand(t, sizes); }

void check_mask(const Tensor& self, const Tensor& mask) {
  TESSERA_CHECK_NOT_IMPLEMENTED(!self.is_complex(), "reductions under a mask are of real numbers, got ",
                                type_name_of(self.dtype()), "; fill a copy with where()");
  TESSERA_CHECK_TYPE(mask.dtype() == DType::kBool, "expected a mask of dtype bool, got ", type_name_of(mask.dtype()),
                     "; convert it with mask.bool()");
}

OutputSpec reduced_spec(const Tensor& self, const Tensor& mask, IntList dim, bool keepdim, DType dtype) {
  check_mask(self, mask);
  const IntVector sizes = broadcast_shapes({&self, &mask});
  const uint64_t reduced = reduce_mask(over(self, sizes), dim);
  IntVector kept;
  for (size_t d = 0; d < sizes.size(); ++d) {
    if (!(reduced >> d & 1))
      kept.push_back(sizes[d]);
    else if (keepdim)
      kept.push_back(1);
  }
  return OutputSpec(kept, {}, dtype, self.device());
}

void check_device(const Tensor& self) {
  TESSERA_CHECK_NOT_IMPLEMENTED(self.device().is_cpu(),
                                "reductions under a mask are of tensors on the CPU, got one on ", self.device().str(),
                                "; fill a copy with where()");
}

// A reduction of all dimensions `dim` of self and mask, which the engine sees with one shape.
class Masked {
 public:
  Masked(const Tensor& self, const Tensor& mask, IntList dim, bool keepdim)
      : sizes_(broadcast_shapes({&self, &mask})),
        in_(self, sizes_),
        mask_(mask, sizes_),
        keepdim_(keepdim),
        reduced_(reduce_mask(over(self, sizes_), dim)) {
    check_device(self);
  }

  // fill: what stands for an element that does not count.
  template <class T>
  void reduce(cpu::ReduceKind kind, DType compute, T fill, const Tensor& out, const KernelParam* params = nullptr) {
    Strided to;
    connect(out, &to);
    cpu::run_masked_reduce(kind, compute, sizes_, reduced_, to, in_, mask_, DTypeOf<T>::value, &fill, params);
  }
  void var(double correction, const Tensor& out) {
    Strided to;
    connect(out, &to);
    cpu::run_masked_var(out.dtype(), sizes_, reduced_, correction, to, in_, mask_);
  }

 private:
  void connect(const Tensor& out, Strided* to) const {
    size_t k = 0;
    for (size_t d = 0; d < sizes_.size(); ++d) {
      const bool reduced = reduced_ >> d & 1;
      to->strides[d] = reduced ? 0 : out.strides()[k] * out.item_size();
      k += !reduced || keepdim_;
    }
    to->operand = {out.data_ptr(), out.dtype(), to->strides};
  }
  IntVector sizes_;
  Strided in_, mask_;
  bool keepdim_;
  uint64_t reduced_;
};

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// The smallest (lowest) or largest number of a dtype.
Scalar extreme_of(DType t, bool lowest) {
  if (t == DType::kBool) return Scalar(!lowest);
  if (is_floating_point(t)) return Scalar(lowest ? -kInfinity : kInfinity);
  if (t == DType::kUInt8) return Scalar(int64_t{lowest ? 0 : 255});
  const int bits = static_cast<int>(8 * item_size(t));
  const int64_t largest = INT64_MAX >> (64 - bits);
  return Scalar(lowest ? -largest - 1 : largest);
}

}  // namespace

OutputSpec _masked_sum_meta(const Tensor& self, const Tensor& mask, IntList dim, bool keepdim, bool mean,
                            std::optional<DType> dtype) {
  const DType wanted = dtype ? *dtype : mean ? self.dtype() : sum_dtype(self.dtype());
  TESSERA_CHECK(!mean || is_floating_point(wanted), "_masked_sum(): expected a floating dtype for a mean, got ",
                type_name_of(wanted), "; say dtype=");
  return reduced_spec(self, mask, dim, keepdim, wanted);
}

void _masked_sum_kernel(const Tensor& self, const Tensor& mask, IntList dim, bool keepdim, bool mean,
                        std::optional<DType>, const Tensor& out) {
  if (out.numel() == 0) return;
  const DType wide = mean && out.dtype() != DType::kFloat64 ? DType::kFloat32 : out.dtype();
  Tensor total = wide == out.dtype() ? out : empty(out.sizes(), wide, std::nullopt, out.device());
  Masked(self, mask, dim, keepdim).reduce(cpu::ReduceKind::kSum, wide, int64_t{0}, total);
  if (!mean) return;
  // A mask that broadcasts along reduced dimensions counts as often as the elements do.
  const Tensor each = expand(mask, broadcast_shapes({&self, &mask}));
  copy__kernel(out, div(total, sum(each, dim, keepdim)), false);
}

OutputSpec _masked_reduce_meta(const Tensor& self, const Tensor& mask, std::string_view kind, IntList dim, bool keepdim,
                               double) {
  const bool any_number = kind == "amax" || kind == "amin" || kind == "prod";
  TESSERA_CHECK(any_number || kind == "norm" || kind == "logsumexp" || kind == "var",
                "_masked_reduce(): expected amax, amin, prod, norm, logsumexp or var, got ", kind);
  TESSERA_CHECK(any_number || self.is_floating_point(), "_masked_reduce(): ", kind, " is of floating dtypes, got ",
                type_name_of(self.dtype()));
  TESSERA_CHECK(kind != "prod" || dim.size() <= 1, "_masked_reduce(): a product is along one dimension, got ",
                dim.size());
  return reduced_spec(self, mask, dim, keepdim, kind == "prod" ? sum_dtype(self.dtype()) : self.dtype());
}

void _masked_reduce_kernel(const Tensor& self, const Tensor& mask, std::string_view kind, IntList dim, bool keepdim,
                           double param, const Tensor& out) {
  if (out.numel() == 0) return;
  Masked masked(self, mask, dim, keepdim);
  const DType t = out.dtype();
  if (kind == "amax" || kind == "amin") {
    const auto reduce = kind == "amax" ? cpu::ReduceKind::kMax : cpu::ReduceKind::kMin;
    const Scalar fill = extreme_of(t, kind == "amax");
    if (is_floating_point(t))
      masked.reduce(reduce, t, fill.to_double(), out);
    else
      masked.reduce(reduce, t, fill.to_int(), out);
  } else if (kind == "prod") {
    masked.reduce(cpu::ReduceKind::kProd, t, int64_t{1}, out);
  } else if (kind == "logsumexp") {
    masked.reduce(cpu::ReduceKind::kLogSumExp, t, -kInfinity, out);
  } else if (kind == "norm") {
    KernelParam order;
    order.f = param;
    masked.reduce(cpu::ReduceKind::kNorm, t, masked_norm_fill(param), out, &order);
  } else {
    masked.var(param, out);
  }
}

OutputSpec _softmax_under_meta(const Tensor& self, const Tensor& mask, int64_t dim, bool) {
  check_mask(self, mask);
  const IntVector sizes = broadcast_shapes({&self, &mask});
  wrap_dim(dim, static_cast<int64_t>(sizes.size()));
  return OutputSpec(sizes, {}, self.dtype(), self.device());
}

void _softmax_under_kernel(const Tensor& self, const Tensor& mask, int64_t dim, bool log, const Tensor& out) {
  if (out.numel() == 0) return;
  const int64_t along = wrap_dim(dim, out.dim());
  check_device(self);
  const Strided in(self, out.sizes()), under(mask, out.sizes()), to(out);
  cpu::run_masked_softmax(log, out.sizes(), static_cast<int>(along), to, in, under);
}

OutputSpec _div_under_meta(const Tensor& self, const Tensor& other, const Tensor& mask) {
  check_mask(self, mask);
  TESSERA_CHECK(self.is_floating_point() && self.dtype() == other.dtype(),
                "_div_under(): expected floats of one dtype, got ", type_name_of(self.dtype()), " and ",
                type_name_of(other.dtype()));
  return OutputSpec(broadcast_shapes({&self, &other, &mask}), {}, self.dtype(), self.device());
}

// Quotients, and zeros put in their places while these are in cache.
void _div_under_kernel(const Tensor& self, const Tensor& other, const Tensor& mask, const Tensor& out) {
  constexpr int64_t kInCache = 65536;  // elements
  if (out.numel() == 0) return;
  const Tensor x = expand(self, out.sizes()), d = expand(other, out.sizes()), m = expand(mask, out.sizes());
  const int64_t n = out.dim() == 0 ? 1 : out.size(0), rows = std::max<int64_t>(1, kInCache / (out.numel() / n));
  for (int64_t i = 0; i < n; i += rows) {
    const auto part = [&](const Tensor& t) { return t.dim() == 0 ? t : narrow(t, 0, i, std::min(rows, n - i)); };
    Tensor to = part(out);
    div_out(to, part(x), part(d));
    where_out(to, part(m), to, zeros({}, out.dtype(), std::nullopt, out.device()));
  }
}

}  // namespace tessera::kernels
