// Numbers to integers and back: what is checked, and which pieces have which parameters.
#include "quantization/cpu/quantize.h"
#include "quantization/quantization_kernels.h"
#include "quantization/quantization_ops.h"
#include "tensor/ops/api.h"
#include "tensor/ops/promotion.h"

namespace tessera::kernels {
namespace {

void check_device(const char* name, const Tensor& t) {
  TESSERA_CHECK_NOT_IMPLEMENTED(t.is_cpu() || t.is_meta(), name, ": there is no kernel for ", t.device().str(),
                                "; quantized layers run on the CPU: move the layer and its input there with .cpu()");
}
void check(const char* name, const Tensor& t, DType dtype) {
  check_device(name, t);
  TESSERA_CHECK(t.dtype() == dtype, name, ": expected ", name_of(dtype), ", but got ", name_of(t.dtype()));
}
bool is_level(DType t) { return t == DType::kUInt8 || t == DType::kInt8 || t == DType::kInt32; }

// Calls piece(begin, n, parameters) for the runs of a contiguous tensor that share a scale: axis < 0: all of it.
template <class F>
void each_piece(const char* name, const Tensor& t, std::span<const double> scale, IntList zero_point, int64_t axis,
                int64_t low, int64_t high, const F& piece) {
  const int64_t channels = axis < 0 ? 1 : t.size(axis);
  TESSERA_CHECK(static_cast<int64_t>(scale.size()) == channels && static_cast<int64_t>(zero_point.size()) == channels,
                name, ": expected ", channels, " scales and zero points, but got ", scale.size(), " and ",
                zero_point.size());
  int64_t inner = 1;
  if (axis < 0) inner = t.numel();
  for (int64_t d = axis < 0 ? t.dim() : axis + 1; d < t.dim(); ++d) inner *= t.size(d);
  if (t.numel() == 0 || t.is_meta()) return;
  for (int64_t at = 0, i = 0; at < t.numel(); at += inner, i = i + 1 == channels ? 0 : i + 1) {
    const float s = static_cast<float>(scale[static_cast<size_t>(i)]);
    piece(at, inner, cpu::Affine{s, 1.0f / s, zero_point[static_cast<size_t>(i)], low, high});
  }
}

// What a tensor is read from, and a result of its sizes. Where all elements have one scale their order in memory does
// not matter, and dense tensors keep theirs.
struct Operands {
  Tensor in, out;
};
Operands operands_of(const Tensor& t, int64_t axis, DType dtype) {
  const bool any_order = axis < 0 && t.is_non_overlapping_and_dense();
  return {any_order ? t : contiguous(t),
          empty_tensor(t.sizes(), any_order ? t.strides() : IntList(), dtype, t.device())};
}

}  // namespace

Tensor _quantize_affine_kernel(const Tensor& self, std::span<const double> scale, IntList zero_point, int64_t axis,
                               int64_t low, int64_t high, DType dtype) {
  check("_quantize_affine", self, DType::kFloat32);
  TESSERA_CHECK(is_level(dtype), "_quantize_affine: expected uint8, int8 or int32, but got ", name_of(dtype));
  const auto [x, out] = operands_of(self, axis, dtype);
  each_piece("_quantize_affine", x, scale, zero_point, axis, low, high,
             [&x = x, &out = out, dtype](int64_t at, int64_t n, const cpu::Affine& a) {
               cpu::quantize(x.data<float>() + at, n, a, dtype,
                             static_cast<char*>(out.data_ptr()) + at * item_size(dtype));
             });
  return out;
}

Tensor _dequantize_affine_kernel(const Tensor& self, std::span<const double> scale, IntList zero_point, int64_t axis) {
  check_device("_dequantize_affine", self);
  TESSERA_CHECK(is_level(self.dtype()), "_dequantize_affine: expected uint8, int8 or int32, but got ",
                name_of(self.dtype()));
  const auto [x, out] = operands_of(self, axis, DType::kFloat32);
  each_piece("_dequantize_affine", x, scale, zero_point, axis, 0, 0,
             [&x = x, &out = out](int64_t at, int64_t n, const cpu::Affine& a) {
               cpu::dequantize(x.dtype(), static_cast<const char*>(x.data_ptr()) + at * item_size(x.dtype()), n, a,
                               out.data<float>() + at);
             });
  return out;
}

std::tuple<Tensor, Tensor> _fake_quantize_affine_kernel(const Tensor& self, std::span<const double> scale,
                                                        IntList zero_point, int64_t axis, int64_t low, int64_t high) {
  check("_fake_quantize_affine", self, DType::kFloat32);
  const Tensor x = contiguous(self), out = empty_tensor(self.sizes(), {}, DType::kFloat32, self.device()),
               mask = empty_tensor(self.sizes(), {}, DType::kBool, self.device());
  each_piece("_fake_quantize_affine", x, scale, zero_point, axis, low, high,
             [&](int64_t at, int64_t n, const cpu::Affine& a) {
               cpu::fake_quantize(x.data<float>() + at, n, a, out.data<float>() + at,
                                  static_cast<uint8_t*>(mask.data_ptr()) + at);
             });
  return {out, mask};
}

Tensor _fake_quantize_gradient_kernel(const Tensor& grad, const Tensor& mask) {
  check("_fake_quantize_gradient", grad, DType::kFloat32);
  check("_fake_quantize_gradient", mask, DType::kBool);
  common_device({&grad, &mask});
  TESSERA_CHECK(grad.numel() == mask.numel(), "_fake_quantize_gradient: expected a mask of ", grad.numel(),
                " elements, but got ", mask.numel());
  const Tensor g = contiguous(grad), m = contiguous(mask),
               out = empty_tensor(grad.sizes(), {}, DType::kFloat32, grad.device());
  if (!out.is_meta())
    cpu::keep_where(g.data<float>(), static_cast<const uint8_t*>(m.data_ptr()), g.numel(), out.data<float>());
  return out;
}

Tensor _requantize_sums_kernel(const Tensor& sums, const Tensor& offset, const Tensor& factor, const Tensor& bias,
                               int64_t zero_point, int64_t low, int64_t high, DType dtype) {
  check("_requantize_sums", sums, DType::kInt32);
  common_device({&sums, &offset, &factor, &bias});
  TESSERA_CHECK(sums.dim() == 2, "_requantize_sums: expected a matrix, but got ", sums.dim(), "-D sums");
  TESSERA_CHECK(dtype == DType::kUInt8 || dtype == DType::kInt8 || dtype == DType::kFloat32,
                "_requantize_sums: expected uint8, int8 or float32, but got ", name_of(dtype));
  const int64_t columns = sums.size(1);
  const auto of_columns = [&](const Tensor& t, DType kind) {
    check("_requantize_sums", t, kind);
    TESSERA_CHECK(t.numel() == columns, "_requantize_sums: expected ", columns, " parameters, but got ", t.numel());
    return contiguous(t);
  };
  const Tensor s = contiguous(sums), f = of_columns(factor, DType::kFloat32);
  Tensor o, b;
  if (offset.defined()) o = of_columns(offset, DType::kInt32);
  if (bias.defined()) b = of_columns(bias, DType::kFloat32);
  const Tensor out = empty_tensor(sums.sizes(), {}, dtype, sums.device());
  if (out.is_meta()) return out;
  cpu::requantize({s.data<int32_t>(), s.size(0), columns, offset.defined() ? o.data<int32_t>() : nullptr,
                   f.data<float>(), bias.defined() ? b.data<float>() : nullptr, zero_point, low, high},
                  dtype, out.data_ptr());
  return out;
}

}  // namespace tessera::kernels
