// Max and average pooling, adaptive pooling. Windows: pool_windows.h.
#include <algorithm>
#include <cstring>
#include <type_traits>

#include "tensor/core/parallel.h"
#include "nn/cpu/pool.h"
#include "nn/cpu/pool_windows.h"
#include "tensor/cpu/support/types.h"
#include "nn/cpu/pool_lines.h"
#include "tensor/cpu/support/scratch.h"

namespace tessera::cpu {
namespace {

using namespace internal;  // NOLINT: helpers of these kernels

PoolWindow window(const PoolLine& line, int64_t o) {
  return window_of(line, o, [](int64_t a, int64_t b) { return a / b; });
}

// Elements that a row of the output reads, about: for cutting the work.
int64_t row_work(const PoolWindows& g) {
  const PoolLine &d = g.line[0], &h = g.line[1], &w = g.line[2];
  return w.adaptive ? w.in * (1 + h.in / (h.out + 1)) * (1 + d.in / (d.out + 1))
                    : w.out * d.kernel * h.kernel * w.kernel;
}

// Calls fn(plane, first output position of the row, od, oh) for all output rows, in pieces.
template <class F>
void for_rows(const PoolWindows& g, F&& fn) {
  const int64_t width = g.line[2].out, height = g.line[1].out, rows = g.line[0].out * height;
  if (rows == 0 || width == 0) return;
  parallel_for(g.planes * rows, 1 + 32768 / (row_work(g) + 1), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) fn(i / rows, i % rows * width, i % rows / height, i % height);
  });
}

// The running maximum of a window.
template <class T>
struct Maximum {
  Acc<T> value = lowest_number<Acc<T>>();
  int64_t index;
  void add(T x, int64_t i) {
    const Acc<T> v = static_cast<Acc<T>>(x);
    if (replaces_maximum(v, value)) {
      value = v;
      index = i;
    }
  }
};

template <class T>
void max_pool_row(const PoolWindows& g, const T* in, int64_t od, int64_t oh, T* out, int64_t* index) {
  const PoolLine& line = g.line[2];
  const int64_t height = g.line[1].in, width = line.in;
  const PoolWindow d = window(g.line[0], od), h = window(g.line[1], oh);
  for (int64_t ow = 0; ow < line.out; ++ow) {
    const PoolWindow w = window(line, ow);
    Maximum<T> max;
    max.index = (nearest_place(d.begin, g.line[0].in) * height + nearest_place(h.begin, height)) * width +
                nearest_place(w.begin, width);
    for (int64_t id = d.begin; id < d.end; id += g.line[0].dilation)
      for (int64_t ih = h.begin; ih < h.end; ih += g.line[1].dilation) {
        const int64_t row = (id * height + ih) * width;
        for (int64_t iw = w.begin; iw < w.end; iw += line.dilation) max.add(in[row + iw], row + iw);
      }
    out[ow] = static_cast<T>(max.value);
    if (index) index[ow] = max.index;
  }
}

template <class T>
void run_max(const PoolWindows& g, const T* x, T* y, int64_t* indices) {
  for_rows(g, [&](int64_t plane, int64_t at, int64_t od, int64_t oh) {
    const int64_t to = plane * g.out_plane + at;
    max_pool_row(g, x + plane * g.in_plane, od, oh, y + to, indices ? indices + to : nullptr);
  });
}

bool empty(const PoolWindow& d, const PoolWindow& h, const PoolWindow& w) {
  return d.empty() || h.empty() || w.empty();
}

template <class T>
void avg_pool_row(const PoolWindows& g, const PoolDivisor& divisor, const T* in, int64_t od, int64_t oh, T* out) {
  using A = Acc<T>;
  const PoolWindow d = window(g.line[0], od), h = window(g.line[1], oh);
  for (int64_t ow = 0; ow < g.line[2].out; ++ow) {
    const PoolWindow w = window(g.line[2], ow);
    if (empty(d, h, w)) {
      out[ow] = T{};
      continue;
    }
    A sum{};
    for (int64_t id = d.begin; id < d.end; ++id)
      for (int64_t ih = h.begin; ih < h.end; ++ih) {
        const T* const row = in + (id * g.line[1].in + ih) * g.line[2].in;
        for (int64_t iw = w.begin; iw < w.end; ++iw) sum = static_cast<A>(sum + static_cast<A>(row[iw]));
      }
    out[ow] = static_cast<T>(static_cast<A>(sum / static_cast<A>(divisor.of(d, h, w))));
  }
}

template <class T>
void run_avg(const PoolWindows& g, const PoolDivisor& divisor, const T* x, T* y) {
  for_rows(g, [&](int64_t plane, int64_t at, int64_t od, int64_t oh) {
    avg_pool_row(g, divisor, x + plane * g.in_plane, od, oh, y + plane * g.out_plane + at);
  });
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
void add_window(A* sums, const PoolWindows& g, const PoolWindow& d, const PoolWindow& h, const PoolWindow& w, A value) {
  for (int64_t id = d.begin; id < d.end; ++id)
    for (int64_t ih = h.begin; ih < h.end; ++ih) {
      A* const row = sums + (id * g.line[1].in + ih) * g.line[2].in;
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
  MeanBackward(const PoolWindows& g, const PoolDivisor& divisor)
      : g_(g), divisor_(divisor), windows_(g.line[2].out), counts_(g.line[2].out), line_(g.line[2].in) {
    for (int64_t ow = 0; ow < g.line[2].out; ++ow) {
      const PoolWindow w = windows_[ow] = window(g.line[2], ow);
      counts_[ow] = static_cast<A>(divisor.override_value != 0
                                       ? divisor.override_value
                                       : std::max<int64_t>(1, divisor.include_pad ? w.span : w.end - w.begin));
    }
  }

  void row(const T* dy, int64_t od, int64_t oh, A* sums) const {
    const PoolWindow d = window(g_.line[0], od), h = window(g_.line[1], oh);
    if (d.empty() || h.empty()) return;
    const int64_t width = g_.line[2].in;
    const A lines = static_cast<A>(divisor_.override_value != 0 ? 1
                                   : divisor_.include_pad       ? d.span * h.span
                                                                : (d.end - d.begin) * (h.end - h.begin));
    std::memset(line_.get(), 0, static_cast<size_t>(width) * sizeof(A));
    for (int64_t ow = 0; ow < g_.line[2].out; ++ow) {
      const PoolWindow w = windows_[ow];
      const A value = static_cast<A>(static_cast<A>(dy[ow]) / static_cast<A>(lines * counts_[ow]));
      for (int64_t iw = w.begin; iw < w.end; ++iw) line_[iw] = static_cast<A>(line_[iw] + value);
    }
    for (int64_t id = d.begin; id < d.end; ++id)
      for (int64_t ih = h.begin; ih < h.end; ++ih)
        add_line(line_.get(), width, sums + (id * g_.line[1].in + ih) * width);
  }

 private:
  const PoolWindows& g_;
  const PoolDivisor& divisor_;
  ScratchArray<PoolWindow> windows_;
  ScratchArray<A> counts_, line_;
};

// One plane's gradients, window by window.
template <class T>
void spread_windows(const PoolWindows& g, const PoolDivisor& divisor, const T* dy, Acc<T>* sums) {
  using A = Acc<T>;
  for (int64_t od = 0; od < g.line[0].out; ++od)
    for (int64_t oh = 0; oh < g.line[1].out; ++oh)
      for (int64_t ow = 0; ow < g.line[2].out; ++ow, ++dy) {
        const PoolWindow d = window(g.line[0], od), h = window(g.line[1], oh), w = window(g.line[2], ow);
        if (empty(d, h, w)) continue;
        add_window<A>(sums, g, d, h, w, static_cast<A>(static_cast<A>(*dy) / static_cast<A>(divisor.of(d, h, w))));
      }
}

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
    run_max(windows_of(g), static_cast<const T*>(x), static_cast<T*>(y), indices);
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
    run_avg(windows_of(g), {count_include_pad, divisor_override}, static_cast<const T*>(x), static_cast<T*>(y));
  });
}

void avg_pool_backward(DType dtype, const PoolGeometry& g, bool count_include_pad, int64_t divisor_override,
                       const void* dy, void* dx) {
  visit_reals("avg_pool2d_backward", dtype, [&](auto tag) {
    using T = decltype(tag);
    using A = Acc<T>;
    const PoolWindows windows = windows_of(g);
    const PoolDivisor divisor{count_include_pad, divisor_override};
    accumulate_planes(g.planes, windows.in_plane, windows.out_plane * volume(g.kernel), static_cast<T*>(dx),
                      [&](int64_t p, A* sums) {
                        const T* grad = static_cast<const T*>(dy) + p * windows.out_plane;
                        if constexpr (std::is_floating_point_v<A>) {
                          if (g.out_size[2] >= 4) {  // else lines have little to share
                            const MeanBackward<T> mean(windows, divisor);
                            for (int64_t od = 0; od < g.out_size[0]; ++od)
                              for (int64_t oh = 0; oh < g.out_size[1]; ++oh, grad += g.out_size[2])
                                mean.row(grad, od, oh, sums);
                            return;
                          }
                        }
                        spread_windows(windows, divisor, grad, sums);
                      });
  });
}

void adaptive_avg_pool_forward(DType dtype, int64_t planes, const int64_t in[3], const int64_t out[3], const void* x,
                               void* y) {
  visit_reals("adaptive_avg_pool2d", dtype, [&](auto tag) {
    using T = decltype(tag);
    run_avg(adaptive_windows(planes, in, out), kWholeWindows, static_cast<const T*>(x), static_cast<T*>(y));
  });
}

void adaptive_avg_pool_backward(DType dtype, int64_t planes, const int64_t in[3], const int64_t out[3], const void* dy,
                                void* dx) {
  visit_reals("adaptive_avg_pool2d_backward", dtype, [&](auto tag) {
    using T = decltype(tag);
    using A = Acc<T>;
    const PoolWindows g = adaptive_windows(planes, in, out);
    accumulate_planes(planes, g.in_plane, g.out_plane, static_cast<T*>(dx), [&](int64_t p, A* sums) {
      spread_windows(g, kWholeWindows, static_cast<const T*>(dy) + p * g.out_plane, sums);
    });
  });
}

void adaptive_max_pool_forward(DType dtype, int64_t planes, const int64_t in[3], const int64_t out[3], const void* x,
                               void* y, int64_t* indices) {
  visit_reals("adaptive_max_pool2d", dtype, [&](auto tag) {
    using T = decltype(tag);
    run_max(adaptive_windows(planes, in, out), static_cast<const T*>(x), static_cast<T*>(y), indices);
  });
}

}  // namespace tessera::cpu
