// The thread pool. Work is cut by size alone, so results have the same bits for any number of threads.
#pragma once

#include <cstdint>
#include <type_traits>

namespace tessera {

// Calls fn(begin, end) for the pieces [0, grain), [grain, 2 grain) ... of [0, n), on the pool's threads and the caller's, and returns when all are
// done. The cut depends on n and grain alone. One piece, or one thread, or a call from inside a piece: the pieces run here, in order. The first
// exception that a piece throws is thrown here once all pieces have ended. grain >= 1.
void parallel_for_erased(int64_t n, int64_t grain, void (*fn)(void* context, int64_t begin, int64_t end), void* context);

template <class F>
void parallel_for(int64_t n, int64_t grain, F&& fn) {
  if (n <= 0) return;
  if (n <= grain) { fn(int64_t{0}, n); return; }
  using Fn = std::remove_reference_t<F>;
  parallel_for_erased(n, grain, [](void* c, int64_t b, int64_t e) { (*static_cast<Fn*>(c))(b, e); }, const_cast<void*>(static_cast<const void*>(&fn)));
}

// Number of threads that take part, the caller included: OMP_NUM_THREADS, or the number of physical cores. n >= 1, else Error.
int num_threads();
void set_num_threads(int n);
bool in_parallel_region();

}  // namespace tessera
