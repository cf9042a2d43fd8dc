// Highway loops of the float32 and float64 block kernels. Included by ops_*.cc inside foreach_target.h's passes.
//
// A functor has `template <class D, class V> static V Call(D d, const KernelParam* p, V x...)` and returns a vector, or
// a mask for ops with bool results. One that is long and has two parts, each a chain of steps that wait for another,
// may have `static V First(d, p, x...)` and `static V Second(d, p, V first, x...)` instead and say so, `static
// constexpr bool kStaged = true`: a processor looks ahead by a hundred instructions or two, and keeps busy with many
// short chains.
#if defined(TESSERA_TENSOR_CPU_POINTWISE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_TENSOR_CPU_POINTWISE_INL_H_
#undef TESSERA_TENSOR_CPU_POINTWISE_INL_H_
#else
#define TESSERA_TENSOR_CPU_POINTWISE_INL_H_
#endif

#include <algorithm>
#include <utility>

#include "hwy/highway.h"
#include "tensor/cpu/pointwise/pointwise_table.h"
#include "tensor/cpu/support/request.h"

#ifndef TESSERA_POINTWISE_STREAM_
#define TESSERA_POINTWISE_STREAM_
namespace tessera::cpu {
// Set by the engine around kernels of large fresh results: kernels that can let them go past the caches and request
// their inputs ahead. The engine fences.
[[gnu::tls_model("initial-exec")]] extern constinit thread_local bool stream_results;
}  // namespace tessera::cpu
#endif

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <class D>
using TOf = hn::TFromD<D>;

// A param or constant in every lane.
template <class D>
HWY_INLINE hn::Vec<D> Splat(D d, const KernelParam& p) {
  return hn::Set(d, static_cast<TOf<D>>(p.f));
}
template <class D>
HWY_INLINE hn::Vec<D> Splat(D d, double x) {
  return hn::Set(d, static_cast<TOf<D>>(x));
}

// count <= Lanes(d) elements; the other lanes are 0.
template <class D>
HWY_INLINE hn::Vec<D> LoadTail(D d, const TOf<D>* from, size_t count) {
#if HWY_TARGET == HWY_SSE4  // no masked loads: the plain ones would read beyond the end
  alignas(16) TOf<D> buffer[hn::MaxLanes(d)] = {};
  for (size_t i = 0; i < count; ++i) buffer[i] = from[i];
  return hn::Load(d, buffer);
#else
  return hn::MaskedLoad(hn::FirstN(d, count), d, from);
#endif
}

template <class D>
HWY_INLINE void StoreTail(hn::Vec<D> v, D d, TOf<D>* to, size_t count) {
#if HWY_TARGET == HWY_SSE4
  alignas(16) TOf<D> buffer[hn::MaxLanes(d)];
  hn::Store(v, d, buffer);
  for (size_t i = 0; i < count; ++i) to[i] = buffer[i];
#else
  hn::BlendedStore(v, hn::FirstN(d, count), d, to);
#endif
}

// The line some way behind `to`, which will be written: a result that is in the caches, but not in the nearest, would
// hold up its stores.
HWY_INLINE void RequestResult(void* to) { __builtin_prefetch(static_cast<char*>(to) + 1024, 1); }

// A mask as bytes of 0 and 1.
template <class D, class M>
HWY_INLINE void StoreMask(M m, D d, uint8_t* to) {
#if HWY_TARGET == HWY_AVX3
  const __m128i bytes = _mm_maskz_set1_epi8(m.raw, 1);
  if constexpr (hn::MaxLanes(d) == 16)
    _mm_storeu_si128(reinterpret_cast<__m128i*>(to), bytes);
  else
    _mm_storel_epi64(reinterpret_cast<__m128i*>(to), bytes);
#else
  const hn::Rebind<int32_t, D> di;
  const hn::Rebind<uint8_t, D> du;
  const auto one = hn::IfThenElseZero(m, hn::Set(d, TOf<D>{1}));
  if constexpr (sizeof(TOf<D>) == 4)
    hn::StoreU(hn::DemoteTo(du, hn::ConvertTo(di, one)), du, to);
  else
    hn::StoreU(hn::DemoteTo(du, hn::DemoteTo(di, one)), du, to);
#endif
}

// Functors of two inputs and one or two instructions say so: static constexpr bool kLight = true.
template <class F>
constexpr bool kLight = requires {
  F::kLight;
};

template <class F>
constexpr bool kStaged = requires {
  F::kStaged;
};

// By chunks of a few vectors: the first part of them all, then the second.
template <class T, class F, int kParams, size_t... I>
HWY_INLINE void StagedLoop(TESSERA_KERNEL_PARAMETERS, std::index_sequence<I...>) {
  constexpr int64_t kVectors = 8;
  const hn::ScalableTag<T> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d)), chunk = kVectors * lanes;
  HWY_ALIGN T between[kVectors * hn::MaxLanes(d)];
  HWY_ALIGN T ends[sizeof...(I) + 1][kVectors * hn::MaxLanes(d)];  // of rows that end inside a vector
  KernelParam p[kMaxKernelParams];
  for (int k = 0; k < kParams; ++k) p[k] = params[k];
  const bool stream = stream_results && reinterpret_cast<uintptr_t>(outs[0]) % 64 == 0;
  for (int64_t begin = 0; begin < n; begin += chunk) {
    const int64_t count = std::min(chunk, n - begin), whole = (count + lanes - 1) / lanes * lanes;
    const T* in[] = {static_cast<const T*>(ins[I]) + begin...};
    T* out = static_cast<T*>(outs[0]) + begin;
    if (HWY_UNLIKELY(whole != count)) {
      for (size_t k = 0; k < sizeof...(I); ++k) {
        std::fill(std::copy_n(in[k], count, ends[k]), ends[k] + whole, T{0});
        in[k] = ends[k];
      }
      out = ends[sizeof...(I)];
    }
    for (int64_t i = 0; i < whole; i += lanes) hn::Store(F::First(d, p, hn::LoadU(d, in[I] + i)...), d, between + i);
    for (int64_t i = 0; i < whole; i += lanes) {
      const auto result = F::Second(d, p, hn::Load(d, between + i), hn::LoadU(d, in[I] + i)...);
      if (HWY_UNLIKELY(stream && whole == count))
        hn::Stream(result, d, out + i);
      else
        hn::StoreU(result, d, out + i);
    }
    if (HWY_UNLIKELY(whole != count)) std::copy_n(out, count, static_cast<T*>(outs[0]) + begin);
  }
}

template <class T, class F, int kParams, size_t... I>
HWY_INLINE void PlainLoop(TESSERA_KERNEL_PARAMETERS, std::index_sequence<I...>) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  KernelParam p[kMaxKernelParams];
  for (int k = 0; k < kParams; ++k) p[k] = params[k];
  const T* const in[] = {static_cast<const T*>(ins[I])...};
  T* const out = static_cast<T*>(outs[0]);
  int64_t i = 0;
  const bool stream = stream_results && reinterpret_cast<uintptr_t>(out) % 64 == 0;
  const bool in_place = ((out == in[I]) || ...);
#if HWY_TARGET <= HWY_AVX3
  // What comes from the second cache is taken by narrower vectors where there is little to compute: the loop waits for
  // that cache, whose clock wide ones would lower.
  if constexpr (kLight<F>) {
    constexpr int64_t kNarrow = 32 / sizeof(T), kNear = 16384 / sizeof(T);
    const hn::CappedTag<T, kNarrow> half;
    for (const int64_t end = n > kNear && !stream ? n - 2 * kNarrow : -1; i <= end; i += 2 * kNarrow) {
      const auto low = F::Call(half, p, hn::LoadU(half, in[I] + i)...),
                 high = F::Call(half, p, hn::LoadU(half, in[I] + i + kNarrow)...);
      if (HWY_LIKELY(!in_place)) RequestResult(out + i);
      hn::StoreU(low, half, out + i);
      hn::StoreU(high, half, out + i + kNarrow);
    }
  }
#endif
  for (; i + lanes <= n; i += lanes) {
    const auto result = F::Call(d, p, hn::LoadU(d, in[I] + i)...);
    if (HWY_UNLIKELY(stream)) {
      (request_ahead(in[I] + i), ...);
      hn::Stream(result, d, out + i);
    } else {
      if (HWY_LIKELY(!in_place)) RequestResult(out + i);
      hn::StoreU(result, d, out + i);
    }
  }
  if (i < n) {
    const size_t rest = static_cast<size_t>(n - i);
    StoreTail(F::Call(d, p, LoadTail(d, in[I] + i, rest)...), d, out + i, rest);
  }
}

template <class T, class F, int kParams, size_t... I>
HWY_INLINE void Loop(TESSERA_KERNEL_PARAMETERS, std::index_sequence<I...> inputs) {
  if constexpr (kStaged<F>)
    StagedLoop<T, F, kParams>(TESSERA_KERNEL_ARGUMENTS, inputs);
  else
    PlainLoop<T, F, kParams>(TESSERA_KERNEL_ARGUMENTS, inputs);
}

template <class T, class F, int kParams, size_t... I>
HWY_INLINE void PredicateLoop(TESSERA_KERNEL_PARAMETERS, std::index_sequence<I...>) {
  const hn::ScalableTag<T> d;
  const int64_t lanes = static_cast<int64_t>(hn::Lanes(d));
  KernelParam p[kMaxKernelParams];
  for (int k = 0; k < kParams; ++k) p[k] = params[k];
  const T* const in[] = {static_cast<const T*>(ins[I])...};
  uint8_t* const out = static_cast<uint8_t*>(outs[0]);
  int64_t i = 0;
  const bool large = stream_results;
  for (; i + lanes <= n; i += lanes) {
    if (HWY_UNLIKELY(large)) (request_ahead(in[I] + i), ...);
    StoreMask(F::Call(d, p, hn::LoadU(d, in[I] + i)...), d, out + i);
  }
  if (i < n) {
    const size_t rest = static_cast<size_t>(n - i);
    uint8_t buffer[64];
    StoreMask(F::Call(d, p, LoadTail(d, in[I] + i, rest)...), d, buffer);
    for (size_t k = 0; k < rest; ++k) out[i + static_cast<int64_t>(k)] = buffer[k];
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu
HWY_AFTER_NAMESPACE();

// Per target: NameF32 and NameF64 from functor Name of kIn inputs and kParams params. Once: their run-time choices, of
// the same names.
#ifndef TESSERA_POINTWISE_MACROS_
#define TESSERA_POINTWISE_MACROS_
#define TESSERA_DEFINE_LOOPS(LOOP, Name, kIn, kParams)                                      \
  void Name##F32(TESSERA_KERNEL_PARAMETERS) {                                               \
    LOOP<float, Name, kParams>(TESSERA_KERNEL_ARGUMENTS, std::make_index_sequence<kIn>());  \
  }                                                                                         \
  void Name##F64(TESSERA_KERNEL_PARAMETERS) {                                               \
    LOOP<double, Name, kParams>(TESSERA_KERNEL_ARGUMENTS, std::make_index_sequence<kIn>()); \
  }
#define TESSERA_DEFINE_KERNELS(Name, kIn, kParams) TESSERA_DEFINE_LOOPS(Loop, Name, kIn, kParams)
#define TESSERA_DEFINE_PREDICATES(Name, kIn, kParams) TESSERA_DEFINE_LOOPS(PredicateLoop, Name, kIn, kParams)
#define TESSERA_CHOOSE_ONE(F) \
  TESSERA_SIMD_TABLE(F);      \
  static void F(TESSERA_KERNEL_PARAMETERS) { TESSERA_SIMD(F)(TESSERA_KERNEL_ARGUMENTS); }
#define TESSERA_CHOOSE(Name, kIn, kParams) TESSERA_CHOOSE_ONE(Name##F32) TESSERA_CHOOSE_ONE(Name##F64)
#endif

#endif  // per-target include guard
