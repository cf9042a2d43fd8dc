// The thread pool. Work is cut by size alone, so results have the same bits for any number of threads.
#pragma once

#include <cstdint>
#include <type_traits>

namespace tessera {

// Calls fn(begin, end) for the pieces [0, grain), [grain, 2 grain) ... of [0, n), on the pool's threads and the
// caller's, and returns when all are done. The cut depends on n and grain alone. One piece, or one thread, or a call
// from inside a piece: the pieces run here, in order. The first exception that a piece throws is thrown here once all
// pieces have ended. grain >= 1.
void parallel_for_erased(int64_t n, int64_t grain, bool joined, void (*fn)(void* context, int64_t begin, int64_t end),
                         void* context);

namespace internal {
template <class F>
void call_in_parallel(int64_t n, int64_t grain, bool joined, F& fn) {
  if (n <= 0) return;
  if (n <= grain) {
    fn(int64_t{0}, n);
    return;
  }
  parallel_for_erased(
      n, grain, joined, [](void* c, int64_t b, int64_t e) { (*static_cast<F*>(c))(b, e); },
      const_cast<void*>(static_cast<const void*>(&fn)));
}
}  // namespace internal

template <class F>
void parallel_for(int64_t n, int64_t grain, F&& fn) {
  internal::call_in_parallel(n, grain, false, fn);
}

// The same for work whose results do not depend on the cut, as that on single elements: a thread may take neighbouring
// pieces in one call, and one thread takes all.
template <class F>
void parallel_ranges(int64_t n, int64_t grain, F&& fn) {
  internal::call_in_parallel(n, grain, true, fn);
}

// Number of threads that take part, the caller included: OMP_NUM_THREADS, or the number of physical cores. n >= 1, else
// Error.
int num_threads();
void set_num_threads(int n);
bool in_parallel_region();

}  // namespace tessera
