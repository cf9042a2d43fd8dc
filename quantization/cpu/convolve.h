// Convolutions and products of bytes, with sums that become bytes or floats where they are computed.
#pragma once

#include <cstdint>

#include "quantization/cpu/quantize.h"

namespace tessera::cpu {

// x (batch, in_size..., in_channels) of uint8 or int8 and w (out_channels, kernel..., in_channels / groups) of int8,
// both contiguous with their channels last; unused leading dimensions have size 1. What lies beside x holds `fill`. A
// product of matrices is one whose sizes are all 1.
struct ByteConv {
  int64_t batch, in_channels, out_channels, groups;
  int64_t in_size[3], kernel[3], stride[3], padding[3], dilation[3], out_size[3];
  const uint8_t* x;
  const int8_t* w;
  uint8_t fill;
  bool is_unsigned;  // x

  int64_t taps() const { return kernel[0] * kernel[1] * kernel[2]; }
  int64_t depth() const { return taps() * (in_channels / groups); }  // bytes that a result reads
  int64_t positions() const { return batch * out_size[0] * out_size[1] * out_size[2]; }
};

// out (positions, out_channels): the sums, finished as `how` says (see requantize); its arrays have out_channels
// elements, its sums, rows and columns are not read. False, and nothing is done, where the processor has no products of
// bytes.
bool convolve_bytes(const ByteConv& c, const SumsOf& how, DType dtype, void* out);
// What each position reads in a group: (positions, depth).
void bytes_read(const ByteConv& c, int64_t group, uint8_t* rows);

}  // namespace tessera::cpu
