// Layers of bytes: what is checked, and how their products go where the processor has none of bytes.
#include "quantization/cpu/convolve.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "quantization/quantization_kernels.h"
#include "quantization/quantization_ops.h"
#include "tensor/ops/api.h"
#include "tensor/ops/promotion.h"

namespace tessera::kernels {
namespace {

constexpr const char* kName = "_quantized_convolution";

void check_operand(const char* what, const Tensor& t, std::initializer_list<DType> kinds) {
  TESSERA_CHECK_NOT_IMPLEMENTED(t.is_cpu() || t.is_meta(), kName, ": there is no kernel for ", t.device().str(),
                                "; quantized layers run on the CPU: move the layer and its input there with .cpu()");
  TESSERA_CHECK(std::ranges::find(kinds, t.dtype()) != kinds.end(), kName, ": expected ", what, " of ",
                name_of(*kinds.begin()), ", but got ", name_of(t.dtype()));
}

// Sizes of a convolution of up to three dimensions, which come last.
cpu::ByteConv geometry_of(const Tensor& x, const Tensor& w, IntList stride, IntList padding, IntList dilation,
                          int64_t groups) {
  const int64_t dims = x.dim() - 2;
  TESSERA_CHECK(dims >= 0 && dims <= 3 && w.dim() == x.dim(), kName, ": expected self (N, sizes..., C) and weight (O, ",
                "kernel..., C / groups) of 0 to 3 dimensions, but got shapes ", shape_string(x.sizes()), " and ",
                shape_string(w.sizes()));
  for (const IntList& l : {stride, padding, dilation})
    TESSERA_CHECK(static_cast<int64_t>(l.size()) == dims, kName, ": expected ", dims,
                  " strides, paddings and dilations, but got ", stride.size(), ", ", padding.size(), " and ",
                  dilation.size());
  const int64_t channels = x.size(-1), out = w.size(0);
  TESSERA_CHECK(groups > 0 && channels % groups == 0 && out % groups == 0 && w.size(-1) == channels / groups, kName,
                ": expected weight (O, ..., C / groups) for ", channels, " channels in ", groups, " groups, but got ",
                shape_string(w.sizes()));
  cpu::ByteConv c{x.size(0), channels,  out,       groups,  {1, 1, 1}, {1, 1, 1}, {1, 1, 1},
                  {0, 0, 0}, {1, 1, 1}, {1, 1, 1}, nullptr, nullptr,   0,         false};
  for (int64_t d = 0; d < dims; ++d) {
    const auto from = static_cast<size_t>(d), to = static_cast<size_t>(3 - dims + d);
    c.in_size[to] = x.size(d + 1);
    c.kernel[to] = w.size(d + 1);
    c.stride[to] = stride[from];
    c.padding[to] = padding[from];
    c.dilation[to] = dilation[from];
    TESSERA_CHECK(c.stride[to] > 0 && c.padding[to] >= 0 && c.dilation[to] > 0 && c.kernel[to] > 0, kName,
                  ": expected positive strides, dilations and kernels, and no negative padding");
    const int64_t room = c.in_size[to] + 2 * c.padding[to] - c.dilation[to] * (c.kernel[to] - 1) - 1;
    TESSERA_CHECK(room >= 0, "Calculated output size is too small: input of size ", c.in_size[to], " with padding ",
                  c.padding[to], " for a kernel of ", c.kernel[to]);
    c.out_size[to] = room / c.stride[to] + 1;
  }
  return c;
}

// By products of int32, group by group.
void convolve_in_rows(const cpu::ByteConv& c, const Tensor& w, cpu::SumsOf how, DType dtype, const Tensor& out) {
  const int64_t n = c.positions(), k = c.depth(), columns = c.out_channels / c.groups;
  const Tensor all = reshape(w, IntVector{c.out_channels, k});
  const Tensor rows = empty_tensor(IntVector{n, k}, {}, c.is_unsigned ? DType::kUInt8 : DType::kInt8, out.device());
  how.rows = n;
  how.columns = columns;
  how.out_row = c.out_channels;
  for (int64_t g = 0; g < c.groups; ++g) {
    cpu::bytes_read(c, g, static_cast<uint8_t*>(rows.data_ptr()));
    const Tensor sums = _int_mm(rows, t(narrow(all, 0, g * columns, columns)));
    cpu::SumsOf part = how;
    part.sums = sums.data<int32_t>();
    part.from_column(g * columns);
    cpu::requantize(part, dtype, static_cast<char*>(out.data_ptr()) + g * columns * item_size(dtype));
  }
}

}  // namespace

Tensor _quantized_convolution_kernel(const Tensor& self, int64_t fill, const Tensor& weight, IntList stride,
                                     IntList padding, IntList dilation, int64_t groups, const Tensor& offset,
                                     const Tensor& factor, const Tensor& bias, int64_t zero_point, int64_t low,
                                     int64_t high, DType dtype) {
  check_operand("self", self, {DType::kUInt8, DType::kInt8});
  check_operand("weight", weight, {DType::kInt8});
  common_device({&self, &weight, &offset, &factor, &bias});
  TESSERA_CHECK(dtype == DType::kUInt8 || dtype == DType::kInt8 || dtype == DType::kFloat32, kName,
                ": expected results of uint8, int8 or float32, but got ", name_of(dtype));
  cpu::ByteConv c = geometry_of(self, weight, stride, padding, dilation, groups);
  const auto of_columns = [&](const char* what, const Tensor& t, DType kind) {
    if (!t.defined()) return t;
    check_operand(what, t, {kind});
    TESSERA_CHECK(t.numel() == c.out_channels, kName, ": expected ", what, " of ", c.out_channels,
                  " elements, but got ", t.numel());
    return contiguous(t);
  };
  const Tensor x = contiguous(self), w = contiguous(weight), o = of_columns("offset", offset, DType::kInt32),
               f = of_columns("factor", factor, DType::kFloat32), b = of_columns("bias", bias, DType::kFloat32);
  IntVector sizes{c.batch};
  for (int64_t d = 5 - self.dim(); d < 3; ++d) sizes.push_back(c.out_size[static_cast<size_t>(d)]);
  sizes.push_back(c.out_channels);
  const Tensor out = empty_tensor(IntList(sizes), {}, dtype, self.device());
  if (out.is_meta() || out.numel() == 0) return out;
  c.x = static_cast<const uint8_t*>(x.data_ptr());
  c.w = w.data<int8_t>();
  c.fill = static_cast<uint8_t>(fill);
  c.is_unsigned = x.dtype() == DType::kUInt8;
  const cpu::SumsOf how{nullptr,
                        0,
                        0,
                        o.defined() ? o.data<int32_t>() : nullptr,
                        f.data<float>(),
                        b.defined() ? b.data<float>() : nullptr,
                        zero_point,
                        low,
                        high};
  if (c.depth() == 0 || !cpu::convolve_bytes(c, how, dtype, out.data_ptr())) convolve_in_rows(c, w, how, dtype, out);
  return out;
}

Tensor _dynamic_product_kernel(const Tensor& self, const Tensor& weight, const Tensor& sums, const Tensor& scale,
                               const Tensor& bias, bool reduce_range) {
  common_device({&self, &weight, &sums, &scale, &bias});
  TESSERA_CHECK(self.dtype() == DType::kFloat32 && self.dim() >= 1, "_dynamic_product: expected rows of float32, but ",
                "got ", name_of(self.dtype()), " of shape ", shape_string(self.sizes()));
  TESSERA_CHECK(weight.dim() == 2 && weight.size(1) == self.size(-1), "_dynamic_product: expected weight (out, ",
                self.size(-1), "), but got ", shape_string(weight.sizes()));
  TESSERA_CHECK(sums.dtype() == DType::kInt32 && scale.dtype() == DType::kFloat32,
                "_dynamic_product: expected sums of ", "int32 and scales of float32, but got ", name_of(sums.dtype()),
                " and ", name_of(scale.dtype()));
  IntVector sizes(self.sizes().begin(), self.sizes().end());
  sizes.back() = weight.size(0);
  if (self.is_meta() || self.numel() == 0) return new_zeros(self, sizes);
  const auto [low, high] = aminmax(self);
  const double least = std::min(double{low.item<float>()}, 0.0), most = std::max(double{high.item<float>()}, 0.0);
  TESSERA_CHECK(std::isfinite(most - least), "_dynamic_product: expected finite numbers, but they reach from ", least,
                " to ", most);
  const int64_t levels = reduce_range ? 127 : 255;
  const double range = (most - least) / static_cast<double>(levels), step = range == 0 ? 0.1 : range;
  const int64_t zero_point = std::clamp(static_cast<int64_t>(std::nearbyint(-least / step)), int64_t{0}, levels);
  const Tensor rows = _quantize_affine_kernel(reshape(self, IntVector{-1, self.size(-1)}), std::array{step},
                                              std::array{zero_point}, -1, 0, 255, DType::kUInt8);
  const Tensor factor = contiguous(expand(scale * Scalar(step), IntVector{weight.size(0)}));
  const Tensor offset = zero_point == 0 ? Tensor() : sums * Scalar(zero_point);
  return reshape(_quantized_convolution_kernel(rows, zero_point, weight, {}, {}, {}, 1, offset, factor, bias, 0, 0, 0,
                                               DType::kFloat32),
                 IntList(sizes));
}

}  // namespace tessera::kernels
