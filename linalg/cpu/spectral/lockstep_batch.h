// How matrices come into lanes, and vectors out of them.
#pragma once

#include <algorithm>
#include <numeric>
#include <vector>

#include "linalg/cpu/spectral/lockstep.h"
#include "linalg/cpu/spectral/matrix_io.h"

namespace tessera::cpu::internal {

// Matrices first ... first + used - 1 of a batch in the lanes of a group.
template <class R>
struct LaneGroup {
  int64_t first, used, lanes;

  // to[i * cols + j] of each lane = fn(lane, i, j) for j from begin(i) on.
  template <class Begin, class F>
  void load(R* to, int64_t rows, int64_t cols, Begin begin, F fn) const {
    if (used < lanes) std::fill_n(to, rows * cols * lanes, R{0});
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t lane = 0; lane < used; ++lane)
        for (int64_t j = begin(i); j < cols; ++j) to[(i * cols + j) * lanes + lane] = fn(lane, i, j);
  }
  // Where row i of each lane belongs, so that values come in order. before(x, y): x comes first.
  template <class Before>
  std::vector<int64_t> places(const R* values, int64_t n, Before before) const {
    std::vector<int64_t> places(n * lanes), order(n);
    for (int64_t lane = 0; lane < used; ++lane) {
      std::iota(order.begin(), order.end(), 0);
      const auto at = [&](int64_t i) { return values[i * lanes + lane]; };
      std::sort(order.begin(), order.end(),
                [&](int64_t i, int64_t j) { return before(at(i), at(j)) || (at(i) == at(j) && i < j); });
      for (int64_t p = 0; p < n; ++p) places[order[p] * lanes + lane] = p;
    }
    return places;
  }
};

// Calls fn(group) for the groups of a batch of matrices, which are as many as there are lanes.
template <class R, class F>
void for_lane_groups(int64_t count, F&& fn) {
  const int64_t lanes = lockstep<R>().lanes();
  parallel_for((count + lanes - 1) / lanes, 1, [&](int64_t begin, int64_t end) {
    for (int64_t g = begin; g < end; ++g) fn(LaneGroup<R>{g * lanes, std::min(lanes, count - g * lanes), lanes});
  });
}

// Whether matrices of m x n go better together than one by one. (Their number of lanes differs between machines, so
// that their results may differ in rounding; those of one machine never do.)
template <class T>
bool goes_together(int64_t count, int64_t m, int64_t n) {
  if constexpr (kIsComplex<T>)
    return false;
  else
    return count >= 4 && m <= 64 && n <= 32;
}

}  // namespace tessera::cpu::internal
