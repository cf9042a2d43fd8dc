// Square tiles of as many elements as a vector has, transposed in registers. Included once per SIMD target.
#if defined(TESSERA_TILES_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_TILES_INL
#undef TESSERA_TILES_INL
#else
#define TESSERA_TILES_INL
#endif

#include <cstdint>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// What a vector has of blocks of 16 bytes: those at row(i), row(i + apart) ...
#if HWY_TARGET <= HWY_AVX3
template <class Row>
HWY_INLINE __m512i Blocks(const Row& row, int i, int apart) {
  const auto load = [](const char* q) HWY_ATTR { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(q)); };
  __m512i v = _mm512_castsi128_si512(load(row(i)));
  v = _mm512_inserti32x4(v, load(row(i + apart)), 1);
  v = _mm512_inserti32x4(v, load(row(i + 2 * apart)), 2);
  return _mm512_inserti32x4(v, load(row(i + 3 * apart)), 3);
}
template <class D, class Row>
HWY_INLINE hn::Vec<D> LoadBlocks(D d, const Row& row, int i, int apart) {
  return hn::BitCast(d, hn::Vec<hn::RebindToUnsigned<D>>{Blocks(row, i, apart)});
}
#else
template <class D, class Row>
HWY_INLINE hn::Vec<D> LoadBlocks(D d, const Row& row, int i, int apart) {
  const hn::CappedTag<hn::TFromD<D>, 16 / sizeof(hn::TFromD<D>)> d128;
  const auto load = [&](const char* q) HWY_ATTR { return hn::LoadU(d128, reinterpret_cast<const hn::TFromD<D>*>(q)); };
#if HWY_TARGET == HWY_AVX2
  return hn::Combine(d, load(row(i + apart)), load(row(i)));
#else
  (void)d;
  (void)apart;
  return load(row(i));
#endif
}
#endif

// v[i]: in each block of 16 bytes, number i of v[j] becomes number j of v[i], for as many vectors as a block has
// numbers of 4 or 8 bytes.
template <class D>
HWY_INLINE void turn_in_blocks(D d, hn::Vec<D>* v) {
  const auto a = v[0], b = v[1];
  if constexpr (sizeof(hn::TFromD<D>) == 8) {
    v[0] = hn::InterleaveLower(d, a, b);
    v[1] = hn::InterleaveUpper(d, a, b);
  } else {
    const hn::RepartitionToWide<D> dw;
    const auto c = v[2], e = v[3];
    const auto ab_low = hn::BitCast(dw, hn::InterleaveLower(d, a, b)),
               ab_high = hn::BitCast(dw, hn::InterleaveUpper(d, a, b)),
               ce_low = hn::BitCast(dw, hn::InterleaveLower(d, c, e)),
               ce_high = hn::BitCast(dw, hn::InterleaveUpper(d, c, e));
    v[0] = hn::BitCast(d, hn::InterleaveLower(dw, ab_low, ce_low));
    v[1] = hn::BitCast(d, hn::InterleaveUpper(dw, ab_low, ce_low));
    v[2] = hn::BitCast(d, hn::InterleaveLower(dw, ab_high, ce_high));
    v[3] = hn::BitCast(d, hn::InterleaveUpper(dw, ab_high, ce_high));
  }
}

// Calls put(j, v) with the columns v of the first 16 bytes at row(i), of numbers of 4 or 8 bytes, for as many rows as a
// vector has lanes. Each block of 16 bytes transposes on its own: with the blocks of a vector from rows 4 (2) apart,
// results are whole columns.
template <class D, class Row, class Put>
HWY_INLINE void transpose_block(D d, const Row& row, const Put& put) {
  constexpr int kInBlock = 16 / sizeof(hn::TFromD<D>);
  hn::Vec<D> v[kInBlock];
#pragma GCC unroll 4
  for (int i = 0; i < kInBlock; ++i) v[i] = LoadBlocks(d, row, i, kInBlock);
  turn_in_blocks(d, v);
#pragma GCC unroll 4
  for (int j = 0; j < kInBlock; ++j) put(j, v[j]);
}
// Of a square tile with rows at row(i).
template <class D, class Row, class Put>
HWY_INLINE void transpose_rows(D d, const Row& row, const Put& put) {
  constexpr int kInBlock = 16 / sizeof(hn::TFromD<D>), kLanes = static_cast<int>(hn::MaxLanes(d));
#pragma GCC unroll 4
  for (int j = 0; j < kLanes; j += kInBlock)
    transpose_block(
        d, [&](int i) HWY_ATTR { return row(i) + j * static_cast<int>(sizeof(hn::TFromD<D>)); },
        [&](int column, auto v) HWY_ATTR { put(j + column, v); });
}
// Whose rows lie `step` bytes apart.
template <class D, class Put>
HWY_INLINE void transpose_tile(D d, const char* from, int64_t step, const Put& put) {
  transpose_rows(
      d, [&](int i) HWY_ATTR { return from + i * step; }, put);
}

}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu
HWY_AFTER_NAMESPACE();

#endif
