// Batch and group normalisation: sums for each channel or group, then one pass over the elements.
#include "nn/cuda/norm_engines.h"
#include "nn/cuda/norm.h"
#include "nn/cuda/norm_batch.h"

namespace tessera::cuda {
namespace internal {
namespace {

// ---- The pass over the elements: y[i ...] of vectors, for functors F with Element, Run, at(run, channel) and
// apply(run state, index of V elements) ----

// Where an element of (batch, channels, inner) lies.
struct Layout {
  int64_t total, channels, inner, row;  // row: elements that share statistics in a group normalisation
};

// V elements lie in one channel, or (inner 1) in V neighbouring ones.
template <class F, int V>
__global__ void map_kernel(F f, Layout l) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x * V;
  for (int64_t i = (int64_t{blockIdx.x} * blockDim.x + threadIdx.x) * V; i < l.total; i += step) {
    int64_t run = quotient(i, l.inner);
    const int64_t c = split(run, l.channels);
    f.template apply<V>(i, quotient(i, l.row), c, l.inner == 1 ? 1 : 0);
  }
}

template <class F>
void map_elements(const F& f, const Layout& l, bool vectors) {
  constexpr int V = kVector<typename F::Element>;
  if (l.total == 0) return;
  if (vectors && (l.inner % V == 0 || (l.inner == 1 && l.channels % V == 0 && l.row % V == 0)))
    launch(map_kernel<F, V>, blocks_for(l.total / V), dim3(kThreads), f, l);
  else
    launch(map_kernel<F, 1>, blocks_for(l.total), dim3(kThreads), f, l);
}

// y = (x - mean[c]) invstd[c] weight[c] + bias[c]; mean without data: 0.
template <class T>
struct BatchAffine {
  using Element = T;
  const T* x;
  T* y;
  ChannelValues mean, invstd, weight, bias;
  template <int V>
  __device__ void apply(int64_t i, int64_t, int64_t c, int next) const {
    Compute<T> v[V];
    load_elements<V>(x + i, v);
    double m = 0, scale = 0, shift = 0;
    for (int k = 0; k < V; ++k, c += next) {
      if (k == 0 || next) {
        m = mean[c];
        scale = load_real(weight.data, weight.dtype, c, 1) * invstd[c];
        shift = bias[c];
      }
      v[k] = static_cast<Compute<T>>((static_cast<double>(v[k]) - m) * scale + shift);
    }
    store_elements<V>(y + i, v);
  }
};

// y = (x - mean[r]) rstd[r] weight[c] + bias[c]
template <class T>
struct GroupAffine {
  using Element = T;
  const T* x;
  T* y;
  const double *mean, *rstd;
  const T *weight, *bias;
  template <int V>
  __device__ void apply(int64_t i, int64_t r, int64_t c, int next) const {
    Compute<T> v[V];
    load_elements<V>(x + i, v);
    for (int k = 0; k < V; ++k, c += next) {
      const double w = weight ? static_cast<double>(load(weight + c)) : 1,
                   b = bias ? static_cast<double>(load(bias + c)) : 0;
      v[k] = static_cast<Compute<T>>((static_cast<double>(v[k]) - mean[r]) * (rstd[r] * w) + b);
    }
    store_elements<V>(y + i, v);
  }
};

// dx = dy weight[c] rstd[r] + (x - mean[r]) b[r] + shift[r]
template <class T>
struct GroupGradient {
  using Element = T;
  const T *dy, *x;
  T* dx;
  const Compute<T>*mean, *rstd;
  const T* weight;
  const double *b, *shift;
  template <int V>
  __device__ void apply(int64_t i, int64_t r, int64_t c, int next) const {
    Compute<T> g[V], v[V];
    load_elements<V>(dy + i, g);
    load_elements<V>(x + i, v);
    const double m = static_cast<double>(mean[r]), s = static_cast<double>(rstd[r]);
    for (int k = 0; k < V; ++k, c += next) {
      const double w = weight ? static_cast<double>(load(weight + c)) : 1;
      g[k] = static_cast<Compute<T>>(static_cast<double>(g[k]) * (s * w) +
                                     ((static_cast<double>(v[k]) - m) * b[r] + shift[r]));
    }
    store_elements<V>(dx + i, g);
  }
};

// ---- Sums ----

// Sums of x - s and of its square, where s is the channel's first element: no digits are lost if the mean is large.
template <class T>
__device__ inline double first_of(const T* x, int64_t at) {
  const double v = static_cast<double>(load(x + at));
  return v - v == 0 ? v : 0;
}
template <class T>
struct SpreadSums : SumFunctor<SpreadSums<T>> {
  using Element = T;
  using State = double;
  const T* x;
  int64_t inner;
  __device__ State at(int64_t, int64_t c) const { return first_of(x, c * inner); }
  template <int V>
  __device__ void add_each(const State (&s)[V], int64_t index, Pair (&sums)[V]) const {
    Compute<T> v[V];
    load_elements<V>(x + index, v);
    for (int k = 0; k < V; ++k) {
      const double d = static_cast<double>(v[k]) - s[k];
      sums[k].a += d;
      sums[k].b += d * d;
    }
  }
};
// Mean and biased variance from them.
template <class T>
struct Spread {
  const T* x;
  int64_t inner, count;
  __device__ void get(int64_t c, const Pair& sum, double& mean, double& var) const {
    const double n = static_cast<double>(count), first = count > 0 ? first_of(x, c * inner) : 0, d = sum.a / n;
    mean = first + d;
    var = (sum.b - sum.a * d) / n;
    if (var < 0) var = 0;
  }
};
template <class T>
SpreadSums<T> spread_sums(const T* x, int64_t inner) {
  SpreadSums<T> f;
  f.x = x;
  f.inner = inner;
  return f;
}
template <class T>
void sum_spread(const T* x, int64_t batch, int64_t channels, int64_t inner, auto finish) {
  sum_channels(spread_sums(x, inner), finish, batch, channels, inner, aligned({x}, kVector<T> * sizeof(T)));
}

template <class T>
struct StoreStats {
  Spread<T> spread;
  double *mean, *var;
  __device__ void operator()(int64_t c, const Pair& sum) const { spread.get(c, sum, mean[c], var[c]); }
};
// A batch normalisation in training.
template <class T>
struct NormalizeBatch {
  struct State {
    double mean, scale, shift;
  };
  Spread<T> spread;
  T* y;
  double momentum, eps;
  ChannelValues weight, bias;
  nn::ChannelNumbers running_mean, running_var, save_mean, save_invstd;

  __device__ void update(const nn::ChannelNumbers& running, int64_t c, double now) const {
    const double before = load_real(running.data, running.dtype, c, 0);
    store_real(running.data, running.dtype, c, before * (1 - momentum) + now * momentum);
  }
  __device__ State finish(int64_t c, const Pair& sum, bool store) const {
    const double n = static_cast<double>(spread.count);
    double mean, var;
    spread.get(c, sum, mean, var);
    const double invstd = 1 / sqrt(var + eps);
    if (store) {
      store_real(save_mean.data, save_mean.dtype, c, mean);
      store_real(save_invstd.data, save_invstd.dtype, c, invstd);
      update(running_mean, c, mean);
      update(running_var, c, var * (n / (n - 1)));
    }
    return {mean, load_real(weight.data, weight.dtype, c, 1) * invstd, bias[c]};
  }
  template <int V>
  __device__ void apply(int64_t i, const State* states, int next) const {
    Compute<T> v[V];
    load_elements<V>(spread.x + i, v);
    for (int k = 0; k < V; ++k, states += next)
      v[k] = static_cast<Compute<T>>((static_cast<double>(v[k]) - states->mean) * states->scale + states->shift);
    store_elements<V>(y + i, v);
  }
};
template <class T>
struct StoreGroupStats {
  Spread<T> spread;
  double eps;
  Compute<T>*mean, *rstd;
  double *exact_mean, *exact_rstd;
  __device__ void operator()(int64_t c, const Pair& sum) const {
    double m, v;
    spread.get(c, sum, m, v);
    v = 1 / sqrt(v + eps);
    exact_mean[c] = m;
    exact_rstd[c] = v;
    mean[c] = static_cast<Compute<T>>(m);
    rstd[c] = static_cast<Compute<T>>(v);
  }
};

// sum dy, sum dy (x - mean[c])
template <class T>
struct MomentSums : SumFunctor<MomentSums<T>> {
  using Element = T;
  using State = double;
  const T *dy, *x;
  ChannelValues mean;
  __device__ State at(int64_t, int64_t c) const { return mean[c]; }
  template <int V>
  __device__ void add_each(const State (&m)[V], int64_t index, Pair (&sums)[V]) const {
    Compute<T> g[V], v[V];
    load_elements<V>(dy + index, g);
    load_elements<V>(x + index, v);
    for (int k = 0; k < V; ++k) {
      sums[k].a += static_cast<double>(g[k]);
      sums[k].b += static_cast<double>(g[k]) * (static_cast<double>(v[k]) - m[k]);
    }
  }
};
// Gradients of the parameters.
struct StoreBatchGradient {
  ChannelValues invstd;
  nn::ChannelNumbers dweight, dbias;
  __device__ void operator()(int64_t c, const Pair& sum) const {
    store_real(dweight.data, dweight.dtype, c, sum.b * invstd[c]);
    store_real(dbias.data, dbias.dtype, c, sum.a);
  }
};
// With h = (x - mean) invstd: dx = weight invstd (dy - mean(dy) - h mean(dy h)), as factors of dy and x - mean, and a
// constant.
template <class T>
struct BatchGradient {
  struct State {
    double mean, a, b, shift;
  };
  const T *dy, *x;
  T* dx;
  double count;
  ChannelValues mean, weight;
  StoreBatchGradient parameters;
  __device__ State finish(int64_t c, const Pair& sum, bool store) const {
    if (store) parameters(c, sum);
    const double s = parameters.invstd[c], scale = load_real(weight.data, weight.dtype, c, 1) * s;
    return {mean[c], scale, -scale * s * s * sum.b / count, -scale * sum.a / count};
  }
  template <int V>
  __device__ void apply(int64_t i, const State* states, int next) const {
    Compute<T> g[V], v[V];
    load_elements<V>(dy + i, g);
    load_elements<V>(x + i, v);
    for (int k = 0; k < V; ++k, states += next)
      g[k] = static_cast<Compute<T>>(static_cast<double>(g[k]) * states->a +
                                     ((static_cast<double>(v[k]) - states->mean) * states->b + states->shift));
    store_elements<V>(dx + i, g);
  }
};

// For a row (n, group) of g = dy weight: sum g, sum g (x - mean).
template <class T>
struct WeightedSums : SumFunctor<WeightedSums<T>> {
  using Element = T;
  using State = double;
  const T *dy, *x, *weight;
  const Compute<T>* mean;
  int64_t channels, inner;
  __device__ State at(int64_t, int64_t r) const { return static_cast<double>(mean[r]); }
  template <int V>
  __device__ void add_each(const State (&m)[V], int64_t index, Pair (&sums)[V]) const {
    Compute<T> g[V], v[V];
    load_elements<V>(dy + index, g);
    load_elements<V>(x + index, v);
    for (int k = 0; k < V; ++k) {
      double w = 1;
      if (weight) {
        int64_t run = quotient(index + k, inner);
        w = static_cast<double>(load(weight + split(run, channels)));
      }
      w *= static_cast<double>(g[k]);
      sums[k].a += w;
      sums[k].b += w * (static_cast<double>(v[k]) - m[k]);
    }
  }
};
template <class T>
struct StoreGroupGradient {
  double count;
  const Compute<T>* rstd;
  double *b, *shift;
  __device__ void operator()(int64_t r, const Pair& sum) const {
    const double s = static_cast<double>(rstd[r]);
    b[r] = -s * s * s * sum.b / count;
    shift[r] = -s * sum.a / count;
  }
};

template <class T>
void group_forward(int64_t batch, int64_t channels, int64_t inner, int64_t groups, double eps, const T* x,
                   const T* weight, const T* bias, T* y, Compute<T>* mean, Compute<T>* rstd) {
  const int64_t rows = batch * groups, n = groups > 0 ? channels / groups * inner : 0;
  const Buffer exact(static_cast<size_t>(2 * rows) * sizeof(double));
  double *const exact_mean = exact.as<double>(), *const exact_rstd = exact_mean + rows;
  sum_spread(x, 1, rows, n, StoreGroupStats<T>{{x, n, n}, eps, mean, rstd, exact_mean, exact_rstd});
  map_elements(GroupAffine<T>{x, y, exact_mean, exact_rstd, weight, bias}, Layout{rows * n, channels, inner, n},
               aligned({x, y}, kVector<T> * sizeof(T)));
}

template <class T>
void group_backward(int64_t batch, int64_t channels, int64_t inner, int64_t groups, const T* dy, const T* x,
                    const Compute<T>* mean, const Compute<T>* rstd, const T* weight, T* dx, T* dweight, T* dbias) {
  const int64_t rows = batch * groups, n = groups > 0 ? channels / groups * inner : 0;
  if (dx && rows * n > 0) {
    const Buffer factors(static_cast<size_t>(2 * rows) * sizeof(double));
    double *const b = factors.as<double>(), *const shift = b + rows;
    WeightedSums<T> f;
    f.dy = dy;
    f.x = x;
    f.weight = weight;
    f.mean = mean;
    f.channels = channels;
    f.inner = inner;
    sum_channels(f, StoreGroupGradient<T>{static_cast<double>(n), rstd, b, shift}, 1, rows, n,
                 aligned({dy, x}, kVector<T> * sizeof(T)));
    map_elements(GroupGradient<T>{dy, x, dx, mean, rstd, weight, b, shift}, Layout{rows * n, channels, inner, n},
                 aligned({dy, x, dx}, kVector<T> * sizeof(T)));
  }
  parameter_gradients<T>(batch, channels, inner, groups, dy, x, mean, rstd, dweight, dbias);
}

ChannelValues values(const nn::ChannelNumbers& n, double eps = -1) { return {n.data, n.dtype, eps}; }

template <class T>
void batch_forward(const nn::BatchNormCall& call) {
  const T* const x = static_cast<const T*>(call.x);
  T* const y = static_cast<T*>(call.y);
  const int64_t c = call.channels;
  const Layout layout{call.batch * c * call.inner, c, call.inner, c * call.inner};
  const bool vectors = aligned({x, y}, kVector<T> * sizeof(T));
  const ChannelValues weight = values(call.weight), bias = values(call.bias);
  if (!call.training) {
    const ChannelValues mean = values(call.running_mean), invstd = values(call.running_var, call.eps);
    return map_elements(BatchAffine<T>{x, y, mean, invstd, weight, bias}, layout, vectors);
  }
  sum_and_map(spread_sums(x, call.inner),
              NormalizeBatch<T>{{x, call.inner, call.batch * call.inner},
                                y,
                                call.momentum,
                                call.eps,
                                weight,
                                bias,
                                call.running_mean,
                                call.running_var,
                                call.save_mean,
                                call.save_invstd},
              call.batch, c, call.inner, vectors);
}

template <class T>
void batch_backward(const nn::BatchNormGradientCall& call) {
  const int64_t c = call.channels;
  const T *const dy = static_cast<const T*>(call.dy), *const x = static_cast<const T*>(call.x);
  T* const dx = static_cast<T*>(call.dx);
  const Layout layout{call.batch * c * call.inner, c, call.inner, c * call.inner};
  const ChannelValues mean = values(call.mean), weight = values(call.weight),
                      invstd = values(call.invstd_or_var, call.training ? -1 : call.eps);
  const bool vectors = aligned({dy, x, dx}, kVector<T> * sizeof(T));
  MomentSums<T> f;
  f.dy = dy;
  f.x = x;
  f.mean = mean;
  const StoreBatchGradient parameters{invstd, call.dweight, call.dbias};
  if (call.training && dx)
    return sum_and_map(
        f, BatchGradient<T>{dy, x, dx, static_cast<double>(call.batch * call.inner), mean, weight, parameters},
        call.batch, c, call.inner, vectors);
  if (call.dweight.data || call.dbias.data) sum_channels(f, parameters, call.batch, c, call.inner, vectors);
  if (!dx) return;
  // Infinities and NaN of x must not reach dx: it does not depend on x.
  map_elements(BatchAffine<T>{dy, dx, doubles(nullptr), invstd, weight, doubles(nullptr)}, layout, vectors);
}

}  // namespace
}  // namespace internal

using namespace internal;  // NOLINT: the functions above

void batch_norm_stats(DType dtype, int64_t batch, int64_t channels, int64_t inner, const void* x, double* mean,
                      double* var_biased) {
  visit<kAllFloats>(dtype, "batch_norm", [&](auto tag) {
    using T = typename decltype(tag)::type;
    const T* const p = static_cast<const T*>(x);
    sum_spread(p, batch, channels, inner, StoreStats<T>{{p, inner, batch * inner}, mean, var_biased});
  });
}

void batch_norm_apply(DType dtype, DType param_dtype, int64_t batch, int64_t channels, int64_t inner, const void* x,
                      const double* mean, const double* invstd, const void* weight, const void* bias, void* y) {
  visit<kAllFloats>(dtype, "batch_norm", [&](auto tag) {
    using T = typename decltype(tag)::type;
    map_elements(BatchAffine<T>{static_cast<const T*>(x),
                                static_cast<T*>(y),
                                doubles(mean),
                                doubles(invstd),
                                {weight, param_dtype},
                                {bias, param_dtype}},
                 Layout{batch * channels * inner, channels, inner, channels * inner},
                 aligned({x, y}, kVector<T> * sizeof(T)));
  });
}

void batch_norm(const nn::BatchNormCall& call) {
  visit<kAllFloats>(call.dtype, "batch_norm", [&](auto tag) { batch_forward<typename decltype(tag)::type>(call); });
}

void batch_norm_gradient(const nn::BatchNormGradientCall& call) {
  visit<kAllFloats>(call.dtype, "batch_norm_backward",
                    [&](auto tag) { batch_backward<typename decltype(tag)::type>(call); });
}

void batch_norm_backward(DType dtype, DType param_dtype, int64_t batch, int64_t channels, int64_t inner, bool train,
                         const void* dy, const void* x, const double* mean, const double* invstd, const void* weight,
                         void* dx, void* dweight, void* dbias) {
  const auto given = [](const void* p, DType t) { return nn::ChannelNumbers{const_cast<void*>(p), t}; };
  batch_norm_gradient({dtype, batch, channels, inner, train,
                       -1,  // what is given is 1 / sqrt(variance) already
                       dy, x, dx, given(weight, param_dtype), given(mean, DType::kFloat64),
                       given(invstd, DType::kFloat64), given(dweight, param_dtype), given(dbias, param_dtype)});
}

void group_norm_forward(DType dtype, int64_t batch, int64_t channels, int64_t inner, int64_t groups, double eps,
                        const void* x, const void* weight, const void* bias, void* y, void* mean, void* rstd) {
  visit<kAllFloats>(dtype, "GroupNormKernelImpl", [&](auto tag) {
    using T = typename decltype(tag)::type;
    group_forward<T>(batch, channels, inner, groups, eps, static_cast<const T*>(x), static_cast<const T*>(weight),
                     static_cast<const T*>(bias), static_cast<T*>(y), static_cast<Compute<T>*>(mean),
                     static_cast<Compute<T>*>(rstd));
  });
}

void group_norm_backward(DType dtype, int64_t batch, int64_t channels, int64_t inner, int64_t groups, const void* dy,
                         const void* x, const void* mean, const void* rstd, const void* weight, void* dx, void* dweight,
                         void* dbias) {
  visit<kAllFloats>(dtype, "GroupNormBackwardKernelImpl", [&](auto tag) {
    using T = typename decltype(tag)::type;
    group_backward<T>(batch, channels, inner, groups, static_cast<const T*>(dy), static_cast<const T*>(x),
                      static_cast<const Compute<T>*>(mean), static_cast<const Compute<T>*>(rstd),
                      static_cast<const T*>(weight), static_cast<T*>(dx), static_cast<T*>(dweight),
                      static_cast<T*>(dbias));
  });
}

}  // namespace tessera::cuda
