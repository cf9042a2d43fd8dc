// Masks in vectors: counting, positions of what is set, and selection.
#include "tensor/cpu/index/index_simd.h"

#include <cstring>

#include "tensor/cpu/support/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tensor/cpu/index/mask_simd.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

// Which lanes of D the mask bytes from p on set.
template <class D>
HWY_INLINE hn::Mask<D> SetLanes(D d, const uint8_t* p) {
  const hn::RebindToUnsigned<D> du;
  const hn::Rebind<uint32_t, D> d32;
  const auto words = hn::PromoteTo(d32, hn::LoadU(hn::Rebind<uint8_t, D>(), p));
  if constexpr (sizeof(hn::TFromD<D>) == 8) {
    return hn::RebindMask(d, hn::Ne(hn::PromoteTo(du, words), hn::Zero(du)));
  } else {
    return hn::RebindMask(d, hn::Ne(words, hn::Zero(d32)));
  }
}

template <class T>
int64_t SelectRun(const uint8_t* mask, const T* from, int64_t n, T* out, int64_t room) {
  const hn::ScalableTag<T> d;
  constexpr int64_t kLanes = HWY_LANES(T);
  const T* const begin = out;
  const T* const end = out + room;
  int64_t i = 0;
  for (; i + kLanes <= n && out != end; i += kLanes) {
    const auto m = SetLanes(d, mask + i);
    const int64_t count = static_cast<int64_t>(hn::CountTrue(d, m));
    const auto set = hn::Compress(hn::LoadU(d, from + i), m);
    if (end - out >= kLanes) [[likely]] {
      hn::StoreU(set, d, out);
    } else {  // a whole vector would end behind the room
      HWY_ALIGN T part[kLanes];
      hn::Store(set, d, part);
      std::memcpy(out, part, static_cast<size_t>(count) * sizeof(T));
    }
    out += count;
  }
  for (; i < n && out != end; ++i) {
    *out = from[i];
    out += mask[i] != 0;
  }
  return out - begin;
}

// Elements that no vector instruction of all levels compresses.
template <class T>
int64_t SelectSmall(const uint8_t* mask, const T* from, int64_t n, T* out, int64_t room) {
  const T* const begin = out;
  const T* const end = out + room;
  int64_t i = 0;
  for (; i + 8 <= n && end - out >= 8; i += 8) {
    for (int64_t k = 0; k < 8; ++k) {
      *out = from[i + k];
      out += mask[i + k] != 0;
    }
  }
  for (; i < n && out != end; ++i) {
    *out = from[i];
    out += mask[i] != 0;
  }
  return out - begin;
}

}  // namespace

int64_t CountSet(const uint8_t* mask, int64_t n) {
  const hn::ScalableTag<uint8_t> d;
  const hn::Repartition<uint64_t, decltype(d)> d64;
  constexpr int64_t kLanes = HWY_LANES(uint8_t);
  const auto one = hn::Set(d, 1);
  auto sum0 = hn::Zero(d64), sum1 = hn::Zero(d64);
  int64_t i = 0;
  for (; i + 2 * kLanes <= n; i += 2 * kLanes) {
    sum0 = hn::Add(sum0, hn::SumsOf8(hn::Min(hn::LoadU(d, mask + i), one)));
    sum1 = hn::Add(sum1, hn::SumsOf8(hn::Min(hn::LoadU(d, mask + i + kLanes), one)));
  }
  int64_t count = static_cast<int64_t>(hn::GetLane(hn::SumOfLanes(d64, hn::Add(sum0, sum1))));
  for (; i < n; ++i) count += mask[i] != 0;
  return count;
}

// Positions are compressed as 32-bit numbers: n is below 2^31.
int64_t WritePositions(const uint8_t* mask, int64_t n, int64_t first, int64_t* out, int64_t room) {
  const hn::ScalableTag<uint32_t> d;
  const hn::ScalableTag<uint64_t> d64;
  constexpr int64_t kLanes = HWY_LANES(uint32_t);
  const int64_t* const begin = out;
  const int64_t* const end = out + room;
  const auto base = hn::Set(d64, static_cast<uint64_t>(first));
  auto at = hn::Iota(d, 0);
  int64_t i = 0;
  for (; i + kLanes <= n && out != end; i += kLanes) {
    const auto m = SetLanes(d, mask + i);
    const int64_t count = static_cast<int64_t>(hn::CountTrue(d, m));
    const auto set = hn::Compress(at, m);
    const auto low = hn::Add(base, hn::PromoteTo(d64, hn::LowerHalf(set))),
               high = hn::Add(base, hn::PromoteTo(d64, hn::UpperHalf(hn::Half<decltype(d)>(), set)));
    at = hn::Add(at, hn::Set(d, static_cast<uint32_t>(kLanes)));
    if (end - out >= kLanes) [[likely]] {
      hn::StoreU(low, d64, reinterpret_cast<uint64_t*>(out));
      hn::StoreU(high, d64, reinterpret_cast<uint64_t*>(out) + kLanes / 2);
    } else {
      HWY_ALIGN uint64_t part[kLanes];
      hn::Store(low, d64, part);
      hn::Store(high, d64, part + kLanes / 2);
      std::memcpy(out, part, static_cast<size_t>(count) * sizeof(int64_t));
    }
    out += count;
  }
  for (; i < n && out != end; ++i) {
    *out = first + i;
    out += mask[i] != 0;
  }
  return out - begin;
}

int64_t SelectElements(int64_t item_size, const uint8_t* mask, const void* from, int64_t n, void* out, int64_t room) {
  switch (item_size) {
    case 1:
      return SelectSmall(mask, static_cast<const uint8_t*>(from), n, static_cast<uint8_t*>(out), room);
    case 2:
      return SelectSmall(mask, static_cast<const uint16_t*>(from), n, static_cast<uint16_t*>(out), room);
    case 4:
      return SelectRun(mask, static_cast<const uint32_t*>(from), n, static_cast<uint32_t*>(out), room);
    default:
      return SelectRun(mask, static_cast<const uint64_t*>(from), n, static_cast<uint64_t*>(out), room);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::cpu {

TESSERA_SIMD_TABLE(CountSet);
TESSERA_SIMD_TABLE(WritePositions);
TESSERA_SIMD_TABLE(SelectElements);

int64_t count_set(const uint8_t* mask, int64_t n) { return TESSERA_SIMD(CountSet)(mask, n); }
int64_t write_positions(const uint8_t* mask, int64_t n, int64_t first, int64_t* out, int64_t room) {
  return TESSERA_SIMD(WritePositions)(mask, n, first, out, room);
}
int64_t select_elements(int64_t item_size, const uint8_t* mask, const void* from, int64_t n, void* out, int64_t room) {
  return TESSERA_SIMD(SelectElements)(item_size, mask, from, n, out, room);
}

}  // namespace tessera::cpu
#endif
