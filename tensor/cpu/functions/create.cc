#include "tensor/cpu/functions/create.h"

#include <algorithm>
#include <cmath>
#include <complex>
#include <numbers>

#include "tensor/core/parallel.h"
#include "tensor/core/visit.h"
#include "tensor/cpu/math/math_scalar.h"

namespace tessera::cpu {
namespace {

constexpr int64_t kGrain = 1 << 15;
constexpr int64_t kBlock = 512;

double between(const Sequence& s, int64_t i) {
  return i < s.count / 2 ? s.a + s.b * static_cast<double>(i) : s.end - s.b * static_cast<double>(s.count - 1 - i);
}
double float_between(const Sequence& s, int64_t i) {
  const float step = static_cast<float>(s.b);
  return i < s.count / 2 ? std::fma(step, static_cast<float>(i), static_cast<float>(s.a))
                         : std::fma(-step, static_cast<float>(s.count - 1 - i), static_cast<float>(s.end));
}
std::complex<double> complex_between(const Sequence& s, int64_t i) {
  const std::complex<double> step(s.b, s.b_imag);
  return i < s.count / 2 ? std::complex<double>(s.a, s.a_imag) + step * static_cast<double>(i)
                         : std::complex<double>(s.end, s.end_imag) - step * static_cast<double>(s.count - 1 - i);
}

// Numbers [first, first + n) of a real sequence.
void real_numbers(const Sequence& s, int64_t first, int64_t n, double* out) {
  const auto fill = [=](auto f) {
    for (int64_t i = 0; i < n; ++i) out[i] = f(first + i);
  };
  switch (s.kind) {
    case SequenceKind::kIntegers:
      break;
    case SequenceKind::kSteps:
      fill([&](int64_t i) { return s.a + s.b * static_cast<double>(i); });
      break;
    case SequenceKind::kBetween:
      fill([&](int64_t i) { return between(s, i); });
      break;
    case SequenceKind::kFloats:
      fill([&](int64_t i) { return float_between(s, i); });
      break;
    case SequenceKind::kPowers:
      fill([&](int64_t i) { return std::pow(s.base, between(s, i)); });
      break;
    case SequenceKind::kCosine:
      fill([&](int64_t i) {
        const double turn = 2 * std::numbers::pi * static_cast<double>(i) / s.span;
        double sum = 0;
        for (int j = 0; j < s.num_terms; ++j) {
          const int64_t k = s.first + j;
          const double term = k == 0 ? s.terms[j] : s.terms[j] * std::cos(static_cast<double>(k) * turn);
          sum += k % 2 ? -term : term;
        }
        return sum;
      });
      break;
    case SequenceKind::kTriangle:
      fill([&](int64_t i) { return 1 - std::abs(2 * static_cast<double>(i) / s.span - 1); });
      break;
    case SequenceKind::kBessel:
      fill([&, whole = scalar::i0(s.a)](int64_t i) {
        const double x = 2 * static_cast<double>(i) / s.span - 1;
        return scalar::i0(s.a * std::sqrt(std::max(0.0, 1 - x * x))) / whole;
      });
      break;
  }
}

template <class T>
T from_real(double v) {
  if constexpr (std::is_same_v<T, bool>)
    return v != 0;
  else if constexpr (std::is_integral_v<T>)
    return static_cast<T>(static_cast<int64_t>(v));
  else if constexpr (std::is_floating_point_v<T>)
    return static_cast<T>(v);
  else if constexpr (std::is_same_v<T, ComplexHalf>)
    return T(std::complex<float>(static_cast<float>(v)));
  else if constexpr (std::is_same_v<T, std::complex<float>>)
    return T(static_cast<float>(v));
  else if constexpr (std::is_same_v<T, std::complex<double>>)
    return T(v);
  else
    return T(static_cast<float>(v));
}
template <class T>
T from_integer(int64_t v) {
  if constexpr (std::is_arithmetic_v<T>)
    return static_cast<T>(v);
  else
    return from_real<T>(static_cast<double>(v));
}
template <class T>
T from_complex(std::complex<double> v) {
  if constexpr (std::is_same_v<T, ComplexHalf>)
    return T(std::complex<float>(v));
  else if constexpr (std::is_same_v<T, std::complex<float>> || std::is_same_v<T, std::complex<double>>)
    return T(v);
  else
    return from_real<T>(v.real());
}

}  // namespace

void run_sequence(const Sequence& s, DType dtype, void* out) {
  visit_dtype(dtype, [&]<class T>(TypeTag<T>) {
    parallel_for(s.count, kGrain, [&](int64_t begin, int64_t end) {
      T* p = static_cast<T*>(out);
      if (s.kind == SequenceKind::kIntegers) {
        for (int64_t i = begin; i < end; ++i)
          p[i] = from_integer<T>(static_cast<int64_t>(static_cast<uint64_t>(s.first) +
                                                      static_cast<uint64_t>(s.step) * static_cast<uint64_t>(i)));
        return;
      }
      if (s.kind == SequenceKind::kBetween && is_complex(dtype)) {
        for (int64_t i = begin; i < end; ++i) p[i] = from_complex<T>(complex_between(s, i));
        return;
      }
      double block[kBlock];
      for (int64_t first = begin; first < end; first += kBlock) {
        const int64_t n = std::min(kBlock, end - first);
        real_numbers(s, first, n, block);
        for (int64_t i = 0; i < n; ++i) p[first + i] = from_real<T>(block[i]);
      }
    });
  });
}

void run_triangle_indices(const TriangleRows& t, DType dtype, void* out) {
  visit_dtype(dtype, [&]<class T>(TypeTag<T>) {
    T* p = static_cast<T*>(out);
    int64_t i = 0;
    for (int64_t r = t.first_row; r < t.end_row; ++r) {
      const int64_t from = t.upper ? std::max<int64_t>(0, r + t.offset) : 0,
                    until = t.upper ? t.cols : std::min(t.cols, r + t.offset + 1);
      for (int64_t c = from; c < until; ++c, ++i) {
        p[i] = from_integer<T>(r);
        p[t.count + i] = from_integer<T>(c);
      }
    }
  });
}

}  // namespace tessera::cpu
