// Max and average pooling. A window starts at o * stride - padding and is clipped to the input.
#include <algorithm>
#include <cstring>
#include <limits>
#include <type_traits>

#include "tensor/core/parallel.h"
#include "nn/cpu/pool.h"
#include "tensor/cpu/support/types.h"
#include "nn/cpu/pool_lines.h"
#include "tensor/cpu/support/scratch.h"

namespace tessera::cpu {
namespace {

using namespace internal;  // NOLINT: helpers of these kernels

// Calls fn(plane, first output position of the row, od, oh) for all output rows, in pieces.
template <class F>
void for_rows(int64_t planes, const int64_t (&out)[3], int64_t work_per_row, F&& fn) {
  const int64_t rows = out[0] * out[1];
  if (rows == 0 || out[2] == 0) return;
  parallel_for(planes * rows, 1 + 32768 / (work_per_row + 1), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) fn(i / rows, i % rows * out[2], i % rows / out[1], i % out[1]);
  });
}

template <class T>
inline bool is_nan(T x) {
  if constexpr (std::is_floating_point_v<T>)
    return x != x;
  else
    return false;
}
template <class T>
constexpr T lowest() {
  if constexpr (std::is_floating_point_v<T>)
    return -std::numeric_limits<T>::infinity();
  else
    return std::numeric_limits<T>::lowest();
}

// The running maximum of a window: a later element wins only if it is greater, or not a number.
template <class T>
struct Maximum {
  Acc<T> value = lowest<Acc<T>>();
  int64_t index;
  void add(T x, int64_t i) {
    const Acc<T> v = static_cast<Acc<T>>(x);
    if (v > value || is_nan(v)) {
      value = v;
      index = i;
    }
  }
};

template <class T>
void max_pool_row(const PoolGeometry& g, const T* in, int64_t od, int64_t oh, T* out, int64_t* index) {
  const int64_t height = g.in_size[1], width = g.in_size[2];
  const Window d = window(g, 0, od), h = window(g, 1, oh);
  for (int64_t ow = 0; ow < g.out_size[2]; ++ow) {
    const Window w = window(g, 2, ow);
    Maximum<T> max;
    // A window of nothing but -inf reports its first element.
    max.index =
        (clamp_to(d.begin, g.in_size[0]) * height + clamp_to(h.begin, height)) * width + clamp_to(w.begin, width);
    for (int64_t id = d.begin; id < d.end; id += g.dilation[0])
      for (int64_t ih = h.begin; ih < h.end; ih += g.dilation[1]) {
        const int64_t row = (id * height + ih) * width;
        for (int64_t iw = w.begin; iw < w.end; iw += g.dilation[2]) max.add(in[row + iw], row + iw);
      }
    out[ow] = static_cast<T>(max.value);
    if (index) index[ow] = max.index;
  }
}

// What an element of dy or of the sum of a window is divided by (at least 1: an empty window has sum 0).
int64_t divisor(bool include_pad, int64_t override_value, const Window& d, const Window& h, const Window& w) {
  if (override_value != 0) return override_value;
  const int64_t n = include_pad ? d.span * h.span * w.span : (d.end - d.begin) * (h.end - h.begin) * (w.end - w.begin);
  return n;
}
bool empty(const Window& d, const Window& h, const Window& w) {
  return d.end <= d.begin || h.end <= h.begin || w.end <= w.begin;
}

template <class T>
void avg_pool_row(const PoolGeometry& g, bool include_pad, int64_t override_value, const T* in, int64_t od, int64_t oh,
                  T* out) {
  using A = Acc<T>;
  const Window d = window(g, 0, od), h = window(g, 1, oh);
  for (int64_t ow = 0; ow < g.out_size[2]; ++ow) {
    const Window w = window(g, 2, ow);
    if (empty(d, h, w)) {
      out[ow] = T{};
      continue;
    }
    A sum{};
    for (int64_t id = d.begin; id < d.end; ++id)
      for (int64_t ih = h.begin; ih < h.end; ++ih) {
        const T* const row = in + (id * g.in_size[1] + ih) * g.in_size[2];
        for (int64_t iw = w.begin; iw < w.end; ++iw) sum = static_cast<A>(sum + static_cast<A>(row[iw]));
      }
    out[ow] = static_cast<T>(static_cast<A>(sum / static_cast<A>(divisor(include_pad, override_value, d, h, w))));
  }
}

// dx planes in the accumulation type; fn(plane, sums) adds to zeroed sums.
template <class T, class F>
void accumulate_planes(int64_t planes, int64_t in_plane, int64_t work, T* dx, F&& fn) {
  using A = Acc<T>;
  parallel_for(planes, 1 + 32768 / (work + in_plane + 1), [&](int64_t begin, int64_t end) {
    ScratchArray<A> scratch(kIsReduced<T> ? in_plane : 0);
    for (int64_t p = begin; p < end; ++p) {
      T* const out = dx + p * in_plane;
      A* sums;
      if constexpr (kIsReduced<T>)
        sums = scratch.get();
      else
        sums = out;
      std::memset(sums, 0, static_cast<size_t>(in_plane) * sizeof(A));
      fn(p, sums);
      if constexpr (kIsReduced<T>)
        for (int64_t i = 0; i < in_plane; ++i) out[i] = static_cast<T>(sums[i]);
    }
  });
}

template <class A>
void add_window(A* sums, const int64_t (&size)[3], const Window& d, const Window& h, const Window& w, A value) {
  for (int64_t id = d.begin; id < d.end; ++id)
    for (int64_t ih = h.begin; ih < h.end; ++ih) {
      A* const row = sums + (id * size[1] + ih) * size[2];
      for (int64_t iw = w.begin; iw < w.end; ++iw) row[iw] = static_cast<A>(row[iw] + value);
    }
}

// to[i] += from[i], in blocks of fixed size that the compiler turns into vector code.
template <class A>
void add_line(const A* from, int64_t n, A* to) {
  constexpr int64_t kBlock = 16;
  int64_t i = 0;
  for (; i + kBlock <= n; i += kBlock)
    for (int64_t k = 0; k < kBlock; ++k) to[i + k] = static_cast<A>(to[i + k] + from[i + k]);
  for (; i < n; ++i) to[i] = static_cast<A>(to[i] + from[i]);
}

// What a line of gradients gives each line of its windows is added up along the width first.
template <class T>
class MeanBackward {
  using A = Acc<T>;

 public:
  MeanBackward(const PoolGeometry& g, bool include_pad, int64_t divisor)
      : g_(g),
        include_pad_(include_pad),
        divisor_(divisor),
        windows_(g.out_size[2]),
        counts_(g.out_size[2]),
        line_(g.in_size[2]) {
    for (int64_t ow = 0; ow < g.out_size[2]; ++ow) {
      const Window w = windows_[ow] = window(g, 2, ow);
      counts_[ow] =
          static_cast<A>(divisor != 0 ? divisor : std::max<int64_t>(1, include_pad ? w.span : w.end - w.begin));
    }
  }

  void row(const T* dy, int64_t od, int64_t oh, A* sums) const {
    const Window d = window(g_, 0, od), h = window(g_, 1, oh);
    if (d.end <= d.begin || h.end <= h.begin) return;
    const int64_t width = g_.in_size[2];
    const A lines = static_cast<A>(divisor_ != 0  ? 1
                                   : include_pad_ ? d.span * h.span
                                                  : (d.end - d.begin) * (h.end - h.begin));
    std::memset(line_.get(), 0, static_cast<size_t>(width) * sizeof(A));
    for (int64_t ow = 0; ow < g_.out_size[2]; ++ow) {
      const Window w = windows_[ow];
      const A value = static_cast<A>(static_cast<A>(dy[ow]) / static_cast<A>(lines * counts_[ow]));
      for (int64_t iw = w.begin; iw < w.end; ++iw) line_[iw] = static_cast<A>(line_[iw] + value);
    }
    for (int64_t id = d.begin; id < d.end; ++id)
      for (int64_t ih = h.begin; ih < h.end; ++ih)
        add_line(line_.get(), width, sums + (id * g_.in_size[1] + ih) * width);
  }

 private:
  const PoolGeometry& g_;
  const bool include_pad_;
  const int64_t divisor_;
  ScratchArray<Window> windows_;
  ScratchArray<A> counts_, line_;
};

// Adaptive windows: [floor(o in / out), ceil((o + 1) in / out)).
Window adaptive_window(int64_t in, int64_t out, int64_t o) {
  // o * in / out without overflow: o < out, so the parts stay below in * out of the remainder.
  const int64_t q = in / out, r = in % out;
  const int64_t begin = o * q + o * r / out, end = (o + 1) * q + ((o + 1) * r + out - 1) / out;
  return {begin, end, end - begin};
}
struct AdaptiveSizes {
  AdaptiveSizes(const int64_t* i, const int64_t* o) : in{i[0], i[1], i[2]}, out{o[0], o[1], o[2]} {}
  int64_t in[3], out[3];
  Window at(int dim, int64_t o) const { return adaptive_window(in[dim], out[dim], o); }
  // Multiplications for a row of the output, for cutting the work.
  int64_t row_work() const { return in[2] * (1 + in[1] / (out[1] + 1)) * (1 + in[0] / (out[0] + 1)); }
};

// Whether whole lines are worth preparing: floating elements, windows that overlap or touch.
bool fits_lines(DType dtype, const PoolGeometry& g) {
  if (!is_floating_point(dtype) || g.planes * volume(g.out_size) == 0 || volume(g.in_size) >= INT32_MAX / 2 ||
      g.out_size[2] < 4)
    return false;
  return g.stride[2] <= 2 * g.kernel[2] && g.dilation[2] * g.kernel[2] <= g.in_size[2] + 2 * g.padding[2];
}

}  // namespace

void max_pool_forward(DType dtype, const PoolGeometry& g, const void* x, void* y, int64_t* indices) {
  if (fits_lines(dtype, g)) return max_pool_lines(dtype, g, x, y, indices);
  visit_reals("max_pool2d", dtype, [&](auto tag) {
    using T = decltype(tag);
    const int64_t in_plane = volume(g.in_size), out_plane = volume(g.out_size);
    for_rows(g.planes, g.out_size, g.out_size[2] * volume(g.kernel),
             [&](int64_t plane, int64_t at, int64_t od, int64_t oh) {
               const int64_t to = plane * out_plane + at;
               max_pool_row(g, static_cast<const T*>(x) + plane * in_plane, od, oh, static_cast<T*>(y) + to,
                            indices ? indices + to : nullptr);
             });
  });
}

void max_pool_backward(DType dtype, int64_t planes, int64_t in_plane, int64_t out_plane, const void* dy,
                       const int64_t* indices, void* dx) {
  visit_reals("max_pool2d_backward", dtype, [&](auto tag) {
    using T = decltype(tag);
    using A = Acc<T>;
    accumulate_planes(planes, in_plane, out_plane, static_cast<T*>(dx), [&](int64_t p, A* sums) {
      const T* const grad = static_cast<const T*>(dy) + p * out_plane;
      const int64_t* const index = indices + p * out_plane;
      for (int64_t i = 0; i < out_plane; ++i)
        if (index[i] >= 0 && index[i] < in_plane)
          sums[index[i]] = static_cast<A>(sums[index[i]] + static_cast<A>(grad[i]));
    });
  });
}

void avg_pool_forward(DType dtype, const PoolGeometry& g, bool count_include_pad, int64_t divisor_override,
                      const void* x, void* y) {
  if (fits_lines(dtype, g)) return avg_pool_lines(dtype, g, count_include_pad, divisor_override, x, y);
  visit_reals("avg_pool2d", dtype, [&](auto tag) {
    using T = decltype(tag);
    const int64_t in_plane = volume(g.in_size), out_plane = volume(g.out_size);
    for_rows(g.planes, g.out_size, g.out_size[2] * volume(g.kernel),
             [&](int64_t plane, int64_t at, int64_t od, int64_t oh) {
               avg_pool_row(g, count_include_pad, divisor_override, static_cast<const T*>(x) + plane * in_plane, od, oh,
                            static_cast<T*>(y) + plane * out_plane + at);
             });
  });
}

void avg_pool_backward(DType dtype, const PoolGeometry& g, bool count_include_pad, int64_t divisor_override,
                       const void* dy, void* dx) {
  visit_reals("avg_pool2d_backward", dtype, [&](auto tag) {
    using T = decltype(tag);
    using A = Acc<T>;
    const int64_t in_plane = volume(g.in_size), out_plane = volume(g.out_size);
    accumulate_planes(g.planes, in_plane, out_plane * volume(g.kernel), static_cast<T*>(dx), [&](int64_t p, A* sums) {
      const T* grad = static_cast<const T*>(dy) + p * out_plane;
      if constexpr (std::is_floating_point_v<A>) {
        if (g.out_size[2] >= 4) {  // else lines have little to share
          const MeanBackward<T> mean(g, count_include_pad, divisor_override);
          for (int64_t od = 0; od < g.out_size[0]; ++od)
            for (int64_t oh = 0; oh < g.out_size[1]; ++oh, grad += g.out_size[2]) mean.row(grad, od, oh, sums);
          return;
        }
      }
      for (int64_t od = 0; od < g.out_size[0]; ++od)
        for (int64_t oh = 0; oh < g.out_size[1]; ++oh)
          for (int64_t ow = 0; ow < g.out_size[2]; ++ow, ++grad) {
            const Window d = window(g, 0, od), h = window(g, 1, oh), w = window(g, 2, ow);
            if (!empty(d, h, w))
              add_window<A>(sums, g.in_size, d, h, w,
                            static_cast<A>(static_cast<A>(*grad) /
                                           static_cast<A>(divisor(count_include_pad, divisor_override, d, h, w))));
          }
    });
  });
}

void adaptive_avg_pool_forward(DType dtype, int64_t planes, const int64_t in[3], const int64_t out[3], const void* x,
                               void* y) {
  visit_reals("adaptive_avg_pool2d", dtype, [&](auto tag) {
    using T = decltype(tag);
    using A = Acc<T>;
    const AdaptiveSizes s(in, out);
    const int64_t in_plane = volume(s.in), out_plane = volume(s.out);
    for_rows(planes, s.out, s.row_work(), [&](int64_t plane, int64_t at, int64_t od, int64_t oh) {
      const T* const from = static_cast<const T*>(x) + plane * in_plane;
      T* const to = static_cast<T*>(y) + plane * out_plane + at;
      const Window d = s.at(0, od), h = s.at(1, oh);
      for (int64_t ow = 0; ow < s.out[2]; ++ow) {
        const Window w = s.at(2, ow);
        A sum{};
        for (int64_t id = d.begin; id < d.end; ++id)
          for (int64_t ih = h.begin; ih < h.end; ++ih) {
            const T* const row = from + (id * s.in[1] + ih) * s.in[2];
            for (int64_t iw = w.begin; iw < w.end; ++iw) sum = static_cast<A>(sum + static_cast<A>(row[iw]));
          }
        const int64_t count = d.span * h.span * w.span;
        to[ow] = count == 0 ? T{} : static_cast<T>(static_cast<A>(sum / static_cast<A>(count)));
      }
    });
  });
}

void adaptive_avg_pool_backward(DType dtype, int64_t planes, const int64_t in[3], const int64_t out[3], const void* dy,
                                void* dx) {
  visit_reals("adaptive_avg_pool2d_backward", dtype, [&](auto tag) {
    using T = decltype(tag);
    using A = Acc<T>;
    const AdaptiveSizes s(in, out);
    const int64_t out_plane = volume(s.out);
    accumulate_planes(planes, volume(s.in), out_plane, static_cast<T*>(dx), [&](int64_t p, A* sums) {
      const T* grad = static_cast<const T*>(dy) + p * out_plane;
      for (int64_t od = 0; od < s.out[0]; ++od)
        for (int64_t oh = 0; oh < s.out[1]; ++oh)
          for (int64_t ow = 0; ow < s.out[2]; ++ow, ++grad) {
            const Window d = s.at(0, od), h = s.at(1, oh), w = s.at(2, ow);
            if (!empty(d, h, w))
              add_window<A>(sums, s.in, d, h, w,
                            static_cast<A>(static_cast<A>(*grad) / static_cast<A>(d.span * h.span * w.span)));
          }
    });
  });
}

void adaptive_max_pool_forward(DType dtype, int64_t planes, const int64_t in[3], const int64_t out[3], const void* x,
                               void* y, int64_t* indices) {
  visit_reals("adaptive_max_pool2d", dtype, [&](auto tag) {
    using T = decltype(tag);
    const AdaptiveSizes s(in, out);
    const int64_t in_plane = volume(s.in), out_plane = volume(s.out);
    for_rows(planes, s.out, s.row_work(), [&](int64_t plane, int64_t at, int64_t od, int64_t oh) {
      const T* const from = static_cast<const T*>(x) + plane * in_plane;
      const int64_t to = plane * out_plane + at;
      const Window d = s.at(0, od), h = s.at(1, oh);
      for (int64_t ow = 0; ow < s.out[2]; ++ow) {
        const Window w = s.at(2, ow);
        Maximum<T> max;
        max.index = (d.begin * s.in[1] + h.begin) * s.in[2] + w.begin;
        for (int64_t id = d.begin; id < d.end; ++id)
          for (int64_t ih = h.begin; ih < h.end; ++ih) {
            const int64_t row = (id * s.in[1] + ih) * s.in[2];
            for (int64_t iw = w.begin; iw < w.end; ++iw) max.add(from[row + iw], row + iw);
          }
        static_cast<T*>(y)[to + ow] = static_cast<T>(max.value);
        if (indices) indices[to + ow] = max.index;
      }
    });
  });
}

}  // namespace tessera::cpu
