// bfloat16 matrix products: what tensor/cpu/gemm/gemm.cc calls, and the blocks that other kernels build on.
//
// For kernels of their own (convolution, attention), on the panels described in gemm_amx.h:
//
//   const PanelLevel level = bf16_panel_level();          // kNone: convert to float and use gemm_real
//   const PanelBlock block = bf16_panel_block(level);
//   // Up to 32 rows, ceil(k / 32) * 2048 bytes, 64-byte aligned; or write the layout yourself.
//   pack_panel_a(2, a, a_row, a_col, rows, k, 0, pa);
//   pack_panel_b(2, b, b_col, b_row, cols, k, pb);        // up to 32 columns
//   const TileScope tiles(level);                         // once around many blocks, on the thread that runs them
//   block(steps, pa, pb, rows, cols, c, c_row, false);    // float c[32][32] (+)= a b, steps = ceil(k / 32)
//
// Products and sums are those of the instructions: sums in float32, denormal numbers count as zero.
#pragma once

#include <cstdint>

#include "tensor/cpu/gemm/gemm.h"
#include "tensor/cpu/gemm/gemm_amx.h"

namespace tessera::cpu::internal {

// c = round(beta c + alpha a b), c bfloat16 or float; m, n, k >= 1; beta == 0 does not read c.
struct Bf16Problem {
  int64_t m, n, k;
  float alpha, beta;
  MatrixRef a, b;
  MatrixRef c;
  bool float_c = false;
};
// The same product as that of the transposed matrices: c^T = b^T a^T.
Bf16Problem transposed(const Bf16Problem& g);
// False (and nothing is done) where this machine has no kernel that is better than converting to float.
bool gemm_bf16(const Bf16Problem& g, PanelLevel level = bf16_panel_level());
// `count` products like g on the calling thread, steps in elements from one to the next; a single one is shared out
// among the threads.
bool gemm_bf16_batch(const Bf16Problem& g, int64_t count, int64_t a_step, int64_t b_step, int64_t c_step,
                     PanelLevel level);
// m == 1, B contiguous along its rows or along k.
void bf16_row_product(const Bf16Problem& g);

// c = alpha a b for float16: a and b float16, c float16 or float; beta is not used. False where this machine has no
// AMX, where other ways are better, and where a sum is NaN, so that C must be computed in another way for its
// infinities; C then has any contents.
bool gemm_f16(const Bf16Problem& g);

}  // namespace tessera::cpu::internal
