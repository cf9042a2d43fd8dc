// The hand-written part of the toy operators: as small as can be, float32 and contiguous only.
#include "tools/opgen/testdata/toy.h"

#include <algorithm>

#include "tools/opgen/testdata/toy_kernels.h"
#include "tools/opgen/testdata/toys.h"
#include "tensor/cpu/pointwise/pointwise.h"

namespace tessera {
namespace {

void plus(int64_t n, void* const* outs, const void* const* ins, const KernelParam* params) {
  for (int64_t i = 0; i < n; ++i)
    static_cast<float*>(outs[0])[i] =
        static_cast<const float*>(ins[0])[i] + static_cast<float>(params[0].f) * static_cast<const float*>(ins[1])[i];
}
void times(int64_t n, void* const* outs, const void* const* ins, const KernelParam*) {
  for (int64_t i = 0; i < n; ++i)
    static_cast<float*>(outs[0])[i] = static_cast<const float*>(ins[0])[i] * static_cast<const float*>(ins[1])[i];
}
constexpr PointwiseOp float_op(const char* name, uint8_t params, BlockKernel kernel) {
  PointwiseOp op{name, 2, 1, params, PromoteKind::kDefault, ResultKind::kSame, {}, false};
  op.kernels[static_cast<int>(DType::kFloat32)] = kernel;
  return op;
}

int64_t rows(const Tensor& t) { return t.size(0); }
int64_t columns(const Tensor& t) { return t.numel() / std::max<int64_t>(rows(t), 1); }

}  // namespace

namespace pw {
constinit const PointwiseOp toy_plus = float_op("toy_plus", 1, &plus);
constinit const PointwiseOp toy_times = float_op("toy_times", 0, &times);
}  // namespace pw

namespace kernels {

OutputSpec toy_scale_meta(const Tensor& self, const Scalar&) { return OutputSpec(self, self.sizes()); }
void toy_scale_kernel(const Tensor& self, const Scalar& factor, const Tensor& out) {
  for (int64_t i = 0; i < self.numel(); ++i)
    out.data<float>()[i] = self.data<float>()[i] * static_cast<float>(factor.to_double());
}

std::array<OutputSpec, 2> toy_minmax_meta(const Tensor& self, IntList, bool) {
  TESSERA_CHECK(self.dim() == 2, "toy_minmax: expected a matrix, got ", shape_string(self.sizes()));
  const IntVector sizes = {columns(self)};
  return {OutputSpec(self, sizes), OutputSpec(self, sizes)};
}
void toy_minmax_kernel(const Tensor& self, IntList, bool, const Tensor& low, const Tensor& high) {
  for (int64_t c = 0; c < columns(self); ++c) {
    float l = self.data<float>()[c], h = l;
    for (int64_t r = 1; r < rows(self); ++r) {
      const float v = self.data<float>()[r * columns(self) + c];
      l = std::min(l, v);
      h = std::max(h, v);
    }
    low.data<float>()[c] = l;
    high.data<float>()[c] = h;
  }
}

Tensor toy_row_view(const Tensor& self, int64_t index) {
  return make_view(self, self.sizes().subspan(1), self.strides().subspan(1),
                   self.storage_offset() + index * self.stride(0));
}
std::vector<Tensor> toy_rows_view(const Tensor& self) {
  std::vector<Tensor> out;
  for (int64_t i = 0; i < rows(self); ++i) out.push_back(toy_row_view(self, i));
  return out;
}

Tensor toy_join_kernel(TensorList tensors) {
  TESSERA_CHECK(!tensors.empty(), "toy_join: no tensors");
  IntVector sizes = {static_cast<int64_t>(tensors.size())};
  for (int64_t s : tensors[0].sizes()) sizes.push_back(s);
  Tensor out = empty_kernel(sizes, DType::kFloat32);
  float* to = out.data<float>();
  for (const Tensor& t : tensors)
    for (int64_t i = 0; i < t.numel(); ++i) *to++ = t.data<float>()[t.dim() == 1 ? i * t.strides()[0] : i];
  return out;
}

const Tensor& toy_zero__kernel(const Tensor& self) {
  std::fill_n(self.data<float>(), self.numel(), 0.0f);
  return self;
}

Tensor toy_ones_kernel(SymIntList size, DType dtype, Device) {
  Tensor out = empty_kernel(size.ints(), dtype);
  std::fill_n(out.data<float>(), out.numel(), 1.0f);
  return out;
}

Tensor toy_linear_kernel(const Tensor& input, const Tensor& weight, const Tensor& bias) {
  const IntVector sizes = {rows(input), rows(weight)};
  Tensor out = empty_kernel(sizes, DType::kFloat32);
  for (int64_t i = 0; i < sizes[0]; ++i)
    for (int64_t j = 0; j < sizes[1]; ++j) {
      float sum = bias.defined() ? bias.data<float>()[j] : 0.0f;
      for (int64_t k = 0; k < columns(input); ++k)
        sum += input.data<float>()[i * columns(input) + k] * weight.data<float>()[j * columns(input) + k];
      out.data<float>()[i * sizes[1] + j] = sum;
    }
  return out;
}

}  // namespace kernels

Tensor toy_minmax_backward(const Tensor& low_grad, const Tensor& high_grad, const Tensor& self, const Tensor& low,
                           const Tensor& high, IntList, IntList sizes) {
  Tensor out = toy_zero_(empty_kernel(sizes, DType::kFloat32));
  for (int64_t i = 0; i < self.numel(); ++i) {
    const int64_t c = i % columns(self);
    const float v = self.data<float>()[i];
    if (low_grad.defined() && v == low.data<float>()[c]) out.data<float>()[i] += low_grad.data<float>()[c];
    if (high_grad.defined() && v == high.data<float>()[c]) out.data<float>()[i] += high_grad.data<float>()[c];
  }
  return out;
}

Tensor toy_row_backward(const Tensor& grad, SymIntList sizes, int64_t index) {
  Tensor out = toy_zero_(empty_kernel(sizes.ints(), DType::kFloat32));
  std::copy_n(grad.data<float>(), grad.numel(), out.data<float>() + index * grad.numel());
  return out;
}

std::vector<Tensor> toy_unjoin(const Tensor& grad, int64_t count) {
  std::vector<Tensor> out;
  for (int64_t i = 0; i < count; ++i) out.push_back(toy_row(grad, i));
  return out;
}

std::tuple<Tensor, Tensor, Tensor> toy_linear_backward(const Tensor& grad, const Tensor& input, const Tensor& weight,
                                                       const std::array<bool, 3>& mask) {
  const int64_t n = rows(input), k = columns(input), m = rows(weight);
  Tensor a, b, c;
  if (mask[0]) a = toy_zero_(empty_kernel(input.sizes(), DType::kFloat32));
  if (mask[1]) b = toy_zero_(empty_kernel(weight.sizes(), DType::kFloat32));
  if (mask[2]) c = toy_zero_(empty_kernel(IntList(&m, 1), DType::kFloat32));
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < m; ++j) {
      const float g = grad.data<float>()[i * m + j];
      for (int64_t x = 0; x < k && mask[0]; ++x) a.data<float>()[i * k + x] += g * weight.data<float>()[j * k + x];
      for (int64_t x = 0; x < k && mask[1]; ++x) b.data<float>()[j * k + x] += g * input.data<float>()[i * k + x];
      if (mask[2]) c.data<float>()[j] += g;
    }
  return {a, b, c};
}

Tensor toy_linear_tangent(const Tensor& input_t, const Tensor& weight_t, const Tensor& bias_t, const Tensor& input,
                          const Tensor& weight) {
  const int64_t n = rows(input), m = rows(weight), sizes[] = {n, m};
  Tensor sum = toy_zero_(empty_kernel(sizes, DType::kFloat32));
  if (input_t.defined()) toy_add_(sum, toy_linear(input_t, weight));
  if (weight_t.defined()) toy_add_(sum, toy_linear(input, weight_t));
  for (int64_t i = 0; bias_t.defined() && i < n * m; ++i) sum.data<float>()[i] += bias_t.data<float>()[i % m];
  return sum;
}

}  // namespace tessera
