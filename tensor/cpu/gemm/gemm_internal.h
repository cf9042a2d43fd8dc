// What tensor/cpu/gemm/gemm.cc asks of the SIMD kernels of gemm_f32.cc, gemm_f64.cc and gemm_int.cc.
#pragma once

#include <cstdint>

#include "tensor/cpu/gemm/gemm.h"

namespace tessera::cpu::internal {

// How the real elements of an operand are stored. All products of floating and complex dtypes are real products of
// these: for complex numbers, with C seen as a real m x 2n matrix, A as a real m x 2k one (re, im, re, im ...), row 2p
// of B is (re, im, ...) of its row p and row 2p + 1 is (-im, re, ...).
enum class SourceKind : uint8_t {
  kPlain,          // T itself
  kHalf,           // float16, read as float
  kBFloat16,       // bfloat16, read as float
  kComplexPairs,   // the A of a complex product; strides in complex elements
  kComplexExpand,  // the B of a complex product; strides in complex elements
  kVirtual,        // a B that exists only as its packed panels, which `pack` writes
};

struct GemmSource {
  const void* data;
  int64_t row_stride, col_stride;
  SourceKind kind = SourceKind::kPlain;
  double imag_sign = 1;  // kComplexExpand: -1 conjugates B
  double odd_sign = 1;   // kComplexExpand: -1 conjugates A
  // kVirtual: writes rows [p, p + k) of columns [j, j + count) to dst, `width` elements (of T) a row, zeros after
  // count; data is the context. Any thread.
  void (*pack)(const void* data, int64_t j, int64_t count, int64_t p, int64_t k, int64_t width, void* dst) = nullptr;
};

// c = beta c + alpha a b in real numbers; m, n, k >= 1; beta == 0 does not read c.
template <class T>
struct GemmProblem {
  int64_t m, n, k;
  T alpha, beta;
  GemmSource a, b;
  T* c;
  int64_t c_row, c_col;
  // The columns of C in blocks of this many (0: one block), c_block_stride elements apart: the images of a batch.
  // kVirtual sources only.
  int64_t c_block = 0, c_block_stride = 0;
  // Tiles of C that have nothing of it are left as they are.
  GemmPart part = GemmPart::kAll;
};

void gemm_real(const GemmProblem<float>& g);
void gemm_real(const GemmProblem<double>& g);
// `count` products like g, kPlain, one after the other on the calling thread; steps in elements from one to the next.
void gemm_real_batch(const GemmProblem<float>& g, int64_t count, int64_t a_step, int64_t b_step, int64_t c_step);
void gemm_real_batch(const GemmProblem<double>& g, int64_t count, int64_t a_step, int64_t b_step, int64_t c_step);
// x and y contiguous.
float dot_real(int64_t n, const float* x, const float* y);
double dot_real(int64_t n, const double* x, const double* y);

// Arithmetic modulo 2^bits, so signed integers use the unsigned type of their size. T: uint8_t, uint16_t, uint32_t,
// uint64_t.
template <class T>
struct IntGemmProblem {
  int64_t m, n, k;
  T alpha, beta;
  const T* a;
  int64_t a_row, a_col;
  const T* b;
  int64_t b_row, b_col;
  T* c;
  int64_t c_row, c_col;
  bool logical = false;  // uint8_t only, elements 0 or 1: and, or
};
void gemm_int(const IntGemmProblem<uint8_t>& g);
void gemm_int(const IntGemmProblem<uint16_t>& g);
void gemm_int(const IntGemmProblem<uint32_t>& g);
void gemm_int(const IntGemmProblem<uint64_t>& g);

}  // namespace tessera::cpu::internal
