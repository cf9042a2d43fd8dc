// How reductions, scans and softmax read and write elements: batches of eight, of any dtype, in the type of the
// arithmetic.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "tensor/cuda/support/convert.h"
#include "tensor/cuda/support/types.h"

namespace tessera::cuda {

inline constexpr int kBatch = 8;

// C conversion rules; complex to real drops the imaginary part, x to bool is x != 0.
template <class V, class T>
__device__ V as_value(const T& x) {
  if constexpr (is_complex_type<T>) {
    if constexpr (std::is_same_v<V, bool>)
      return x.real() != 0 || x.imag() != 0;
    else if constexpr (is_complex_type<V>)
      return V(static_cast<Real<V>>(x.real()), static_cast<Real<V>>(x.imag()));
    else
      return static_cast<V>(x.real());
  } else {
    if constexpr (std::is_same_v<V, bool>)
      return x != 0;
    else if constexpr (is_complex_type<V>)
      return V(static_cast<Real<V>>(x), 0);
    else
      return static_cast<V>(x);
  }
}

// Calls f(Tag<T>()) for the dtypes of arithmetic.
template <class F>
__device__ void with_type(DType t, F f) {
  switch (t) {
    case DType::kBool:
      f(Tag<bool>());
      break;
    case DType::kUInt8:
      f(Tag<uint8_t>());
      break;
    case DType::kInt8:
      f(Tag<int8_t>());
      break;
    case DType::kInt16:
      f(Tag<int16_t>());
      break;
    case DType::kInt32:
      f(Tag<int32_t>());
      break;
    case DType::kInt64:
      f(Tag<int64_t>());
      break;
    case DType::kUInt16:
      f(Tag<uint16_t>());
      break;
    case DType::kUInt32:
      f(Tag<uint32_t>());
      break;
    case DType::kUInt64:
      f(Tag<uint64_t>());
      break;
    case DType::kFloat16:
      f(Tag<Half>());
      break;
    case DType::kBFloat16:
      f(Tag<BFloat16>());
      break;
    case DType::kFloat32:
      f(Tag<float>());
      break;
    case DType::kFloat64:
      f(Tag<double>());
      break;
    case DType::kComplex32:
      f(Tag<ComplexHalf>());
      break;
    case DType::kComplex64:
      f(Tag<Complex<float>>());
      break;
    case DType::kComplex128:
      f(Tag<Complex<double>>());
      break;
    default:
      break;
  }
}
// One element of any dtype but the quantized ones. Not inlined: the rare ways share one piece of code.
inline bool has_type(DType t) { return category_of(t) != Category::kQuantized; }
template <class V>
__device__ __attribute__((noinline)) V load_any(DType t, const char* p) {
  V v{};
  if (is_float8(t)) v = as_value<V>(float8_to_float(t, *reinterpret_cast<const uint8_t*>(p)));
  with_type(t, [&](auto tag) { v = as_value<V>(load(reinterpret_cast<const typename decltype(tag)::type*>(p))); });
  return v;
}
template <class V>
__device__ __attribute__((noinline)) void store_any(DType t, char* p, V v) {
  if (is_float8(t)) *reinterpret_cast<uint8_t*>(p) = float_to_float8(t, as_value<float>(v));
  with_type(t, [&](auto tag) {
    using T = typename decltype(tag)::type;
    store(reinterpret_cast<T*>(p), as_value<Compute<T>>(v));
  });
}

// The dtypes that values of type V mostly come from have loops of their own: calls f(Tag<T>()), f(Tag<void>()) for the
// others.
template <class V, class F>
__device__ void with_usual_type(DType t, F f) {
  if constexpr (std::is_same_v<V, float>) {
    if (t == DType::kFloat32) return f(Tag<float>());
    if (t == DType::kFloat16) return f(Tag<Half>());
    if (t == DType::kBFloat16) return f(Tag<BFloat16>());
  } else if constexpr (std::is_same_v<V, double>) {
    if (t == DType::kFloat64) return f(Tag<double>());
  } else if constexpr (std::is_same_v<V, int64_t>) {
    if (t == DType::kInt64) return f(Tag<int64_t>());
    if (t == DType::kInt32) return f(Tag<int32_t>());
    if (t == DType::kUInt8) return f(Tag<uint8_t>());
    if (t == DType::kBool) return f(Tag<bool>());
  } else if constexpr (std::is_same_v<V, bool>) {
    if (t == DType::kBool || t == DType::kUInt8 || t == DType::kInt8) return f(Tag<uint8_t>());
  } else if constexpr (std::is_same_v<V, Complex<float>>) {
    if (t == DType::kComplex64) return f(Tag<Complex<float>>());
  }
  f(Tag<void>());
}

// Eight elements, `stride` bytes apart. T: their type, or void for any dtype t.
template <class V, class T>
__device__ void load_batch(DType t, const char* p, int64_t stride, V (&x)[kBatch]) {
  if constexpr (std::is_void_v<T>) {
    for (int j = 0; j < kBatch; ++j) x[j] = load_any<V>(t, p + j * stride);
  } else {
    constexpr int kBytes = kBatch * sizeof(T), kWord = kBytes < 16 ? kBytes : 16;
    using Word = std::conditional_t<kWord == 16, Bytes16, uint64_t>;
    if (stride == sizeof(T) && reinterpret_cast<uintptr_t>(p) % kWord == 0) {
      Word words[kBytes / kWord];
      for (int j = 0; j < kBytes / kWord; ++j) words[j] = reinterpret_cast<const Word*>(p)[j];
      T raw[kBatch];
      memcpy(static_cast<void*>(raw), words, kBytes);
      for (int j = 0; j < kBatch; ++j) x[j] = as_value<V>(load(&raw[j]));
    } else {
      for (int j = 0; j < kBatch; ++j) x[j] = as_value<V>(load(reinterpret_cast<const T*>(p + j * stride)));
    }
  }
}
template <class V>
__device__ void load_usual(DType t, const char* p, int64_t stride, V (&x)[kBatch]) {
  with_usual_type<V>(t, [&](auto tag) { load_batch<V, typename decltype(tag)::type>(t, p, stride, x); });
}

template <class V, class T>
__device__ void store_one(DType t, char* p, V v) {
  if constexpr (std::is_void_v<T>)
    store_any<V>(t, p, v);
  else
    store(reinterpret_cast<T*>(p), as_value<Compute<T>>(v));
}
template <class V, class T>
__device__ void store_batch(DType t, char* p, int64_t stride, const V (&x)[kBatch]) {
  if constexpr (!std::is_void_v<T>) {
    constexpr int kBytes = kBatch * sizeof(T), kWord = kBytes < 16 ? kBytes : 16;
    using Word = std::conditional_t<kWord == 16, Bytes16, uint64_t>;
    if (stride == sizeof(T) && reinterpret_cast<uintptr_t>(p) % kWord == 0) {
      T raw[kBatch];
      for (int j = 0; j < kBatch; ++j) store(&raw[j], as_value<Compute<T>>(x[j]));
      Word words[kBytes / kWord];
      memcpy(words, static_cast<const void*>(raw), kBytes);
      for (int j = 0; j < kBytes / kWord; ++j) reinterpret_cast<Word*>(p)[j] = words[j];
      return;
    }
  }
  for (int j = 0; j < kBatch; ++j) store_one<V, T>(t, p + j * stride, x[j]);
}

template <class V>
__device__ void store_usual(DType t, char* p, int64_t stride, const V (&x)[kBatch]) {
  with_usual_type<V>(t, [&](auto tag) { store_batch<V, typename decltype(tag)::type>(t, p, stride, x); });
}

// The same for the first n elements of a batch; the others are `rest`.
template <class V>
__device__ void load_some(DType t, const char* p, int64_t stride, int64_t n, V rest, V (&x)[kBatch]) {
  if (n >= kBatch) return load_usual<V>(t, p, stride, x);
  for (int j = 0; j < kBatch; ++j) x[j] = rest;
  if (n <= 0) return;
  with_usual_type<V>(t, [&](auto tag) {
    using T = typename decltype(tag)::type;
    for (int j = 0; j < kBatch; ++j) {
      if (j >= n) continue;
      if constexpr (std::is_void_v<T>)
        x[j] = load_any<V>(t, p + j * stride);
      else
        x[j] = as_value<V>(load(reinterpret_cast<const T*>(p + j * stride)));
    }
  });
}
template <class V>
__device__ void store_some(DType t, char* p, int64_t stride, int64_t n, const V (&x)[kBatch]) {
  if (n >= kBatch) return store_usual<V>(t, p, stride, x);
  if (n <= 0) return;
  with_usual_type<V>(t, [&](auto tag) {
    for (int j = 0; j < kBatch; ++j) {
      if (j < n) store_one<V, typename decltype(tag)::type>(t, p + j * stride, x[j]);
    }
  });
}

// An operand of the functions that work along one dimension.
struct Line {
  char* data;
  DType dtype;
  int64_t stride;  // along the line

  // The elements [i, i + n) of the line that begins at `offset`, at most a batch; load_some and store_some say more.
  template <class V>
  __device__ void load(int64_t offset, int64_t i, int64_t n, V rest, V (&x)[kBatch]) const {
    load_some<V>(dtype, data + offset + i * stride, stride, n, rest, x);
  }
  template <class V>
  __device__ void store(int64_t offset, int64_t i, int64_t n, const V (&x)[kBatch]) const {
    store_some<V>(dtype, data + offset + i * stride, stride, n, x);
  }
};

}  // namespace tessera::cuda
