// Sums and products of sizes.
#pragma once

#include <cstdint>
#include <functional>
#include <numeric>

namespace c10 {

template <class C>
int64_t sum_integers(const C& l) {
  return std::accumulate(l.begin(), l.end(), int64_t{0});
}
template <class C>
int64_t multiply_integers(const C& l) {
  return std::accumulate(l.begin(), l.end(), int64_t{1}, std::multiplies<int64_t>());
}
template <class It>
int64_t multiply_integers(It begin, It end) {
  return std::accumulate(begin, end, int64_t{1}, std::multiplies<int64_t>());
}

}  // namespace c10
