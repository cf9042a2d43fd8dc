// Sums and products of sizes.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <numeric>

#include "c10/util/Exception.h"

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
int64_t sum_integers(It begin, It end) {
  return std::accumulate(begin, end, int64_t{0});
}
template <class It>
int64_t multiply_integers(It begin, It end) {
  return std::accumulate(begin, end, int64_t{1}, std::multiplies<int64_t>());
}

// Products of a part of the sizes: from dimension k on, up to it, and between two.
template <class C>
int64_t numelements_from_dim(int k, const C& dims) {
  return static_cast<size_t>(k) > dims.size() ? 1 : multiply_integers(dims.begin() + k, dims.end());
}
template <class C>
int64_t numelements_to_dim(int k, const C& dims) {
  TORCH_INTERNAL_ASSERT(k >= 0 && static_cast<size_t>(k) <= dims.size());
  return multiply_integers(dims.begin(), dims.begin() + k);
}
template <class C>
int64_t numelements_between_dim(int k, int l, const C& dims) {
  TORCH_INTERNAL_ASSERT(k >= 0 && l >= 0);
  const auto [from, to] = std::minmax(k, l);
  TORCH_INTERNAL_ASSERT(static_cast<size_t>(to) < dims.size());
  return multiply_integers(dims.begin() + from, dims.begin() + to);
}

}  // namespace c10
