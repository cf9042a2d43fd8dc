// Discrete Fourier transforms along one dimension of strided memory, below the Tensor.
#pragma once

#include <cstdint>
#include <span>

#include "tensor/core/dtype.h"
#include "tensor/core/error.h"

namespace tessera::cpu {

// What goes in and comes out along the dimension; `n` is the length of the whole signal.
enum class FftKind : uint8_t {
  kComplex,     // n complex -> n complex
  kRealToHalf,  // n real -> n / 2 + 1 complex: the others are their mirrored conjugates
  kHalfToReal,  // n / 2 + 1 complex -> n real; imaginary parts that such a spectrum cannot have are ignored
};

// A dimension over which the transform is repeated; strides in elements (of the type that is read, written).
struct FftDim {
  int64_t size, in_stride, out_stride;
};

struct FftLines {
  DType real;  // kFloat32 or kFloat64: the type of the numbers' parts
  FftKind kind;
  bool forward;  // exp(-2 pi i j k / n), else exp(+2 pi i j k / n)
  double scale;  // of the results
  int64_t n;     // >= 1
  int64_t in_stride, out_stride;
  std::span<const FftDim> dims;
};

// Error for a signal without numbers, NotImplementedError for other types than float32 and float64: what engines of all
// devices take.
inline void check_fft_lines(const FftLines& lines) {
  TESSERA_CHECK(lines.n >= 1, "fft: expected a signal of at least one number, but got ", lines.n);
  if (lines.real != DType::kFloat32 && lines.real != DType::kFloat64)
    ::tessera::internal::raise<NotImplementedError>(
        "fft: expected float32, float64 or complex numbers of them, but got ", name_of(lines.real));
}

// X[k] = scale sum_j x[j] exp(-+2 pi i j k / n) for each line. Both may be the same memory for kComplex with equal
// strides; else they share nothing. Cooley and Tukey's algorithm for lengths whose prime factors are small (radices 2,
// 3, 4, 5, 7, 8, 11, 13 and other primes up to 31, where many lines are transformed together up to 127), Rader's for
// primes n whose n - 1 is such a length, Bluestein's for all others. The same bits at any number of threads. run_fft
// takes kComplex and kRealToHalf, run_fft_to_real kHalfToReal: programs link the ways that they go.
void run_fft(const FftLines& lines, const void* in, void* out);
void run_fft_to_real(const FftLines& lines, const void* in, void* out);

}  // namespace tessera::cpu
