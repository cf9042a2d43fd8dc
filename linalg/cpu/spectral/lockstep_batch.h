// Which matrices go into lanes, and in which order values come out of them.
#pragma once

#include <algorithm>
#include <numeric>
#include <vector>

#include "linalg/cpu/lane_group.h"
#include "linalg/cpu/spectral/lockstep.h"
#include "linalg/cpu/spectral/matrix_io.h"

namespace tessera::cpu::internal {

// Where row i of each lane of the group belongs, so that values come in order. before(x, y): x comes first.
template <class R, class Before>
std::vector<int64_t> places_of(const LaneGroup<R>& group, const R* values, int64_t n, Before before) {
  const int64_t lanes = group.lanes;
  std::vector<int64_t> places(n * lanes), order(n);
  for (int64_t lane = 0; lane < group.used; ++lane) {
    std::iota(order.begin(), order.end(), 0);
    const auto at = [&](int64_t i) { return values[i * lanes + lane]; };
    std::sort(order.begin(), order.end(),
              [&](int64_t i, int64_t j) { return before(at(i), at(j)) || (at(i) == at(j) && i < j); });
    for (int64_t p = 0; p < n; ++p) places[order[p] * lanes + lane] = p;
  }
  return places;
}

// Info of the matrices of a group by their scales; whether all of them are finite.
template <class R>
bool are_finite(const LaneGroup<R>& group, const R* scales, int32_t* info) {
  bool all = true;
  for (int64_t lane = 0; lane < group.used; ++lane) {
    info[group.first + lane] = scales[lane] == 0 ? -1 : 0;
    all = all && scales[lane] != 0;
  }
  return all;
}

// Row i of the vectors of each lane, of n numbers, is row places[i * lanes + lane] of the matrix `to`, times sign(lane,
// i); rows from places_of's on stay where they are. vectors: in arrays of lanes.
template <class R, class Sign>
void put_rows(const LaneGroup<R>& group, R* vectors, int64_t rows, int64_t n, const std::vector<int64_t>& places,
              const MatrixBatch& to, Sign sign) {
  const int64_t lanes = group.lanes, placed = static_cast<int64_t>(places.size()) / lanes;
  const ScratchArray<R> memory(group.used * rows * n);
  lockstep<R>().store(group.used, rows, n, vectors, {memory.get(), rows * n, n, 1});
  std::vector<int64_t> place(rows);
  std::vector<R> factor(rows, R{1});
  for (int64_t lane = 0; lane < group.used; ++lane) {
    const Matrix<R> m = matrix_of<R>(to, group.first + lane);
    for (int64_t i = 0; i < rows; ++i) {
      place[i] = i < placed ? places[i * lanes + lane] : i;
      if (i < placed) factor[i] = sign(lane, i);
    }
    const R* const from = memory.get() + lane * rows * n;
    if (m.col_stride == 1) {
      for (int64_t i = 0; i < rows; ++i) {
        R* const row = &m(place[i], 0);
        for (int64_t j = 0; j < n; ++j) row[j] = factor[i] * from[i * n + j];
      }
    } else {
      for (int64_t j = 0; j < n; ++j)
        for (int64_t i = 0; i < rows; ++i) m(place[i], j) = factor[i] * from[i * n + j];
    }
  }
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
