// Products of 8-bit integer matrices: what tensor/cpu/gemm/gemm.cc and the operator _int_mm call.
#pragma once

#include <cstdint>

#include "tensor/cpu/gemm/gemm.h"
#include "tensor/cpu/gemm/gemm_amx.h"

namespace tessera::cpu::internal {

// c = beta c + alpha a b modulo 2^8, in bytes; or, with int32_c, c = a b modulo 2^32 (alpha and beta must be 1 and 0):
// b int8, a uint8 if unsigned_a, else int8. m, n, k >= 1.
struct Int8Problem {
  int64_t m, n, k;
  int64_t alpha, beta;
  MatrixRef a, b;
  MatrixRef c;
  bool int32_c = false;
  bool unsigned_a = false;
};
// False (and nothing is done) where this machine has no kernel for it.
bool gemm_int8(const Int8Problem& g, PanelLevel level = int8_panel_level());

// a b in int32, where sums go to `write` rather than into memory, and A is a matrix or comes by `pack_a` (a.data is
// null then; it combines bytes with int8_flip()): see PanelProduct, whose context this is.
struct Int8Sums {
  int64_t m, n, k;
  bool unsigned_a;
  MatrixRef a, b;
  void (*write)(const void* context, int64_t i, int64_t j, int64_t rows, int64_t cols, const void* sums);
  const void* context;
  void (*pack_a)(const void* context, int64_t i, int64_t rows, int64_t p, int64_t depth, void* panel);
};
bool int8_sums(const Int8Sums& g, PanelLevel level = int8_panel_level());
// The same for up to kInt8Rows rows of uint8, where rows of A and columns of B are contiguous; false, and nothing is
// done, for others. Needs AVX-512's dot products.
inline constexpr int64_t kInt8Rows = 8;
bool int8_rows(const Int8Sums& g);
// By what int8_sums wants the bytes of A combined (exclusive or).
uint8_t int8_flip(bool unsigned_a, PanelLevel level = int8_panel_level());

}  // namespace tessera::cpu::internal
