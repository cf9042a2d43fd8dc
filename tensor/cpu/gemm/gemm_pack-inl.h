// Packing of the operands of the real matrix product, for one SIMD target (included by gemm_simd-inl.h).
//
// A panel holds `width` rows of A, or columns of B, for a range of k: dst[p * width + r]. "Across" is the direction of
// r, "along" that of p.
#if defined(TENSOR_CPU_GEMM_PACK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TENSOR_CPU_GEMM_PACK_INL_H_
#undef TENSOR_CPU_GEMM_PACK_INL_H_
#else
#define TENSOR_CPU_GEMM_PACK_INL_H_
#endif

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::internal {
namespace HWY_NAMESPACE {
namespace {

constexpr int64_t kBlockK =
    sizeof(T) == 4 ? 256 : 192;  // the longest range of k in a panel: one of B and two of A share L1

HWY_INLINE M first_lanes(int64_t n) { return hn::FirstN(d, static_cast<size_t>(max64(0, min64(n, kLanes)))); }

// The first n elements at p (n <= kLanes), zeros after them; does not read beyond.
HWY_INLINE V load_first(const T* p, int64_t n) {
  if (n >= kLanes) return hn::LoadU(d, p);
#if HWY_TARGET <= HWY_AVX2
  return hn::MaskedLoad(first_lanes(n), d, p);
#else
  HWY_ALIGN T tmp[kLanes] = {};
  for (int64_t i = 0; i < n; ++i) tmp[i] = p[i];
  return hn::Load(d, tmp);
#endif
}
HWY_INLINE void store_first(V v, T* p, int64_t n) {
  if (n >= kLanes)
    hn::StoreU(v, d, p);
  else
    hn::BlendedStore(v, first_lanes(n), d, p);
}

// ---- Contiguous across ----

constexpr int64_t kRowsAhead = 12;  // source rows are often in pages of their own

HWY_NOINLINE void pack_copying(const T* HWY_RESTRICT src, int64_t stride, int64_t rows, int64_t k, int64_t width,
                               T* HWY_RESTRICT dst) {
  if (rows == kPanel && width == kPanel) {
    for (int64_t p = 0; p < k; ++p, src += stride, dst += kPanel) {
      prefetch_near(src + kRowsAhead * stride);
      prefetch_near(src + kRowsAhead * stride + kPanel - 1);
      hn::StoreU(hn::LoadU(d, src), d, dst);
      hn::StoreU(hn::LoadU(d, src + kLanes), d, dst + kLanes);
    }
    return;
  }
  for (int64_t p = 0; p < k; ++p, src += stride, dst += width) {
    prefetch_near(src + kRowsAhead * stride);
    for (int64_t r = 0; r < width; r += kLanes) store_first(load_first(src + r, rows - r), dst + r, width - r);
  }
}

// Every row is the same: an expanded operand.
HWY_NOINLINE void pack_repeating(const T* HWY_RESTRICT src, int64_t along, int64_t rows, int64_t k, int64_t width,
                                 T* HWY_RESTRICT dst) {
  for (int64_t p = 0; p < k; ++p, dst += width) {
    const V v = hn::Set(d, src[p * along]);
    for (int64_t r = 0; r < width; r += kLanes)
      store_first(r + kLanes <= rows ? v : hn::IfThenElseZero(first_lanes(rows - r), v), dst + r, width - r);
  }
}

// ---- Contiguous along ----

constexpr int64_t kBlock = 16 / sizeof(T);  // a square block has kBlock rows of 16 bytes
constexpr int64_t kRowBlocks = kLanes / kBlock;

// v with 16 bytes of memory as its block kIndex; block 0 is the first to come.
template <int kIndex>
HWY_INLINE V insert_block(V v, const T* p) {
#if HWY_TARGET <= HWY_AVX3
  const hn::Repartition<int32_t, D> di;
  const __m128i block = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return hn::BitCast(d, hn::Vec<decltype(di)>{kIndex == 0 ? _mm512_castsi128_si512(block)
                                                          : _mm512_inserti32x4(hn::BitCast(di, v).raw, block, kIndex)});
#elif HWY_TARGET <= HWY_AVX2
  const hn::Repartition<int32_t, D> di;
  const __m128i block = _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
  return hn::BitCast(
      d, hn::Vec<decltype(di)>{kIndex == 0 ? _mm256_castsi128_si256(block)
                                           : _mm256_inserti128_si256(hn::BitCast(di, v).raw, block, kIndex)});
#else
  return kIndex == 0 ? hn::LoadU(d, p) : v;
#endif
}

// Every block of 16 bytes is an element of a kBlock x kBlock matrix per block position: x[i] holds its row i,
// afterwards its column i.
HWY_INLINE void transpose_blocks(V* x) {
  if constexpr (sizeof(T) == 4) {
    const hn::Repartition<double, D> dd;
    const auto lo01 = hn::BitCast(dd, hn::InterleaveLower(d, x[0], x[1])),
               lo23 = hn::BitCast(dd, hn::InterleaveLower(d, x[2], x[3]));
    const auto hi01 = hn::BitCast(dd, hn::InterleaveUpper(d, x[0], x[1])),
               hi23 = hn::BitCast(dd, hn::InterleaveUpper(d, x[2], x[3]));
    x[0] = hn::BitCast(d, hn::InterleaveLower(dd, lo01, lo23));
    x[1] = hn::BitCast(d, hn::InterleaveUpper(dd, lo01, lo23));
    x[2] = hn::BitCast(d, hn::InterleaveLower(dd, hi01, hi23));
    x[3] = hn::BitCast(d, hn::InterleaveUpper(dd, hi01, hi23));
  } else {
    const V low = hn::InterleaveLower(d, x[0], x[1]);
    x[1] = hn::InterleaveUpper(d, x[0], x[1]);
    x[0] = low;
  }
}

// kGroups * kBlock values of k of kLanes rows. A cache line of each source row is used up before the next row: with
// strides of a power of two, all rows meet in the same few cache sets.
template <int kGroups>
HWY_INLINE void transpose_strip(const T* const* row, int64_t ahead, int64_t p, M valid, T* HWY_RESTRICT dst,
                                int64_t width, int64_t keep) {
  V x[kGroups][kBlock];
  const auto take = [&](auto index) HWY_ATTR {
#pragma GCC unroll 4
    for (int i = 0; i < kBlock; ++i) {
#pragma GCC unroll 4
      for (int g = 0; g < kGroups; ++g) {
        if (index.value == 0) x[g][i] = hn::Zero(d);
        if (kGroups > 1 && g == 0) prefetch_far(row[index.value * kBlock + i] + ahead + p);
        x[g][i] = insert_block<index.value>(x[g][i], row[index.value * kBlock + i] + p + g * kBlock);
      }
    }
  };
  take(std::integral_constant<int, 0>());
  if constexpr (kRowBlocks > 1) take(std::integral_constant<int, 1>());
  if constexpr (kRowBlocks > 2) {
    take(std::integral_constant<int, 2>());
    take(std::integral_constant<int, 3>());
  }
#pragma GCC unroll 4
  for (int g = 0; g < kGroups; ++g) {
    transpose_blocks(x[g]);
#pragma GCC unroll 4
    for (int i = 0; i < kBlock; ++i)
      store_first(hn::IfThenElseZero(valid, x[g][i]), dst + (g * kBlock + i) * width, keep);
  }
}

HWY_NOINLINE void pack_transposing(const T* HWY_RESTRICT src, int64_t stride, int64_t rows, int64_t k, int64_t width,
                                   T* HWY_RESTRICT dst) {
  constexpr int64_t kGroups = kLine / 16;
  for (int64_t r = 0; r < width; r += kLanes) {
    const int64_t valid = max64(0, min64(rows - r, kLanes)), keep = min64(width - r, kLanes);
    T* const to = dst + r;
    const T* row[kLanes];
    for (int64_t i = 0; i < kLanes; ++i) row[i] = src + (i < valid ? r + i : 0) * stride;
    const M mask = first_lanes(valid);
    const int64_t ahead = keep * stride;  // the rows of the next strip are requested meanwhile
    int64_t p = 0;
    for (; p + kGroups * kBlock <= k; p += kGroups * kBlock)
      transpose_strip<kGroups>(row, ahead, p, mask, to + p * width, width, keep);
    for (; p + kBlock <= k; p += kBlock) transpose_strip<1>(row, ahead, p, mask, to + p * width, width, keep);
    for (; p < k; ++p)
      for (int64_t i = 0; i < keep; ++i) to[p * width + i] = i < valid ? row[i][p] : T{0};
  }
}

// ---- Reduced floats: converted, then packed ----

#if HWY_TARGET <= HWY_AVX2
inline float load_half(uint16_t bits) { return _cvtsh_ss(bits); }
#else
inline float load_half(uint16_t bits) { return half_bits_to_float(bits); }
#endif

// to[0 .. n) = from[0 .. n)
template <class DF>
HWY_INLINE void convert_line(DF df, SourceKind kind, const uint16_t* HWY_RESTRICT from, int64_t n,
                             hn::TFromD<DF>* HWY_RESTRICT to) {
  int64_t i = 0;
  if constexpr (sizeof(hn::TFromD<DF>) == 4) {
    if (kind == SourceKind::kBFloat16) {
      const hn::Repartition<uint32_t, DF> du;
      const hn::Rebind<uint16_t, DF> dh;
      for (; i + kLanes <= n; i += kLanes)
        hn::StoreU(hn::BitCast(df, hn::ShiftLeft<16>(hn::PromoteTo(du, hn::LoadU(dh, from + i)))), df, to + i);
    } else {
#if HWY_TARGET <= HWY_AVX2
      const hn::Rebind<hwy::float16_t, DF> dh;
      for (; i + kLanes <= n; i += kLanes)
        hn::StoreU(hn::PromoteTo(df, hn::LoadU(dh, reinterpret_cast<const hwy::float16_t*>(from) + i)), df, to + i);
#endif
    }
  }
  for (; i < n; ++i) to[i] = kind == SourceKind::kBFloat16 ? bfloat16_bits_to_float(from[i]) : load_half(from[i]);
}

HWY_NOINLINE void pack_reduced(SourceKind kind, const uint16_t* src, int64_t across, int64_t along, int64_t rows,
                               int64_t k, int64_t width, T* dst) {
  if (across == 1) {
    for (int64_t p = 0; p < k; ++p, src += along, dst += width) {
      prefetch_near(src + kRowsAhead * along);
      convert_line(d, kind, src, rows, dst);
      for (int64_t r = rows; r < width; ++r) dst[r] = T{0};
    }
    return;
  }
  HWY_ALIGN T lines[kPanel * kBlockK];
  for (int64_t r = 0; r < rows; ++r) {
    const uint16_t* const from = src + r * across;
    for (int64_t p = 0; p < k && along == 1; p += kLine / 2) prefetch_near(from + 2 * across + p);
    if (along == 1)
      convert_line(d, kind, from, k, lines + r * k);
    else
      for (int64_t p = 0; p < k; ++p) convert_line(d, kind, from + p * along, 1, lines + r * k + p);
  }
  pack_transposing(lines, k, rows, k, width, dst);
}

// ---- Complex numbers as real ones (SourceKind) ----

// `rows` rows of A, k real columns from p0 on.
HWY_NOINLINE void pack_complex_pairs(const GemmSource& s, int64_t first, int64_t rows, int64_t p0, int64_t k,
                                     int64_t width, T* HWY_RESTRICT dst) {
  const T* const src = static_cast<const T*>(s.data) + 2 * (first * s.row_stride + p0 / 2 * s.col_stride);
  if (s.col_stride == 1) return pack_transposing(src, 2 * s.row_stride, rows, k, width, dst);
  for (int64_t p = 0; p < k; p += 2, dst += 2 * width) {
    const T* const from = src + p * s.col_stride;
    if (s.row_stride == 1) {
      for (int64_t r = 0; r < width; r += kLanes) {
        const V lo = load_first(from + 2 * r, 2 * (rows - r)),
                hi = load_first(from + 2 * r + kLanes, 2 * (rows - r) - kLanes);
        store_first(hn::ConcatEven(d, hi, lo), dst + r, width - r);
        store_first(hn::ConcatOdd(d, hi, lo), dst + width + r, width - r);
      }
    } else {
      for (int64_t r = 0; r < width; ++r)
        for (int64_t q = 0; q < 2; ++q) dst[q * width + r] = r < rows ? from[2 * r * s.row_stride + q] : T{0};
    }
  }
}

constexpr int64_t kBlockNumbers = kBlock / 2;  // complex numbers of a block
// A block of each of `count` columns, at distance `stride`, whose numbers come side by side in as many rows; zeros
// after them.
HWY_INLINE void gather_numbers(const T* HWY_RESTRICT src, int64_t stride, int64_t count, T* HWY_RESTRICT dst) {
  const auto column = [&](int64_t i) HWY_ATTR { return src + (i < count ? i : 0) * stride; };
  const M valid = first_lanes(2 * count);
  V x[kBlockNumbers];
#pragma GCC unroll 2
  for (int i = 0; i < kBlockNumbers; ++i) {
    x[i] = insert_block<0>(hn::Zero(d), column(i));
    if constexpr (kRowBlocks > 1) x[i] = insert_block<1>(x[i], column(kBlockNumbers + i));
    if constexpr (kRowBlocks > 2) {
      x[i] = insert_block<2>(x[i], column(2 * kBlockNumbers + i));
      x[i] = insert_block<3>(x[i], column(3 * kBlockNumbers + i));
    }
  }
  if constexpr (kBlockNumbers == 2) {
    const hn::Repartition<double, D> dd;
    const auto a = hn::BitCast(dd, x[0]), b = hn::BitCast(dd, x[1]);
    x[0] = hn::BitCast(d, hn::InterleaveLower(dd, a, b));
    x[1] = hn::BitCast(d, hn::InterleaveUpper(dd, a, b));
  }
#pragma GCC unroll 2
  for (int i = 0; i < kBlockNumbers; ++i) hn::Store(hn::IfThenElseZero(valid, x[i]), d, dst + i * kPanel);
}

// `cols` real columns of B, k real rows from p0 on, both even: of every complex row (re, im) and (-im, re) with the
// signs of the conjugates.
HWY_NOINLINE void pack_complex_expand(const GemmSource& s, int64_t first, int64_t cols, int64_t p0, int64_t k,
                                      int64_t width, T* HWY_RESTRICT dst) {
  const T* const src = static_cast<const T*>(s.data) + 2 * (p0 / 2 * s.row_stride + first / 2 * s.col_stride);
  const T imag = static_cast<T>(s.imag_sign), odd = static_cast<T>(s.odd_sign);
  const V straight = hn::OddEven(hn::Set(d, imag), hn::Set(d, T{1})),
          crossed = hn::OddEven(hn::Set(d, odd), hn::Set(d, -odd * imag));
  HWY_ALIGN T lines[kBlockNumbers * kPanel];
  for (int64_t p = 0; p < k; p += 2, dst += 2 * width) {
    const T* from = src + p * s.row_stride;
    const int64_t turn = p / 2 % kBlockNumbers;
    if (s.row_stride == 1 && (turn > 0 || p + 2 * kBlockNumbers <= k)) {
      for (int64_t r = 0; r < cols && turn == 0; r += kLanes)
        gather_numbers(from + r * s.col_stride, 2 * s.col_stride, (cols - r) / 2, lines + r);
      from = lines + turn * kPanel;
    } else if (s.col_stride != 1) {
      for (int64_t j = 0; j < cols; ++j) lines[j] = from[(j >> 1) * 2 * s.col_stride + (j & 1)];
      from = lines;
    }
    for (int64_t r = 0; r < width; r += kLanes) {
      const V v = load_first(from + r, cols - r);
      store_first(hn::Mul(straight, v), dst + r, width - r);
      store_first(hn::Mul(crossed, hn::Reverse2(d, v)), dst + width + r, width - r);
    }
  }
}

// ---- The choice ----

// A panel of `width` rows of A (not kTransposed) or columns of B (kTransposed), [p0, p0 + k) of the inner dimension;
// zeros after the first `count`.
template <bool kTransposed>
HWY_NOINLINE void pack_panel(const GemmSource& s, int64_t first, int64_t count, int64_t p0, int64_t k, int64_t width,
                             T* dst) {
  const int64_t across = kTransposed ? s.col_stride : s.row_stride, along = kTransposed ? s.row_stride : s.col_stride;
  switch (s.kind) {
    case SourceKind::kHalf:
    case SourceKind::kBFloat16:
      return pack_reduced(s.kind, static_cast<const uint16_t*>(s.data) + first * across + p0 * along, across, along,
                          count, k, width, dst);
    case SourceKind::kComplexPairs:
      return pack_complex_pairs(s, first, count, p0, k, width, dst);
    case SourceKind::kComplexExpand:
      return pack_complex_expand(s, first, count, p0, k, width, dst);
    case SourceKind::kVirtual:
      return s.pack(s.data, first, count, p0, k, width, dst);
    case SourceKind::kPlain:
      break;
  }
  const T* const src = static_cast<const T*>(s.data) + first * across + p0 * along;
  if (across == 0) return pack_repeating(src, along, count, k, width, dst);
  if (across == 1) return pack_copying(src, along, count, k, width, dst);
  if (along == 1) return pack_transposing(src, across, count, k, width, dst);
  for (int64_t p = 0; p < k; ++p)
    for (int64_t r = 0; r < width; ++r) dst[p * width + r] = r < count ? src[r * across + p * along] : T{0};
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu::internal
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
