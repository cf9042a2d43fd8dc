// Products of bfloat16 and int8 matrices on packed panels: the kernels of the CPU's dot-product instructions, and the
// driver that feeds them.
//
// Panels have the layout of AMX tiles. Elements of bfloat16 or int8 are grouped by 4 bytes along k (two or four of
// them); 64 bytes of k are a *step* (32 or 64 elements, zeros after the last). A panel of A has 32 rows: step after
// step, 2 x 16 rows of 64 bytes. A panel of B has 32 columns: step after step, 2 tiles of 16 columns, each 16 groups of
// k times 16 columns times 4 bytes. Either is 2048 bytes a step. The AVX-512 kernels read the same panels.
#pragma once

#include <cstdint>

namespace tessera::cpu::internal {

constexpr int64_t kPanelLines = 32;        // rows of a panel of A, columns of one of B
constexpr int64_t kStepBytes = 64;         // of k
constexpr int64_t kPanelStepBytes = 2048;  // of a panel

// What the products run on: nothing of the kind, AVX-512 (AVX512_BF16 or AVX512_VNNI), AMX.
enum class PanelLevel : int { kNone = 0, kAvx512 = 1, kAmx = 2 };

// The best level of this machine for the element type. AMX counts as a level above AVX-512: TESSERA_SIMD=avx3 leaves it
// out, lower ones leave out both; the operating system must grant the use of AMX, which is asked for once. Fixed at
// first use.
PanelLevel bf16_panel_level();
PanelLevel int8_panel_level();

// c (+)= a b for one block: c row-major with c_row elements a row, room for 32 x 32 numbers (float; int32 for int8
// elements), of which the first `rows` x `cols` are wanted (others may be written too); steps >= 1.
using PanelBlock = void (*)(int64_t steps, const void* a, const void* b, int64_t rows, int64_t cols, void* c,
                            int64_t c_row, bool accumulate);
PanelBlock bf16_panel_block(PanelLevel level);
// B holds int8. A holds uint8 if unsigned_a, else int8, for which the AVX-512 kernel wants A packed with flip = 0x80.
PanelBlock int8_panel_block(PanelLevel level, bool unsigned_a);

// AMX blocks run while one of these lives on their thread (they may nest); other levels need none.
class TileScope {
 public:
  explicit TileScope(PanelLevel level);
  ~TileScope();
  TileScope(const TileScope&) = delete;
  TileScope& operator=(const TileScope&) = delete;

 private:
  bool active_;
};

// Packs lines [0, lines) (rows of A, columns of B; at most 32) over k elements of `item` bytes (1 or 2) into ceil(k
// item / 64) steps of one panel. Strides in elements, from line to line and along k. flip is combined with every byte
// by exclusive or (0x80: int8 to uint8 with an offset of 128). Needs AVX-512.
void pack_panel_a(int64_t item, const void* data, int64_t line_stride, int64_t k_stride, int64_t lines, int64_t k,
                  uint8_t flip, void* panel);
void pack_panel_b(int64_t item, const void* data, int64_t line_stride, int64_t k_stride, int64_t lines, int64_t k,
                  void* panel);
// Any number of columns of B: panels `panel_stride` bytes apart.
void pack_panels_b(int64_t item, const void* data, int64_t line_stride, int64_t k_stride, int64_t lines, int64_t k,
                   void* panels, int64_t panel_stride);

// A whole product. `write` takes the sums of a block of C: rows [i, i + rows), columns [j, j + cols), both at most 32,
// from 32 numbers a row.
struct PanelProduct {
  int64_t m, n, k;  // >= 1
  int64_t item;     // bytes of an element: 2 or 1
  const void* a;
  int64_t a_row, a_col;
  const void* b;
  int64_t b_row, b_col;
  PanelLevel level;
  PanelBlock block;
  uint8_t flip;  // of A's bytes
  void (*write)(const void* context, int64_t i, int64_t j, int64_t rows, int64_t cols, const void* sums);
  const void* context;
  // An A that lies in no matrix (a_row and a_col are 0): makes panels of rows [i, i + rows), at most 32, and of
  // elements [p, p + depth) of k, as pack_panel_a does.
  void (*pack_a)(const void* context, int64_t i, int64_t rows, int64_t p, int64_t depth, void* panel) = nullptr;
};
void panel_product(const PanelProduct& g);
// `count` products of the same sizes one after the other, on the calling thread; steps of A and B in elements.
// advance(state) follows each: then `write` is for the next one.
void panel_products(const PanelProduct& first, int64_t count, int64_t a_step, int64_t b_step,
                    void (*advance)(void* state), void* state);

}  // namespace tessera::cpu::internal
