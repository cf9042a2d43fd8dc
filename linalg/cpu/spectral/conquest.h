// Divide and conquer: how a condensed matrix is cut in halves, and what singular values and eigenvalues have in common
// when halves are joined.
#pragma once

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "linalg/cpu/spectral/secular.h"
#include "linalg/cpu/spectral/vectors.h"

namespace tessera::cpu::internal {

// How a problem of n is cut in two until its parts are small: the parts of each level, from the smallest on. Part i of
// a level is made of the parts 2 i and 2 i + 1 of the level before.
struct Halves {
  struct Block {
    int64_t begin, size;
  };
  std::vector<std::vector<Block>> levels;

  // gap: rows between two halves that belong to neither.
  Halves(int64_t n, int64_t leaf, int64_t gap) {
    std::vector<Block> level{{0, n}};
    for (;;) {
      levels.insert(levels.begin(), level);
      if (std::all_of(level.begin(), level.end(), [&](const Block& b) { return b.size <= leaf; })) return;
      std::vector<Block> next;
      for (const Block& b : level) {
        const int64_t first = (b.size - gap) / 2;
        next.push_back({b.begin, first});
        next.push_back({b.begin + first + gap, b.size - gap - first});
      }
      level = std::move(next);
    }
  }
};

// With all vectors in rows; or (`narrow`), where only values are asked for, with the first and the last element of each
// vector of a block, which is all that a merge needs to know.
template <class R>
class Conquest {
 protected:
  using Block = Halves::Block;
  static constexpr int64_t kLeaf = 16, kNarrowLeaf = 12;
  static constexpr int64_t kRoots = 32;  // a piece of work

  // d (n), e (n - 1): the diagonals. gap: as that of Halves.
  Conquest(double* d, double* e, int64_t n, int64_t gap, bool narrow)
      : d_(d),
        e_(e),
        n_(n),
        gap_(gap),
        is_narrow_(narrow),
        width_(narrow ? 2 : n),
        room_(n * width_),
        coefficients_(n * n),
        order_(n),
        halves_(n, narrow ? kNarrowLeaf : kLeaf, gap) {
    for (int64_t i = 0; i < n; ++i) largest_ = std::max({largest_, std::abs(d[i]), i + 1 < n ? std::abs(e[i]) : 0});
    // Numbers beside which squares, and quotients of those, could underflow are far below a rounding of the largest.
    constexpr double kNothing = 1e-60;
    for (int64_t i = 0; i < n; ++i) {
      if (std::abs(d[i]) < kNothing * largest_) d[i] = 0;
      if (i + 1 < n && std::abs(e[i]) < kNothing * largest_) e[i] = 0;
    }
  }

  const std::vector<Block>& leaves() const { return halves_.levels.front(); }

  // leaf(block), then merge(block, size of its first half) for all; false as soon as one of a level is false.
  template <class Leaf, class Merge>
  bool climb(Leaf&& leaf, Merge&& merge) {
    const auto all = [](const std::vector<Block>& level, auto&& fn) {
      const int64_t count = static_cast<int64_t>(level.size());
      std::vector<char> good(count);
      const auto some = [&](int64_t begin, int64_t end) {
        for (int64_t i = begin; i < end; ++i) good[i] = fn(i);
      };
      if (count >= 4)
        parallel_for(count, 1, some);
      else
        some(0, count);
      return std::all_of(good.begin(), good.end(), [](char g) { return g; });
    };
    const auto sorted = [this](const Block& b, bool good) {
      if (good) sort_block(b);
      return good;
    };
    if (!all(leaves(), [&](int64_t i) { return sorted(leaves()[i], leaf(leaves()[i])); })) return false;
    for (size_t level = 1; level < halves_.levels.size(); ++level) {
      const auto &whole = halves_.levels[level], &parts = halves_.levels[level - 1];
      if (!all(whole, [&](int64_t i) { return sorted(whole[i], merge(whole[i], parts[2 * i].size)); })) return false;
    }
    return true;
  }

  R* corner(R* rows, const Block& b) const { return rows ? rows + b.begin * (is_narrow_ ? 2 : n_ + 1) : nullptr; }
  // The identity for a block of `count` rows.
  void put_ones(R* rows, int64_t count) const {
    if (is_narrow_)
      rows[0] = rows[2 * count - 1] = 1;
    else
      for (int64_t i = 0; i < count; ++i) rows[i * (n_ + 1)] = 1;
  }

  // The positions of both halves' values, ascending.
  std::vector<int64_t> merged_order(const Block& b, int64_t first) {
    int64_t* const order = order_.data() + b.begin;
    const double* const d = d_ + b.begin;
    const int64_t second = first + gap_;
    for (int64_t i = second; i < b.size; ++i) order[i] += second;
    std::vector<int64_t> sorted(b.size - gap_);
    std::merge(order, order + first, order + second, order + b.size, sorted.begin(),
               [d](int64_t i, int64_t j) { return d[i] < d[j]; });
    return sorted;
  }

  // All roots, on all threads. False where one does not converge.
  static bool find_roots(const Secular& secular, SecularRoots roots) {
    std::vector<char> good((secular.n + kRoots - 1) / kRoots);
    parallel_for(secular.n, kRoots,
                 [&](int64_t begin, int64_t end) { good[begin / kRoots] = secular_roots(secular, begin, end, roots); });
    return std::find(good.begin(), good.end(), 0) == good.end();
  }

  // Values in their order; and rows in that of the values, `stride` apart.
  void sort_values(bool descending) {
    if (descending) std::reverse(order_.begin(), order_.end());
    const std::vector<double> values(d_, d_ + n_);
    for (int64_t i = 0; i < n_; ++i) d_[i] = values[order_[i]];
  }
  void sort_rows(const R* rows, R* to, int64_t stride) const {
    for (int64_t i = 0; i < n_; ++i) std::copy_n(rows + order_[i] * n_, n_, to + i * stride);
  }

  double *d_, *e_;
  int64_t n_, gap_;
  bool is_narrow_;
  int64_t width_;
  ScratchArray<R> room_, coefficients_;
  double largest_ = 0;

 private:
  void sort_block(const Block& b) {
    int64_t* const order = order_.data() + b.begin;
    std::iota(order, order + b.size, 0);
    const double* const d = d_ + b.begin;
    std::sort(order, order + b.size, [d](int64_t i, int64_t j) { return d[i] != d[j] ? d[i] < d[j] : i < j; });
  }

  std::vector<int64_t> order_;  // of each block: its values ascending
  Halves halves_;
};

}  // namespace tessera::cpu::internal
