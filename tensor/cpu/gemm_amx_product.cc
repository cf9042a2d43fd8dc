// The product of matrices of any size and strides on packed panels: blocking and work sharing.
//
// A task has a block of columns of C, and packs its part of B, which stays in L2. Then the rows of A pass by, a panel at a time, the next one on its way.
// Long k is cut, and sums are kept between the parts. Every cut depends on the sizes only, and each number of C is summed in one order, so the bits do not
// depend on the number of threads.
#include <algorithm>
#include <atomic>

#include "tensor/core/parallel.h"
#include "tensor/cpu/gemm_amx.h"
#include "tensor/cpu/scratch.h"

namespace tessera::cpu::internal {
namespace {

constexpr int64_t kBlockSteps = 8;  // of k at a time: a panel of A stays in L1 while those of B pass by
constexpr int64_t kDeepSteps = 64;   // of k that is packed at a time
constexpr int64_t kBlockBytes = 1 << 20;  // of packed B
constexpr int64_t kWidePanels = 16;       // of B at most in a task
constexpr int64_t kTallPanels = 32;       // of A, while sums are kept
constexpr int64_t kSumBytes = kPanelLines * kPanelLines * 4;  // a block of sums
constexpr int64_t kLargeBytes = 1 << 20;                       // of A and B
constexpr int64_t kCacheLine = 64;
constexpr int64_t kStreamElements = 1 << 20;                   // fewer elements of C never bypass the caches
constexpr double kTaskWork = 1 << 22;                         // products worth a task of their own

int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }


// Scratch memory of more than half a huge page is one: then L2 holds it without conflicts.
int64_t scratch_bytes(int64_t bytes) { return bytes >= (1 << 18) ? std::max<int64_t>(bytes, (1 << 20) + 1) : bytes; }

// Brings the lines of an operand into L2, a few at a time, while others are computed with.
class Ahead {
 public:
  Ahead(const char* data, int64_t stride, int64_t rows, int64_t row_bytes) : at_(data), stride_(stride), per_row_(ceil_div(row_bytes, kCacheLine)), left_(rows * per_row_) {}
  int64_t lines() const { return left_; }
  void fetch(int64_t lines) {
    lines = std::min(lines, left_);
    left_ -= lines;
    while (lines > 0) {
      const int64_t n = std::min(lines, per_row_ - in_row_);
      for (int64_t i = 0; i < n; ++i) __builtin_prefetch(at_ + (in_row_ + i) * kCacheLine, 0, 2);
      lines -= n;
      in_row_ += n;
      if (in_row_ < per_row_) return;
      in_row_ = 0;
      at_ += stride_;
    }
  }

 private:
  const char* at_;
  int64_t stride_, per_row_, left_, in_row_ = 0;
};

class Product {
 public:
  explicit Product(const PanelProduct& g)
      : g_(g), step_(kStepBytes / g.item), steps_(ceil_div(g.k, step_)), row_panels_(ceil_div(g.m, kPanelLines)), col_panels_(ceil_div(g.n, kPanelLines)) {
    deep_ = ceil_div(steps_, ceil_div(steps_, kDeepSteps));
    block_ = ceil_div(deep_, ceil_div(deep_, kBlockSteps));
    wide_ = std::min(col_panels_, std::clamp<int64_t>(kBlockBytes / (deep_ * kPanelStepBytes), 4, kWidePanels));
    // Rows are shared out as well where columns are too few for the threads, which has no influence on the order of sums. Small tasks are not worth it.
    const double row = static_cast<double>(g.k) * kPanelLines * kPanelLines * static_cast<double>(wide_);
    const int64_t col_blocks = ceil_div(col_panels_, wide_);
    tall_ = std::max(ceil_div(row_panels_, ceil_div(in_parallel_region() ? 1 : num_threads(), col_blocks)), static_cast<int64_t>(kTaskWork / row));
    // Sums that are kept between parts of k should fit in L2.
    tall_ = std::max<int64_t>(1, std::min(tall_, deep_ < steps_ ? std::min<int64_t>(row_panels_, kTallPanels) : row_panels_));
    large_ = (g.m * g.k + g.k * g.n) * g.item >= kLargeBytes;
  }

  void run() const {
    const int64_t row_blocks = ceil_div(row_panels_, tall_), col_blocks = ceil_div(col_panels_, wide_);
    const double work = static_cast<double>(g_.k) * kPanelLines * kPanelLines * static_cast<double>(tall_ * wide_);
    parallel_for(row_blocks * col_blocks, std::max<int64_t>(1, static_cast<int64_t>(kTaskWork / work)), [&](int64_t begin, int64_t end) {
      const TileScope tiles(g_.level);
      const bool whole = deep_ == steps_;
      // Sums of a panel of rows, or of all rows between the parts of k.
      const int64_t b_bytes = wide_ * deep_ * kPanelStepBytes, a_bytes = deep_ * kPanelStepBytes, sum_bytes = (whole ? 1 : tall_) * wide_ * kSumBytes;
      const ScratchArray<char> memory(scratch_bytes(b_bytes + a_bytes + sum_bytes));
      char *const b = memory.get(), *const a = b + b_bytes, *const sums = a + a_bytes;
      for (int64_t t = begin; t < end; ++t) {
        const int64_t i0 = t % row_blocks * tall_, j0 = t / row_blocks * wide_;
        const Task task{i0, std::min(row_panels_, i0 + tall_), j0, std::min(col_panels_, j0 + wide_), a, b, sums, whole};
        for (int64_t s = 0; s < steps_; s += deep_) run_part(task, s, std::min(deep_, steps_ - s));
      }
      if (g_.m * g_.n >= kStreamElements) std::atomic_thread_fence(std::memory_order_seq_cst);  // `write` may have bypassed the caches
    });
  }

 private:
  struct Task {
    int64_t i0, i1, j0, j1;  // panels
    char *a, *b, *sums;
    bool whole;
  };

  // Steps [s, s + count) of panel i of A, of panels [j0, j1) of B.
  const char* a_at(int64_t i, int64_t s) const { return static_cast<const char*>(g_.a) + (i * kPanelLines * g_.a_row + s * step_ * g_.a_col) * g_.item; }
  void pack_a(int64_t i, int64_t s, int64_t count, char* to) const {
    pack_panel_a(g_.item, a_at(i, s), g_.a_row, g_.a_col, std::min(kPanelLines, g_.m - i * kPanelLines), std::min(count * step_, g_.k - s * step_), g_.flip, to);
  }
  void pack_b(int64_t j0, int64_t j1, int64_t s, int64_t count, char* to) const {
    const int64_t col = j0 * kPanelLines, p = s * step_;
    pack_panels_b(g_.item, static_cast<const char*>(g_.b) + (p * g_.b_row + col * g_.b_col) * g_.item, g_.b_col, g_.b_row,
                  std::min((j1 - j0) * kPanelLines, g_.n - col), std::min(count * step_, g_.k - p), to, count * kPanelStepBytes);
  }

  // What pack_a(i, s, count) will read. Strided elements are not fetched.
  Ahead ahead_a(int64_t i, int64_t s, int64_t count) const {
    const int64_t lines = std::min(kPanelLines, g_.m - i * kPanelLines), depth = std::min(count * step_, g_.k - s * step_);
    if (lines <= 0 || !large_ || (g_.a_col != 1 && g_.a_row != 1)) return {nullptr, 0, 0, 0};
    if (g_.a_col == 1) return {a_at(i, s), g_.a_row * g_.item, lines, depth * g_.item};
    return {a_at(i, s), g_.a_col * g_.item, depth, lines * g_.item};
  }

  // Steps [s, s + count) of k for all of a task.
  void run_part(const Task& t, int64_t s, int64_t count) const {
    pack_b(t.j0, t.j1, s, count, t.b);
    for (int64_t i = t.i0; i < t.i1; ++i) {
      pack_a(i, s, count, t.a);
      Ahead next = i + 1 < t.i1 ? ahead_a(i + 1, s, count) : ahead_a(t.i0, s + count, std::min(deep_, steps_ - s - count));
      const int64_t lines = ceil_div(next.lines(), (t.j1 - t.j0) * ceil_div(count, block_));
      char* const sums = t.whole ? t.sums : t.sums + (i - t.i0) * wide_ * kSumBytes;
      for (int64_t q = 0; q < count; q += block_)
        multiply(t, i, s + q, std::min(block_, count - q), t.a + q * kPanelStepBytes, t.b + q * kPanelStepBytes, count * kPanelStepBytes, sums, next, lines);
    }
  }

  // One panel of A and all of B's, b_panel bytes apart, over a block of k. The last block writes C.
  void multiply(const Task& t, int64_t i, int64_t s, int64_t steps, const char* a, const char* b, int64_t b_panel, char* sums, Ahead& next, int64_t lines) const {
    const bool first = s == 0, last = s + steps == steps_;
    const int64_t rows = std::min(kPanelLines, g_.m - i * kPanelLines);
    for (int64_t j = t.j0; j < t.j1; ++j, b += b_panel) {
      const int64_t cols = std::min(kPanelLines, g_.n - j * kPanelLines);
      // One block of sums serves all if it is first and last.
      char* const c = first && last ? sums : sums + (j - t.j0) * kSumBytes;
      next.fetch(lines);
      g_.block(steps, a, b, rows, cols, c, kPanelLines, !first);
      if (last) g_.write(g_.context, i * kPanelLines, j * kPanelLines, rows, cols, c);
    }
  }

  const PanelProduct& g_;
  int64_t step_;  // elements of k
  int64_t steps_, row_panels_, col_panels_;
  int64_t deep_, block_;  // steps
  int64_t wide_, tall_;   // panels of a task
  bool large_;            // operands come from beyond L2
};

}  // namespace

void panel_product(const PanelProduct& g) { Product(g).run(); }

}  // namespace tessera::cpu::internal
