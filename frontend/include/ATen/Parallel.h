// Loops on several threads. The cut depends on the problem's size alone.
#pragma once

#include <atomic>
#include <vector>

#include "ATen/Context.h"

namespace at {

inline int64_t divup(int64_t x, int64_t y) { return (x + y - 1) / y; }
inline bool in_parallel_region() { return tessera::in_parallel_region(); }
inline void init_num_threads() {}
inline std::string get_parallel_info() { return c10::str("at::get_num_threads() : ", get_num_threads()); }

namespace internal {
constexpr int64_t GRAIN_SIZE = 32768;  // elements of cheap work that are worth a thread

// Numbers for the threads of one loop, for those who keep a buffer for each: the caller has 0, others the next that is
// free. A loop inside of a loop runs on the outer one's thread and keeps its number.
class ThreadNumbers {
 public:
  ThreadNumbers() {
    if (!nested_) here() = {id_, 0};
  }
  ~ThreadNumbers() { here() = outer_; }
  ThreadNumbers(const ThreadNumbers&) = delete;
  // At the start of a piece.
  void enter() {
    if (!nested_ && here().loop != id_) here() = {id_, next_.fetch_add(1, std::memory_order_relaxed)};
  }
  static int number() { return here().number; }

 private:
  struct Place {
    uint64_t loop = 0;
    int number = 0;
  };
  static Place& here() {
    static thread_local Place place;
    return place;
  }
  static uint64_t next_id() {
    static std::atomic<uint64_t> last{0};
    return last.fetch_add(1, std::memory_order_relaxed) + 1;
  }
  const bool nested_ = tessera::in_parallel_region();
  const uint64_t id_ = nested_ ? 0 : next_id();
  const Place outer_ = here();
  std::atomic<int> next_{1};
};
}  // namespace internal

// Which of get_num_threads() threads runs this piece of a loop: 0 outside.
inline int get_thread_num() { return tessera::in_parallel_region() ? internal::ThreadNumbers::number() : 0; }

// f(from, to) for pieces of [begin, end) that have at least `grain` elements, where there are as many.
template <class F>
void parallel_for(int64_t begin, int64_t end, int64_t grain, const F& f) {
  TORCH_CHECK(grain >= 0, "Expected grain_size >= 0");
  if (begin >= end) return;
  internal::ThreadNumbers numbers;
  tessera::parallel_ranges(end - begin, std::max<int64_t>(grain, 1), [&](int64_t from, int64_t to) {
    numbers.enter();
    f(begin + from, begin + to);
  });
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
  internal::ThreadNumbers numbers;
  tessera::parallel_for(end - begin, grain, [&](int64_t from, int64_t to) {
    numbers.enter();
    results[static_cast<size_t>(from / grain)].value = f(begin + from, begin + to, identity);
  });
  T result = identity;
  for (const Slot& s : results) result = combine(result, s.value);
  return result;
}

}  // namespace at
