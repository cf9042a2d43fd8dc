// Vectors of float across rows that lie apart, for one SIMD target (included inside foreach_target).
#if defined(TENSOR_CPU_TRANSPOSE_SIMD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TENSOR_CPU_TRANSPOSE_SIMD_INL_H_
#undef TENSOR_CPU_TRANSPOSE_SIMD_INL_H_
#else
#define TENSOR_CPU_TRANSPOSE_SIMD_INL_H_
#endif

#include "hwy/highway.h"
#include "nn/cpu/conv/conv_numbers.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::internal {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using D = hn::ScalableTag<float>;
using V = hn::Vec<D>;
constexpr D d;
constexpr int64_t kLanes = HWY_MAX_BYTES / sizeof(float);

// Blocks of four lanes: out[j], block b = element 4 b + j of rows 0 to 3.
struct Four {
  V v[4];
};
HWY_INLINE Four transpose_four(V r0, V r1, V r2, V r3) {
  const hn::Repartition<double, D> dd;
  const auto lo01 = hn::BitCast(dd, hn::InterleaveLower(d, r0, r1)),
             lo23 = hn::BitCast(dd, hn::InterleaveLower(d, r2, r3));
  const auto hi01 = hn::BitCast(dd, hn::InterleaveUpper(d, r0, r1)),
             hi23 = hn::BitCast(dd, hn::InterleaveUpper(d, r2, r3));
  return {{hn::BitCast(d, hn::InterleaveLower(dd, lo01, lo23)), hn::BitCast(d, hn::InterleaveUpper(dd, lo01, lo23)),
           hn::BitCast(d, hn::InterleaveLower(dd, hi01, hi23)), hn::BitCast(d, hn::InterleaveUpper(dd, hi01, hi23))}};
}

// Block b of v, four lanes, to to + 4 b * stride.
template <class DV, class W>
HWY_INLINE void store_blocks(DV dv, W v, float* to, int64_t stride) {
  constexpr int64_t kMost = hn::MaxLanes(DV());
  if constexpr (kMost == 4) {
    hn::StoreU(v, dv, to);
  } else {
    const hn::Half<DV> half;
    store_blocks(half, hn::LowerHalf(half, v), to, stride);
    store_blocks(half, hn::UpperHalf(half, v), to + kMost / 2 * stride, stride);
  }
}
// Column q of four rows of kLanes elements becomes four elements at to + q * stride.
HWY_INLINE void store_four(const float* from, int64_t row, float* to, int64_t stride) {
  const Four t = transpose_four(hn::LoadU(d, from), hn::LoadU(d, from + row), hn::LoadU(d, from + 2 * row),
                                hn::LoadU(d, from + 3 * row));
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) store_blocks(d, t.v[j], to + j * stride, stride);
}

// to[q * stride + r] = from[r * row + q] for kLanes rows of kLanes elements.
HWY_INLINE void transpose_square(const float* from, int64_t row, float* to, int64_t stride) {
  Four t[kLanes / 4];
#pragma GCC unroll 4
  for (int i = 0; i < kLanes / 4; ++i) {
    const float* const r = from + 4 * i * row;
    t[i] = transpose_four(hn::LoadU(d, r), hn::LoadU(d, r + row), hn::LoadU(d, r + 2 * row), hn::LoadU(d, r + 3 * row));
  }
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) {
    if constexpr (kLanes == 4) {
      hn::StoreU(t[0].v[j], d, to + j * stride);
    } else if constexpr (kLanes == 8) {
      hn::StoreU(hn::ConcatLowerLower(d, t[1].v[j], t[0].v[j]), d, to + j * stride);
      hn::StoreU(hn::ConcatUpperUpper(d, t[1].v[j], t[0].v[j]), d, to + (4 + j) * stride);
    } else {
      // Blocks 0 and 2, 1 and 3 of two vectors each.
      const V a = t[0].v[j], b = t[1].v[j], e = t[2].v[j], f = t[3].v[j];
      const V even0 = hn::OddEvenBlocks(hn::SwapAdjacentBlocks(b), a),
              odd0 = hn::OddEvenBlocks(b, hn::SwapAdjacentBlocks(a));
      const V even1 = hn::OddEvenBlocks(hn::SwapAdjacentBlocks(f), e),
              odd1 = hn::OddEvenBlocks(f, hn::SwapAdjacentBlocks(e));
      hn::StoreU(hn::ConcatLowerLower(d, even1, even0), d, to + j * stride);
      hn::StoreU(hn::ConcatLowerLower(d, odd1, odd0), d, to + (4 + j) * stride);
      hn::StoreU(hn::ConcatUpperUpper(d, even1, even0), d, to + (8 + j) * stride);
      hn::StoreU(hn::ConcatUpperUpper(d, odd1, odd0), d, to + (12 + j) * stride);
    }
  }
}

// Four elements from each of the rows 0, 4, 8 ...
template <class DV>
HWY_INLINE hn::Vec<DV> load_blocks(DV dv, const float* from, int64_t row) {
  if constexpr (hn::MaxLanes(DV()) == 4) {
    return hn::LoadU(dv, from);
  } else {
    const hn::Half<DV> half;
    return hn::Combine(dv, load_blocks(half, from + static_cast<int64_t>(hn::MaxLanes(half)) * row, row),
                       load_blocks(half, from, row));
  }
}
// to[q * stride + r] = from[r * row + q] for kLanes rows of four elements.
HWY_INLINE void transpose_columns(const float* from, int64_t row, float* to, int64_t stride) {
  const Four t = transpose_four(load_blocks(d, from, row), load_blocks(d, from + row, row),
                                load_blocks(d, from + 2 * row, row), load_blocks(d, from + 3 * row, row));
#pragma GCC unroll 4
  for (int j = 0; j < 4; ++j) hn::StoreU(t.v[j], d, to + j * stride);
}

// to[p * width + r] = from[r * row + p] for `rows` (at most kLanes) rows of n elements, zero for the rest of kLanes.
[[maybe_unused, gnu::noclone]] HWY_NOINLINE void pack_lanes(const float* from, int64_t row, int64_t rows, int64_t n,
                                                            int64_t width, float* to) {
  int64_t p = 0;
  for (; rows == kLanes && p + kLanes <= n; p += kLanes) transpose_square(from + p, row, to + p * width, width);
  for (; rows == kLanes && p + 4 <= n; p += 4) transpose_columns(from + p, row, to + p * width, width);
  for (; p < n; ++p)
    for (int64_t r = 0; r < kLanes; ++r) to[p * width + r] = r < rows ? from[r * row + p] : 0.0f;
}

// As many numbers of a row as are widened at once.
constexpr int64_t kAtOnce = 128;

[[maybe_unused, gnu::noclone]] HWY_NOINLINE void pack_widened(Numbers from, int64_t row, int64_t rows, int64_t n,
                                                              int64_t width, float* to) {
  HWY_ALIGN float wide[kLanes * kAtOnce];
  if (row == n && n <= kAtOnce) {  // one run
    from.read(rows * n, wide);
    return pack_lanes(wide, n, rows, n, width, to);
  }
  for (int64_t p = 0; p < n; p += kAtOnce) {
    const int64_t m = n - p < kAtOnce ? n - p : kAtOnce;
    for (int64_t r = 0; r < rows; ++r) (from + (r * row + p)).read(m, wide + r * kAtOnce);
    pack_lanes(wide, kAtOnce, rows, m, width, to + p * width);
  }
}
HWY_INLINE void pack_lanes(Numbers from, int64_t row, int64_t rows, int64_t n, int64_t width, float* to) {
  if (from.is_float()) return pack_lanes(from.floats(), row, rows, n, width, to);
  pack_widened(from, row, rows, n, width, to);
}

// A vector of the first n elements, zeros after them.
HWY_INLINE void copy_lanes(Numbers numbers, int64_t n, float* to) {
  HWY_ALIGN float wide[kLanes];
  const float* from = numbers.floats();
  if (!numbers.is_float()) {
    numbers.read(n, wide);
    from = wide;
  }
  if (n == kLanes) {
    hn::StoreU(hn::LoadU(d, from), d, to);
    return;
  }
  for (int64_t i = 0; i < kLanes; ++i) to[i] = i < n ? from[i] : 0.0f;
}

// to[c * channel + q * step] = from[q * width + c] for `positions` rows of `channels` elements.
[[maybe_unused, gnu::noclone]] HWY_NOINLINE void store_lanes(const float* from, int64_t width, int64_t positions,
                                                             int64_t channels, float* to, int64_t channel,
                                                             int64_t step) {
  int64_t c = 0;
  if (step == 1)
    for (; c + kLanes <= channels; c += kLanes) {
      int64_t q = 0;
      for (; q + kLanes <= positions; q += kLanes)
        transpose_square(from + q * width + c, width, to + c * channel + q, channel);
      for (; q + 4 <= positions; q += 4) store_four(from + q * width + c, width, to + c * channel + q, channel);
      for (; q < positions; ++q)
        for (int64_t i = 0; i < kLanes; ++i) to[(c + i) * channel + q] = from[q * width + c + i];
    }
  for (; c < channels; ++c)
    for (int64_t q = 0; q < positions; ++q) to[c * channel + q * step] = from[q * width + c];
}

[[maybe_unused, gnu::noclone]] HWY_NOINLINE void store_rounded(const float* from, int64_t width, int64_t positions,
                                                               int64_t channels, Numbers to, int64_t channel,
                                                               int64_t step) {
  if (channel == 1) {
    for (int64_t q = 0; q < positions; ++q) (to + q * step).write(channels, from + q * width);
    return;
  }
  HWY_ALIGN float line[kLanes * kAtOnce];
  for (int64_t c = 0; c < channels; c += kLanes)
    for (int64_t q = 0; q < positions; q += kAtOnce) {
      const int64_t m = positions - q < kAtOnce ? positions - q : kAtOnce,
                    count = channels - c < kLanes ? channels - c : kLanes;
      store_lanes(from + q * width + c, width, m, count, line, kAtOnce, 1);
      for (int64_t i = 0; i < count; ++i) {
        const Numbers at = to + ((c + i) * channel + q * step);
        if (step == 1)
          at.write(m, line + i * kAtOnce);
        else
          for (int64_t j = 0; j < m; ++j) at.put(j * step, line[i * kAtOnce + j]);
      }
    }
}
HWY_INLINE void store_lanes(const float* from, int64_t width, int64_t positions, int64_t channels, Numbers to,
                            int64_t channel, int64_t step) {
  if (to.is_float()) return store_lanes(from, width, positions, channels, to.floats(), channel, step);
  store_rounded(from, width, positions, channels, to, channel, step);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu::internal
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
