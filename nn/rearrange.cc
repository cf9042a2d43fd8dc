// Sliding blocks as columns and back; pixels to channels and back.
#include <algorithm>

#include "nn/nn_ops.h"
#include "nn/pad_extra.h"
#include "nn/pad_kernels.h"
#include "nn/spatial.h"
#include "nn/cpu/conv/conv.h"
#include "nn/engine/conv.h"
#include "tensor/ops/api.h"

namespace tessera::kernels {
namespace {

struct Blocks {
  IntVector kernel, dilation, padding, stride;
};

Blocks make_blocks(const char* op, IntList kernel, IntList dilation, IntList padding, IntList stride) {
  Blocks b{per_dimension(kernel, 2, op, "kernel_size"), per_dimension(dilation, 2, op, "dilation"),
           per_dimension(padding, 2, op, "padding"), per_dimension(stride, 2, op, "stride")};
  for (const auto& [what, values] : {std::pair("kernel_size", &b.kernel), std::pair("dilation", &b.dilation),
                                     std::pair("padding", &b.padding), std::pair("stride", &b.stride)})
    check_extents(*values, op, what);
  auto above = [](const IntVector& v, int64_t low) { return v[0] > low && v[1] > low; };
  TESSERA_CHECK(above(b.kernel, 0), "kernel size should be greater than zero, but got kernel_height: ", b.kernel[0],
                " kernel_width: ", b.kernel[1]);
  TESSERA_CHECK(above(b.dilation, 0), "dilation should be greater than zero, but got dilation_height: ", b.dilation[0],
                " dilation_width: ", b.dilation[1]);
  TESSERA_CHECK(above(b.padding, -1), "padding should be non-negative, but got pad_height: ", b.padding[0],
                " pad_width: ", b.padding[1]);
  TESSERA_CHECK(above(b.stride, 0), "stride should be greater than zero, but got stride_height: ", b.stride[0],
                " stride_width: ", b.stride[1]);
  return b;
}
int64_t block_count(const Blocks& b, size_t d, int64_t size) {
  const int64_t room = size + 2 * b.padding[d] - (b.dilation[d] * (b.kernel[d] - 1) + 1);
  return room < 0 ? 0 : room / b.stride[d] + 1;
}
cpu::ConvGeometry block_geometry(const Blocks& b, int64_t batch, int64_t channels, IntList image) {
  cpu::ConvGeometry g{};
  g.batch = batch;
  g.in_channels = g.out_channels = channels;
  g.groups = 1;
  fill_dims(image, 1, g.in_size);
  fill_dims(b.kernel, 1, g.kernel);
  fill_dims(b.dilation, 1, g.dilation);
  fill_dims(b.padding, 0, g.padding);
  fill_dims(b.stride, 1, g.stride);
  const int64_t out[2] = {block_count(b, 0, image[0]), block_count(b, 1, image[1])};
  fill_dims(out, 1, g.out_size);
  return g;
}

}  // namespace

OutputSpec im2col_meta(const Tensor& self, IntList kernel_size, IntList dilation, IntList padding, IntList stride) {
  const Blocks b = make_blocks("im2col", kernel_size, dilation, padding, stride);
  const IntList s = self.sizes();
  const bool rank = self.dim() == 3 || self.dim() == 4;
  TESSERA_CHECK(rank && std::ranges::all_of(s.last(3), [](int64_t v) { return v != 0; }),
                "Expected 3D or 4D (batch mode) tensor with possibly 0 batch size and other non-zero dimensions for "
                "input, but got: ",
                shape_string(s));
  const int64_t h = block_count(b, 0, s[s.size() - 2]), w = block_count(b, 1, s.back());
  TESSERA_CHECK(h > 0 && w > 0, "Given input with spatial size (", s[s.size() - 2], ", ", s.back(), "), kernel_size=(",
                b.kernel[0], ", ", b.kernel[1], "), dilation=(", b.dilation[0], ", ", b.dilation[1], "), padding=(",
                b.padding[0], ", ", b.padding[1], "), calculated shape of the array of sliding blocks as (", h, ", ", w,
                "), but its components must be at least one.");
  IntVector sizes(s.begin(), s.end() - 3);
  sizes.insert(sizes.end(), {s[s.size() - 3] * b.kernel[0] * b.kernel[1], h * w});
  return OutputSpec(self, sizes);
}
void im2col_kernel(const Tensor& self, IntList kernel_size, IntList dilation, IntList padding, IntList stride,
                   const Tensor& out) {
  if (out.numel() == 0) return;
  const Tensor x = contiguous(self);
  const ResultMemory y(out);
  const Blocks b = make_blocks("im2col", kernel_size, dilation, padding, stride);
  TESSERA_ON(x.device(), im2col)
  (x.dtype(), block_geometry(b, x.dim() == 4 ? x.size(0) : 1, x.size(-3), x.sizes().last(2)), x.data_ptr(), y.data());
  y.finish();
}

OutputSpec col2im_meta(const Tensor& self, SymIntList output_size, IntList kernel_size, IntList dilation,
                       IntList padding, IntList stride) {
  const Blocks b = make_blocks("col2im", kernel_size, dilation, padding, stride);
  const IntVector image = per_dimension(output_size.ints(), 2, "col2im", "output_size");
  const IntList s = self.sizes();
  check_extents(image, "col2im", "output_size");
  TESSERA_CHECK(image[0] > 0 && image[1] > 0, "Expected output spatial size to be positive, but got ",
                shape_string(image));
  const bool rank = self.dim() == 2 || self.dim() == 3;
  TESSERA_CHECK(rank && std::ranges::all_of(s.last(2), [](int64_t v) { return v != 0; }),
                "Expected 2D or 3D (batch mode) tensor for input with possibly 0 batch size and non-zero dimensions "
                "for input, but got: ",
                shape_string(s));
  const int64_t taps = b.kernel[0] * b.kernel[1], rows = s[s.size() - 2];
  TESSERA_CHECK(
      rows % taps == 0,
      "Expected size of input's dimension 1 to be divisible by the product of kernel_size, but got input.size(1)=",
      rows, " and kernel_size=(", b.kernel[0], ", ", b.kernel[1], ").");
  const int64_t h = block_count(b, 0, image[0]), w = block_count(b, 1, image[1]);
  TESSERA_CHECK(s.back() == h * w, "Given output_size=(", image[0], ", ", image[1], "), kernel_size=(", b.kernel[0],
                ", ", b.kernel[1], "), dilation=(", b.dilation[0], ", ", b.dilation[1], "), padding=(", b.padding[0],
                ", ", b.padding[1], "), stride=(", b.stride[0], ", ", b.stride[1],
                "), expected size of input's dimension 2 to match the calculated number of ", "sliding blocks ", h,
                " * ", w, " = ", h * w, ", but got input.size(2)=", s.back(), ".");
  IntVector sizes(s.begin(), s.end() - 2);
  sizes.insert(sizes.end(), {rows / taps, image[0], image[1]});
  return OutputSpec(self, sizes);
}
void col2im_kernel(const Tensor& self, SymIntList, IntList kernel_size, IntList dilation, IntList padding,
                   IntList stride, const Tensor& out) {
  if (out.numel() == 0) return;
  const Tensor cols = contiguous(self);
  const ResultMemory x(out);
  const Blocks b = make_blocks("col2im", kernel_size, dilation, padding, stride);
  TESSERA_ON(cols.device(), col2im)
  (cols.dtype(), block_geometry(b, out.dim() == 4 ? out.size(0) : 1, out.size(-3), out.sizes().last(2)),
   cols.data_ptr(), x.data());
  x.finish();
}

Tensor pixel_shuffle_composite(const Tensor& self, int64_t r) {
  TESSERA_CHECK(self.dim() >= 3, "pixel_shuffle expects input to have at least 3 dimensions, but got input with ",
                self.dim(), " dimension(s)");
  TESSERA_CHECK(r > 0, "pixel_shuffle expects a positive upscale_factor, but got ", r);
  const int64_t c = self.size(-3), h = self.size(-2), w = self.size(-1);
  TESSERA_CHECK(c / r / r * r * r == c,
                "pixel_shuffle expects its input's 'channel' dimension to be divisible by the square of "
                "upscale_factor, but input.size(-3)=",
                c, " is not divisible by ", r < int64_t{1} << 31 ? std::to_string(r * r) : str_cat(r, "^2"));
  IntVector lead(self.sizes().begin(), self.sizes().end() - 3), split = lead, order, joined = lead;
  split.insert(split.end(), {c / r / r, r, r, h, w});
  joined.insert(joined.end(), {c / r / r, h * r, w * r});
  const int64_t n = static_cast<int64_t>(lead.size());
  for (int64_t d = 0; d < n; ++d) order.push_back(d);
  order.insert(order.end(), {n, n + 3, n + 1, n + 4, n + 2});
  return contiguous(reshape(clone(permute(reshape(self, split), order), MemoryFormat::kContiguous), joined),
                    self.suggest_memory_format());
}

Tensor pixel_unshuffle_composite(const Tensor& self, int64_t r) {
  TESSERA_CHECK(self.dim() >= 3, "pixel_unshuffle expects input to have at least 3 dimensions, but got input with ",
                self.dim(), " dimension(s)");
  TESSERA_CHECK(r > 0, "pixel_unshuffle expects a positive downscale_factor, but got ", r);
  const int64_t c = self.size(-3), h = self.size(-2), w = self.size(-1);
  TESSERA_CHECK(h % r == 0,
                "pixel_unshuffle expects height to be divisible by downscale_factor, but input.size(-2)=", h,
                " is not divisible by ", r);
  TESSERA_CHECK(w % r == 0, "pixel_unshuffle expects width to be divisible by downscale_factor, but input.size(-1)=", w,
                " is not divisible by ", r);
  IntVector lead(self.sizes().begin(), self.sizes().end() - 3), split = lead, order, joined = lead;
  split.insert(split.end(), {c, h / r, r, w / r, r});
  joined.insert(joined.end(), {c * r * r, h / r, w / r});
  const int64_t n = static_cast<int64_t>(lead.size());
  for (int64_t d = 0; d < n; ++d) order.push_back(d);
  order.insert(order.end(), {n, n + 2, n + 4, n + 1, n + 3});
  return contiguous(reshape(clone(permute(reshape(self, split), order), MemoryFormat::kContiguous), joined),
                    self.suggest_memory_format());
}

Tensor shuffle_channels(const Tensor& self, int64_t groups) {
  TESSERA_CHECK(self.dim() > 2, "channel_shuffle expects input with > 2 dims, but got input with sizes ",
                shape_string(self.sizes()));
  TESSERA_CHECK(groups > 0, "Number of groups to divide channels in must be positive. Value of groups:", groups);
  const int64_t c = self.size(1);
  TESSERA_CHECK(c % groups == 0, "Number of channels must be divisible by groups. Got ", c, " channels and ", groups,
                " groups.");
  IntVector split = {self.size(0), groups, c / groups, 1};
  for (int64_t d = 2; d < self.dim(); ++d) split[3] *= self.size(d);
  return contiguous(reshape(clone(transpose(reshape(self, split), 1, 2), MemoryFormat::kContiguous), self.sizes()),
                    self.suggest_memory_format());
}

}  // namespace tessera::kernels
