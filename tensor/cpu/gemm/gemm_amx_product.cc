// The product of matrices of any size and strides on packed panels: blocking and work sharing.
//
// A task has a block of columns of C, and packs its part of B, which stays in L2. Then the rows of A pass by, a panel
// at a time. While a block of C is computed, the one before is written and the next panel of A is packed, a little at a
// time (gemm_amx_beside.h). Long k is cut, and sums are kept between the parts. Every cut depends on the sizes only,
// and each number of C is summed in one order, so the bits do not depend on the number of threads.
#include <algorithm>
#include <atomic>

#include "tensor/core/parallel.h"
#include "tensor/cpu/gemm/gemm_amx.h"
#include "tensor/cpu/gemm/gemm_amx_beside.h"
#include "tensor/cpu/support/integer.h"
#include "tensor/cpu/support/scratch.h"

namespace tessera::cpu::internal {
namespace {

constexpr int64_t kBlockSteps = 8;         // of k at a time: a panel of A stays in L1 while those of B go through it
constexpr int64_t kBesideBlockSteps = 20;  // the same where panels of B pass L1 by
constexpr int64_t kDeepSteps = 64;         // of k that is packed at a time
constexpr int64_t kBlockBytes = 1 << 20;   // of packed B
constexpr int64_t kWidePanels = 16;        // of B at most in a task
constexpr int64_t kBesidePanels = 8;       // of B, fewer are no time to pack a panel of A in
constexpr int64_t kTallPanels = 32;        // of A, while sums are kept
constexpr int64_t kSumBytes = kPanelLines * kPanelLines * 4;  // a block of sums
constexpr int64_t kLargeBytes = 1 << 20;                      // of A and B, which come from beyond L2
constexpr int64_t kFarBytes = 8 << 20;  // of A and B, which should be fetched long before they are packed
constexpr int64_t kCacheLine = 64;
constexpr int64_t kStreamElements = 1 << 20;  // fewer elements of C never bypass the caches
constexpr double kTaskWork = 1 << 22;         // products worth a task of their own

// Scratch memory of more than half a huge page is one: then L2 holds it without conflicts.
int64_t scratch_bytes(int64_t bytes) { return bytes >= (1 << 18) ? std::max<int64_t>(bytes, (1 << 20) + 1) : bytes; }

// Brings the lines of an operand into L2, a few at a time, while others are computed with.
class Ahead {
 public:
  Ahead() : Ahead(nullptr, 0, 0, 0) {}
  Ahead(const char* data, int64_t stride, int64_t rows, int64_t row_bytes)
      : at_(data), stride_(stride), per_row_(ceil_div(row_bytes, kCacheLine)), left_(rows * per_row_) {}
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

// What runs beside the products.
class Side {
 public:
  explicit Side(const PanelProduct& g) : g_(g) {}

  // C: the sums of a block, which must stay until the next block is computed.
  void write(int64_t i, int64_t j, int64_t rows, int64_t cols, const char* sums) {
    finish_write();
    i_ = i;
    j_ = j;
    rows_ = rows;
    cols_ = cols;
    sums_ = sums;
  }
  // Before a block of `steps`. What is not written by its end would be lost.
  void begin_block(int64_t steps) {
    if (steps < kBesideSteps)
      finish_write();
    else
      at_once_ = ceil_div(rows_, steps / kBesideSteps);
  }
  void finish_write() {
    at_once_ = rows_;
    write_rows();
  }

  // A: lines contiguous along k go into a panel, over `calls` calls.
  void pack(const PanelLines& lines, int64_t calls) {
    rest_ = lines;
    begin_lines(rest_);
    pieces_ = ceil_div(rest_.left, calls);
  }
  void finish_pack() { pack_lines(rest_, rest_.left); }
  // Where nothing runs beside: the lines of the next panel are fetched, some before each of `calls` blocks.
  void fetch_later(const Ahead& ahead, int64_t calls) {
    ahead_ = ahead;
    fetch_ = ceil_div(ahead.lines(), calls);
  }
  void fetch() {
    if (fetch_ > 0) ahead_.fetch(fetch_);
  }

  static void run(void* self) { static_cast<Side*>(self)->step(); }

 private:
  void step() {
    if (rows_ > 0) write_rows();
    if (rest_.left > 0) pack_lines(rest_, pieces_);
  }
  void write_rows() {
    const int64_t n = std::min(at_once_, rows_);
    if (n > 0) g_.write(g_.context, i_, j_, n, cols_, sums_);
    rows_ -= n;
    i_ += n;
    sums_ += n * kPanelLines * 4;
  }

  const PanelProduct& g_;
  int64_t i_ = 0, j_ = 0, rows_ = 0, cols_ = 0, at_once_ = 0;
  const char* sums_ = nullptr;
  PanelLines rest_{};  // of the panel
  Ahead ahead_;
  int64_t pieces_ = 0, fetch_ = 0;  // at each call
};

class Product {
 public:
  explicit Product(const PanelProduct& g)
      : g_(g),
        parts_(g.block == split_block ? 2 : 1),
        panel_step_(parts_ * kPanelStepBytes),
        step_(kStepBytes / g.item),
        steps_(ceil_div(g.k, step_)),
        bytes_((g.m * g.k + g.k * g.n) * g.item),
        row_panels_(ceil_div(g.m, kPanelLines)),
        col_panels_(ceil_div(g.n, kPanelLines)) {
    deep_ = ceil_div(steps_, ceil_div(steps_, kDeepSteps / parts_));
    wide_ = std::min(col_panels_, std::clamp<int64_t>(kBlockBytes / (deep_ * panel_step_), 4, kWidePanels));
    beside_ =
        wide_ >= kBesidePanels && steps_ >= 2 * kBesideSteps && bytes_ < kFarBytes ? block_beside(g.block) : nullptr;
    block_ = ceil_div(deep_, ceil_div(deep_, beside_ ? kBesideBlockSteps : kBlockSteps / parts_));
    // Rows are shared out as well where columns are too few for the threads, which has no influence on the order of
    // sums. Small tasks are not worth it.
    const double row = static_cast<double>(g.k) * kPanelLines * kPanelLines * static_cast<double>(wide_);
    const int64_t col_blocks = ceil_div(col_panels_, wide_);
    tall_ = std::max(ceil_div(row_panels_, ceil_div(in_parallel_region() ? 1 : num_threads(), col_blocks)),
                     static_cast<int64_t>(kTaskWork / row));
    // Sums that are kept between parts of k should fit in L2.
    tall_ = std::max<int64_t>(
        1, std::min(tall_, deep_ < steps_ ? std::min<int64_t>(row_panels_, kTallPanels) : row_panels_));
  }

  // Shared out among the threads.
  void run() const {
    const double work = static_cast<double>(g_.k) * kPanelLines * kPanelLines * static_cast<double>(tall_ * wide_);
    parallel_ranges(tasks(), std::max<int64_t>(1, static_cast<int64_t>(kTaskWork / work)),
                    [&](int64_t begin, int64_t end) {
                      const TileScope tiles(g_.level);
                      const ScratchArray<char> memory(scratch_bytes(room()));
                      run_tasks(begin, end, memory.get());
                    });
  }

  // On a thread with tiles and `room()` bytes of memory: B, two panels of A, and the sums of a panel of rows, or of all
  // rows between the parts of k, or two blocks of sums if a block of k is all of it.
  int64_t tasks() const { return row_blocks() * col_blocks(); }
  int64_t room() const {
    return b_bytes() + a_room() + std::max<int64_t>(2, (deep_ == steps_ ? 1 : tall_) * wide_) * kSumBytes;
  }
  void run_tasks(int64_t begin, int64_t end, char* memory) const {
    char *const a = memory + b_bytes(), *const sums = a + a_room();
    const int64_t rows = row_blocks();
    Side side(g_);
    for (int64_t t = begin; t < end; ++t) {
      const int64_t i0 = t % rows * tall_, j0 = t / rows * wide_;
      const Task task{i0,
                      std::min(row_panels_, i0 + tall_),
                      j0,
                      std::min(col_panels_, j0 + wide_),
                      {a, a + a_bytes()},
                      memory,
                      sums,
                      deep_ == steps_};
      for (int64_t s = 0; s < steps_; s += deep_) run_part(task, s, std::min(deep_, steps_ - s), side);
    }
    side.finish_write();
    if (g_.m * g_.n >= kStreamElements)
      std::atomic_thread_fence(std::memory_order_seq_cst);  // `write` may have bypassed the caches
  }

 private:
  struct Task {
    int64_t i0, i1, j0, j1;  // panels
    char* a[2];
    char *b, *sums;
    bool whole;
  };

  int64_t row_blocks() const { return ceil_div(row_panels_, tall_); }
  int64_t col_blocks() const { return ceil_div(col_panels_, wide_); }
  int64_t a_bytes() const { return deep_ * panel_step_; }
  int64_t a_room() const { return (beside_ ? 2 : 1) * a_bytes(); }
  int64_t b_bytes() const { return wide_ * a_bytes(); }

  // Steps [s, s + count) of panel i of A, of panels [j0, j1) of B.
  const char* a_at(int64_t i, int64_t s) const {
    return static_cast<const char*>(g_.a) + (i * kPanelLines * g_.a_row + s * step_ * g_.a_col) * g_.item;
  }
  int64_t lines_of(int64_t i) const { return std::min(kPanelLines, g_.m - i * kPanelLines); }
  int64_t depth_of(int64_t s, int64_t count) const { return std::min(count * step_, g_.k - s * step_); }
  // What is to be split is packed into the second half of its panel.
  char* packed(char* panel, int64_t count) const { return panel + (parts_ - 1) * count * kPanelStepBytes; }
  void pack_a(int64_t i, int64_t s, int64_t count, char* to) const {
    if (g_.pack_a) return g_.pack_a(g_.context, i * kPanelLines, lines_of(i), s * step_, depth_of(s, count), to);
    pack_panel_a(g_.item, a_at(i, s), g_.a_row, g_.a_col, lines_of(i), depth_of(s, count), g_.flip, packed(to, count));
    if (parts_ == 2) split_panel(count, to);
  }
  void pack_b(int64_t j0, int64_t j1, int64_t s, int64_t count, char* to) const {
    const int64_t col = j0 * kPanelLines, p = s * step_;
    pack_panels_b(g_.item, static_cast<const char*>(g_.b) + (p * g_.b_row + col * g_.b_col) * g_.item, g_.b_col,
                  g_.b_row, std::min((j1 - j0) * kPanelLines, g_.n - col), depth_of(s, count), packed(to, count),
                  count * panel_step_);
    for (int64_t j = j0; j < j1 && parts_ == 2; ++j) split_panel(count, to + (j - j0) * count * panel_step_);
  }

  // What packing of panel i will read. Strided elements are not fetched.
  Ahead ahead_a(int64_t i, int64_t s, int64_t count) const {
    if (lines_of(i) <= 0 || (g_.a_col != 1 && g_.a_row != 1)) return {};
    if (g_.a_col == 1) return {a_at(i, s), g_.a_row * g_.item, lines_of(i), depth_of(s, count) * g_.item};
    return {a_at(i, s), g_.a_col * g_.item, depth_of(s, count), lines_of(i) * g_.item};
  }

  // Steps [s, s + count) of k for all of a task.
  void run_part(const Task& t, int64_t s, int64_t count, Side& side) const {
    pack_b(t.j0, t.j1, s, count, t.b);
    pack_a(t.i0, s, count, t.a[0]);
    const int64_t blocks = (t.j1 - t.j0) * ceil_div(count, block_), calls = (t.j1 - t.j0) * (count / kBesideSteps);
    for (int64_t i = t.i0; i < t.i1; ++i) {
      const bool more = i + 1 < t.i1, beside = more && beside_ && calls > 0 && g_.a_col == 1;
      char *const a = t.a[beside_ ? (i - t.i0) & 1 : 0], *const next = t.a[beside_ ? (i + 1 - t.i0) & 1 : 0];
      if (!beside_ && bytes_ >= kLargeBytes) {
        side.fetch_later(more                 ? ahead_a(i + 1, s, count)
                         : s + count < steps_ ? ahead_a(t.i0, s + count, std::min(deep_, steps_ - s - count))
                                              : Ahead(),
                         blocks);
      }
      if (beside)
        side.pack({a_at(i + 1, s), g_.a_row * g_.item, lines_of(i + 1), depth_of(s, count) * g_.item, next, g_.flip},
                  calls);
      char* const sums = t.whole ? t.sums : t.sums + (i - t.i0) * wide_ * kSumBytes;
      for (int64_t q = 0; q < count; q += block_)
        multiply(t, i, s + q, std::min(block_, count - q), a + q * panel_step_, t.b + q * panel_step_,
                 count * panel_step_, sums, side);
      if (beside)
        side.finish_pack();
      else if (more)
        pack_a(i + 1, s, count, next);
    }
  }

  // One panel of A and all of B's, b_panel bytes apart, over a block of k. The last block writes C.
  void multiply(const Task& t, int64_t i, int64_t s, int64_t steps, const char* a, const char* b, int64_t b_panel,
                char* sums, Side& side) const {
    const bool first = s == 0, last = s + steps == steps_;
    for (int64_t j = t.j0; j < t.j1; ++j, b += b_panel) {
      const int64_t cols = std::min(kPanelLines, g_.n - j * kPanelLines);
      // Two blocks of sums serve all, in turn, if one block of k is all.
      char* const c = sums + (first && last ? j & 1 : j - t.j0) * kSumBytes;
      if (beside_) {
        const Beside beside{Side::run, &side};
        side.begin_block(steps);
        beside_(steps, a, b, lines_of(i), cols, c, kPanelLines, !first, &beside);
        if (last) side.write(i * kPanelLines, j * kPanelLines, lines_of(i), cols, c);
      } else {
        side.fetch();
        g_.block(steps, a, b, lines_of(i), cols, c, kPanelLines, !first);
        if (last) g_.write(g_.context, i * kPanelLines, j * kPanelLines, lines_of(i), cols, c);
      }
    }
  }

  const PanelProduct& g_;
  const int64_t parts_, panel_step_;  // of an element; bytes of a panel's step
  const int64_t step_;                // elements of k
  const int64_t steps_, bytes_;       // bytes of A and B
  const int64_t row_panels_, col_panels_;
  BlockBeside beside_;    // null: nothing runs beside the products
  int64_t deep_, block_;  // steps
  int64_t wide_, tall_;   // panels of a task
};

}  // namespace

void panel_product(const PanelProduct& g) { Product(g).run(); }

void panel_products(const PanelProduct& first, int64_t count, int64_t a_step, int64_t b_step,
                    void (*advance)(void* state), void* state) {
  PanelProduct g = first;
  const Product product(g);
  const TileScope tiles(g.level);
  const ScratchArray<char> memory(scratch_bytes(product.room()));
  for (int64_t i = 0; i < count; ++i) {
    product.run_tasks(0, product.tasks(), memory.get());
    g.a = static_cast<const char*>(g.a) + a_step * g.item;
    g.b = static_cast<const char*>(g.b) + b_step * g.item;
    advance(state);
  }
}

}  // namespace tessera::cpu::internal
