// Sorting and selecting among signed words that are all different (a key above a position), in vectors. Per SIMD
// target; include after hwy/highway.h.
//
// Up to kSmall words: the vectors are sorted against each other lane by lane (so that each lane, a column, is in
// order), then columns are merged, two, four ... at a time, bitonically. More words: quicksort, whose partition
// compresses whole vectors. Arrays need one vector of slack behind their end.
#if defined(TESSERA_CPU_SORT_WORDS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_CPU_SORT_WORDS_INL_H_
#undef TESSERA_CPU_SORT_WORDS_INL_H_
#else
#define TESSERA_CPU_SORT_WORDS_INL_H_
#endif

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

template <class T>
using Words = hn::ScalableTag<T>;
template <class T>
using WordVec = hn::Vec<Words<T>>;

// Small programs count kilobytes: networks for older machines are shorter.
constexpr int kMaxRows = HWY_TARGET == HWY_AVX3 ? 16 : HWY_TARGET == HWY_AVX2 ? 8 : 4;
// Vectors, and words of type T, that are sorted without a partition.
template <class T>
constexpr int64_t kSmall = kMaxRows* HWY_LANES(T);

template <class V>
HWY_INLINE void Order(V& a, V& b) {
  const V lo = hn::Min(a, b);
  b = hn::Max(a, b);
  a = lo;
}

// Comparators (i, i + kGap), i from kFirst in steps of kStep while i + kGap < kEnd.
template <int kFirst, int kStep, int kGap, int kEnd, class V>
HWY_INLINE void OrderPairs(V* v) {
  if constexpr (kFirst + kGap < kEnd) {
    Order(v[kFirst], v[kFirst + kGap]);
    OrderPairs<kFirst + kStep, kStep, kGap, kEnd>(v);
  }
}
// Batcher's odd-even merge sort of v[kFirst], ..., v[kFirst + kCount - 1].
template <int kFirst, int kCount, int kStep, class V>
HWY_INLINE void OddEvenMerge(V* v) {
  if constexpr (2 * kStep < kCount) {
    OddEvenMerge<kFirst, kCount, 2 * kStep>(v);
    OddEvenMerge<kFirst + kStep, kCount, 2 * kStep>(v);
    OrderPairs<kFirst + kStep, 2 * kStep, kStep, kFirst + kCount>(v);
  } else {
    Order(v[kFirst], v[kFirst + kStep]);
  }
}
template <int kFirst, int kCount, class V>
HWY_INLINE void SortColumns(V* v) {
  if constexpr (kCount > 1) {
    SortColumns<kFirst, kCount / 2>(v);
    SortColumns<kFirst + kCount / 2, kCount / 2>(v);
    OddEvenMerge<kFirst, kCount, 1>(v);
  }
}
// Each column is bitonic; afterwards in order.
template <int kFirst, int kCount, class V>
HWY_INLINE void MergeColumns(V* v) {
  if constexpr (kCount > 1) {
    OrderPairs<kFirst, 1, kCount / 2, kFirst + kCount>(v);
    MergeColumns<kFirst, kCount / 2>(v);
    MergeColumns<kFirst + kCount / 2, kCount / 2>(v);
  }
}

// Lanes i ^ x of v.
template <int kXor, class T>
HWY_INLINE WordVec<T> SwapLanes(WordVec<T> v) {
  const Words<T> d;
  if constexpr (kXor == 1) {
    return hn::Reverse2(d, v);
  } else {
    return hn::TableLookupLanes(v, hn::IndicesFromVec(d, hn::Xor(hn::Iota(d, T{0}), hn::Set(d, T{kXor}))));
  }
}
template <int kBit, class T>
HWY_INLINE auto LanesWith() {
  const Words<T> d;
  return hn::TestBit(hn::Iota(d, T{0}), hn::Set(d, T{kBit}));
}

// Rows kRow and kRows - 1 - kRow: the two halves of each group of 2 kColumns columns meet, the second one backwards.
template <int kRow, int kRows, int kColumns, class T>
HWY_INLINE void MeetMirrored(WordVec<T>* v) {
  if constexpr (2 * kRow < kRows) {
    const auto upper = LanesWith<kColumns, T>();
    const WordVec<T> a = v[kRow], b = SwapLanes<2 * kColumns - 1, T>(v[kRows - 1 - kRow]);
    const WordVec<T> lo = hn::Min(a, b), hi = hn::Max(a, b);
    v[kRow] = hn::IfThenElse(upper, hi, lo);
    if constexpr (kRow != kRows - 1 - kRow)
      v[kRows - 1 - kRow] = SwapLanes<2 * kColumns - 1, T>(hn::IfThenElse(upper, lo, hi));
    MeetMirrored<kRow + 1, kRows, kColumns, T>(v);
  }
}
// Columns c and c ^ kColumns meet in each row.
template <int kRow, int kRows, int kColumns, class T>
HWY_INLINE void MeetColumns(WordVec<T>* v) {
  if constexpr (kRow < kRows) {
    const WordVec<T> other = SwapLanes<kColumns, T>(v[kRow]);
    v[kRow] = hn::IfThenElse(LanesWith<kColumns, T>(), hn::Max(v[kRow], other), hn::Min(v[kRow], other));
    MeetColumns<kRow + 1, kRows, kColumns, T>(v);
  }
}
template <int kRows, int kColumns, class T>
HWY_INLINE void MeetAllBelow(WordVec<T>* v) {
  if constexpr (kColumns >= 1) {
    MeetColumns<0, kRows, kColumns, T>(v);
    MeetAllBelow<kRows, kColumns / 2, T>(v);
  }
}
// Sorted groups of kColumns columns are merged two by two, until there is one.
template <int kRows, int kColumns, class T>
HWY_INLINE void MergeGroups(WordVec<T>* v) {
  if constexpr (kColumns < static_cast<int>(HWY_LANES(T))) {
    MeetMirrored<0, kRows, kColumns, T>(v);
    MeetAllBelow<kRows, kColumns / 2, T>(v);
    MergeColumns<0, kRows>(v);
    MergeGroups<kRows, 2 * kColumns, T>(v);
  }
}

// Vector kRow of a; words from n on count as the largest.
template <int kRow, int kRows, class T>
HWY_INLINE void LoadRows(const T* a, int64_t n, WordVec<T>* v) {
  if constexpr (kRow < kRows) {
    const Words<T> d;
    constexpr int64_t kLanes = HWY_LANES(T);
    const WordVec<T> last = hn::Set(d, std::numeric_limits<T>::max());
    const int64_t left = n - kRow * kLanes;
    if (left >= kLanes) {
      v[kRow] = hn::LoadU(d, a + kRow * kLanes);
    } else {
      v[kRow] = left <= 0
                    ? last
                    : hn::IfThenElse(hn::FirstN(d, static_cast<size_t>(left)), hn::LoadU(d, a + kRow * kLanes), last);
    }
    LoadRows<kRow + 1, kRows>(a, n, v);
  }
}
template <int kRow, int kRows, class T>
HWY_INLINE void StoreRows(const WordVec<T>* v, T* to) {
  if constexpr (kRow < kRows) {
    hn::Store(v[kRow], Words<T>(), to + kRow * HWY_LANES(T));
    StoreRows<kRow + 1, kRows>(v, to);
  }
}
template <int kRows, class T>
HWY_NOINLINE void SortRows(T* a, int64_t n) {
  constexpr int64_t kLanes = HWY_LANES(T);
  WordVec<T> v[kRows];
  LoadRows<0, kRows>(a, n, v);
  SortColumns<0, kRows>(v);
  MergeGroups<kRows, 1, T>(v);
  HWY_ALIGN T sorted[kRows * kLanes];
  StoreRows<0, kRows>(v, sorted);
  // Column by column.
  int64_t lane = 0;
  for (; (lane + 1) * kRows <= n; ++lane) {
    for (int64_t r = 0; r < kRows; ++r) a[lane * kRows + r] = sorted[r * kLanes + lane];
  }
  for (int64_t r = 0; lane * kRows + r < n; ++r) a[lane * kRows + r] = sorted[r * kLanes + lane];
}
// n <= kSmall<T>.
template <class T>
HWY_INLINE void SortSmall(T* a, int64_t n) {
  constexpr int64_t kLanes = HWY_LANES(T);
  if (n <= 1) return;
  if (n <= 2 * kLanes) {
    SortRows<2>(a, n);
  } else if (n <= 4 * kLanes) {
    SortRows<4>(a, n);
  } else if (n <= 8 * kLanes) {
    SortRows<(kMaxRows < 8 ? kMaxRows : 8)>(a, n);
  } else {
    SortRows<kMaxRows>(a, n);
  }
}

// A word of a that is not the least: about the median of three vectors. n > kSmall<T>.
template <class T>
HWY_INLINE T Pivot(const T* a, int64_t n) {
  const Words<T> d;
  constexpr int64_t kLanes = HWY_LANES(T);
  WordVec<T> x = hn::LoadU(d, a), y = hn::LoadU(d, a + (n / 2 - kLanes / 2)), z = hn::LoadU(d, a + (n - kLanes));
  Order(x, y);
  WordVec<T> middle[1] = {hn::Max(x, hn::Min(y, z))};
  MergeGroups<1, 1, T>(middle);
  HWY_ALIGN T sorted[kLanes];
  hn::Store(middle[0], d, sorted);
  return sorted[kLanes / 2];
}

#if HWY_TARGET == HWY_AVX2
// For eight lanes and each mask: the numbers of the lanes that are set, then the others.
struct LaneOrders {
  uint8_t lane[256][8];
  constexpr LaneOrders() : lane() {
    for (int mask = 0; mask < 256; ++mask) {
      int at = 0;
      for (int wanted = 1; wanted >= 0; --wanted) {
        for (int i = 0; i < 8; ++i) {
          if ((mask >> i & 1) == wanted) lane[mask][at++] = static_cast<uint8_t>(i);
        }
      }
    }
  }
};
alignas(64) constexpr LaneOrders kLaneOrders;
#endif

// The lanes that are set in the mask come first, in order; what the others hold is open.
template <class T>
HWY_INLINE WordVec<T> SetLanesFirst(WordVec<T> v, hn::Mask<Words<T>> mask) {
  const Words<T> d;
#if HWY_TARGET == HWY_AVX2
  // Words of 64 bits are pairs of 32.
  const hn::Repartition<int32_t, Words<T>> d32;
  const hn::Rebind<uint8_t, decltype(d32)> d8;
  uint8_t bits = 0;
  hn::StoreMaskBits(d32, hn::MaskFromVec(hn::BitCast(d32, hn::VecFromMask(d, mask))), &bits);
  const auto order = hn::PromoteTo(d32, hn::LoadU(d8, kLaneOrders.lane[bits]));
  return hn::BitCast(d, hn::TableLookupLanes(hn::BitCast(d32, v), hn::IndicesFromVec(d32, order)));
#elif HWY_TARGET == HWY_AVX3
  // Highway's version looks the order up in a table, which GCC copies to the stack at each use.
  (void)d;
  if constexpr (sizeof(T) == 8)
    return WordVec<T>{_mm512_maskz_compress_epi64(mask.raw, v.raw)};
  else
    return WordVec<T>{_mm512_maskz_compress_epi32(mask.raw, v.raw)};
#else
  (void)d;
  return hn::Compress(v, mask);
#endif
}

// Words below the pivot come first; returns their number. spare: room for n words and a vector.
template <class T>
HWY_INLINE int64_t Partition(T* a, int64_t n, T pivot, T* spare) {
  const Words<T> d;
  constexpr int64_t kLanes = HWY_LANES(T);
  const WordVec<T> p = hn::Set(d, pivot);
  int64_t low = 0, high = 0, i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const WordVec<T> v = hn::LoadU(d, a + i);
    const auto below = hn::Lt(v, p);
    hn::StoreU(SetLanesFirst<T>(v, below), d, a + low);
    hn::StoreU(SetLanesFirst<T>(v, hn::Not(below)), d, spare + high);
    const int64_t count = static_cast<int64_t>(hn::CountTrue(d, below));
    low += count;
    high += kLanes - count;
  }
  for (; i < n; ++i) {
    const T w = a[i];
    const bool below = w < pivot;
    a[low] = w;
    spare[high] = w;
    low += below;
    high += !below;
  }
  std::memcpy(a + low, spare, high * sizeof(T));
  return low;
}

inline int DepthFor(int64_t n) { return 2 * (64 - __builtin_clzll(static_cast<uint64_t>(n | 1))); }

template <class T>
void SortRange(T* a, int64_t n, T* spare, int depth) {
  while (n > kSmall<T>) {
    if (depth-- == 0) {
      std::sort(a, a + n);
      return;
    }
    const int64_t low = Partition(a, n, Pivot(a, n), spare);
    SortRange(a, low, spare, depth);
    a += low;
    n -= low;
  }
  SortSmall(a, n);
}
template <class T>
HWY_INLINE void SortWords(T* a, int64_t n, T* spare) {
  SortRange(a, n, spare, DepthFor(n));
}

// a[k] becomes what it is in the sorted order, smaller words come before it.
template <class T>
void SelectWord(T* a, int64_t n, int64_t k, T* spare) {
  for (int depth = DepthFor(n); n > kSmall<T>; --depth) {
    if (depth == 0) {
      std::nth_element(a, a + k, a + n);
      return;
    }
    const int64_t low = Partition(a, n, Pivot(a, n), spare);
    if (k < low) {
      n = low;
    } else {
      a += low;
      n -= low;
      k -= low;
    }
  }
  SortSmall(a, n);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu
HWY_AFTER_NAMESPACE();

#endif
