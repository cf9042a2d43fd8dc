// Blocks on AMX with other work in between, and on panels of split numbers.
#pragma once

#include "tensor/cpu/gemm/gemm_amx.h"

namespace tessera::cpu::internal {

// Called after each kBesideSteps steps of a block, among its products. It must leave the tiles alone. (Each call also
// fills the processor's store buffer, behind which the sums of the last block wait: seldom and much is better than
// often and little.)
constexpr int64_t kBesideSteps = 4;
struct Beside {
  void (*run)(void* context);
  void* context;
};
using BlockBeside = void (*)(int64_t steps, const void* a, const void* b, int64_t rows, int64_t cols, void* c,
                             int64_t c_row, bool accumulate, const Beside* beside);
// The form of `block` that takes other work; null if it has none.
BlockBeside block_beside(PanelBlock block);

// Packs a panel of A whose lines are contiguous along k, a little at a time: `left` pieces of a step of a line, line
// after line.
struct PanelLines {
  const char* from;
  int64_t stride, lines, bytes;  // from line to line; lines that exist; of a line
  char* panel;
  uint8_t flip;
  int64_t left = 0, line = 0, step = 0;
};
void begin_lines(PanelLines& x);
void pack_lines(PanelLines& x, int64_t pieces);

// For float16 (gemm_f16.cc). A split panel has two steps for each of its own: the upper parts of the numbers, and the
// rests. It is made in place, of the float16 in the second half of its 2 * steps * kPanelStepBytes. By its block
// panel_product knows that it has numbers to split.
void split_panel(int64_t steps, void* panel);
void split_block(int64_t steps, const void* a, const void* b, int64_t rows, int64_t cols, void* c, int64_t c_row,
                 bool accumulate);

}  // namespace tessera::cpu::internal
