// Checking indices, gathering, reversing and adding runs of elements in vectors.
#include "tensor/cpu/index/index_simd.h"

#include "tensor/cpu/index/index_internal.h"
#include "tensor/cpu/support/request.h"
#include "tensor/cpu/support/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tensor/cpu/index/index_simd.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

template <class D>
HWY_INLINE hn::Vec<D> Reversed(D d, hn::Vec<D> v) {
  if constexpr (sizeof(hn::TFromD<D>) > 1) {
    return hn::Reverse(d, v);
  } else {
    const hn::Repartition<uint16_t, D> d16;
    const auto pairs = hn::Reverse(d16, hn::BitCast(d16, v));
    return hn::BitCast(d, hn::Or(hn::ShiftLeft<8>(pairs), hn::ShiftRight<8>(pairs)));
  }
}

// The memory of results is apart from that of inputs: vectors at both ends may overlap others, and between them stores
// are aligned.
template <class T>
void ReverseRun(T* to, const T* last, int64_t n, bool stream) {
  const hn::ScalableTag<T> d;
  constexpr int64_t kLanes = HWY_LANES(T);
  const auto put = [&](int64_t i)
                       HWY_ATTR { hn::StoreU(Reversed(d, hn::LoadU(d, last - i - (kLanes - 1))), d, to + i); };
  if (n < kLanes) {
    for (int64_t i = 0; i < n; ++i) to[i] = last[-i];
    return;
  }
  put(0);
  int64_t i = kLanes - static_cast<int64_t>(reinterpret_cast<uintptr_t>(to) / sizeof(T)) % kLanes;
  if (stream) {  // memory is read forwards, as the processor expects
    const int64_t end = i + (n - i) / kLanes * kLanes;
    for (int64_t k = end - kLanes; k >= i; k -= kLanes) {
      const T* const from = last - k - (kLanes - 1);
      __builtin_prefetch(reinterpret_cast<const char*>(from) + kRequestAhead, 0, 2);
      hn::Stream(Reversed(d, hn::LoadU(d, from)), d, to + k);
    }
    i = end;
  }
  for (; i + 2 * kLanes <= n; i += 2 * kLanes) {
    put(i);
    put(i + kLanes);
  }
  for (; i + kLanes <= n; i += kLanes) put(i);
  if (i < n) put(n - kLanes);
}

template <class T>
void AddRun(T* to, const T* from, int64_t n) {
  const hn::ScalableTag<T> d;
  constexpr int64_t kLanes = HWY_LANES(T);
  int64_t i = 0;
  for (; i + 4 * kLanes <= n; i += 4 * kLanes) {
    for (int64_t k = 0; k < 4 * kLanes; k += kLanes)
      hn::StoreU(hn::Add(hn::LoadU(d, to + i + k), hn::LoadU(d, from + i + k)), d, to + i + k);
  }
  for (; i + kLanes <= n; i += kLanes) hn::StoreU(hn::Add(hn::LoadU(d, to + i), hn::LoadU(d, from + i)), d, to + i);
  for (; i < n; ++i) to[i] = static_cast<T>(to[i] + from[i]);
}

template <class T>
void GatherRun(T* out, const T* from, const int64_t* index, int64_t n, int64_t size) {
  int64_t i = 0;
#if HWY_TARGET != HWY_SSE4
  const hn::ScalableTag<T> d;
  constexpr int64_t kLanes = HWY_LANES(T);
  if constexpr (sizeof(T) == 8) {
    for (; i + kLanes <= n; i += kLanes)
      hn::StoreU(hn::GatherIndex(d, from, hn::LoadU(hn::ScalableTag<int64_t>(), index + i)), d, out + i);
  } else if (size <= INT32_MAX) {
    const hn::ScalableTag<uint64_t> d64;
    const hn::ScalableTag<int32_t> d32;
    const hn::Half<hn::ScalableTag<uint32_t>> dh;
    const hn::ScalableTag<uint32_t> du;
    const uint64_t* x = reinterpret_cast<const uint64_t*>(index);
    for (; i + kLanes <= n; i += kLanes) {
      const auto low = hn::TruncateTo(dh, hn::LoadU(d64, x + i)),
                 high = hn::TruncateTo(dh, hn::LoadU(d64, x + i + kLanes / 2));
      hn::StoreU(hn::GatherIndex(d, from, hn::BitCast(d32, hn::Combine(du, high, low))), d, out + i);
    }
  }
#endif
  (void)size;
  for (; i < n; ++i) out[i] = from[index[i]];
}

// Numbers from so many on lie in far memory. Those some way ahead are requested then, to the second cache: there is
// room for more at once than in the buffers of the first.
constexpr int64_t kFarNumbers = int64_t{1} << 18;
HWY_INLINE void RequestNext(const int64_t* x, int64_t n) {
  for (int64_t k = 0; k < n; k += 8) __builtin_prefetch(reinterpret_cast<const char*>(x + k) + kRequestAhead, 0, 2);
}

}  // namespace

// Negative numbers and those past the end set the sign bit of the "or".
bool Within(const int64_t* index, int64_t n, int64_t size) {
  const hn::ScalableTag<int64_t> d;
  constexpr int64_t kLanes = HWY_LANES(int64_t);
  const auto last = hn::Set(d, size - 1);
  auto bad0 = hn::Zero(d), bad1 = hn::Zero(d);
  int64_t i = 0, bad = 0;
  for (; i + 2 * kLanes <= n; i += 2 * kLanes) {
    if (n >= kFarNumbers) RequestNext(index + i, 2 * kLanes);
    const auto a = hn::LoadU(d, index + i), b = hn::LoadU(d, index + i + kLanes);
    bad0 = hn::Or3(bad0, a, hn::Sub(last, a));
    bad1 = hn::Or3(bad1, b, hn::Sub(last, b));
  }
  for (; i < n; ++i) bad |= index[i] < 0 ? index[i] : size - 1 - index[i];
  return bad >= 0 && hn::AllFalse(d, hn::Lt(hn::Or(bad0, bad1), hn::Zero(d)));
}
IndexRange Range(const int64_t* x, int64_t n) {
  const hn::ScalableTag<int64_t> d;
  constexpr int64_t kLanes = HWY_LANES(int64_t);
  auto lo0 = hn::Set(d, x[0]), lo1 = lo0, hi0 = lo0, hi1 = lo0;
  int64_t i = 0;
  for (; i + 2 * kLanes <= n; i += 2 * kLanes) {
    const auto a = hn::LoadU(d, x + i), b = hn::LoadU(d, x + i + kLanes);
    lo0 = hn::Min(lo0, a);
    hi0 = hn::Max(hi0, a);
    lo1 = hn::Min(lo1, b);
    hi1 = hn::Max(hi1, b);
  }
  HWY_ALIGN int64_t l[kLanes], h[kLanes];
  hn::Store(hn::Min(lo0, lo1), d, l);
  hn::Store(hn::Max(hi0, hi1), d, h);
  IndexRange r{x[0], x[0]};
  for (int64_t k = 0; k < kLanes; ++k) r = {HWY_MIN(r.least, l[k]), HWY_MAX(r.greatest, h[k])};
  for (; i < n; ++i) r = {HWY_MIN(r.least, x[i]), HWY_MAX(r.greatest, x[i])};
  return r;
}
void Gather(int64_t item_size, void* out, const void* from, const int64_t* index, int64_t n, int64_t size) {
  if (item_size == 4) return GatherRun(static_cast<int32_t*>(out), static_cast<const int32_t*>(from), index, n, size);
  GatherRun(static_cast<int64_t*>(out), static_cast<const int64_t*>(from), index, n, size);
}
void Reverse(int64_t item_size, void* to, const void* last, int64_t n, bool stream) {
  switch (item_size) {
    case 1:
      return ReverseRun(static_cast<uint8_t*>(to), static_cast<const uint8_t*>(last), n, stream);
    case 2:
      return ReverseRun(static_cast<uint16_t*>(to), static_cast<const uint16_t*>(last), n, stream);
    case 4:
      return ReverseRun(static_cast<uint32_t*>(to), static_cast<const uint32_t*>(last), n, stream);
    default:
      return ReverseRun(static_cast<uint64_t*>(to), static_cast<const uint64_t*>(last), n, stream);
  }
}
bool AddTo(DType t, void* to, const void* from, int64_t n) {
  switch (t) {
    case DType::kFloat32:
      AddRun(static_cast<float*>(to), static_cast<const float*>(from), n);
      return true;
    case DType::kFloat64:
      AddRun(static_cast<double*>(to), static_cast<const double*>(from), n);
      return true;
    case DType::kInt32:
      AddRun(static_cast<uint32_t*>(to), static_cast<const uint32_t*>(from), n);
      return true;
    case DType::kInt64:
      AddRun(static_cast<uint64_t*>(to), static_cast<const uint64_t*>(from), n);
      return true;
    default:
      return false;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::cpu {

TESSERA_SIMD_TABLE(Within);
TESSERA_SIMD_TABLE(Range);
TESSERA_SIMD_TABLE(Gather);
TESSERA_SIMD_TABLE(Reverse);
TESSERA_SIMD_TABLE(AddTo);

bool indices_within(const int64_t* index, int64_t n, int64_t size) { return TESSERA_SIMD(Within)(index, n, size); }
IndexRange range_of(const int64_t* x, int64_t n) { return TESSERA_SIMD(Range)(x, n); }
void gather_elements(int64_t item_size, void* out, const void* from, const int64_t* index, int64_t n, int64_t size) {
  TESSERA_SIMD(Gather)(item_size, out, from, index, n, size);
}
void reverse_elements(int64_t item_size, void* to, const void* last, int64_t n) {
  TESSERA_SIMD(Reverse)(item_size, to, last, n, false);
}
void stream_reversed(int64_t item_size, void* to, const void* last, int64_t n) {
  TESSERA_SIMD(Reverse)(item_size, to, last, n, true);
}
bool add_elements(DType t, void* to, const void* from, int64_t n) { return TESSERA_SIMD(AddTo)(t, to, from, n); }

}  // namespace tessera::cpu
#endif
