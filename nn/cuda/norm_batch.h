// Batch normalisation while the sums of its channels are fresh: a functor M with
//   State, what the elements of a channel have in common; finish(c, sum, store) makes it of the channel's sum, and
//     writes what is kept of it where `store` says so, once for each channel;
//   apply<V>(index, states, next): V elements, with the states next apart.
// The blocks that go through the elements add the parts of the sums themselves, where that is little: two launches.
#pragma once

#include "nn/cuda/norm.h"

namespace tessera::cuda::internal {

template <class M, int V>
__global__ void __launch_bounds__(kSumThreads) map_runs_kernel(M m, SumShape s, const Pair* parts) {
  __shared__ typename M::State state;
  const int64_t c = blockIdx.x;
  if (threadIdx.x < 32) {
    Pair sum{0, 0};
    for (int64_t q = threadIdx.x; q < s.splits; q += 32) sum = AddPairs()(sum, parts[q * s.channels + c]);
    sum = warp_reduce(sum, AddPairs());
    if (threadIdx.x == 0) state = m.finish(c, sum, blockIdx.y == 0);
  }
  __syncthreads();
  for_pieces<V>(s, c, [&](int64_t, int64_t from, int64_t to, int step) {
    for (int64_t i = from; i < to; i += step) m.template apply<V>(i, &state, 0);
  });
}

template <class M, int V>
__global__ void __launch_bounds__(kSumThreads) map_columns_kernel(M m, SumShape s, const Pair* parts) {
  __shared__ typename M::State states[32 * V];
  const int64_t columns = s.channels * s.inner, first = int64_t{blockIdx.x} * 32 * V;
  const int t = static_cast<int>(threadIdx.y * 32 + threadIdx.x);
  if (t < 32 * V && first + t < columns) {
    const int64_t c = quotient(first + t, s.inner);
    Pair sum{0, 0};
    for (int64_t part = 0; part < s.splits; ++part)
      for (int64_t k = 0; k < s.inner; ++k) sum = AddPairs()(sum, parts[(part * s.channels + c) * s.inner + k]);
    states[t] = m.finish(c, sum, blockIdx.y == 0 && c * s.inner == first + t);
  }
  __syncthreads();
  const int64_t column = first + threadIdx.x * V;
  const int64_t begin = s.batch * blockIdx.y / s.splits, end = s.batch * (blockIdx.y + 1) / s.splits;
  if (column < columns)
    for (int64_t n = begin + threadIdx.y; n < end; n += kRowsOfColumns)
      m.template apply<V>(n * columns + column, states + threadIdx.x * V, 1);
}

// Many parts of columns: their sums are finished first.
template <class M>
struct StoreStates {
  M m;
  typename M::State* states;
  __device__ void operator()(int64_t c, const Pair& sum) const { states[c] = m.finish(c, sum, true); }
};
template <class M, int V>
__global__ void map_states_kernel(M m, SumShape s, const typename M::State* states) {
  const int64_t total = s.batch * s.channels * s.inner, step = int64_t{gridDim.x} * blockDim.x * V;
  for (int64_t i = (int64_t{blockIdx.x} * blockDim.x + threadIdx.x) * V; i < total; i += step) {
    typename M::State mine[V];
    for (int k = 0; k < V; ++k) {
      int64_t run = quotient(i + k, s.inner);
      mine[k] = states[split(run, s.channels)];
    }
    m.template apply<V>(i, mine, 1);
  }
}

template <int V, class F, class M>
void sum_and_map_by(const F& f, const M& m, int64_t batch, int64_t channels, int64_t inner) {
  const SumShape s = sum_shape<V>(batch, channels, inner);
  const Buffer parts = sum_parts<V>(f, s);
  if (inner >= kLongRun || s.splits * inner <= kFewParts)
    return launch_blocks(inner >= kLongRun ? map_runs_kernel<M, V> : map_columns_kernel<M, V>, sum_blocks<V>(s),
                         sum_threads(s), 0, m, s, parts.as<Pair>());
  const Buffer states(static_cast<size_t>(channels) * sizeof(typename M::State));
  StoreStates<M> finish{m, states.as<typename M::State>()};
  finish_sums(finish, s, parts.as<Pair>());
  launch(map_states_kernel<M, V>, blocks_for(batch * channels * inner / V), dim3(kThreads), m, s,
         states.as<typename M::State>());
}

// The sums of f, and with them m for each element. `vectors`: the tensors are aligned for vectors of elements.
template <class F, class M>
void sum_and_map(const F& f, const M& m, int64_t batch, int64_t channels, int64_t inner, bool vectors) {
  constexpr int V = kVector<typename F::Element>;
  if (batch * channels * inner == 0) return;
  if (vectors && in_vectors<V>(channels, inner)) return sum_and_map_by<V>(f, m, batch, channels, inner);
  sum_and_map_by<1>(f, m, batch, channels, inner);
}

}  // namespace tessera::cuda::internal
