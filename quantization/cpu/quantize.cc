// Numbers to integers and back. All arithmetic is float32 with the zero point added after rounding (exact below 2^24);
// int32 goes by double, element by element.
#include "quantization/cpu/quantize.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "tensor/core/error.h"
#include "tensor/core/parallel.h"
#include "tensor/cpu/support/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "quantization/cpu/quantize.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

using DF = hn::ScalableTag<float>;
using DI = hn::RebindToSigned<DF>;
constexpr DF kF;
constexpr DI kI;
template <class B>
using DB = hn::Rebind<B, DF>;
constexpr int64_t kLanes = HWY_LANES(float);

// Calls step(i, lanes) for runs of a vector, the last one shorter.
template <class Step>
HWY_INLINE void Runs(int64_t n, const Step& step) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) step(i, kLanes);
  if (i < n) step(i, n - i);
}
template <class D>
HWY_INLINE hn::Vec<D> Read(D d, const hn::TFromD<D>* p, int64_t lanes) {
  if (lanes == kLanes) return hn::LoadU(d, p);
  hn::TFromD<D> few[kLanes] = {};
  std::memcpy(few, p, static_cast<size_t>(lanes) * sizeof(*p));
  return hn::LoadU(d, few);
}
template <class D>
HWY_INLINE void Write(D d, hn::Vec<D> v, hn::TFromD<D>* p, int64_t lanes) {
  if (lanes == kLanes) return hn::StoreU(v, d, p);
  hn::TFromD<D> few[kLanes];
  hn::StoreU(v, d, few);
  std::memcpy(p, few, static_cast<size_t>(lanes) * sizeof(*p));
}
HWY_INLINE hn::Vec<DF> Set(double x) { return hn::Set(kF, static_cast<float>(x)); }

// A vector of numbers as integers. Bounds are integers, so that cutting before rounding is the same as after.
struct Levels {
  explicit Levels(const Affine& a)
      : inverse(hn::Set(kF, a.inverse)),
        low(Set(static_cast<double>(a.low - a.zero_point))),
        high(Set(static_cast<double>(a.high - a.zero_point))),
        zero(hn::Set(kI, static_cast<int32_t>(a.zero_point))) {}
  HWY_INLINE hn::Vec<DI> Of(hn::Vec<DF> x) const {
    return hn::Add(hn::NearestInt(hn::Min(hn::Max(hn::Mul(x, inverse), low), high)), zero);
  }
  hn::Vec<DF> inverse, low, high;
  hn::Vec<DI> zero;
};
template <class B>
void QuantizeBytes(const float* x, int64_t n, const Affine& a, B* out) {
  const Levels levels(a);
  Runs(n, [&](int64_t i, int64_t lanes)
              HWY_ATTR { Write(DB<B>(), hn::DemoteTo(DB<B>(), levels.Of(Read(kF, x + i, lanes))), out + i, lanes); });
}
template <class B>
void DequantizeBytes(const B* x, int64_t n, const Affine& a, float* out) {
  const auto scale = hn::Set(kF, a.scale), zero = Set(static_cast<double>(a.zero_point));
  Runs(n, [&](int64_t i, int64_t lanes) HWY_ATTR {
    const auto whole = hn::ConvertTo(kF, hn::PromoteTo(kI, Read(DB<B>(), x + i, lanes)));
    Write(kF, hn::Mul(hn::Sub(whole, zero), scale), out + i, lanes);
  });
}
template <class B>
void RequantizeRow(const SumsOf& s, const int32_t* sums, B* out) {
  const auto zero = Set(static_cast<double>(s.zero_point)), low = Set(static_cast<double>(s.low)),
             high = Set(static_cast<double>(s.high));
  Runs(s.columns, [&](int64_t j, int64_t lanes) HWY_ATTR {
    auto whole = Read(kI, sums + j, lanes);
    if (s.offset != nullptr) whole = hn::Sub(whole, Read(kI, s.offset + j, lanes));
    auto v = hn::ConvertTo(kF, whole);
    if (s.bias != nullptr) v = hn::Add(v, Read(kF, s.bias + j, lanes));
    v = hn::Add(hn::Round(hn::Mul(v, Read(kF, s.factor + j, lanes))), zero);
    const auto level = hn::ConvertTo(kI, hn::Min(hn::Max(v, low), high));
    Write(DB<B>(), hn::DemoteTo(DB<B>(), level), out + j, lanes);
  });
}
void ScaleRow(const SumsOf& s, const int32_t* sums, float* out) {
  Runs(s.columns, [&](int64_t j, int64_t lanes) HWY_ATTR {
    auto whole = Read(kI, sums + j, lanes);
    if (s.offset != nullptr) whole = hn::Sub(whole, Read(kI, s.offset + j, lanes));
    auto v = hn::Mul(hn::ConvertTo(kF, whole), Read(kF, s.factor + j, lanes));
    if (s.bias != nullptr) v = hn::Add(v, Read(kF, s.bias + j, lanes));
    Write(kF, v, out + j, lanes);
  });
}

}  // namespace

void Quantize(const float* x, int64_t n, const Affine& a, bool is_unsigned, void* out) {
  is_unsigned ? QuantizeBytes(x, n, a, static_cast<uint8_t*>(out)) : QuantizeBytes(x, n, a, static_cast<int8_t*>(out));
}
void Dequantize(const void* x, int64_t n, const Affine& a, bool is_unsigned, float* out) {
  is_unsigned ? DequantizeBytes(static_cast<const uint8_t*>(x), n, a, out)
              : DequantizeBytes(static_cast<const int8_t*>(x), n, a, out);
}
void FakeQuantize(const float* x, int64_t n, const Affine& a, float* out, uint8_t* mask) {
  const auto inverse = hn::Set(kF, a.inverse), scale = hn::Set(kF, a.scale),
             zero = Set(static_cast<double>(a.zero_point)), low = Set(static_cast<double>(a.low)),
             high = Set(static_cast<double>(a.high));
  Runs(n, [&](int64_t i, int64_t lanes) HWY_ATTR {
    const auto level = hn::Add(hn::Round(hn::Mul(Read(kF, x + i, lanes), inverse)), zero);
    const auto cut = hn::Min(hn::Max(level, low), high);
    Write(kF, hn::Mul(hn::Sub(cut, zero), scale), out + i, lanes);
    const auto kept = hn::IfThenElseZero(hn::RebindMask(kI, hn::Eq(level, cut)), hn::Set(kI, 1));
    Write(DB<uint8_t>(), hn::DemoteTo(DB<uint8_t>(), kept), mask + i, lanes);
  });
}
void KeepWhere(const float* x, const uint8_t* mask, int64_t n, float* out) {
  Runs(n, [&](int64_t i, int64_t lanes) HWY_ATTR {
    const auto kept = hn::PromoteTo(kI, Read(DB<uint8_t>(), mask + i, lanes));
    const auto where = hn::RebindMask(kF, hn::Ne(kept, hn::Zero(kI)));
    Write(kF, hn::IfThenElseZero(where, Read(kF, x + i, lanes)), out + i, lanes);
  });
}
void Requantize(const SumsOf& s, DType dtype, void* out) {
  const int64_t from = s.sums_row ? s.sums_row : s.columns, to = s.out_row ? s.out_row : s.columns;
  for (int64_t i = 0; i < s.rows; ++i) {
    const int32_t* sums = s.sums + i * from;
    if (dtype == DType::kFloat32)
      ScaleRow(s, sums, static_cast<float*>(out) + i * to);
    else if (dtype == DType::kUInt8)
      RequantizeRow(s, sums, static_cast<uint8_t*>(out) + i * to);
    else
      RequantizeRow(s, sums, static_cast<int8_t*>(out) + i * to);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::cpu {
namespace {

TESSERA_SIMD_TABLE(Quantize);
TESSERA_SIMD_TABLE(Dequantize);
TESSERA_SIMD_TABLE(FakeQuantize);
TESSERA_SIMD_TABLE(KeepWhere);
TESSERA_SIMD_TABLE(Requantize);
constexpr int64_t kPiece = 32768;

}  // namespace

void quantize(const float* x, int64_t n, const Affine& a, DType dtype, void* out) {
  parallel_ranges(n, kPiece, [&](int64_t begin, int64_t end) {
    if (dtype != DType::kInt32) {
      TESSERA_SIMD(Quantize)
      (x + begin, end - begin, a, dtype == DType::kUInt8, static_cast<char*>(out) + begin);
      return;
    }
    const double low = static_cast<double>(a.low), high = static_cast<double>(a.high);
    for (int64_t i = begin; i < end; ++i) {
      const double level = std::nearbyint(x[i] * a.inverse) + static_cast<double>(a.zero_point);
      static_cast<int32_t*>(out)[i] = static_cast<int32_t>(level > low ? std::min(level, high) : low);
    }
  });
}

void dequantize(DType dtype, const void* x, int64_t n, const Affine& a, float* out) {
  parallel_ranges(n, kPiece, [&](int64_t begin, int64_t end) {
    if (dtype != DType::kInt32) {
      TESSERA_SIMD(Dequantize)
      (static_cast<const char*>(x) + begin, end - begin, a, dtype == DType::kUInt8, out + begin);
      return;
    }
    for (int64_t i = begin; i < end; ++i)
      out[i] = static_cast<float>(static_cast<const int32_t*>(x)[i] - a.zero_point) * a.scale;
  });
}

void fake_quantize(const float* x, int64_t n, const Affine& a, float* out, uint8_t* mask) {
  parallel_ranges(n, kPiece, [&](int64_t begin, int64_t end) {
    TESSERA_SIMD(FakeQuantize)(x + begin, end - begin, a, out + begin, mask + begin);
  });
}

void keep_where(const float* x, const uint8_t* mask, int64_t n, float* out) {
  parallel_ranges(n, kPiece, [&](int64_t begin, int64_t end) {
    TESSERA_SIMD(KeepWhere)(x + begin, mask + begin, end - begin, out + begin);
  });
}

void requantize_block(const SumsOf& s, DType dtype, void* out) { TESSERA_SIMD(Requantize)(s, dtype, out); }

void requantize(const SumsOf& s, DType dtype, void* out) {
  const int64_t from = s.sums_row ? s.sums_row : s.columns, to = s.out_row ? s.out_row : s.columns;
  parallel_ranges(s.rows, std::max<int64_t>(1, kPiece / std::max<int64_t>(1, s.columns)),
                  [&](int64_t begin, int64_t end) {
                    SumsOf part = s;
                    part.sums += begin * from;
                    part.rows = end - begin;
                    requantize_block(part, dtype, static_cast<char*>(out) + begin * to * item_size(dtype));
                  });
}

}  // namespace tessera::cpu
#endif
