// What the normalisation kernels share: sums over (batch, channels, inner) for each channel. Sums are kept in double
// and combined in an order that the sizes alone decide.
#pragma once

#include "tensor/cuda/support/block.h"
#include "nn/cuda/nn_kernels.h"
#include "nn/cuda/nn_vector.h"

namespace tessera::cuda::internal {

// A parameter of any floating dtype; `value` where there is none.
__device__ inline double load_real(const void* p, DType t, int64_t i, double value) {
  if (!p) return value;
  switch (t) {
    case DType::kFloat16:
      return load(static_cast<const Half*>(p) + i);
    case DType::kBFloat16:
      return load(static_cast<const BFloat16*>(p) + i);
    case DType::kFloat32:
      return static_cast<const float*>(p)[i];
    default:
      return static_cast<const double*>(p)[i];
  }
}
__device__ inline void store_real(void* p, DType t, int64_t i, double value) {
  if (!p) return;
  switch (t) {
    case DType::kFloat16:
      return store(static_cast<Half*>(p) + i, static_cast<float>(value));
    case DType::kBFloat16:
      return store(static_cast<BFloat16*>(p) + i, static_cast<float>(value));
    case DType::kFloat32:
      static_cast<float*>(p)[i] = static_cast<float>(value);
      return;
    default:
      static_cast<double*>(p)[i] = value;
  }
}

// Numbers of the channels as the kernels read them; eps >= 0: they are variances, and 1 / sqrt(variance + eps) is
// meant.
struct ChannelValues {
  const void* data;
  DType dtype;
  double eps = -1;
  __device__ double operator[](int64_t c) const {
    const double v = load_real(data, dtype, c, 0);
    return eps < 0 ? v : 1 / sqrt(v + eps);
  }
};
inline ChannelValues doubles(const double* p) { return {p, DType::kFloat64}; }

// ---- Sums for each channel ----

struct Pair {
  double a, b;
};
struct AddPairs {
  __device__ Pair operator()(const Pair& x, const Pair& y) const { return {x.a + y.a, x.b + y.b}; }
};

// What a functor F sums: F::element is the type of the tensors; F::at(n, c) gives what one run of a channel has in
// common; F::add<V>(state, index, sums) adds V elements from a flat index on, to V sums.
struct SumShape {
  int64_t batch, channels, inner;
  int splits;  // blocks that share the work of a channel
  int lanes;   // threads beside each other along inner
};

constexpr int kSumThreads = 256;
constexpr int kRowsOfColumns = 8;  // the columns kernel: 32 x 8 threads

// fn(n, flat index of this thread's first elements, end, step) for each piece of runs of channel c that the block has.
template <int V, class Fn>
__device__ inline void for_pieces(const SumShape& s, int64_t c, Fn fn) {
  const int lane = static_cast<int>(threadIdx.x) % s.lanes, row = static_cast<int>(threadIdx.x) / s.lanes,
            rows = kSumThreads / s.lanes;
  const int64_t piece = int64_t{s.lanes} * V * 16, pieces = (s.inner + piece - 1) / piece, units = s.batch * pieces;
  const int64_t begin = units * blockIdx.y / s.splits, end = units * (blockIdx.y + 1) / s.splits;
  for (int64_t u = begin + row; u < end; u += rows) {
    int64_t n = u;
    const int64_t from = split(n, pieces) * piece, to = from + piece < s.inner ? from + piece : s.inner,
                  run = (n * s.channels + c) * s.inner;
    fn(n, run + from + lane * V, run + to, s.lanes * V);
  }
}

// inner is long: a block sums pieces of runs of one channel.
template <class F, int V>
__global__ void __launch_bounds__(kSumThreads) sum_runs_kernel(F f, SumShape s, Pair* parts) {
  const int64_t c = blockIdx.x;
  Pair sums[V] = {};
  for_pieces<V>(s, c, [&](int64_t n, int64_t from, int64_t to, int step) {
    const auto state = f.at(n, c);
#pragma unroll 4
    for (int64_t i = from; i < to; i += step) f.template add<V>(state, i, sums);
  });
  Pair sum = sums[0];
  for (int k = 1; k < V; ++k) sum = AddPairs()(sum, sums[k]);
  sum = block_reduce(sum, AddPairs());
  if (threadIdx.x == 0) parts[blockIdx.y * s.channels + c] = sum;
}

// inner is short: a thread sums V columns of the (batch, channels * inner) matrix.
template <class F, int V>
__global__ void __launch_bounds__(kSumThreads) sum_columns_kernel(F f, SumShape s, Pair* parts) {
  __shared__ double shared_a[kRowsOfColumns][32 * V + 1], shared_b[kRowsOfColumns][32 * V + 1];
  const int64_t columns = s.channels * s.inner, column = (int64_t{blockIdx.x} * 32 + threadIdx.x) * V;
  const int64_t begin = s.batch * blockIdx.y / s.splits, end = s.batch * (blockIdx.y + 1) / s.splits;
  Pair sums[V] = {};
  if (column < columns) {
    int64_t c[V];
    for (int k = 0; k < V; ++k) c[k] = quotient(column + k, s.inner);
#pragma unroll 4
    for (int64_t n = begin + threadIdx.y; n < end; n += kRowsOfColumns)
      f.template add_columns<V>(n, c, n * columns + column, sums);
  }
  for (int k = 0; k < V; ++k) {
    shared_a[threadIdx.y][threadIdx.x * V + k] = sums[k].a;
    shared_b[threadIdx.y][threadIdx.x * V + k] = sums[k].b;
  }
  __syncthreads();
  const int t = static_cast<int>(threadIdx.y * 32 + threadIdx.x);
  const int64_t mine = int64_t{blockIdx.x} * 32 * V + t;
  if (t < 32 * V && mine < columns) {
    Pair sum{0, 0};
    for (int r = 0; r < kRowsOfColumns; ++r) sum = AddPairs()(sum, Pair{shared_a[r][t], shared_b[r][t]});
    parts[blockIdx.y * columns + mine] = sum;
  }
}

// Adds what the blocks found for a channel, and hands it to finish(channel, sum): a thread where that is little, else a
// warp.
constexpr int64_t kFewParts = 32;
template <class G>
__global__ void __launch_bounds__(kSumThreads)
    finish_few_kernel(G finish, int64_t channels, int64_t per_channel, int splits, const Pair* parts) {
  const int64_t c = int64_t{blockIdx.x} * kSumThreads + threadIdx.x;
  if (c >= channels) return;
  Pair sum{0, 0};
  for (int64_t part = 0; part < splits; ++part)
    for (int64_t k = 0; k < per_channel; ++k) sum = AddPairs()(sum, parts[(part * channels + c) * per_channel + k]);
  finish(c, sum);
}
template <class G>
__global__ void __launch_bounds__(kSumThreads)
    finish_sums_kernel(G finish, int64_t channels, int64_t per_channel, int splits, const Pair* parts) {
  const int64_t c = int64_t{blockIdx.x} * (kSumThreads / 32) + threadIdx.x / 32;
  Pair sum{0, 0};
  if (c < channels)
    for (int64_t q = threadIdx.x % 32; q < splits * per_channel; q += 32) {
      int64_t part = q;
      const int64_t k = split(part, per_channel);
      sum = AddPairs()(sum, parts[(part * channels + c) * per_channel + k]);
    }
  sum = warp_reduce(sum, AddPairs());
  if (c < channels && threadIdx.x % 32 == 0) finish(c, sum);
}

inline int64_t divide_up(int64_t a, int64_t b) { return (a + b - 1) / b; }
inline int64_t between(int64_t x, int64_t low, int64_t high) { return x < low ? low : x > high ? high : x; }
constexpr int64_t kWantedBlocks = 2048;

constexpr int64_t kLongRun = 32;  // elements of inner from which on blocks have one channel

// How the work is shared between blocks.
template <int V>
SumShape sum_shape(int64_t batch, int64_t channels, int64_t inner) {
  SumShape s{batch, channels, inner, 1, 32};
  if (inner >= kLongRun) {
    while (s.lanes < kSumThreads && s.lanes * V < inner) s.lanes *= 2;
    const int64_t units = batch * divide_up(inner, int64_t{s.lanes} * V * 16);
    s.splits =
        static_cast<int>(between(kWantedBlocks / channels, 1, between(units / (kSumThreads / s.lanes) / 2, 1, 1024)));
  } else {
    const int64_t groups = divide_up(channels * inner, 32 * V);
    s.splits = static_cast<int>(between(kWantedBlocks / groups, 1, between(batch / (kRowsOfColumns * 8), 1, 1024)));
  }
  return s;
}
// Blocks of the sums, and of what goes through the elements in the same way.
template <int V>
dim3 sum_blocks(const SumShape& s) {
  const int64_t x = s.inner >= kLongRun ? s.channels : divide_up(s.channels * s.inner, 32 * V);
  return dim3(static_cast<unsigned>(x), static_cast<unsigned>(s.splits));
}
inline dim3 sum_threads(const SumShape& s) {
  return s.inner >= kLongRun ? dim3(kSumThreads) : dim3(32, kRowsOfColumns);
}

// What the blocks find, `splits` for each channel or column.
template <int V, class F>
Buffer sum_parts(const F& f, const SumShape& s) {
  const bool long_runs = s.inner >= kLongRun;
  Buffer parts(static_cast<size_t>(s.channels * (long_runs ? 1 : s.inner) * s.splits) * sizeof(Pair));
  launch_blocks(long_runs ? sum_runs_kernel<F, V> : sum_columns_kernel<F, V>, sum_blocks<V>(s), sum_threads(s), 0, f, s,
                parts.as<Pair>());
  return parts;
}

template <class G>
void finish_sums(const G& finish, const SumShape& s, const Pair* parts) {
  const int64_t per_channel = s.inner >= kLongRun ? 1 : s.inner;
  if (s.splits * per_channel <= kFewParts)
    return launch(finish_few_kernel<G>, dim3(static_cast<unsigned>(divide_up(s.channels, kSumThreads))),
                  dim3(kSumThreads), finish, s.channels, per_channel, s.splits, parts);
  launch_blocks(finish_sums_kernel<G>, dim3(static_cast<unsigned>(divide_up(s.channels, kSumThreads / 32))),
                dim3(kSumThreads), 0, finish, s.channels, per_channel, s.splits, parts);
}

template <int V, class F, class G>
void sum_channels_by(const F& f, const G& finish, int64_t batch, int64_t channels, int64_t inner) {
  const SumShape s = sum_shape<V>(batch, channels, inner);
  const Buffer parts = sum_parts<V>(f, s);
  finish_sums(finish, s, parts.as<Pair>());
}

template <int V>
bool in_vectors(int64_t channels, int64_t inner) {
  return inner >= kLongRun ? inner % V == 0 : channels * inner % V == 0;
}

// finish(c, the sum over batch and inner of f) for each channel. `vectors`: the tensors are aligned for vectors of
// elements.
template <class F, class G>
void sum_channels(const F& f, const G& finish, int64_t batch, int64_t channels, int64_t inner, bool vectors) {
  constexpr int V = kVector<typename F::Element>;
  if (channels == 0) return;
  if (batch * inner == 0)  // sums of nothing
    return launch(finish_few_kernel<G>, dim3(static_cast<unsigned>(divide_up(channels, kSumThreads))),
                  dim3(kSumThreads), finish, channels, 0, 0, nullptr);
  if (vectors && in_vectors<V>(channels, inner)) return sum_channels_by<V>(f, finish, batch, channels, inner);
  sum_channels_by<1>(f, finish, batch, channels, inner);
}

// Columns of different channels: the state of each is its own. Base of the functors.
template <class Derived>
struct SumFunctor {
  template <int V>
  __device__ void add_columns(int64_t n, const int64_t (&c)[V], int64_t index, Pair (&sums)[V]) const {
    const Derived& f = *static_cast<const Derived*>(this);
    typename Derived::State states[V];
    for (int k = 0; k < V; ++k) states[k] = f.at(n, c[k]);
    f.template add_each<V>(states, index, sums);
  }
  template <int V, class State>
  __device__ void add(const State& state, int64_t index, Pair (&sums)[V]) const {
    State states[V];
    for (int k = 0; k < V; ++k) states[k] = state;
    static_cast<const Derived*>(this)->template add_each<V>(states, index, sums);
  }
};

// sum dy, and sum dy (x - mean) rstd: gradients of a layer or group normalisation's parameters. mean and rstd: one per
// (n, group).
template <class T>
struct ParameterSums : SumFunctor<ParameterSums<T>> {
  using Element = T;
  const T *dy, *x;
  const Compute<T>*mean, *rstd;  // mean null: 0
  int64_t groups, channels_per_group;
  struct State {
    double mean, rstd;
  };
  __device__ State at(int64_t n, int64_t c) const {
    const int64_t r = groups == 1 ? n : n * groups + quotient(c, channels_per_group);
    return {mean ? static_cast<double>(mean[r]) : 0, static_cast<double>(rstd[r])};
  }
  template <int V>
  __device__ void add_each(const State (&s)[V], int64_t index, Pair (&sums)[V]) const {
    Compute<T> g[V], v[V];
    load_elements<V>(dy + index, g);
    load_elements<V>(x + index, v);
    for (int k = 0; k < V; ++k) {
      sums[k].a += static_cast<double>(g[k]);
      sums[k].b += static_cast<double>(g[k]) * (static_cast<double>(v[k]) - s[k].mean) * s[k].rstd;
    }
  }
};
template <class T>
struct StoreParameters {
  T *dweight, *dbias;
  __device__ void operator()(int64_t c, const Pair& sum) const {
    if (dweight) store(dweight + c, static_cast<Compute<T>>(sum.b));
    if (dbias) store(dbias + c, static_cast<Compute<T>>(sum.a));
  }
};
template <class T>
void parameter_gradients(int64_t batch, int64_t channels, int64_t inner, int64_t groups, const T* dy, const T* x,
                         const Compute<T>* mean, const Compute<T>* rstd, T* dweight, T* dbias) {
  if (!dweight && !dbias) return;
  ParameterSums<T> f;
  f.dy = dy;
  f.x = x;
  f.mean = mean;
  f.rstd = rstd;
  f.groups = groups;
  f.channels_per_group = channels / groups;
  sum_channels(f, StoreParameters<T>{dweight, dbias}, batch, channels, inner, aligned({dy, x}, kVector<T> * sizeof(T)));
}

}  // namespace tessera::cuda::internal
