// Loops on several threads. The cut depends on the problem's size alone.
#pragma once

#include <vector>

#include "ATen/Context.h"

namespace at {

inline int64_t divup(int64_t x, int64_t y) { return (x + y - 1) / y; }
inline bool in_parallel_region() { return tessera::in_parallel_region(); }
inline int get_thread_num() { return 0; }
inline void init_num_threads() {}
inline std::string get_parallel_info() { return c10::str("at::get_num_threads() : ", get_num_threads()); }

// f(from, to) for pieces of [begin, end) that have at least `grain` elements, where there are as many.
template <class F>
void parallel_for(int64_t begin, int64_t end, int64_t grain, const F& f) {
  TORCH_CHECK(grain >= 0, "Expected grain_size >= 0");
  if (begin >= end) return;
  tessera::parallel_ranges(end - begin, std::max<int64_t>(grain, 1),
                           [&](int64_t from, int64_t to) { f(begin + from, begin + to); });
}

// The pieces' results, f(from, to, identity), combined from left to right.
template <class T, class F, class Combine>
T parallel_reduce(int64_t begin, int64_t end, int64_t grain, const T identity, const F& f, const Combine& combine) {
  TORCH_CHECK(grain >= 0, "Expected grain_size >= 0");
  if (begin >= end) return identity;
  grain = std::max<int64_t>(grain, 1);
  struct Slot {
    T value;
  };
  std::vector<Slot> results(static_cast<size_t>(divup(end - begin, grain)), Slot{identity});
  tessera::parallel_for(end - begin, grain, [&](int64_t from, int64_t to) {
    results[static_cast<size_t>(from / grain)].value = f(begin + from, begin + to, identity);
  });
  T result = identity;
  for (const Slot& s : results) result = combine(result, s.value);
  return result;
}

}  // namespace at
