// Matrices of a batch that go together, one in each lane of vectors.
#pragma once

#include <algorithm>
#include <cstdint>

#include "tensor/core/parallel.h"

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
};

// Calls fn(group) for the groups of a batch of `count` matrices, each with at most as many as there are lanes.
template <class R, class F>
void for_lane_groups(int64_t lanes, int64_t count, F&& fn) {
  parallel_for((count + lanes - 1) / lanes, 1, [&](int64_t begin, int64_t end) {
    for (int64_t g = begin; g < end; ++g) fn(LaneGroup<R>{g * lanes, std::min(lanes, count - g * lanes), lanes});
  });
}

}  // namespace tessera::cpu::internal
