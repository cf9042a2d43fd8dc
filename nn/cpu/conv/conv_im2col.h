// Sliding blocks of an image as the columns of a matrix, in parts.
#pragma once

#include <cstdint>

#include "nn/cpu/conv/conv.h"

namespace tessera::cpu::internal {

// The columns [p0, p1) of `channels` channels: cols is (channels * kernel volume) x (p1 - p0), rows `cols_stride`
// elements of `item` bytes apart; x is the first channel of one image.
void im2col_block(int64_t item, const ConvGeometry& g, const void* x, int64_t channels, int64_t p0, int64_t p1,
                  void* cols, int64_t cols_stride);

// The adjoint: x (of Acc) += cols (of T), T as in visit_addable.
template <class T, class Acc>
void col2im_block(const ConvGeometry& g, const T* cols, int64_t cols_stride, int64_t channels, int64_t p0, int64_t p1,
                  Acc* x);

// Calls fn(row of the matrix, channel, depth, height and width offset of the kernel tap) for the rows of `channels`
// channels.
template <class F>
void for_taps(const ConvGeometry& g, int64_t channels, F&& fn) {
  int64_t row = 0;
  for (int64_t c = 0; c < channels; ++c)
    for (int64_t kd = 0; kd < g.kernel[0]; ++kd)
      for (int64_t kh = 0; kh < g.kernel[1]; ++kh)
        for (int64_t kw = 0; kw < g.kernel[2]; ++kw, ++row)
          fn(row, c, kd * g.dilation[0] - g.padding[0], kh * g.dilation[1] - g.padding[1],
             kw * g.dilation[2] - g.padding[2]);
}

// The output positions o of [begin, end) whose input o * stride + offset lies in [0, size): [first, last).
struct Range {
  int64_t first, last;
};
inline Range valid_outputs(int64_t begin, int64_t end, int64_t stride, int64_t offset, int64_t size) {
  Range r{begin, end};
  if (begin * stride + offset < 0) r.first = (-offset + stride - 1) / stride;
  if ((end - 1) * stride + offset >= size) r.last = size > offset ? (size - 1 - offset) / stride + 1 : begin;
  if (r.first > end) r.first = end;
  if (r.last < r.first) r.last = r.first;
  return r;
}

// Calls fn(od, oh, ow_begin, ow_end, position of the first) for the rows of output positions in [p0, p1).
template <class F>
void for_output_rows(const ConvGeometry& g, int64_t p0, int64_t p1, F&& fn) {
  const int64_t width = g.out_size[2], plane = g.out_size[1] * width;
  int64_t od = p0 / plane, oh = p0 % plane / width, ow = p0 % width;
  for (int64_t p = p0; p < p1;) {
    const int64_t end = p1 - p < width - ow ? ow + p1 - p : width;
    fn(od, oh, ow, end, p);
    p += end - ow;
    ow = 0;
    if (++oh == g.out_size[1]) {
      oh = 0;
      ++od;
    }
  }
}

}  // namespace tessera::cpu::internal
