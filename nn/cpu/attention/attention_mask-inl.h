// What takes keys away from queries: masks and causality, for one SIMD target and one type of the arithmetic.
#if defined(TENSOR_CPU_ATTENTION_MASK_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TENSOR_CPU_ATTENTION_MASK_INL_H_
#undef TENSOR_CPU_ATTENTION_MASK_INL_H_
#else
#define TENSOR_CPU_ATTENTION_MASK_INL_H_
#endif

#include "hwy/highway.h"
#include "nn/cpu/attention/attention_tile-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::internal {
namespace HWY_NAMESPACE {
namespace {

constexpr int64_t kKeys = 64;  // of a block

// What is added to a block of scores, or takes its place (bool: 0 or -infinity).
struct MaskBlock {
  const T* data = nullptr;  // rows of keys, as wide as the panel; or one number for each key
  bool per_key = false;
  bool select = false;
};

// What a mask's elements, side by side, add. The first gives how many of them it did: whole vectors.
HWY_INLINE int64_t BoolVectors(const uint8_t* from, int64_t n, float* to) {
  const hn::ScalableTag<float> df;
  const hn::RebindToSigned<decltype(df)> di;
  const hn::Rebind<uint8_t, decltype(df)> bytes;
  const int64_t lanes = HWY_MAX_BYTES / 4;
  int64_t j = 0;
  for (; j + lanes <= n; j += lanes) {
    const auto hidden = hn::RebindMask(df, hn::Eq(hn::PromoteTo(di, hn::LoadU(bytes, from + j)), hn::Zero(di)));
    hn::StoreU(hn::IfThenElseZero(hidden, hn::Set(df, -std::numeric_limits<float>::infinity())), df, to + j);
  }
  return j;
}
HWY_INLINE int64_t BoolVectors(const uint8_t*, int64_t, double*) { return 0; }
HWY_INLINE void DenseMaskRow(const uint8_t* from, int64_t n, T* to) {
  for (int64_t j = BoolVectors(from, n, to); j < n; ++j) to[j] = from[j] ? T{0} : -kInfinity;
}
HWY_INLINE void DenseMaskRow(const T* from, int64_t n, T* to) {
  int64_t j = 0;
  for (; j + kLanes <= n; j += kLanes) hn::StoreU(hn::LoadU(d, from + j), d, to + j);
  for (; j < n; ++j) to[j] = from[j];
}

// n elements of the mask along the keys.
inline void MaskRow(const AttentionMask& m, DType t, int64_t at, int64_t n, T* to) {
  if (m.dtype == DType::kBool) {
    const uint8_t* from = static_cast<const uint8_t*>(m.data) + at;
    if (m.key_stride == 1) return DenseMaskRow(from, n, to);
    for (int64_t j = 0; j < n; ++j) to[j] = from[j * m.key_stride] ? T{0} : -kInfinity;
  } else if (m.dtype == DType::kFloat32 && m.key_stride == 1 && sizeof(T) == 4) {
    DenseMaskRow(static_cast<const T*>(m.data) + at, n, to);
  } else if (m.dtype == DType::kFloat32) {
    const float* from = static_cast<const float*>(m.data) + at;
    for (int64_t j = 0; j < n; ++j) to[j] = static_cast<T>(from[j * m.key_stride]);
  } else if (m.key_stride == 1) {
    Widen(t, static_cast<const char*>(m.data) + at * static_cast<int64_t>(item_size(t)), n, to);
  } else {
    for (int64_t j = 0; j < n; ++j)
      Widen(t, static_cast<const char*>(m.data) + (at + j * m.key_stride) * static_cast<int64_t>(item_size(t)), 1,
            to + j);
  }
}

// Whether n numbers are all +0: nothing to add.
HWY_INLINE bool AllZero(const T* x, int64_t n) {
  const hn::RebindToUnsigned<D> du;
  auto bits = hn::Zero(du);
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) bits = hn::Or(bits, hn::BitCast(du, hn::LoadU(d, x + i)));
  bool zero = hn::AllTrue(du, hn::Eq(bits, hn::Zero(du)));
  for (; i < n; ++i) zero &= x[i] == T{0} && !std::signbit(x[i]);
  return zero;
}

// The same of rows of a mask, if it is one of T that can be read as it lies.
HWY_INLINE bool AllZeroRows(const AttentionMask& m, int64_t at, int64_t rows, int64_t n) {
  if (m.dtype != (sizeof(T) == 4 ? DType::kFloat32 : DType::kFloat64) || m.key_stride != 1) return false;
  const T* const from = static_cast<const T*>(m.data) + at;
  int64_t r = 0;
  while (r < rows && AllZero(from + r * m.query_stride, n)) ++r;
  return r == rows;
}

// The mask of queries [i, i + rows) and keys [j, j + n) of a head. room: kKeys times the panel's width for rows, as
// much again for the block.
template <int kVecs>
MaskBlock MaskFor(const AttentionMask& m, DType t, int64_t b, int64_t h, int64_t i, int64_t rows, int64_t j, int64_t n,
                  T* room) {
  MaskBlock out;
  if (m.data == nullptr) return out;
  out.select = m.dtype == DType::kBool;
  const int64_t at = b * m.batch_stride + h * m.head_stride + i * m.query_stride + j * m.key_stride;
  const T factor = static_cast<T>(kLog2e);
  if (m.query_stride == 0) {
    MaskRow(m, t, at, n, room);
    for (int64_t q = 0; q < n; ++q) room[q] *= factor;
    out.per_key = true;
    out.data = room;
    return out;
  }
  if (AllZeroRows(m, at, rows, n)) return out;
  // Copied first: rows of a large mask would meet in few cache sets.
  for (int64_t r = 0; r < rows; ++r) MaskRow(m, t, at + r * m.query_stride, n, room + r * n);
  T* const block = room + kVecs * kLanes * kKeys;
  IntoPanel<kVecs>(room, n, rows, n, factor, block);
  out.data = block;
  return out;
}

template <int kVecs, bool kPerKey, bool kSelect>
HWY_INLINE void AddMask(const T* HWY_RESTRICT mask, int64_t n, T* HWY_RESTRICT scores) {
  constexpr int64_t kWidth = kVecs * kLanes;
  for (int64_t k = 0; k < n; ++k)
    for (int64_t v = 0; v < kWidth; v += kLanes) {
      const V m = kPerKey ? hn::Set(d, mask[k]) : hn::LoadU(d, mask + k * kWidth + v),
              s = hn::LoadU(d, scores + k * kWidth + v);
      hn::StoreU(kSelect ? hn::IfThenElse(hn::Eq(m, hn::Zero(d)), s, m) : hn::Add(s, m), d, scores + k * kWidth + v);
    }
}
template <int kVecs>
HWY_NOINLINE void ApplyMask(const MaskBlock& m, int64_t n, T* scores) {
  if (m.per_key)
    return m.select ? AddMask<kVecs, true, true>(m.data, n, scores) : AddMask<kVecs, true, false>(m.data, n, scores);
  return m.select ? AddMask<kVecs, false, true>(m.data, n, scores) : AddMask<kVecs, false, false>(m.data, n, scores);
}
// Keys [key, key + n) against the panel's queries, the first of which is `query`: those after a query do not count.
template <int kVecs>
HWY_NOINLINE void ApplyCausal(int64_t query, int64_t key, int64_t n, T* scores) {
  constexpr int64_t kWidth = kVecs * kLanes;
  for (int64_t k = max64(0, query + 1 - key); k < n; ++k) {
    const int64_t none = min64(key + k - query, kWidth);  // queries before this key
    for (int64_t v = 0; v < kWidth; v += kLanes) {
      const int64_t count = min64(kLanes, max64(0, none - v));
      T* const to = scores + k * kWidth + v;
      hn::StoreU(hn::IfThenElse(hn::FirstN(d, count), hn::Set(d, -kInfinity), hn::LoadU(d, to)), d, to);
    }
  }
}

// The keys that queries up to this one may see: those before the result.
inline int64_t key_limit(const AttentionShape& s, int64_t last_query) {
  return s.causal ? min64(s.keys, last_query + 1) : s.keys;
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu::internal
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
