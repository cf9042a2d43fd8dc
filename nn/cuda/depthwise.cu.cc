#include "nn/cuda/depthwise.h"

#include <algorithm>

#include "nn/cuda/nn_vector.h"
#include "nn/cuda/sliding.h"
#include "tensor/cuda/support/types.h"

namespace tessera::cuda::internal {
namespace {

using cpu::ConvGeometry;

// An image in memory: elements from one channel to the next, from one place to the next, from one image to the next.
struct Layout {
  int64_t channel, place, image;
  Layout(bool channels_last, int64_t channels, int64_t places)
      : channel(channels_last ? 1 : places), place(channels_last ? channels : 1), image(channels * places) {}
};

struct Depthwise {
  Sliding s;
  bool last;
  int64_t batch, channels, outputs, multiplier;  // multiplier: outputs of a channel
  Layout x, y;
};
Depthwise depthwise_of(const ConvGeometry& g) {
  const Sliding s = sliding_of(g);
  return {s,
          g.channels_last,
          g.batch,
          g.in_channels,
          g.out_channels,
          g.out_channels / g.in_channels,
          Layout(g.channels_last, g.in_channels, s.plane),
          Layout(g.channels_last, g.out_channels, s.positions)};
}

// Where element i of an image lies, which is counted in the order of its memory, V channels at a time.
struct Place {
  int64_t image, channel;
  int at[3];
};
template <int V>
__device__ inline Place place_of(int64_t i, bool last, int64_t channels, const int (&size)[3]) {
  Place p;
  if (last) p.channel = split(i, channels / V) * V;
  for (int d = 2; d >= 0; --d) p.at[d] = static_cast<int>(split(i, size[d]));
  if (!last) p.channel = split(i, channels);
  p.image = i;
  return p;
}

// fn(tap, its place in each dimension) for all taps of a window; kSquare: of 1 x 3 x 3, known to the compiler.
template <bool kSquare, class F>
__device__ inline void for_taps(const Sliding& s, F&& fn) {
  if constexpr (kSquare) {
#pragma unroll
    for (int h = 0; h < 3; ++h)
#pragma unroll
      for (int w = 0; w < 3; ++w) fn(3 * h + w, 0, h, w);
  } else {
    int tap = 0;
    for (int d = 0; d < s.kernel[0]; ++d)
      for (int h = 0; h < s.kernel[1]; ++h)
        for (int w = 0; w < s.kernel[2]; ++w, ++tap) fn(tap, d, h, w);
  }
}

__device__ inline int64_t input_place(const Sliding& s, int dim, int o, int k) {
  const int64_t i = int64_t{o} * s.stride[dim] - s.padding[dim] + int64_t{k} * s.dilation[dim];
  return i < s.in[dim] ? i : -1;
}

// Adds to the sums of V channels what one tap of the window weighs there: place (d, h, c) of an image of `extent`,
// where neighbours lie `step` apart. A negative coordinate is outside.
template <int V, class T>
__device__ inline void add_tap(const T* image, int64_t step, const int* extent, int64_t d, int64_t h, int64_t c,
                               const T* weights, int64_t taps, Compute<T>* sum) {
  if (d < 0 || h < 0 || c < 0) return;
  Compute<T> v[V];
  load_elements<V>(image + ((d * extent[1] + h) * extent[2] + c) * step, v);
  for (int k = 0; k < V; ++k) sum[k] += v[k] * load(weights + k * taps);
}

// Thread: V channels of one place of the result.
template <class T, int V, bool kSquare>
__global__ void forward_kernel(Depthwise g, const T* x, const T* w, const T* bias, T* y) {
  using A = Compute<T>;
  const Sliding& s = g.s;
  const int64_t n = g.batch * g.y.image / V, step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += step) {
    const Place o = place_of<V>(i, g.last, g.outputs, s.out);
    const T* const from = x + o.image * g.x.image + quotient(o.channel, g.multiplier) * g.x.channel;
    const T* const weights = w + o.channel * s.taps;
    A sum[V] = {};
    for_taps<kSquare>(s, [&](int tap, int kd, int kh, int kw) {
      add_tap<V>(from, g.x.place, s.in, input_place(s, 0, o.at[0], kd), input_place(s, 1, o.at[1], kh),
                 input_place(s, 2, o.at[2], kw), weights + tap, s.taps, sum);
    });
    if (bias)
      for (int k = 0; k < V; ++k) sum[k] += load(bias + o.channel + k);
    store_elements<V>(y + i * V, sum);
  }
}

// Thread: V channels of one place of the input, which gathers from the windows that hold it.
template <class T, int V, bool kSquare>
__global__ void input_kernel(Depthwise g, const T* dy, const T* w, T* dx) {
  using A = Compute<T>;
  const Sliding& s = g.s;
  const int64_t n = g.batch * g.x.image / V, step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < n; i += step) {
    const Place p = place_of<V>(i, g.last, g.channels, s.in);
    A sum[V] = {};
    for (int64_t m = 0; m < g.multiplier; ++m) {
      const int64_t output = p.channel * g.multiplier + m;
      const T* const from = dy + p.image * g.y.image + output * g.y.channel;
      const T* const weights = w + output * s.taps;
      for_taps<kSquare>(s, [&](int tap, int kd, int kh, int kw) {
        add_tap<V>(from, g.y.place, s.out, position_of(s, 0, p.at[0], kd), position_of(s, 1, p.at[1], kh),
                   position_of(s, 2, p.at[2], kw), weights + tap, s.taps, sum);
      });
    }
    store_elements<V>(dx + i * V, sum);
  }
}

// Starts one of the three kernels of a direction: channels side by side, windows of 3 x 3, or any.
template <class T, class Kernel, class... A>
void start(const Depthwise& g, int64_t n, bool vectors, Kernel wide, Kernel square, Kernel any, A... arguments) {
  if (n == 0) return;
  const bool is_square = g.s.kernel[0] == 1 && g.s.kernel[1] == 3 && g.s.kernel[2] == 3;
  const int64_t threads = vectors ? n / kVector<T> : n;
  launch(vectors ? wide : is_square ? square : any, blocks_for(threads), dim3(kThreads), g, arguments...);
}
template <class T>
bool has_vectors(const Depthwise& g, const void* a, const void* b) {
  return g.last && g.multiplier == 1 && g.channels % kVector<T> == 0 && aligned({a, b}, kVector<T> * sizeof(T));
}

// ---- Gradient of the weights: a block sums over positions, for some channels and taps ----

constexpr int kTaps = 9;
constexpr int64_t kBlocks = 1024;       // so many, that any device is busy
constexpr int64_t kLeastOfThread = 16;  // positions

struct Parts {
  int lanes;                 // threads side by side on channels; the others are on positions
  int64_t count, positions;  // parts of the positions, and of how many
  dim3 blocks;
};
Parts parts_of(const Depthwise& g) {
  Parts p;
  p.lanes = g.last ? 32 : 1;
  const int64_t rows = kThreads / p.lanes, total = g.batch * g.s.positions, wide = (g.outputs + p.lanes - 1) / p.lanes,
                groups = (g.s.taps + kTaps - 1) / kTaps;
  TESSERA_CHECK(groups <= 65535, "convolution: windows of ", g.s.taps, " places are too large for CUDA devices");
  const int64_t wanted = (kBlocks + wide * groups - 1) / (wide * groups), most = total / (rows * kLeastOfThread);
  p.count = std::max<int64_t>(1, std::min(wanted, most));
  p.positions = (total + p.count - 1) / p.count;
  p.blocks = dim3(static_cast<unsigned>(wide), static_cast<unsigned>(groups), static_cast<unsigned>(p.count));
  return p;
}

template <class T>
__global__ void weight_kernel(Depthwise g, Parts parts, const T* dy, const T* x, Compute<T>* sums_of_parts) {
  using A = Compute<T>;
  __shared__ A sums[kTaps][kThreads];
  __shared__ int place[kTaps][3];  // of a tap, from where its window begins
  const Sliding& s = g.s;
  const int id = static_cast<int>(threadIdx.x), lane = id % parts.lanes, row = id / parts.lanes,
            rows = kThreads / parts.lanes;
  const int64_t first = int64_t{blockIdx.y} * kTaps, left = s.taps - first,
                output = int64_t{blockIdx.x} * parts.lanes + lane;
  const int taps = static_cast<int>(left < kTaps ? left : kTaps);
  if (id < taps) {
    int64_t tap = first + id;
    for (int d = 2; d >= 0; --d)
      place[id][d] = static_cast<int>(split(tap, s.kernel[d])) * s.dilation[d] - s.padding[d];
  }
  __syncthreads();
  A sum[kTaps] = {};
  const int64_t total = g.batch * s.positions, begin = blockIdx.z * parts.positions, stop = begin + parts.positions,
                end = output >= g.outputs ? 0
                      : stop < total      ? stop
                                          : total;
  for (int64_t i = begin + row; i < end; i += rows) {
    int64_t image = i, at[3];
    const int64_t position = split(image, s.positions);
    int64_t rest = position;
    for (int d = 2; d >= 0; --d) at[d] = split(rest, s.out[d]) * s.stride[d];
    const A grad = load(dy + image * g.y.image + output * g.y.channel + position * g.y.place);
    const T* const from = x + image * g.x.image + quotient(output, g.multiplier) * g.x.channel;
#pragma unroll
    for (int t = 0; t < kTaps; ++t) {
      if (t >= taps) continue;
      const int64_t d = at[0] + place[t][0], h = at[1] + place[t][1], c = at[2] + place[t][2];
      if (d < 0 || d >= s.in[0] || h < 0 || h >= s.in[1] || c < 0 || c >= s.in[2]) continue;
      sum[t] += grad * load(from + ((d * s.in[1] + h) * s.in[2] + c) * g.x.place);
    }
  }
#pragma unroll
  for (int t = 0; t < kTaps; ++t) sums[t][id] = sum[t];
  for (int half = rows / 2; half > 0; half /= 2) {
    __syncthreads();
    if (row < half)
      for (int t = 0; t < taps; ++t) sums[t][id] += sums[t][id + half * parts.lanes];
  }
  if (row == 0 && output < g.outputs)
    for (int t = 0; t < taps; ++t) sums_of_parts[(blockIdx.z * g.outputs + output) * s.taps + first + t] = sums[t][id];
}

// The sums of the parts, each of n numbers, in their order.
template <class T, class A>
void join_parts(const A* sums, int64_t count, int64_t n, T* to) {
  for_each(n, [=] __device__(int64_t i) {
    A sum = sums[i];
    for (int64_t p = 1; p < count; ++p) sum += sums[p * n + i];
    store(to + i, sum);
  });
}

}  // namespace

void depthwise_forward(DType dtype, const ConvGeometry& geometry, const void* x, const void* w, const void* bias,
                       void* y) {
  const Depthwise g = depthwise_of(geometry);
  visit<kAllFloats>(dtype, "depthwise_conv", [&]<class T>(Tag<T>) {
    start<T>(g, g.batch * g.y.image, has_vectors<T>(g, x, y), forward_kernel<T, kVector<T>, false>,
             forward_kernel<T, 1, true>, forward_kernel<T, 1, false>, static_cast<const T*>(x),
             static_cast<const T*>(w), static_cast<const T*>(bias), static_cast<T*>(y));
  });
}

void depthwise_backward_input(DType dtype, const ConvGeometry& geometry, const void* dy, const void* w, void* dx) {
  const Depthwise g = depthwise_of(geometry);
  visit<kAllFloats>(dtype, "depthwise_conv_backward", [&]<class T>(Tag<T>) {
    start<T>(g, g.batch * g.x.image, has_vectors<T>(g, dy, dx), input_kernel<T, kVector<T>, false>,
             input_kernel<T, 1, true>, input_kernel<T, 1, false>, static_cast<const T*>(dy), static_cast<const T*>(w),
             static_cast<T*>(dx));
  });
}

void depthwise_backward_weight(DType dtype, const ConvGeometry& geometry, const void* dy, const void* x, void* dw) {
  const Depthwise g = depthwise_of(geometry);
  const Parts parts = parts_of(g);
  visit<kAllFloats>(dtype, "depthwise_conv_backward", [&]<class T>(Tag<T>) {
    using A = Compute<T>;
    const int64_t n = g.outputs * g.s.taps;
    const bool direct = parts.count == 1 && std::is_same_v<A, T>;
    const Buffer buffer(direct ? 0 : static_cast<size_t>(parts.count * n) * sizeof(A));
    A* const sums = direct ? static_cast<A*>(dw) : buffer.as<A>();
    launch_blocks(weight_kernel<T>, parts.blocks, dim3(kThreads), 0, g, parts, static_cast<const T*>(dy),
                  static_cast<const T*>(x), sums);
    if (direct) return;
    join_parts(sums, parts.count, n, static_cast<T*>(dw));
  });
}

}  // namespace tessera::cuda::internal
