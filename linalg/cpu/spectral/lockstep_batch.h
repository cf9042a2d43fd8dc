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
