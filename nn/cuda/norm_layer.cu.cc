// Layer normalisation, and the one by root mean squares, which is the same around 0. A row of up to 16384 elements
// (8192 in the gradient) stays in the registers of its threads; longer rows are group normalisations of one group.
#include "nn/cuda/norm_engines.h"
#include "nn/cuda/norm.h"

namespace tessera::cuda {
namespace internal {
namespace {

constexpr int kCached = 16;                                // elements per thread
constexpr int kForwardLanes = 1024, kBackwardLanes = 512;  // at most: the gradient needs twice the registers
constexpr int64_t kLongestForward = int64_t{kForwardLanes} * kCached,
                  kLongestBackward = int64_t{kBackwardLanes} * kCached;

struct AddDoubles {
  __device__ double operator()(double a, double b) const { return a + b; }
};

template <class T>
struct LayerForward {
  int64_t rows;
  int n, lanes;  // lanes: threads of a row
  double eps;
  const T *x, *weight, *bias;
  T* y;
  Compute<T>*mean, *rstd;  // mean null: around 0
};

template <class T, int V>
__global__ void __launch_bounds__(kForwardLanes) layer_forward_kernel(LayerForward<T> a) {
  using C = Compute<T>;
  const int lane = static_cast<int>(threadIdx.x) % a.lanes, rows = static_cast<int>(blockDim.x) / a.lanes;
  for (int64_t first = int64_t{blockIdx.x} * rows; first < a.rows; first += int64_t{gridDim.x} * rows) {
    const int64_t row = first + threadIdx.x / a.lanes;
    const int n = row < a.rows ? a.n : 0;
    C v[kCached / V][V];
    C sum = 0;
#pragma unroll
    for (int j = 0; j < kCached / V; ++j) {
      const int at = (j * a.lanes + lane) * V;
      if (at >= n) continue;
      load_elements<V>(a.x + row * a.n + at, v[j]);
      for (int k = 0; k < V; ++k) sum += v[j][k];
    }
    const double count = a.n, mean = a.mean ? group_reduce(static_cast<double>(sum), AddDoubles(), a.lanes) / count : 0;
    const C m = static_cast<C>(mean);
    sum = 0;
#pragma unroll
    for (int j = 0; j < kCached / V; ++j) {
      if ((j * a.lanes + lane) * V >= n) continue;
      for (int k = 0; k < V; ++k) sum += (v[j][k] - m) * (v[j][k] - m);
    }
    const double rstd = 1 / sqrt(group_reduce(static_cast<double>(sum), AddDoubles(), a.lanes) / count + a.eps);
    const C r = static_cast<C>(rstd);
#pragma unroll
    for (int j = 0; j < kCached / V; ++j) {
      const int at = (j * a.lanes + lane) * V;
      if (at >= n) continue;
      C w[V], b[V];
      for (int k = 0; k < V; ++k) {
        w[k] = 1;
        b[k] = 0;
      }
      if (a.weight) load_elements<V>(a.weight + at, w);
      if (a.bias) load_elements<V>(a.bias + at, b);
      for (int k = 0; k < V; ++k) v[j][k] = (v[j][k] - m) * r * w[k] + b[k];
      store_elements<V>(a.y + row * a.n + at, v[j]);
    }
    if (lane == 0 && row < a.rows) {
      if (a.mean) a.mean[row] = m;
      a.rstd[row] = r;
    }
  }
}

template <class T>
struct LayerBackward {
  int64_t rows;
  int n, lanes;
  const T *dy, *x, *weight;
  const Compute<T>*mean, *rstd;  // mean null: around 0
  T* dx;
};

// With h = (x - mean) rstd and g = dy weight: dx = rstd (g - mean(g) - h mean(g h)), around 0 without mean(g).
template <class T, int V>
__global__ void __launch_bounds__(kBackwardLanes) layer_backward_kernel(LayerBackward<T> a) {
  using C = Compute<T>;
  const int lane = static_cast<int>(threadIdx.x) % a.lanes, rows = static_cast<int>(blockDim.x) / a.lanes;
  for (int64_t first = int64_t{blockIdx.x} * rows; first < a.rows; first += int64_t{gridDim.x} * rows) {
    const int64_t row = first + threadIdx.x / a.lanes;
    const int n = row < a.rows ? a.n : 0;
    const C mean = n > 0 && a.mean ? a.mean[row] : C{0}, rstd = n > 0 ? a.rstd[row] : C{0};
    C g[kCached / V][V], h[kCached / V][V];
    C sum = 0, product = 0;
#pragma unroll
    for (int j = 0; j < kCached / V; ++j) {
      const int at = (j * a.lanes + lane) * V;
      if (at >= n) continue;
      load_elements<V>(a.dy + row * a.n + at, g[j]);
      load_elements<V>(a.x + row * a.n + at, h[j]);
      if (a.weight) {
        C w[V];
        load_elements<V>(a.weight + at, w);
        for (int k = 0; k < V; ++k) g[j][k] *= w[k];
      }
      for (int k = 0; k < V; ++k) {
        h[j][k] -= mean;
        sum += g[j][k];
        product += g[j][k] * h[j][k];
      }
    }
    const Pair sums = group_reduce(Pair{static_cast<double>(sum), static_cast<double>(product)}, AddPairs(), a.lanes);
    const double s = static_cast<double>(rstd), count = a.n;
    const C b = static_cast<C>(-s * s * s * sums.b / count), c = a.mean ? static_cast<C>(-s * sums.a / count) : C{0};
#pragma unroll
    for (int j = 0; j < kCached / V; ++j) {
      const int at = (j * a.lanes + lane) * V;
      if (at >= n) continue;
      for (int k = 0; k < V; ++k) g[j][k] = g[j][k] * rstd + (h[j][k] * b + c);
      store_elements<V>(a.dx + row * a.n + at, g[j]);
    }
  }
}

int lanes_for(int64_t n) {
  int lanes = 32;
  while (int64_t{lanes} * kCached < n) lanes *= 2;
  return lanes;
}
template <class A>
void start_rows(void (*kernel)(A), const A& a) {
  const int threads = a.lanes < kThreads ? kThreads : a.lanes;
  const int64_t blocks = divide_up(a.rows, threads / a.lanes);
  launch_blocks(kernel, dim3(static_cast<unsigned>(between(blocks, 1, 1 << 30))), dim3(threads), 0, a);
}

template <class T>
void forward(int64_t rows, int64_t n, double eps, const T* x, const T* weight, const T* bias, T* y, Compute<T>* mean,
             Compute<T>* rstd) {
  constexpr int V = kVector<T>;
  const LayerForward<T> a{rows, static_cast<int>(n), lanes_for(n), eps, x, weight, bias, y, mean, rstd};
  if (n % V == 0 && aligned({x, weight, bias, y}, V * sizeof(T))) return start_rows(layer_forward_kernel<T, V>, a);
  start_rows(layer_forward_kernel<T, 1>, a);
}

template <class T>
void backward(int64_t rows, int64_t n, const T* dy, const T* x, const Compute<T>* mean, const Compute<T>* rstd,
              const T* weight, T* dx, T* dweight, T* dbias) {
  constexpr int V = kVector<T>;
  if (dx && rows > 0 && n > 0) {
    const LayerBackward<T> a{rows, static_cast<int>(n), lanes_for(n), dy, x, weight, mean, rstd, dx};
    if (n % V == 0 && aligned({dy, x, weight, dx}, V * sizeof(T)))
      start_rows(layer_backward_kernel<T, V>, a);
    else
      start_rows(layer_backward_kernel<T, 1>, a);
  }
  parameter_gradients<T>(rows, n, 1, 1, dy, x, mean, rstd, dweight, dbias);
}

}  // namespace
}  // namespace internal

void layer_norm_forward(DType dtype, int64_t rows, int64_t n, double eps, const void* x, const void* weight,
                        const void* bias, void* y, void* mean, void* rstd) {
  if (rows == 0) return;
  if (n > internal::kLongestForward)
    return group_norm_forward(dtype, rows, n, 1, 1, eps, x, weight, bias, y, mean, rstd);
  visit<kAllFloats>(dtype, "LayerNormKernelImpl", [&](auto tag) {
    using T = typename decltype(tag)::type;
    internal::forward<T>(rows, n, eps, static_cast<const T*>(x), static_cast<const T*>(weight),
                         static_cast<const T*>(bias), static_cast<T*>(y), static_cast<Compute<T>*>(mean),
                         static_cast<Compute<T>*>(rstd));
  });
}

void layer_norm_backward(DType dtype, int64_t rows, int64_t n, const void* dy, const void* x, const void* mean,
                         const void* rstd, const void* weight, void* dx, void* dweight, void* dbias) {
  if (n > internal::kLongestBackward)
    return group_norm_backward(dtype, rows, n, 1, 1, dy, x, mean, rstd, weight, dx, dweight, dbias);
  visit<kAllFloats>(dtype, "LayerNormBackwardKernelImpl", [&](auto tag) {
    using T = typename decltype(tag)::type;
    internal::backward<T>(rows, n, static_cast<const T*>(dy), static_cast<const T*>(x),
                          static_cast<const Compute<T>*>(mean), static_cast<const Compute<T>*>(rstd),
                          static_cast<const T*>(weight), static_cast<T*>(dx), static_cast<T*>(dweight),
                          static_cast<T*>(dbias));
  });
}

void rms_norm_forward(DType dtype, int64_t rows, int64_t n, double eps, const void* x, const void* weight, void* y,
                      void* rstd) {
  static_assert(kLongestRmsNorm <= internal::kLongestForward && kLongestRmsNorm <= internal::kLongestBackward);
  if (rows == 0) return;
  visit<kAllFloats>(dtype, "rms_norm", [&](auto tag) {
    using T = typename decltype(tag)::type;
    internal::forward<T>(rows, n, eps, static_cast<const T*>(x), static_cast<const T*>(weight), nullptr,
                         static_cast<T*>(y), nullptr, static_cast<Compute<T>*>(rstd));
  });
}

void rms_norm_backward(DType dtype, int64_t rows, int64_t n, const void* dy, const void* x, const void* rstd,
                       const void* weight, void* dx, void* dweight) {
  visit<kAllFloats>(dtype, "rms_norm_backward", [&](auto tag) {
    using T = typename decltype(tag)::type;
    internal::backward<T>(rows, n, static_cast<const T*>(dy), static_cast<const T*>(x), nullptr,
                          static_cast<const Compute<T>*>(rstd), static_cast<const T*>(weight), static_cast<T*>(dx),
                          static_cast<T*>(dweight), nullptr);
  });
}

}  // namespace tessera::cuda
