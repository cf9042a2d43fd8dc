// Reduction kernels without vector code: products of integers and complex numbers, logsumexp of complex numbers,
// counts.
#include <cmath>
#include <complex>
#include <cstring>
#include <limits>

#include "tensor/cpu/reduce/reduce_kernels.h"

namespace tessera::cpu {
namespace {

template <class T, class A>
struct Product {
  static A load(const T& x) { return static_cast<A>(x); }
  static void rows(int64_t rows, int64_t n, const void* x, int64_t row_stride, void* acc) {
    for (int64_t r = 0; r < rows; ++r) {
      const T* p = reinterpret_cast<const T*>(static_cast<const char*>(x) + r * row_stride);
      A s[4] = {A(1), A(1), A(1), A(1)};
      int64_t i = 0;
      for (; i + 4 <= n; i += 4) {
        for (int j = 0; j < 4; ++j) s[j] *= load(p[i + j]);
      }
      for (int j = 0; i < n; ++i, ++j) s[j] *= load(p[i]);
      static_cast<A*>(acc)[r] = (s[0] * s[2]) * (s[1] * s[3]);
    }
  }
  static void cols(int64_t rows, int64_t cols, const void* x, int64_t stride, void* acc) {
    A* a = static_cast<A*>(acc);
    for (int64_t r = 0; r < rows; ++r) {
      const T* p = reinterpret_cast<const T*>(static_cast<const char*>(x) + r * stride);
      for (int64_t c = 0; c < cols; ++c) a[c] *= load(p[c]);
    }
  }
  static void init(int64_t n, void* acc) {
    for (int64_t i = 0; i < n; ++i) static_cast<A*>(acc)[i] = A(1);
  }
  static void merge(int64_t n, void* acc, const void* more) {
    for (int64_t i = 0; i < n; ++i) static_cast<A*>(acc)[i] *= static_cast<const A*>(more)[i];
  }
};

// Blocks of bool: bytes that are 0 or 1, counted eight at a time.
int64_t count_bytes(int64_t n, const uint8_t* p) {
  int64_t total = 0, i = 0;
  while (i + 8 <= n) {
    const int64_t words = (n - i) / 8 < 255 ? (n - i) / 8 : 255;
    uint64_t sum = 0;
    for (int64_t k = 0; k < words; ++k) {
      uint64_t w;
      std::memcpy(&w, p + i + 8 * k, 8);
      sum += w;
    }
    const uint64_t even = sum & 0x00ff00ff00ff00ffu, odd = (sum >> 8) & 0x00ff00ff00ff00ffu;
    total += static_cast<int64_t>(((even + odd) * 0x0001000100010001u) >> 48);
    i += 8 * words;
  }
  for (; i < n; ++i) total += p[i];
  return total;
}
void count_rows(int64_t rows, int64_t n, const void* x, int64_t row_stride, void* acc) {
  for (int64_t r = 0; r < rows; ++r)
    static_cast<int64_t*>(acc)[r] = count_bytes(n, static_cast<const uint8_t*>(x) + r * row_stride);
}
void count_cols(int64_t rows, int64_t cols, const void* x, int64_t stride, void* acc) {
  constexpr int64_t kChunk = 256;
  for (int64_t c = 0; c < cols; c += kChunk) {
    const int64_t m = cols - c < kChunk ? cols - c : kChunk;
    for (int64_t r = 0; r < rows;) {
      uint8_t sums[kChunk] = {};
      const int64_t end = rows - r < 255 ? rows : r + 255;
      for (; r < end; ++r) {
        const uint8_t* p = static_cast<const uint8_t*>(x) + r * stride + c;
        if (m == kChunk) {
          for (int64_t j = 0; j < kChunk; ++j) sums[j] = static_cast<uint8_t>(sums[j] + p[j]);
        } else {
          for (int64_t j = 0; j < m; ++j) sums[j] = static_cast<uint8_t>(sums[j] + p[j]);
        }
      }
      for (int64_t j = 0; j < m; ++j) static_cast<int64_t*>(acc)[c + j] += sums[j];
    }
  }
}
void count_init(int64_t n, void* acc) { std::memset(acc, 0, static_cast<size_t>(n) * sizeof(int64_t)); }
void count_merge(int64_t n, void* acc, const void* more) {
  for (int64_t i = 0; i < n; ++i) static_cast<int64_t*>(acc)[i] += static_cast<const int64_t*>(more)[i];
}

// logsumexp of complex numbers: scaled by the largest real part, of which an infinite one is left alone.
template <class T>
struct ComplexLogSumExp {
  using State = ComplexLogSumExpState;
  static double scale_of(double max) { return std::isfinite(max) ? max : 0; }
  static void merge_one(State& a, const State& b) {
    const double max = a.max >= b.max || a.max != a.max ? a.max : b.max;
    const double m = scale_of(max), fa = std::exp(scale_of(a.max) - m), fb = std::exp(scale_of(b.max) - m);
    const bool empty_a = a.re == 0 && a.im == 0, empty_b = b.re == 0 && b.im == 0;
    a = {m, (empty_a ? 0 : a.re * fa) + (empty_b ? 0 : b.re * fb),
         (empty_a ? 0 : a.im * fa) + (empty_b ? 0 : b.im * fb)};
  }
  static void step(State& a, std::complex<T> x) {
    const double m = scale_of(x.real());
    const std::complex<double> e = std::exp(std::complex<double>(x.real() - m, x.imag()));
    merge_one(a, {m, e.real(), e.imag()});
  }
  static void rows(int64_t rows, int64_t n, const void* x, int64_t row_stride, void* acc) {
    init(rows, acc);
    for (int64_t r = 0; r < rows; ++r) {
      const auto* p = reinterpret_cast<const std::complex<T>*>(static_cast<const char*>(x) + r * row_stride);
      for (int64_t i = 0; i < n; ++i) step(static_cast<State*>(acc)[r], p[i]);
    }
  }
  static void cols(int64_t rows, int64_t cols, const void* x, int64_t stride, void* acc) {
    for (int64_t r = 0; r < rows; ++r) {
      const auto* p = reinterpret_cast<const std::complex<T>*>(static_cast<const char*>(x) + r * stride);
      for (int64_t c = 0; c < cols; ++c) step(static_cast<State*>(acc)[c], p[c]);
    }
  }
  static void init(int64_t n, void* acc) {
    for (int64_t i = 0; i < n; ++i) static_cast<State*>(acc)[i] = {-std::numeric_limits<double>::infinity(), 0, 0};
  }
  static void merge(int64_t n, void* acc, const void* more) {
    for (int64_t i = 0; i < n; ++i) merge_one(static_cast<State*>(acc)[i], static_cast<const State*>(more)[i]);
  }
};

template <class T, DType kType>
constexpr ReduceKernel kComplexLogSumExp = {kType,
                                            sizeof(ComplexLogSumExpState),
                                            ComplexLogSumExp<T>::rows,
                                            ComplexLogSumExp<T>::cols,
                                            ComplexLogSumExp<T>::init,
                                            ComplexLogSumExp<T>::merge};
template <class T, class A, DType kType>
constexpr ReduceKernel kProduct = {
    kType, sizeof(A), Product<T, A>::rows, Product<T, A>::cols, Product<T, A>::init, Product<T, A>::merge};
constexpr ReduceKernel kCountKernel = {DType::kBool, sizeof(int64_t), count_rows, count_cols, count_init, count_merge};

}  // namespace

const ReduceKernel* find_plain_kernel(RowOp op, DType block) {
  if (op == RowOp::kCount && block == DType::kBool) return &kCountKernel;
  if (op == RowOp::kLogSumExp) {
    if (block == DType::kComplex64) return &kComplexLogSumExp<float, DType::kComplex64>;
    return block == DType::kComplex128 ? &kComplexLogSumExp<double, DType::kComplex128> : nullptr;
  }
  if (op != RowOp::kProd) return nullptr;
  switch (block) {
    case DType::kInt64:
      return &kProduct<uint64_t, uint64_t, DType::kInt64>;
    case DType::kComplex64:
      return &kProduct<std::complex<float>, std::complex<double>, DType::kComplex64>;
    case DType::kComplex128:
      return &kProduct<std::complex<double>, std::complex<double>, DType::kComplex128>;
    default:
      return nullptr;
  }
}

const ReduceKernel* find_reduce_kernel(RowOp op, DType block) {
  switch (op) {
    case RowOp::kMax:
    case RowOp::kMin:
    case RowOp::kMaxAbs:
    case RowOp::kMinAbs:
      return find_extreme_kernel(op, block);
    case RowOp::kVar:
    case RowOp::kLogSumExp:
      if (!is_complex(block)) return find_moments_kernel(op, block);
      break;
    default:
      break;
  }
  const ReduceKernel* k = find_plain_kernel(op, block);
  return k != nullptr ? k : find_sum_kernel(op, block);
}

}  // namespace tessera::cpu
