// Weights as they lie, channel by channel with their taps, and as products of bfloat16 want them: tap by tap.
#pragma once

#include <cstdint>

#include "tensor/cpu/support/scratch.h"

namespace tessera::cpu::internal {

// Rows of up to 32 channels with `taps` elements each. Needs AVX-512.
class TapRows {
 public:
  static constexpr int64_t kChannels = 32, kMostTaps = 25;
  explicit TapRows(int64_t taps);
  // Of `count` taps: to[i * to_row + c] = from[c * taps + tap[i]] for c < channels; 0 up to kChannels.
  void split(const uint16_t* from, int64_t channels, const int64_t* tap, int64_t count, uint16_t* to,
             int64_t to_row) const;
  // to[c * taps + t] = from[t * from_row + c]; kChannels elements of each row of `from` are read
  void join(const uint16_t* from, int64_t from_row, int64_t channels, uint16_t* to) const;

 private:
  template <int64_t kTaps>
  void split_taps(const uint16_t* from, int64_t channels, const int64_t* tap, int64_t count, uint16_t* to,
                  int64_t to_row) const;
  template <int64_t kTaps>
  void join_taps(const uint16_t* from, int64_t from_row, int64_t channels, uint16_t* to) const;

  int64_t taps_;
  // For each vector of the result: of which element of a source vector its lanes are, and for each source vector which
  // lanes.
  ScratchArray<uint16_t> split_lanes_, join_lanes_;
  ScratchArray<uint32_t> split_masks_, join_masks_;
};

}  // namespace tessera::cpu::internal
