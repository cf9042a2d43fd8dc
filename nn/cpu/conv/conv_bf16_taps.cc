#include "nn/cpu/conv/conv_bf16_taps.h"

#include <immintrin.h>

#include "tensor/cpu/support/integer.h"

#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vl")

namespace tessera::cpu::internal {
namespace {

constexpr int64_t kLanes = TapRows::kChannels;

__mmask32 first_lanes(int64_t n) {
  return n >= kLanes ? ~__mmask32{0} : n <= 0 ? __mmask32{0} : (__mmask32{1} << n) - 1;
}

// The lanes of a result, from all sources.
inline __attribute__((always_inline)) __m512i choose(const __m512i* sources, int64_t count, const uint16_t* lanes,
                                                     const uint32_t* masks) {
  const __m512i at = _mm512_loadu_si512(lanes);
  __m512i result = _mm512_setzero_si512();
#pragma GCC unroll 9
  for (int64_t s = 0; s < count; ++s) result = _mm512_mask_permutexvar_epi16(result, masks[s], at, sources[s]);
  return result;
}

}  // namespace

TapRows::TapRows(int64_t taps)
    : taps_(taps),
      split_lanes_(taps * kLanes),
      join_lanes_(taps * kLanes),
      split_masks_(taps * taps),
      join_masks_(taps * taps) {
  for (int64_t i = 0; i < taps * taps; ++i) split_masks_[i] = join_masks_[i] = 0;
  for (int64_t t = 0; t < taps; ++t)
    for (int64_t c = 0; c < kLanes; ++c) {
      const int64_t at = c * taps + t, vector = at / kLanes, lane = at % kLanes;  // where it lies beside its taps
      split_lanes_[t * kLanes + c] = static_cast<uint16_t>(lane);
      split_masks_[t * taps + vector] |= uint32_t{1} << c;
      join_lanes_[vector * kLanes + lane] = static_cast<uint16_t>(c);
      join_masks_[vector * taps + t] |= uint32_t{1} << lane;
    }
}

// kTaps: known to the compiler, so that sources stay in registers; 0: any number.
template <int64_t kTaps>
inline __attribute__((always_inline)) void TapRows::split_taps(const uint16_t* from, int64_t channels,
                                                               const int64_t* tap, int64_t count, uint16_t* to,
                                                               int64_t to_row) const {
  const int64_t taps = kTaps ? kTaps : taps_;
  __m512i sources[kTaps ? kTaps : kMostTaps];
#pragma GCC unroll 9
  for (int64_t i = 0; i < taps; ++i)
    sources[i] = _mm512_maskz_loadu_epi16(first_lanes(channels * taps - i * kLanes), from + i * kLanes);
  for (int64_t i = 0; i < count; ++i)
    _mm512_storeu_si512(to + i * to_row, choose(sources, taps, split_lanes_.get() + tap[i] * kLanes,
                                                split_masks_.get() + tap[i] * taps));
}
template <int64_t kTaps>
inline __attribute__((always_inline)) void TapRows::join_taps(const uint16_t* from, int64_t from_row, int64_t channels,
                                                              uint16_t* to) const {
  const int64_t taps = kTaps ? kTaps : taps_;
  __m512i sources[kTaps ? kTaps : kMostTaps];
#pragma GCC unroll 9
  for (int64_t t = 0; t < taps; ++t) sources[t] = _mm512_loadu_si512(from + t * from_row);
  for (int64_t i = 0; i < taps; ++i)
    _mm512_mask_storeu_epi16(to + i * kLanes, first_lanes(channels * taps - i * kLanes),
                             choose(sources, taps, join_lanes_.get() + i * kLanes, join_masks_.get() + i * taps));
}

void TapRows::split(const uint16_t* from, int64_t channels, const int64_t* tap, int64_t count, uint16_t* to,
                    int64_t to_row) const {
  taps_ == 9 ? split_taps<9>(from, channels, tap, count, to, to_row)
             : split_taps<0>(from, channels, tap, count, to, to_row);
}
void TapRows::join(const uint16_t* from, int64_t from_row, int64_t channels, uint16_t* to) const {
  taps_ == 9 ? join_taps<9>(from, from_row, channels, to) : join_taps<0>(from, from_row, channels, to);
}

}  // namespace tessera::cpu::internal

#pragma GCC pop_options
