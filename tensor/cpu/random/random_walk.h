// How samplers meet memory: elements in memory order, in chunks of a plain type that are converted to and from the
// operand's dtype.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <span>
#include <type_traits>

#include "tensor/core/dtype.h"
#include "tensor/core/error.h"
#include "tensor/cpu/support/operand.h"

namespace tessera::cpu::random_internal {

inline constexpr int kMaxRank = 64;
inline constexpr int kMaxOperands = 3;
// Elements a sampler makes at a time.
inline constexpr int64_t kChunk = 624;  // a block of the twister's numbers

// The dimensions of up to three operands, innermost first, sorted by the strides of the first operand that tells two
// dimensions apart, and merged where they can be.
class Walk {
 public:
  Walk(std::span<const int64_t> shape, std::span<const Operand> operands);

  int64_t numel() const { return numel_; }
  // Calls fn(pointers, n) for runs along the innermost dimension; steps(k) is operand k's stride there.
  template <class F>
  void for_each_run(F&& fn) const {
    if (numel_ == 0) return;
    char* p[kMaxOperands] = {};
    for (int k = 0; k < count_; ++k) p[k] = base_[k];
    int64_t index[kMaxRank];
    std::fill(index, index + rank_, int64_t{0});
    for (;;) {
      fn(p, sizes_[0]);
      int d = 1;
      for (; d < rank_; ++d) {
        for (int k = 0; k < count_; ++k) p[k] += strides_[k][d];
        if (++index[d] < sizes_[d]) break;
        for (int k = 0; k < count_; ++k) p[k] -= strides_[k][d] * sizes_[d];
        index[d] = 0;
      }
      if (d >= rank_) return;
    }
  }
  int64_t step(int operand) const { return strides_[operand][0]; }

 private:
  int rank_ = 0, count_ = 0;
  int64_t numel_ = 1;
  char* base_[kMaxOperands];
  int64_t sizes_[kMaxRank];
  int64_t strides_[kMaxOperands][kMaxRank];
};

bool is_contiguous(std::span<const int64_t> shape, const Operand& x);

[[noreturn]] void not_implemented(const char* kernel, DType t);
// Throws not_implemented unless t is float16, bfloat16, float32 or float64.
void check_floating(const char* kernel, DType t);

// Saturates, so that no value is undefined; then wraps into narrower integers.
inline int64_t to_int64(double v) {
  if (!(v >= -9223372036854775808.0)) return std::numeric_limits<int64_t>::min();
  if (v >= 9223372036854775808.0) return std::numeric_limits<int64_t>::max();
  return static_cast<int64_t>(v);
}
inline int64_t to_int64(int64_t v) { return v; }

template <class T, class V>
T convert(V v) {
  if constexpr (std::is_same_v<T, bool>)
    return v != 0;
  else if constexpr (std::is_integral_v<T>)
    return static_cast<T>(to_int64(v));
  else if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>)
    return T(static_cast<float>(v));
  else
    return static_cast<T>(v);
}

// Calls fn.template operator()<T>() for the C++ type of a real dtype.
template <class F>
void for_real_type(DType t, F&& fn) {
  switch (t) {
    case DType::kBool:
      return fn.template operator()<bool>();
    case DType::kUInt8:
      return fn.template operator()<uint8_t>();
    case DType::kInt8:
      return fn.template operator()<int8_t>();
    case DType::kInt16:
      return fn.template operator()<int16_t>();
    case DType::kInt32:
      return fn.template operator()<int32_t>();
    case DType::kInt64:
      return fn.template operator()<int64_t>();
    case DType::kUInt16:
      return fn.template operator()<uint16_t>();
    case DType::kUInt32:
      return fn.template operator()<uint32_t>();
    case DType::kUInt64:
      return fn.template operator()<uint64_t>();
    case DType::kFloat16:
      return fn.template operator()<Half>();
    case DType::kBFloat16:
      return fn.template operator()<BFloat16>();
    case DType::kFloat32:
      return fn.template operator()<float>();
    case DType::kFloat64:
      return fn.template operator()<double>();
    default:
      internal::raise<NotImplementedError>("random numbers are not implemented for '", type_name_of(t), "'");
  }
}

template <class V>
void store(DType t, char* out, int64_t step, const V* values, int64_t n) {
  for_real_type(t, [&]<class T>() {
    if (step == static_cast<int64_t>(sizeof(T))) {
      if constexpr (std::is_same_v<T, V>) {
        std::memcpy(out, values, n * sizeof(T));
        return;
      }
      T* o = reinterpret_cast<T*>(out);
      for (int64_t i = 0; i < n; ++i) o[i] = convert<T>(values[i]);
    } else {
      for (int64_t i = 0; i < n; ++i) *reinterpret_cast<T*>(out + i * step) = convert<T>(values[i]);
    }
  });
}

template <class V>
void load(DType t, const char* in, int64_t step, V* values, int64_t n) {
  if (t == DTypeOf<V>::value && step == static_cast<int64_t>(sizeof(V))) {
    std::memcpy(values, in, n * sizeof(V));
    return;
  }
  for_real_type(t, [&]<class T>() {
    for (int64_t i = 0; i < n; ++i) values[i] = static_cast<V>(*reinterpret_cast<const T*>(in + i * step));
  });
}

// Numbers of memory as V: where they lie if they are, else in the buffer.
template <class V>
const V* numbers(DType t, const char* in, int64_t step, V* buffer, int64_t n) {
  if (t == DTypeOf<V>::value && step == static_cast<int64_t>(sizeof(V))) return reinterpret_cast<const V*>(in);
  load(t, in, step, buffer, n);
  return buffer;
}

// out's elements in memory order from make(V* values, n), which writes the next n numbers.
template <class V, class Make>
void emit(std::span<const int64_t> shape, const Operand& out, Make&& make) {
  const Walk walk(shape, {&out, 1});
  V values[kChunk];
  const bool in_place = out.dtype == DTypeOf<V>::value && walk.step(0) == static_cast<int64_t>(sizeof(V));
  walk.for_each_run([&](char* const* p, int64_t n) {
    for (int64_t i = 0; i < n; i += kChunk) {
      const int64_t m = std::min(kChunk, n - i);
      if (in_place) {
        make(reinterpret_cast<V*>(p[0]) + i, m);
        continue;
      }
      make(values, m);
      store(out.dtype, p[0] + i * walk.step(0), walk.step(0), values, m);
    }
  });
}

// The same with one or two inputs, read as V: make(V* values, const V* a, const V* b, n) may write where a or b lie, in
// their order; b is null with one input.
template <class V, class Make>
void emit_from(std::span<const int64_t> shape, const Operand& out, std::span<const Operand> ins, Make&& make) {
  Operand all[kMaxOperands] = {out, ins[0], ins.size() > 1 ? ins[1] : ins[0]};
  const Walk walk(shape, {all, 1 + ins.size()});
  V values[kChunk], a[kChunk], b[kChunk];
  const bool in_place = out.dtype == DTypeOf<V>::value && walk.step(0) == static_cast<int64_t>(sizeof(V));
  walk.for_each_run([&](char* const* p, int64_t n) {
    for (int64_t i = 0; i < n; i += kChunk) {
      const int64_t m = std::min(kChunk, n - i);
      const V* const first = numbers(ins[0].dtype, p[1] + i * walk.step(1), walk.step(1), a, m);
      const V* const second =
          ins.size() > 1 ? numbers(ins[1].dtype, p[2] + i * walk.step(2), walk.step(2), b, m) : nullptr;
      if (in_place) {
        make(reinterpret_cast<V*>(p[0]) + i, first, second, m);
        continue;
      }
      make(values, first, second, m);
      store(out.dtype, p[0] + i * walk.step(0), walk.step(0), values, m);
    }
  });
}

// Whether ok(value) for every element of a floating operand.
template <class Ok>
bool all_of(std::span<const int64_t> shape, const Operand& x, Ok&& ok) {
  const Walk walk(shape, {&x, 1});
  bool good = true;
  double values[kChunk];
  walk.for_each_run([&](char* const* p, int64_t n) {
    for (int64_t i = 0; i < n && good; i += kChunk) {
      const int64_t m = std::min(kChunk, n - i);
      load(x.dtype, p[0] + i * walk.step(0), walk.step(0), values, m);
      for (int64_t j = 0; j < m; ++j) good &= static_cast<bool>(ok(values[j]));
    }
  });
  return good;
}

}  // namespace tessera::cpu::random_internal
