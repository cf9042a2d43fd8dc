// Reductions, running reductions and softmax: shapes, dtypes, errors; the work is done by the engines of
// tensor/cpu/reduce/reduce.h.
#include <algorithm>
#include <cmath>

#include "tensor/core/warning.h"
#include "tensor/engine/reduce.h"
#include "tensor/ops/api.h"
#include "tensor/ops/reduce_extra.h"
#include "tensor/ops/create_kernels.h"
#include "tensor/ops/promotion.h"
#include "tensor/ops/reduce_kernels.h"
#include "tensor/ops/strided.h"

namespace tessera::kernels {

namespace {
// A set of dimensions is a 64-bit mask.
void fits_mask(const Tensor& self) {
  TESSERA_CHECK(self.dim() <= 64, "only tensors with up to 64 dims are supported, got ", self.dim());
}
}  // namespace

uint64_t reduce_mask(const Tensor& self, std::optional<IntList> dims) {
  fits_mask(self);
  if (!dims || dims->empty()) return all_dims(self);
  uint64_t mask = 0;
  for (int64_t d : *dims) {
    const int64_t w = wrap_dim(d, self.dim());
    TESSERA_CHECK(!(mask >> w & 1), "dim ", w, " appears multiple times in the list of dims");
    mask |= uint64_t{1} << w;
  }
  return self.dim() == 0 ? 0 : mask;
}
std::optional<IntList> dim_or_all(IntList dim) { return dim.empty() ? std::nullopt : std::optional(dim); }

namespace {

IntVector reduced_sizes(const Tensor& self, uint64_t mask, bool keepdim) {
  IntVector r;
  for (int64_t i = 0; i < self.dim(); ++i) {
    if (!(mask >> i & 1))
      r.push_back(self.sizes()[i]);
    else if (keepdim)
      r.push_back(1);
  }
  return r;
}

// The result's byte strides over self's dimensions: 0 where they are reduced.
void fill_result_strides(const Tensor& out, uint64_t mask, bool keepdim, int64_t rank, int64_t* strides) {
  int64_t k = 0;
  for (int64_t i = 0; i < rank; ++i) {
    const bool reduced = mask >> i & 1;
    strides[i] = reduced ? 0 : out.strides()[k] * out.item_size();
    if (!reduced || keepdim) ++k;
  }
}

OutputSpec spec_of(const Tensor& self, uint64_t mask, bool keepdim, DType dtype) {
  return OutputSpec(reduced_sizes(self, mask, keepdim), {}, dtype, self.device());
}

DType sum_dtype_of(const Tensor& self, std::optional<DType> dtype) { return dtype ? *dtype : sum_dtype(self.dtype()); }

DType mean_dtype(const Tensor& self, std::optional<DType> dtype) {
  const DType t = dtype.value_or(self.dtype());
  TESSERA_CHECK(is_floating_point(t) || is_complex(t), "mean(): could not infer output dtype. ",
                dtype ? "Optional dtype" : "Input dtype",
                " must be either a floating point or complex dtype. Got: ", type_name_of(t));
  return t;
}

void no_complex(const Tensor& self, const char* name) {
  TESSERA_CHECK_NOT_IMPLEMENTED(!self.is_complex(), "\"", name, "\" not implemented for '", type_name_of(self.dtype()),
                                "'");
}

void nonzero_dims(const Tensor& self, uint64_t mask, const char* name) {
  for (int64_t i = 0; i < self.dim(); ++i)
    TESSERA_CHECK_INDEX(!(mask >> i & 1) || self.sizes()[i] != 0, name, "(): Expected reduction dim ", i,
                        " to have non-zero size.");
}
void not_empty(const Tensor& self, const char* name) {
  TESSERA_CHECK(self.numel() > 0, name,
                "(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim with the "
                "'dim' argument.");
}
uint64_t one_dim(const Tensor& self, int64_t dim) {
  fits_mask(self);
  return self.dim() == 0 ? (wrap_dim(dim, 0), 0) : uint64_t{1} << wrap_dim(dim, self.dim());
}

}  // namespace

void reduce_into(cpu::ReduceKind kind, DType compute, const Tensor& self, uint64_t mask, bool keepdim,
                 const Tensor& out, const KernelParam* params) {
  if (out.numel() == 0) return;
  Strided in(self), to;
  fill_result_strides(out, mask, keepdim, self.dim(), to.strides);
  to.operand = {out.data_ptr(), out.dtype(), to.strides};
  TESSERA_ON(self.device(), run_reduce)(kind, compute, self.sizes(), mask, to, in, params);
}

OutputSpec sum_all_meta(const Tensor& self, std::optional<DType> dtype) {
  return spec_of(self, all_dims(self), false, sum_dtype_of(self, dtype));
}
OutputSpec sum_dim_meta(const Tensor& self, std::optional<IntList> dim, bool keepdim, std::optional<DType> dtype) {
  return spec_of(self, reduce_mask(self, dim), keepdim, sum_dtype_of(self, dtype));
}
OutputSpec nansum_dim_meta(const Tensor& self, std::optional<IntList> dim, bool keepdim, std::optional<DType> dtype) {
  TESSERA_CHECK(!self.is_complex(), "nansum does not support complex inputs");
  return sum_dim_meta(self, dim, keepdim, dtype);
}
OutputSpec mean_all_meta(const Tensor& self, std::optional<DType> dtype) {
  return spec_of(self, all_dims(self), false, mean_dtype(self, dtype));
}
OutputSpec mean_dim_meta(const Tensor& self, std::optional<IntList> dim, bool keepdim, std::optional<DType> dtype) {
  return spec_of(self, reduce_mask(self, dim), keepdim, mean_dtype(self, dtype));
}
OutputSpec prod_dim_meta(const Tensor& self, int64_t dim, bool keepdim, std::optional<DType> dtype) {
  return spec_of(self, one_dim(self, dim), keepdim, sum_dtype_of(self, dtype));
}
void prod_dim_kernel(const Tensor& self, int64_t dim, bool keepdim, std::optional<DType>, const Tensor& out) {
  reduce_into(cpu::ReduceKind::kProd, out.dtype(), self, one_dim(self, dim), keepdim, out);
}

OutputSpec extreme_dims_meta(const Tensor& self, IntList dim, bool keepdim) {
  no_complex(self, "amax");
  if (dim.empty())
    TESSERA_CHECK(self.numel() > 0 || self.dim() == 0,
                  "amax(): Expected reduction dim to be specified for input.numel() == 0. Specify the reduction dim "
                  "with the 'dim' argument.");
  const uint64_t mask = reduce_mask(self, dim);
  nonzero_dims(self, mask, "amax");
  return spec_of(self, mask, keepdim, self.dtype());
}
OutputSpec extreme_all_meta(const Tensor& self) {
  no_complex(self, "max_all");
  not_empty(self, "max");
  return spec_of(self, all_dims(self), false, self.dtype());
}
std::array<OutputSpec, 2> extreme_dim_meta(const Tensor& self, int64_t dim, bool keepdim) {
  no_complex(self, "max");
  const uint64_t mask = one_dim(self, dim);
  nonzero_dims(self, mask, "max");
  return {spec_of(self, mask, keepdim, self.dtype()), spec_of(self, mask, keepdim, DType::kInt64)};
}
void extreme_dim_into(bool largest, const Tensor& self, int64_t dim, bool keepdim, const Tensor& values,
                      const Tensor& indices) {
  if (values.numel() == 0) return;
  const IntVector shape = at_least_1d(self.sizes());
  const int d = static_cast<int>(wrap_dim(dim, self.dim()));
  Strided in(self), v, i;
  if (self.dim() == 0) {
    v.strides[0] = i.strides[0] = 0;
  } else {
    fill_result_strides(values, uint64_t{1} << d, keepdim, self.dim(), v.strides);
    fill_result_strides(indices, uint64_t{1} << d, keepdim, self.dim(), i.strides);
  }
  v.operand = {values.data_ptr(), values.dtype(), v.strides};
  i.operand = {indices.data_ptr(), indices.dtype(), i.strides};
  TESSERA_ON(self.device(), run_arg_reduce)(largest, shape, d, v, i, in);
}

OutputSpec arg_meta(const Tensor& self, std::optional<int64_t> dim, bool keepdim) {
  no_complex(self, "argmax_cpu");
  TESSERA_CHECK_NOT_IMPLEMENTED(self.dtype() != DType::kBool, "\"argmax_cpu\" not implemented for 'Bool'");
  if (!dim) {
    TESSERA_CHECK_INDEX(self.numel() > 0,
                        "argmax(): Expected reduction dim to be specified for input.numel() == 0. Specify the "
                        "reduction dim with the 'dim' argument.");
    return spec_of(self, all_dims(self), keepdim, DType::kInt64);
  }
  const uint64_t mask = one_dim(self, *dim);
  nonzero_dims(self, mask, "argmax");
  return spec_of(self, mask, keepdim, DType::kInt64);
}
void arg_into(bool largest, const Tensor& self, std::optional<int64_t> dim, bool keepdim, const Tensor& out) {
  if (out.numel() == 0) return;
  const Tensor t = dim ? self : reshape(self, {-1});
  const int d = dim ? static_cast<int>(wrap_dim(*dim, self.dim())) : 0;
  const IntVector shape = at_least_1d(t.sizes());
  Strided in(t), i;
  if (!dim || self.dim() == 0)
    i.strides[0] = 0;
  else
    fill_result_strides(out, uint64_t{1} << d, keepdim, self.dim(), i.strides);
  i.operand = {out.data_ptr(), out.dtype(), i.strides};
  const cpu::Operand nowhere{nullptr, t.dtype(), i.strides};
  TESSERA_ON(self.device(), run_arg_reduce)(largest, shape, d, nowhere, i, in);
}

std::array<OutputSpec, 2> aminmax_meta(const Tensor& self, std::optional<int64_t> dim, bool keepdim) {
  no_complex(self, "aminmax");
  if (!dim) not_empty(self, "aminmax");
  const uint64_t mask = dim ? one_dim(self, *dim) : all_dims(self);
  nonzero_dims(self, mask, "aminmax");
  const OutputSpec s = spec_of(self, mask, keepdim, self.dtype());
  return {s, s};
}
void aminmax_kernel(const Tensor& self, std::optional<int64_t> dim, bool keepdim, const Tensor& min,
                    const Tensor& max) {
  const uint64_t mask = dim ? one_dim(self, *dim) : all_dims(self);
  reduce_into(cpu::ReduceKind::kMin, self.dtype(), self, mask, keepdim, min);
  reduce_into(cpu::ReduceKind::kMax, self.dtype(), self, mask, keepdim, max);
}

namespace {
DType truth_dtype(const Tensor& self) { return self.dtype() == DType::kUInt8 ? DType::kUInt8 : DType::kBool; }
}  // namespace
OutputSpec truth_all_meta(const Tensor& self) { return spec_of(self, all_dims(self), false, truth_dtype(self)); }
OutputSpec truth_dim_meta(const Tensor& self, int64_t dim, bool keepdim) {
  return spec_of(self, one_dim(self, dim), keepdim, truth_dtype(self));
}
OutputSpec truth_dims_meta(const Tensor& self, std::optional<IntList> dim, bool keepdim) {
  return spec_of(self, truth_mask(self, dim), keepdim, truth_dtype(self));
}
OutputSpec count_nonzero_meta(const Tensor& self, IntList dim) {
  return spec_of(self, reduce_mask(self, dim), false, DType::kInt64);
}
void count_nonzero_kernel(const Tensor& self, IntList dim, const Tensor& out) {
  reduce_into(cpu::ReduceKind::kCountNonzero, self.dtype(), self, reduce_mask(self, dim), false, out);
}

OutputSpec hash_tensor_meta(const Tensor& self, IntList dim, bool keepdim, int64_t mode) {
  TESSERA_CHECK(mode == 0, "hash_tensor: unknown mode ", mode, ", 0 (exclusive or) is the one that there is");
  TESSERA_CHECK_NOT_IMPLEMENTED(!self.is_complex(), "hash_tensor is not implemented for complex numbers");
  return spec_of(self, reduce_mask(self, dim), keepdim, DType::kUInt64);
}
void hash_tensor_kernel(const Tensor& self, IntList dim, bool keepdim, int64_t mode, const Tensor& out) {
  if (!self.device().is_cpu()) {  // no engine of another device has it
    copy_(out, hash_tensor(to(self, Device(), self.dtype()), dim, keepdim, mode));
    return;
  }
  const Tensor wide = to(self, self.is_floating_point() ? DType::kFloat64 : DType::kInt64).contiguous();
  const Tensor hash = zeros(out.sizes(), DType::kUInt64);
  const uint64_t mask = reduce_mask(self, dim);
  const auto rank = static_cast<size_t>(self.dim());
  IntVector step(rank, 0), at(rank, 0);  // in the result; of the element
  for (size_t d = rank, kept = hash.sizes().size(); d-- > 0;) {
    const bool reduced = mask >> d & 1;
    if (keepdim || !reduced) --kept;
    if (!reduced) step[d] = hash.strides()[kept];
  }
  const auto* bits = static_cast<const uint64_t*>(wide.data_ptr());
  auto* r = static_cast<uint64_t*>(hash.data_ptr());
  for (int64_t i = 0, n = wide.numel(), place = 0; i < n; ++i) {
    r[place] ^= bits[i];
    for (size_t d = rank; d-- > 0;) {
      place += step[d];
      if (++at[d] < self.sizes()[d]) break;
      place -= step[d] * self.sizes()[d];
      at[d] = 0;
    }
  }
  copy_(out, hash);
}

// --- spread ---

OutputSpec spread_meta(const Tensor& self, std::optional<IntList> dim, const std::optional<Scalar>&, bool keepdim) {
  TESSERA_CHECK(self.is_floating_point() || self.is_complex(),
                "std and var only support floating point and complex dtypes");
  return spec_of(self, reduce_mask(self, dim), keepdim, to_real(self.dtype()));
}
std::array<OutputSpec, 2> spread_mean_meta(const Tensor& self, std::optional<IntList> dim,
                                           const std::optional<Scalar>& correction, bool keepdim) {
  const OutputSpec s = spread_meta(self, dim, correction, keepdim);
  OutputSpec m = s;
  m.dtype = self.dtype();
  return {s, m};
}
void spread_into(bool take_sqrt, const Tensor& self, std::optional<IntList> dim,
                 const std::optional<Scalar>& correction, bool keepdim, const Tensor& spread, const Tensor& mean) {
  if (spread.numel() == 0) return;
  const uint64_t mask = reduce_mask(self, dim);
  const double c = correction ? correction->to_double() : 1.0;
  int64_t n = 1;
  for (int64_t i = 0; i < self.dim(); ++i)
    if (mask >> i & 1) n *= self.sizes()[i];
  if (static_cast<double>(n) - c <= 0)
    warn(
        "std(): degrees of freedom is <= 0. Correction should be strictly less than the reduction factor (input numel "
        "divided by output numel).");
  if (self.is_complex()) {
    // The spread of the parts adds up.
    const Tensor parts[2] = {real(resolve_conj(self)), imag(resolve_conj(self))};
    Tensor sum;
    for (const Tensor& p : parts) {
      const Tensor v = var(p, dim, Scalar(c), keepdim);
      sum = sum.defined() ? add(sum, v) : v;
    }
    copy__kernel(spread, take_sqrt ? sqrt(sum) : sum, false);
    if (mean.defined()) reduce_into(cpu::ReduceKind::kMean, self.dtype(), self, mask, keepdim, mean);
    return;
  }
  Strided in(self), v, m;
  fill_result_strides(spread, mask, keepdim, self.dim(), v.strides);
  v.operand = {spread.data_ptr(), spread.dtype(), v.strides};
  if (mean.defined()) fill_result_strides(mean, mask, keepdim, self.dim(), m.strides);
  m.operand = {mean.defined() ? mean.data_ptr() : nullptr, self.dtype(), m.strides};
  TESSERA_ON(self.device(), run_var_mean)(self.dtype(), self.sizes(), mask, c, take_sqrt, v, m, in);
}

// --- norms ---

OutputSpec logsumexp_meta(const Tensor& self, IntList dim, bool keepdim) {
  return spec_of(self, reduce_mask(self, dim), keepdim, fraction_dtype(self.dtype()));
}
void logsumexp_kernel(const Tensor& self, IntList dim, bool keepdim, const Tensor& out) {
  if (self.is_complex()) {
    if (self.numel() == 0) {
      copy__kernel(out, reshape(log(sum(exp(self), dim, true)), out.sizes()), false);
      return;
    }
    // log(sum(exp(x - m))) + m with m the largest real part.
    const Tensor m = amax(real(resolve_conj(self)), dim, true);
    const Tensor shift = where(isfinite(m), m, zeros_like(m));
    const Tensor s = add(log(sum(exp(sub(self, shift)), dim, true)), shift);
    copy__kernel(out, reshape(s, out.sizes()), false);
    return;
  }
  reduce_into(cpu::ReduceKind::kLogSumExp, out.dtype(), self, reduce_mask(self, dim), keepdim, out);
}

OutputSpec vector_norm_meta(const Tensor& self, const Scalar& ord, std::optional<IntList> dim, bool keepdim,
                            std::optional<DType> dtype) {
  TESSERA_CHECK(self.is_floating_point() || self.is_complex(),
                "linalg.vector_norm: Expected a floating point or complex tensor as input. Got ",
                type_name_of(self.dtype()));
  TESSERA_CHECK(!ord.is_complex(), "linalg.vector_norm: Expected a non-complex scalar as the order of norm.");
  if (dtype) {
    TESSERA_CHECK(is_floating_point(*dtype) || is_complex(*dtype),
                  "linalg.vector_norm: dtype should be floating point or complex. Got ", name_of(*dtype));
    TESSERA_CHECK(is_complex(*dtype) == self.is_complex(), "linalg.vector_norm: dtype should be ",
                  self.is_complex() ? "complex" : "real", " for ", self.is_complex() ? "complex" : "real",
                  " inputs, but got ", name_of(*dtype));
    TESSERA_CHECK(promote_types(self.dtype(), *dtype) == *dtype, "linalg.vector_norm: the dtype of the input ",
                  name_of(self.dtype()), " should be convertible without narrowing to the specified dtype (",
                  name_of(*dtype), ")");
  }
  const uint64_t mask = reduce_mask(self, dim);
  const double p = ord.to_double();
  if (p < 0 || std::isinf(p)) {
    TESSERA_CHECK(dim && !dim->empty() ? true : self.numel() > 0, "linalg.vector_norm cannot compute the ", p,
                  " norm on an empty tensor because the operation does not have an identity");
    for (int64_t i = 0; i < self.dim(); ++i)
      TESSERA_CHECK(!(mask >> i & 1) || self.sizes()[i] != 0, "linalg.vector_norm cannot compute the ", p,
                    " norm on the dimension ", i,
                    " because this dimension is empty and the operation does not have an identity");
  }
  return spec_of(self, mask, keepdim, to_real(dtype.value_or(self.dtype())));
}
void vector_norm_kernel(const Tensor& self, const Scalar& ord, std::optional<IntList> dim, bool keepdim,
                        std::optional<DType> dtype, const Tensor& out) {
  KernelParam p{};
  p.f = ord.to_double();
  if (p.f != 0 && out.numel() == self.numel()) p.f = 1;  // one number each: its absolute value, whatever the order
  reduce_into(cpu::ReduceKind::kNorm, dtype.value_or(self.dtype()), self, reduce_mask(self, dim), keepdim, out, &p);
}

// --- running reductions ---

namespace {
// Row-major, whatever self's layout: random masks of programs (dropout behind softmax) depend on it.
OutputSpec same_shape(const Tensor& self, DType dtype) { return OutputSpec(self.sizes(), dtype, self.device()); }
}  // namespace

OutputSpec scan_meta(const Tensor& self, int64_t dim, std::optional<DType> dtype) {
  wrap_dim(dim, self.dim());
  return same_shape(self, sum_dtype_of(self, dtype));
}
OutputSpec logcumsumexp_meta(const Tensor& self, int64_t dim) {
  wrap_dim(dim, self.dim());
  return same_shape(self, self.dtype());
}
std::array<OutputSpec, 2> cumextreme_meta(const Tensor& self, int64_t dim) {
  no_complex(self, "cummax_helper");
  wrap_dim(dim, self.dim());
  return {same_shape(self, self.dtype()), same_shape(self, DType::kInt64)};
}
void scan_into(cpu::ScanKind kind, const Tensor& self, int64_t dim, const Tensor& out, const Tensor& indices) {
  if (out.numel() == 0) return;
  const IntVector shape = at_least_1d(self.sizes());
  Strided in(self), to(out), i;
  if (indices.defined()) {
    const Tensor& t = indices;
    for (int64_t k = 0; k < t.dim(); ++k) i.strides[k] = t.strides()[k] * 8;
    if (t.dim() == 0) i.strides[0] = 8;
    i.operand = {t.data_ptr(), DType::kInt64, i.strides};
  } else {
    i.operand = {nullptr, DType::kInt64, i.strides};
  }
  TESSERA_ON(self.device(), run_scan)(kind, out.dtype(), shape, static_cast<int>(wrap_dim(dim, self.dim())), to, i, in);
}
void logcumsumexp_kernel(const Tensor& self, int64_t dim, const Tensor& out) {
  scan_into(cpu::ScanKind::kLogCumSumExp, self, dim, out, Tensor());
}

// --- softmax ---

OutputSpec softmax_meta(const Tensor& self, int64_t dim, bool half_to_float) {
  TESSERA_CHECK_NOT_IMPLEMENTED(self.is_floating_point() || self.numel() == 0,
                                "\"softmax_lastdim_kernel_impl\" not implemented for '", type_name_of(self.dtype()),
                                "'");
  wrap_dim(dim, self.dim());
  return same_shape(self, half_to_float ? DType::kFloat32 : self.dtype());
}
void softmax_into(bool log, const Tensor& self, int64_t dim, const Tensor& out) {
  if (out.numel() == 0) return;
  const IntVector shape = at_least_1d(self.sizes());
  Strided in(self), to(out);
  TESSERA_ON(self.device(), run_softmax)(log, shape, static_cast<int>(wrap_dim(dim, self.dim())), to, in);
}
OutputSpec softmax_backward_meta(const Tensor& grad, const Tensor& output, int64_t dim, DType input_dtype) {
  wrap_dim(dim, grad.dim());
  TESSERA_CHECK(std::ranges::equal(grad.sizes(), output.sizes()), "softmax_backward: grad has size ",
                shape_string(grad.sizes()), " but the output has ", shape_string(output.sizes()));
  return same_shape(grad, input_dtype);
}
void softmax_backward_into(bool log, const Tensor& grad, const Tensor& output, int64_t dim, const Tensor& out) {
  if (out.numel() == 0) return;
  const IntVector shape = at_least_1d(grad.sizes());
  Strided g(grad), o(output), to(out);
  TESSERA_ON(grad.device(), run_softmax_backward)(log, shape, static_cast<int>(wrap_dim(dim, grad.dim())), to, g, o);
}
Tensor softmax_composite(const Tensor& self, int64_t dim, std::optional<DType> dtype) {
  return _softmax(dtype ? to(self, *dtype) : self, dim, false);
}
Tensor log_softmax_composite(const Tensor& self, int64_t dim, std::optional<DType> dtype) {
  return _log_softmax(dtype ? to(self, *dtype) : self, dim, false);
}

}  // namespace tessera::kernels
