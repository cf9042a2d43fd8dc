#include "tensor/ops/pointwise.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "tensor/core/parallel.h"
#include "tensor/engine/pointwise.h"
#include "tensor/ops/inference_writes.h"
#include "tensor/ops/pointwise_observer.h"
#include "tensor/ops/promotion.h"

namespace tessera::pointwise {

thread_local constinit Observer* observer = nullptr;

namespace {

constexpr int kMaxOperands = 6;
constexpr int kMaxRank = 64;

// The dtypes of one call.
struct Types {
  DType compute, result;
  bool wrapped = false;  // all inputs are Python numbers: so is the result, in full precision
};

Types types_of(const PointwiseOp& op, Inputs inputs) {
  if (std::ranges::all_of(inputs, [](const Tensor* t) { return t->impl()->is_wrapped_number(); })) {
    DType p = (*inputs.begin())->dtype();
    for (const Tensor* t : inputs) p = promote_types(p, t->dtype());
    return {pointwise_compute_dtype(op, p), pointwise_result_dtype(op, p), true};
  }
  ResultType promoted;
  int k = 0;
  for (const Tensor* t : inputs) {
    const bool keeps_bool = op.bool_inputs >> k++ & 1;
    if (!keeps_bool)
      promoted.add(*t);
    else
      TESSERA_CHECK(t->dtype() == DType::kBool, op.name,
                    "(): expected a bool tensor for the mask or condition, but got ", name_of(t->dtype()));
  }
  const DType p = promoted.get();
  return {pointwise_compute_dtype(op, p), pointwise_result_dtype(op, p)};
}

void fill_params(KernelParam* out, Params params, DType compute) {
  for (const Scalar& s : params) *out++ = to_param(s, compute);
}

// Where nothing is computed: raises what it raises elsewhere.
void check_params(Params params, DType compute) {
  for (const Scalar& s : params) to_param(s, compute);
}

// Numbers are compared with halves as the halves that they round to, although the kernel is that of wider floats.
bool rounds_numbers(const PointwiseOp& op, DType promoted) {
  return op.result == ResultKind::kBool && is_reduced_float(promoted);
}

// The dtype that the numbers among the inputs of a comparison round to first; nothing where they do not.
std::optional<DType> rounding_of(const PointwiseOp& op, Inputs inputs) {
  const DType first = (*inputs.begin())->dtype();
  bool halves = false, differ = false;
  for (const Tensor* t : inputs) {
    halves |= is_reduced_float(t->dtype());
    differ |= t->dtype() != first;
  }
  if (op.result != ResultKind::kBool || !halves || !differ) return std::nullopt;
  ResultType promoted;
  for (const Tensor* t : inputs) promoted.add(*t);
  return rounds_numbers(op, promoted.get()) ? std::optional(promoted.get()) : std::nullopt;
}

// `result` has the broadcast shape. Numbers (0-dim tensors in host memory) go with tensors of any device.
void compute(const PointwiseOp& op, DType compute_dtype, const Tensor& result, Inputs inputs, Params params) {
  if (result.is_meta() && observer) observer->saw(op, inputs, params, result);
  if (result.numel() == 0 || result.is_meta()) {
    check_params(params, compute_dtype);
    return;
  }
  const bool elsewhere = !result.is_cpu();
  KernelParam p[8];
  fill_params(p, params, compute_dtype);
  const IntList shape = result.sizes();
  int64_t strides[kMaxOperands][kMaxRank];
  cpu::Operand ins[kMaxOperands];
  const auto rounding = elsewhere ? std::nullopt : rounding_of(op, inputs);
  uint64_t rounded[kMaxOperands];
  int n = 0;
  for (const Tensor* t : inputs) {
    broadcast_strides(*t, shape, strides[n + 1]);
    ins[n] = {t->data_ptr(), t->dtype(), strides[n + 1], elsewhere && t->is_cpu()};
    if (rounding && t->dtype() != *rounding && t->numel() == 1) {
      cpu::convert(*rounding, &rounded[n], t->dtype(), ins[n].data, 1);
      ins[n].data = &rounded[n];
      ins[n].dtype = *rounding;
    }
    ++n;
  }
  broadcast_strides(result, shape, strides[0]);
  const cpu::Operand out{result.data_ptr(), result.dtype(), strides[0]};
  TESSERA_ON(result.device(), run_pointwise)(op, compute_dtype, shape, {&out, 1}, {ins, static_cast<size_t>(n)}, p);
}

// Small dense inputs of one dtype and shape, some of them perhaps numbers for all places: ready for the kernel without
// promotion and iteration set-up.
class SmallCall {
 public:
  // False: the inputs are not of that kind.
  bool prepare(const PointwiseOp& op, Inputs inputs, Params params) {
    shape_ = &shape_giver(inputs);
    dtype_ = shape_->dtype();
    n_ = shape_->numel();
    if (op.result == ResultKind::kReal || op.bool_inputs || n_ > kMost || n_ == 0 ||
        shape_->impl()->is_wrapped_number())
      return false;
    const auto compute = kernel_dtype(op, dtype_);
    if (!compute) return false;
    compute_ = *compute;
    kernel_ = op.kernels[static_cast<int>(compute_)];
    result_ = tessera::result_dtype(op, dtype_);
    if (op.promote == PromoteKind::kIntToFloat && is_integral(dtype_, true)) return false;
    int k = 0;
    for (const Tensor* t : inputs) {
      if (!is_plain(*t)) return false;
      const bool number = weight(*t) != weight(*shape_);
      if (number ? category_of(t->dtype()) > category_of(dtype_)
                 : t->dtype() != dtype_ || !t->is_contiguous() ||
                       (t != shape_ && !std::ranges::equal(t->sizes(), shape_->sizes())))
        return false;
      void* data = t->data_ptr();
      if (number || compute_ != dtype_) {
        void* own = take_room();
        if (!own) return false;
        if (number)
          repeat(own, *t, rounds_numbers(op, dtype_) ? dtype_ : compute_);
        else
          cpu::convert(compute_, own, dtype_, data, n_);
        data = own;
      }
      ins_[k++] = data;
    }
    if (result_ == compute_ || result_ == DType::kBool)
      own_result_ = nullptr;
    else if (!(own_result_ = take_room()))
      return false;
    fill_params(params_, params, compute_);
    return true;
  }
  // In memory of the CPU, and no layer asks for it.
  static bool is_plain(const Tensor& t) {
    return (t.keys().bits() & ~(DispatchKeySet(DispatchKey::kCPU) | kAutogradKeys).bits()) == 0;
  }
  const Tensor& shape() const { return *shape_; }
  DType result_dtype() const { return result_; }
  void run(void* out) const {
    void* to = own_result_ ? own_result_ : out;
    kernel_(n_, &to, ins_, params_);
    if (own_result_) cpu::convert(result_, out, compute_, own_result_, n_);
  }

 private:
  static constexpr int64_t kMost = 4096, kRoom = 16384;

  // Who says what the result is: tensors with dimensions, then those without, then Python numbers.
  static int weight(const Tensor& t) { return t.dim() > 0 ? 2 : t.impl()->is_wrapped_number() ? 0 : 1; }
  static const Tensor& shape_giver(Inputs inputs) {
    const Tensor* best = *inputs.begin();
    for (const Tensor* t : inputs)
      if (weight(*t) > weight(*best)) best = t;
    return *best;
  }
  // Memory for an operand in the kernel's dtype, or null.
  void* take_room() {
    const int64_t bytes = (n_ * item_size(compute_) + 63) / 64 * 64;
    if (used_ + bytes > kRoom) return nullptr;
    used_ += bytes;
    return room_ + used_ - bytes;
  }
  void repeat(void* out, const Tensor& number, DType rounding) const {
    const int64_t size = item_size(compute_);
    uint64_t words[2] = {}, rounded[2];
    cpu::convert(rounding, rounded, number.dtype(), number.data_ptr(), 1);
    cpu::convert(compute_, words, rounding, rounded, 1);
    words[0] *= size == 1 ? 0x0101010101010101 : size == 2 ? 0x0001000100010001 : size == 4 ? 0x0000000100000001 : 1;
    if (size < 16) words[1] = words[0];
    for (int64_t at = 0; at < n_ * size; at += 16) std::memcpy(static_cast<char*>(out) + at, words, 16);
  }

  BlockKernel kernel_;
  const Tensor* shape_;
  DType dtype_, compute_, result_;
  int64_t n_, used_ = 0;
  void* own_result_;
  const void* ins_[4];
  KernelParam params_[8];
  alignas(64) char room_[kRoom];
};

Tensor small_call(const PointwiseOp& op, Inputs inputs, Params params) {
  SmallCall call;
  if (!call.prepare(op, inputs, params)) return Tensor();
  // Rows of a size-1 dimension may carry odd strides; the general path keeps them as documented.
  Tensor result = empty_kernel(call.shape().sizes(), call.result_dtype());
  call.run(result.data_ptr());
  return result;
}

// The same into a dense tensor of the result's form that shares no memory with inputs but itself. False: nothing was
// done.
bool small_store(const PointwiseOp& op, const Tensor& target, Inputs inputs, Params params) {
  if (target.is_inference() || !target.is_contiguous() || !SmallCall::is_plain(target)) return false;
  for (const Tensor* t : inputs)
    if (t->impl() != target.impl() && t->storage() == target.storage()) return false;
  SmallCall call;
  if (!call.prepare(op, inputs, params) || call.result_dtype() != target.dtype() ||
      !std::ranges::equal(call.shape().sizes(), target.sizes()))
    return false;
  call.run(target.data_ptr());
  return true;
}

}  // namespace

KernelParam to_param(const Scalar& s, DType compute) {
  KernelParam p{};
  if (compute == DType::kBool) {
    p.i = s.to_bool();
    return p;
  }
  TESSERA_CHECK(is_complex(compute) || !s.is_complex() || s.to_complex().imag() == 0,
                "value cannot be converted to type ", name_of(compute), " without overflow: it is a complex number");
  if (is_complex(compute)) {
    const auto c = s.to_complex();
    p.c[0] = c.real();
    p.c[1] = c.imag();
  } else if (is_floating_point(compute)) {
    p.f = s.to_double();
  } else if (s.is_floating_point()) {
    // Bounds such as +-infinity saturate, they never trap.
    const double d = s.to_double();
    p.i = d >= 9223372036854775807.0    ? INT64_MAX
          : d <= -9223372036854775808.0 ? INT64_MIN
          : d != d                      ? 0
                                        : static_cast<int64_t>(d);
  } else {
    p.i = s.to_int();
  }
  return p;
}

void broadcast_strides(const Tensor& t, IntList shape, int64_t* out) {
  const int64_t size = t.item_size();
  const size_t lead = shape.size() - t.sizes().size();
  for (size_t i = 0; i < lead; ++i) out[i] = 0;
  for (size_t i = lead; i < shape.size(); ++i) out[i] = t.sizes()[i - lead] == 1 ? 0 : t.strides()[i - lead] * size;
}

IntVector result_strides(Inputs inputs, IntList shape) {
  const int rank = static_cast<int>(shape.size());
  if (rank < 2) return {};
  bool all_row_major = true;
  for (const Tensor* t : inputs) all_row_major = all_row_major && (t->dim() == 0 || t->is_contiguous());
  if (all_row_major) return {};
  TESSERA_CHECK(rank <= kMaxRank, "tensors of more than ", kMaxRank, " dimensions are not supported");
  int64_t strides[kMaxOperands][kMaxRank];
  int n = 0;
  for (const Tensor* t : inputs) broadcast_strides(*t, shape, strides[n++]);
  // > 0: dimension a must lie outside b; < 0: inside; 0: nothing known.
  auto compare = [&](int a, int b) {
    for (int k = 0; k < n; ++k) {
      const int64_t x = strides[k][a], y = strides[k][b];
      if (x == 0 || y == 0) continue;
      if (x != y) return x < y ? -1 : 1;
      if (shape[a] > shape[b]) return 1;
    }
    return 0;
  };
  int order[kMaxRank];  // innermost first
  for (int i = 0; i < rank; ++i) order[i] = rank - 1 - i;
  for (int i = 1; i < rank; ++i) {
    int at = i;
    for (int j = i - 1; j >= 0; --j) {
      const int c = compare(order[j], order[at]);
      if (c > 0) {
        std::swap(order[j], order[at]);
        at = j;
      } else if (c < 0)
        break;
    }
  }
  IntVector out(rank);
  int64_t stride = 1;
  for (int i = 0; i < rank; ++i) {
    out[order[i]] = stride;
    stride *= std::max<int64_t>(shape[order[i]], 1);
  }
  return out;
}

OutputSpec spec(const PointwiseOp& op, Inputs inputs) {
  const Types types = types_of(op, inputs);
  OutputSpec s;
  s.sizes = broadcast_shapes(inputs);
  s.strides = result_strides(inputs, s.sizes);
  s.dtype = types.result;
  s.device = common_device(inputs);
  return s;
}

Tensor functional(const PointwiseOp& op, Inputs inputs, Params params) {
  if (Tensor r = small_call(op, inputs, params); r.defined()) [[likely]]
    return r;
  const Types types = types_of(op, inputs);
  const Device device = common_device(inputs);
  const IntVector shape = broadcast_shapes(inputs);
  Tensor result = empty_tensor(shape, result_strides(inputs, shape), types.result, device);
  compute(op, types.compute, result, inputs, params);
  if (types.wrapped) result.impl()->set_wrapped_number(true);
  return result;
}

namespace {
// Computes into fresh memory of this form.
Tensor compute_apart(const PointwiseOp& op, DType compute_dtype, IntList sizes, DType result, Device device,
                     Inputs inputs, Params params) {
  const Tensor fresh = empty_tensor(sizes, {}, result, device);
  compute(op, compute_dtype, fresh, inputs, params);
  return fresh;
}
void copy_over(const Tensor& target, const Tensor& source) {
  int64_t strides[2][kMaxRank];
  broadcast_strides(target, target.sizes(), strides[0]);
  broadcast_strides(source, target.sizes(), strides[1]);
  TESSERA_ON(target.device(), copy_strided)
  (target.sizes(), {target.data_ptr(), target.dtype(), strides[0]}, {source.data_ptr(), source.dtype(), strides[1]},
   false, false);
}

void write_to(const PointwiseOp& op, const Types& types, const Tensor& target, Inputs inputs, Params params) {
  check_overlap_before_write(target);
  if (target.is_meta()) return check_params(params, types.compute);
  bool aliased_differently = false;
  for (const Tensor* t : inputs) {
    check_no_partial_overlap(target, *t);
    // Same elements, but read through a broadcast or in another dtype order: only the exact twin may be overwritten
    // while it is read.
    aliased_differently = aliased_differently || (memory_sharing(target, *t) == Sharing::kFull &&
                                                  !std::ranges::equal(target.sizes(), t->sizes()));
  }
  if (aliased_differently)
    copy_over(target,
              compute_apart(op, types.compute, target.sizes(), target.dtype(), target.device(), inputs, params));
  else
    compute(op, types.compute, target, inputs, params);
}
}  // namespace

const Tensor& inplace(const PointwiseOp& op, const Tensor& self, Inputs inputs, Params params) {
  if (op.result == ResultKind::kSame && small_store(op, self, inputs, params)) [[likely]] {
    self.bump_version();
    return self;
  }
  const Types types = types_of(op, inputs);
  TESSERA_CHECK(op.result != ResultKind::kReal || !self.is_complex(), "In-place ", op.name,
                " is not supported for complex tensors.");
  check_can_cast(types.result, self.dtype());
  const IntVector shape = broadcast_shapes(inputs);
  TESSERA_CHECK(std::ranges::equal(shape, self.sizes()), "output with shape ", shape_string(self.sizes()),
                " doesn't match the broadcast shape ", shape_string(shape));
  const Device device = common_device(inputs);
  TESSERA_CHECK(device == self.device(),
                "Expected all tensors to be on the same device, but found at least two devices, ", self.device().str(),
                " and ", device.str(), "!");
  write_to(op, types, self, inputs, params);
  check_inference_write(self);
  self.bump_version();
  return self;
}

const Tensor& out(const PointwiseOp& op, const Tensor& out, OutDtype accepted, Inputs inputs, Params params) {
  if (small_store(op, out, inputs, params)) [[likely]] {
    out.bump_version();
    return out;
  }
  const Types types = types_of(op, inputs);
  check_out_dtype(out, types.result, accepted);
  const IntVector shape = broadcast_shapes(inputs), strides = result_strides(inputs, shape);
  const Device device = common_device(inputs);
  check_out_device(out, device);
  check_overlap_before_write(out);
  const bool resized = !std::ranges::equal(out.sizes(), shape);
  bool reads_it = false;  // what is resized may come to lie over an input
  for (const Tensor* t : inputs) {
    TESSERA_CHECK(!resized || t->impl() != out.impl(), "output with shape ", shape_string(out.sizes()),
                  " doesn't match the broadcast shape ", shape_string(shape));
    check_no_partial_overlap(out, *t);
    reads_it = reads_it || (resized && writes_over(out, shape, *t));
  }
  if (reads_it && !out.is_meta()) {
    const Tensor fresh = compute_apart(op, types.compute, shape, out.dtype(), device, inputs, params);
    resize_output(out, shape, strides);
    if (out.numel()) copy_over(out, fresh);
  } else {
    resize_output(out, shape, strides);
    write_to(op, types, out, inputs, params);
  }
  check_inference_write(out);
  out.bump_version();
  return out;
}

}  // namespace tessera::pointwise
