// The product of matrices of any size and strides on packed panels: blocking and work sharing.
//
// The sums of a block of C stay in L2 while k passes by in blocks, of which a panel of B stays in L1 and a block of A in L2. Every cut depends on the
// sizes only, and each number of C is summed in one order, so the bits do not depend on the number of threads.
#include <algorithm>

#include "tensor/core/parallel.h"
#include "tensor/cpu/gemm_amx.h"
#include "tensor/cpu/scratch.h"

namespace tessera::cpu::internal {
namespace {

constexpr int64_t kBlockSteps = 16;  // of k: a panel has 32 KiB
constexpr int64_t kBlockRows = 256;
constexpr int64_t kBlockCols = 512;
constexpr int64_t kSumBytes = kPanelLines * kPanelLines * 4;  // a block of sums
constexpr double kTaskWork = 1 << 22;                         // products worth a task of their own

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }


class Product {
 public:
  explicit Product(const PanelProduct& g) : g_(g), step_(kStepBytes / g.item), steps_(ceil_div(g.k, step_)) {
    block_steps_ = ceil_div(steps_, ceil_div(steps_, kBlockSteps));
  }

  void run() {
    if (g_.m <= kBlockRows)
      run_few_rows();
    else
      run_many_rows();
  }

 private:
  int64_t panel_bytes() const { return steps_ * kPanelStepBytes; }
  int64_t item_offset(int64_t elements) const { return elements * g_.item; }

  // Steps [s, s + count) of panel i of A, of panel j of B.
  void pack_a(int64_t i, int64_t s, int64_t count, char* to) const {
    const int64_t row = i * kPanelLines, p = s * step_;
    pack_panel_a(g_.item, static_cast<const char*>(g_.a) + item_offset(row * g_.a_row + p * g_.a_col), g_.a_row, g_.a_col, std::min(kPanelLines, g_.m - row),
                 std::min(count * step_, g_.k - p), g_.flip, to);
  }
  void pack_b(int64_t j, int64_t s, int64_t count, char* to) const {
    const int64_t col = j * kPanelLines, p = s * step_;
    pack_panel_b(g_.item, static_cast<const char*>(g_.b) + item_offset(p * g_.b_row + col * g_.b_col), g_.b_col, g_.b_row, std::min(kPanelLines, g_.n - col),
                 std::min(count * step_, g_.k - p), to);
  }

  // Panels of A and B, each `a_stride` or `b_stride` bytes after the one before, over one block of k. The last block writes C.
  void multiply(int64_t i0, int64_t i1, int64_t j0, int64_t j1, int64_t steps, const char* a, int64_t a_stride, const char* b, int64_t b_stride, bool first,
                bool last, char* sums) const {
    const bool kept = !(first && last);  // else one block of sums serves all
    for (int64_t j = j0; j < j1; ++j)
      for (int64_t i = i0; i < i1; ++i) {
        const int64_t rows = std::min(kPanelLines, g_.m - i * kPanelLines), cols = std::min(kPanelLines, g_.n - j * kPanelLines);
        char* const c = kept ? sums + ((j - j0) * (i1 - i0) + i - i0) * kSumBytes : sums;
        g_.block(steps, a + (i - i0) * a_stride, b + (j - j0) * b_stride, rows, cols, c, kPanelLines, !first);
        if (last) g_.write(g_.context, i * kPanelLines, j * kPanelLines, rows, cols, c);
      }
  }

  // A is packed as a whole, B where it is used: once.
  void run_few_rows() const {
    const int64_t row_panels = ceil_div(g_.m, kPanelLines), col_panels = ceil_div(g_.n, kPanelLines);
    ScratchArray<char> a(row_panels * panel_bytes());
    for (int64_t i = 0; i < row_panels; ++i) pack_a(i, 0, steps_, a.get() + i * panel_bytes());
    const double panel_work = static_cast<double>(g_.m) * static_cast<double>(g_.k) * kPanelLines;
    const int64_t grain = std::min(kBlockCols / kPanelLines, std::max<int64_t>(4, static_cast<int64_t>(kTaskWork / panel_work)));
    parallel_for(col_panels, grain, [&](int64_t begin, int64_t end) {
      const TileScope tiles(g_.level);
      const int64_t wide = std::min(kBlockCols / kPanelLines, end - begin);
      ScratchArray<char> b(wide * block_steps_ * kPanelStepBytes), sums(row_panels * wide * kSumBytes);
      for (int64_t j = begin; j < end; j += wide) {
        const int64_t j1 = std::min(end, j + wide);
        for (int64_t s = 0; s < steps_; s += block_steps_) {
          const int64_t count = std::min(block_steps_, steps_ - s), stride = count * kPanelStepBytes;
          for (int64_t q = j; q < j1; ++q) pack_b(q, s, count, b.get() + (q - j) * stride);
          multiply(0, row_panels, j, j1, count, a.get() + s * kPanelStepBytes, panel_bytes(), b.get(), stride, s == 0, s + count == steps_, sums.get());
        }
      }
    });
  }

  // B is packed as a whole, A by blocks of rows, each a task.
  void run_many_rows() const {
    const int64_t row_panels = ceil_div(g_.m, kPanelLines), col_panels = ceil_div(g_.n, kPanelLines);
    ScratchArray<char> b(col_panels * panel_bytes());
    parallel_for(col_panels, std::max<int64_t>(1, (1 << 16) / panel_bytes()), [&](int64_t begin, int64_t end) {
      for (int64_t j = begin; j < end; ++j) pack_b(j, 0, steps_, b.get() + j * panel_bytes());
    });
    const int64_t blocks = ceil_div(g_.m, kBlockRows), tall = ceil_div(row_panels, blocks), wide = std::min(kBlockCols / kPanelLines, col_panels);
    parallel_for(row_panels, tall, [&](int64_t begin, int64_t end) {
      const TileScope tiles(g_.level);
      ScratchArray<char> a(tall * panel_bytes()), sums(tall * wide * kSumBytes);
      for (int64_t i = begin; i < end; i += tall) {
        const int64_t i1 = std::min(end, i + tall);
        for (int64_t q = i; q < i1; ++q) pack_a(q, 0, steps_, a.get() + (q - i) * panel_bytes());
        for (int64_t j = 0; j < col_panels; j += wide)
          for (int64_t s = 0; s < steps_; s += block_steps_) {
            const int64_t count = std::min(block_steps_, steps_ - s), at = s * kPanelStepBytes;
            multiply(i, i1, j, std::min(col_panels, j + wide), count, a.get() + at, panel_bytes(), b.get() + j * panel_bytes() + at, panel_bytes(), s == 0,
                     s + count == steps_, sums.get());
          }
      }
    });
  }

  const PanelProduct& g_;
  int64_t step_;  // elements
  int64_t steps_;
  int64_t block_steps_;
};

}  // namespace

void panel_product(const PanelProduct& g) { Product(g).run(); }

}  // namespace tessera::cpu::internal
