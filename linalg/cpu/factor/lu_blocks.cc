// The factorization itself: LU with partial pivoting, in blocks of columns.
//
// A block of columns, once it is factored, is a panel, which changes all blocks to its right: rows exchanged, a
// triangle solved, a product subtracted. Each block goes through these steps in their order, on whatever thread has
// nothing to do; no step of all is waited for, and what the next panel needs comes first. A block goes to the same
// thread each time if that is free: it stays in that core's cache. Blocks to the left exchange their rows at the end.
// What is wider than kWidest goes by halves: products with longer sums read and write less.
#include <algorithm>
#include <atomic>
#include <exception>
#include <numeric>
#include <thread>

#include "linalg/cpu/factor/blocks.h"

namespace tessera::cpu::factor {
namespace {

constexpr int64_t kWidest = 512;

// Which steps blocks have behind them: block j is changed by the j panels on its left, factored, and put into its place
// last. Threads take what can be done, so that one alone comes to the end as well.
class BlockSteps {
 public:
  explicit BlockSteps(int64_t blocks) : blocks_(blocks) {}

  // f(j, steps that block j has behind it), until all is done. worker: one of `workers`.
  template <class F>
  void work(int64_t worker, int64_t workers, const F& f) {
    for (int64_t j = 0; (j = take(worker, workers)) >= 0;) {
      const Return back{*this, j};
      f(j, done_[j]);
    }
  }

 private:
  // What a step that throws leaves would be waited for for ever.
  struct Return {
    BlockSteps& steps;
    int64_t block;
    const int exceptions = std::uncaught_exceptions();
    ~Return() {
      const Lock lock(steps.lock_);
      steps.is_taken_[block] = false;
      ++steps.done_[block];
      if (std::uncaught_exceptions() > exceptions) steps.is_over_ = true;
    }
  };
  struct Lock {
    std::atomic_flag& flag;
    explicit Lock(std::atomic_flag& f) : flag(f) {
      while (flag.test_and_set(std::memory_order_acquire)) std::this_thread::yield();
    }
    ~Lock() { flag.clear(std::memory_order_release); }
  };

  int64_t take(int64_t worker, int64_t workers) {
    for (int tries = 0;; ++tries) {
      {
        const Lock lock(lock_);
        const int64_t j = is_over_ ? blocks_ : find(worker, workers);
        if (j >= 0 && j < blocks_) is_taken_[j] = true;
        if (j >= 0) return j < blocks_ ? j : -1;
      }
      if (tries > 1000) std::this_thread::yield();
      for (int i = 0; i < 16; ++i) __builtin_ia32_pause();
    }
  }
  // blocks_: all is done; -1: nothing can be done now.
  int64_t find(int64_t worker, int64_t workers) const {
    int64_t next = 0, best = -1, rest = 0;
    while (next < blocks_ && done_[next] > next) ++next;
    if (next < blocks_ && is_ready(next)) return next;
    const auto cost = [&](int64_t j) { return done_[j] * 2 + (j % workers != worker); };
    for (int64_t j = 0; j < blocks_; ++j) {
      rest += done_[j] < j + 2;
      if (is_ready(j) && (best < 0 || cost(j) < cost(best))) best = j;
    }
    return rest ? best : blocks_;
  }
  bool is_ready(int64_t j) const {
    const int64_t steps = done_[j], before = j - 2;
    if (is_taken_[j] || steps == j + 2) return false;
    if (steps != j) return steps > j || done_[steps] > steps;
    // The panel two blocks before has the same memory.
    if (before < 0) return true;
    for (int64_t i = before + 1; i < blocks_; ++i)
      if (done_[i] <= before) return false;
    return done_[before] == j;
  }

  static constexpr int64_t kMost = kWidest / kBlock;
  int64_t blocks_;
  int64_t done_[kMost] = {};
  bool is_taken_[kMost] = {}, is_over_ = false;
  std::atomic_flag lock_ = ATOMIC_FLAG_INIT;
};

// Columns next to each other, the triangle at their top by rows, and where each row was before they were factored.
template <class T>
struct Panel {
  T* columns;
  T* triangle;
  int32_t* order;
};

// a: m x n with dense rows, or dense columns; m >= n. In blocks of kBlock columns, the last one of what is left.
template <class T>
class BlockedLu {
 public:
  BlockedLu(int64_t m, int64_t n, Matrix<T> a, int32_t* pivots)
      : m_(m),
        n_(n),
        blocks_((n + kBlock - 1) / kBlock),
        a_(a),
        pivots_(pivots),
        distance_(static_cast<int64_t>((m * sizeof(T) / 64 + 1) | 1) * 64 / sizeof(T)),  // odd: columns share no lines
        memory_(std::min<int64_t>(blocks_, 2) * (distance_ + kBlock) * std::min(n, kBlock)),
        rows_(2 * m) {}

  int32_t run(const T* from) {
    const Matrix<T> source = from ? a_.over(from) : a_;
    if (from) {
      parallel_for(blocks_, 1, [&](int64_t part, int64_t) {
        if (part == 0)
          factor_panel(0, source);
        else
          bring_part(part, source);
      });
    }
    BlockSteps steps(blocks_);
    const int64_t workers = std::min<int64_t>(num_threads(), blocks_);
    parallel_for(workers, 1, [&](int64_t worker, int64_t) {
      steps.work(worker, workers, [&](int64_t j, int64_t k) {
        if (k < j) return apply(k, j);
        if (k > j) return put_panel(j);
        if (j > 0 || !from) factor_panel(j, at(j, j));
      });
    });
    for (int64_t i = kBlock; i < n_; ++i) pivots_[i] += static_cast<int32_t>(i / kBlock * kBlock);
    parallel_for(blocks_ - 1, 1, [&](int64_t j, int64_t) { exchange_rows(j); });
    return info_;
  }

 private:
  int64_t width(int64_t block) const { return std::min(kBlock, n_ - block * kBlock); }
  Matrix<T> at(int64_t row_block, int64_t col_block) const { return a_.at(row_block * kBlock, col_block * kBlock); }
  // Two take turns: the next one is made while one is used.
  Panel<T> panel(int64_t k) const {
    const int64_t most = std::min(n_, kBlock);
    T* const columns = memory_.get() + k % 2 * (distance_ + kBlock) * most;
    return {columns, columns + distance_ * most, rows_.get() + k % 2 * m_};
  }

  // One of blocks_ - 1 parts of what is right of the first panel.
  void bring_part(int64_t part, Matrix<T> source) const {
    const auto row = [&](int64_t i) { return m_ * i / (blocks_ - 1); };
    if (const int64_t first = row(part - 1); a_.col_stride == 1)
      copy_matrix(row(part) - first, n_ - kBlock, source.at(first, kBlock), a_.at(first, kBlock));
    else
      copy_matrix(m_, width(part), source.at(0, part * kBlock), at(0, part));
  }

  void factor_panel(int64_t k, Matrix<T> from) {
    const int64_t rows = m_ - k * kBlock, cols = width(k);
    const Panel<T> to = panel(k);
    const Matrix<T> columns{to.columns, 1, distance_};
    copy_matrix(rows, cols, from, columns);
    int32_t info = 0;
    kernels<BlockKernels<T>>().lu_panel(rows, cols, to.columns, distance_, pivots_ + k * kBlock, &info);
    if (info && !info_) info_ = info + static_cast<int32_t>(k * kBlock);
    if (is_read_in_place()) copy_matrix(rows, cols, columns, at(k, k));
    copy_matrix(cols, cols, columns, {to.triangle, cols, 1});
    std::iota(to.order, to.order + rows, 0);
    for (int64_t i = 0; i < cols; ++i) std::swap(to.order[i], to.order[pivots_[k * kBlock + i]]);
  }

  void put_panel(int64_t k) const {
    if (!is_read_in_place())
      copy_matrix(m_ - k * kBlock, width(k), Matrix<T>{panel(k).columns, 1, distance_}, at(k, k));
  }
  // By products: rows of complex numbers are, columns would have to be packed.
  bool is_read_in_place() const { return kIsComplex<T> && a_.col_stride == 1; }

  // Calls f(first, strip) for strips of columns in which rows are copied: all of them where these are dense.
  template <class F>
  void for_strips(int64_t cols, F&& f) const {
    const int64_t strip = a_.col_stride == 1 ? cols : 1;
    for (int64_t first = 0; first < cols; first += strip) f(first, strip);
  }
  static void copy_row(const T* from, int64_t n, T* to) {
    if (n == 1)
      *to = *from;
    else
      std::copy_n(from, n, to);
  }

  // Rows below block j on the diagonal come to where the pivots of all later panels bring them.
  void exchange_rows(int64_t j) const {
    const int64_t first = (j + 1) * kBlock, rows = m_ - first, cols = width(j);
    const ScratchArray<int32_t> order(2 * rows);
    int32_t* const places = order.get() + rows;  // of rows that move
    std::iota(order.get(), places, 0);
    for (int64_t i = first; i < n_; ++i) std::swap(order[i - first], order[pivots_[i] - first]);
    int64_t count = 0;
    for (int64_t i = 0; i < rows; ++i) {
      if (order[i] == i) continue;
      places[count] = static_cast<int32_t>(i);
      order[count++] = order[i];
    }
    const ScratchArray<T> memory(count * cols);
    const Matrix<T> block = at(j + 1, j);
    for_strips(cols, [&](int64_t from, int64_t strip) {
      for (int64_t i = 0; i < count; ++i) copy_row(&block(order[i], from), strip, memory.get() + i * strip);
      for (int64_t i = 0; i < count; ++i) copy_row(memory.get() + i * strip, strip, &block(places[i], from));
    });
  }

  // What panel k does to block j.
  void apply(int64_t k, int64_t j) const {
    const int64_t rows = width(k), cols = width(j), below = m_ - k * kBlock - rows;
    const Panel<T> by = panel(k);
    const ScratchArray<T> memory(rows * cols);
    const Matrix<T> block = at(k, j), top{memory.get(), cols, 1};
    const int32_t* const pivots = pivots_ + k * kBlock;
    for_strips(cols, [&](int64_t first, int64_t strip) {
      for (int64_t i = 0; i < rows; ++i) copy_row(&block(by.order[i], first), strip, &top(i, first));
      for (int64_t i = 0; i < rows; ++i)  // rows from below the top, for each of which one comes from there
        if (const int64_t p = pivots[i]; p >= rows) copy_row(&block(by.order[p], first), strip, &block(p, first));
    });
    kernels<BlockKernels<T>>().solve_block(
        {rows, {by.triangle, rows, 1}, nullptr, top.data, cols, nullptr, top.data, cols, cols});
    copy_matrix(rows, cols, top, block);
    const Matrix<const T> left =
        is_read_in_place() ? at(k + 1, k).reading() : Matrix<const T>{by.columns + rows, 1, distance_};
    subtract_product<T>(below, cols, rows, left, top.reading(), block.at(rows, 0));
  }

  int64_t m_, n_, blocks_;
  Matrix<T> a_;
  int32_t* pivots_;
  int32_t info_ = 0;
  int64_t distance_;
  ScratchArray<T> memory_;
  ScratchArray<int32_t> rows_;
};

}  // namespace

// What is called in several places, for four types of numbers, is kept out of line: copies in its callers would be a
// third of their code. Rows are exchanged by strips of columns, which stay in the second cache while all pivots pass.
template <class T>
[[gnu::noinline]] void swap_rows(int64_t count, int64_t columns, Matrix<T> a, const int32_t* pivots, bool back) {
  constexpr int64_t kStrip = 512 / sizeof(T), kAhead = 4;
  const bool by_rows = a.col_stride == 1;
  const int64_t grain = std::max<int64_t>(by_rows ? kStrip : 64, 65536 / std::max<int64_t>(count, 1)),
                strip = by_rows ? kStrip : 1;
  const auto place = [&](int64_t step) { return back ? count - 1 - step : step; };
  parallel_for(columns, grain, [&](int64_t begin, int64_t end) {
    for (int64_t first = begin; first < end; first += strip) {
      const int64_t last = std::min(end, first + strip);
      for (int64_t s = 0; s < count; ++s) {
        const int64_t i = place(s), p = pivots[i];
        if (s + kAhead < count)
          for (int64_t j = first; j < last; j += 64 / sizeof(T))
            __builtin_prefetch(&a(pivots[place(s + kAhead)], j), 1);
        if (p == i) continue;
        if (by_rows)
          std::swap_ranges(&a(i, first), &a(i, first) + (last - first), &a(p, first));
        else
          std::swap(a(i, first), a(p, first));
      }
    }
  });
}

template <class T>
[[gnu::noinline]] int32_t factor_lu(int64_t m, int64_t n, Matrix<T> a, int32_t* pivots, const T* from) {
  if (m == 0 || n == 0) return 0;
  if (n <= kWidest && m >= n) return BlockedLu<T>(m, n, a, pivots).run(from);
  const int64_t left = m < n ? m : (n / 2 + kBlock - 1) / kBlock * kBlock, right = n - left;
  const int32_t info = factor_lu(m, left, a, pivots, from);
  const Matrix<T> b = a.at(0, left);
  if (from) bring_matrix(m, right, b.over(from + (b.data - a.data)), b);
  swap_rows(left, right, b, pivots);
  solve_triangle<T>(left, right, a.reading(), kUnitLower, b);
  if (m == left) return info;
  subtract_product<T>(m - left, right, left, a.at(left, 0).reading(), b.reading(), b.at(left, 0));
  const int32_t later = factor_lu(m - left, right, b.at(left, 0), pivots + left);
  swap_rows(std::min(m - left, right), left, a.at(left, 0), pivots + left);
  for (int64_t i = left; i < std::min(m, n); ++i) pivots[i] += static_cast<int32_t>(left);
  return info ? info : later ? later + static_cast<int32_t>(left) : 0;
}

#define TESSERA_INSTANCES(T)                                                  \
  template void swap_rows(int64_t, int64_t, Matrix<T>, const int32_t*, bool); \
  template int32_t factor_lu(int64_t, int64_t, Matrix<T>, int32_t*, const T*);
TESSERA_INSTANCES(float)
TESSERA_INSTANCES(double)
TESSERA_INSTANCES(std::complex<float>)
TESSERA_INSTANCES(std::complex<double>)
#undef TESSERA_INSTANCES

}  // namespace tessera::cpu::factor
