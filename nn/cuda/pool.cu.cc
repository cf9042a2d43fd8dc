// Max and average pooling. Gradients are gathered: each element of the input adds up its windows, in their order, so
// that results are the same on every run.
#include <limits>

#include "nn/cuda/pool_engines.h"
#include "nn/cuda/nn_kernels.h"
#include "tensor/cuda/support/types.h"
#include "nn/cpu/pool_windows.h"

namespace tessera::cuda {
namespace {

using cpu::PoolGeometry;
using internal::quotient;
using internal::split;

using Line = cpu::PoolLine;
using Window = cpu::PoolWindow;
using Windows = cpu::PoolWindows;
using Divisor = cpu::PoolDivisor;

__device__ inline Window window(const Line& l, int64_t o) {
  return cpu::window_of(l, o, [](int64_t a, int64_t b) { return quotient(a, b); });
}

// The outputs [first, last) whose windows may hold input place i.
struct Outputs {
  int64_t first, last;
};
__device__ inline Outputs outputs_of(const Line& l, int64_t i) {
  if (l.adaptive) return {quotient(i * l.out, l.in), quotient((i + 1) * l.out + l.in - 1, l.in)};
  const int64_t before = i + l.padding - (l.kernel - 1) * l.dilation;  // windows that start here or later reach i
  const int64_t first = before > 0 ? quotient(before + l.stride - 1, l.stride) : 0,
                last = quotient(i + l.padding, l.stride) + 1;
  return {first, last < l.out ? last : l.out};
}

struct Place {
  int64_t plane, d, h, w;
};
__device__ inline Place output_place(const Windows& g, int64_t i) {
  Place p;
  p.w = split(i, g.line[2].out);
  p.h = split(i, g.line[1].out);
  p.d = split(i, g.line[0].out);
  p.plane = i;
  return p;
}

template <class T>
void run_max(const Windows& g, const T* x, T* y, int64_t* indices) {
  for_each(g.planes * g.out_plane, [=] __device__(int64_t i) {
    const Place o = output_place(g, i);
    const Window d = window(g.line[0], o.d), h = window(g.line[1], o.h), w = window(g.line[2], o.w);
    const int64_t height = g.line[1].in, width = g.line[2].in;
    const T* const from = x + o.plane * g.in_plane;
    Compute<T> best = cpu::lowest_number<Compute<T>>();
    int64_t index = (cpu::nearest_place(d.begin, g.line[0].in) * height + cpu::nearest_place(h.begin, height)) * width +
                    cpu::nearest_place(w.begin, width);
    for (int64_t id = d.begin; id < d.end; id += g.line[0].dilation)
      for (int64_t ih = h.begin; ih < h.end; ih += g.line[1].dilation)
        for (int64_t iw = w.begin; iw < w.end; iw += g.line[2].dilation) {
          const int64_t at = (id * height + ih) * width + iw;
          const Compute<T> v = load(from + at);
          if (cpu::replaces_maximum(v, best)) {
            best = v;
            index = at;
          }
        }
    store(y + i, best);
    if (indices) indices[i] = index;
  });
}

// ---- Gradient of max pooling: any number of outputs may have the same index. Each input element gets a list of its
// outputs, in no certain order; its thread sorts it. ----

constexpr int kNone = -1;

__device__ inline int merge_lists(int a, int b, int* next) {
  int head = kNone, *to = &head;
  while (a != kNone && b != kNone) {
    int& smaller = a < b ? a : b;
    *to = smaller;
    to = next + smaller;
    smaller = *to;
  }
  *to = a != kNone ? a : b;
  return head;
}
// Bins hold sorted lists of 2^k outputs.
__device__ inline int sort_list(int head, int* next) {
  int bins[32];
  int used = 0;
  while (head != kNone) {
    int one = head, k = 0;
    head = next[one];
    next[one] = kNone;
    for (; k < used && bins[k] != kNone; ++k) {
      one = merge_lists(bins[k], one, next);
      bins[k] = kNone;
    }
    if (k == used) ++used;
    bins[k] = one;
  }
  int all = kNone;
  for (int k = 0; k < used; ++k) all = merge_lists(bins[k], all, next);
  return all;
}

template <class T>
void run_max_backward(int64_t planes, int64_t in_plane, int64_t out_plane, const T* dy, const int64_t* indices, T* dx) {
  TESSERA_CHECK(out_plane < std::numeric_limits<int>::max(),
                "max_pool backward: planes of more than 2^31 elements are not supported on CUDA devices");
  const Buffer heads(static_cast<size_t>(planes * in_plane) * sizeof(int)),
      links(static_cast<size_t>(planes * out_plane) * sizeof(int));
  int* const first = heads.as<int>();
  int* const next = links.as<int>();
  fill_bytes(first, 0xFF, static_cast<size_t>(planes * in_plane) * sizeof(int));
  for_each(planes * out_plane, [=] __device__(int64_t i) {
    int64_t plane = i;
    const int o = static_cast<int>(split(plane, out_plane));
    const int64_t to = indices[i];
    if (to >= 0 && to < in_plane) next[i] = atomicExch(first + plane * in_plane + to, o);
  });
  for_each(planes * in_plane, [=] __device__(int64_t i) {
    const int64_t plane = quotient(i, in_plane);
    int* const links_of_plane = next + plane * out_plane;
    const T* const grad = dy + plane * out_plane;
    int o = first[i];
    Compute<T> sum{};
    if (o != kNone && links_of_plane[o] != kNone) o = sort_list(o, links_of_plane);
    for (; o != kNone; o = links_of_plane[o]) sum = static_cast<Compute<T>>(sum + load(grad + o));
    store(dx + i, sum);
  });
}

// Where few windows hold an element, it looks into all of them.
constexpr int64_t kMostWindows = 64;

template <class T>
void run_max_backward_windows(const Windows& g, const T* dy, const int64_t* indices, T* dx) {
  for_each(g.planes * g.in_plane, [=] __device__(int64_t i) {
    int64_t rest = i;
    const int64_t iw = split(rest, g.line[2].in), ih = split(rest, g.line[1].in), id = split(rest, g.line[0].in),
                  place = i - rest * g.in_plane;
    const Outputs d = outputs_of(g.line[0], id), h = outputs_of(g.line[1], ih), w = outputs_of(g.line[2], iw);
    Compute<T> sum{};
    for (int64_t od = d.first; od < d.last; ++od)
      for (int64_t oh = h.first; oh < h.last; ++oh)
        for (int64_t ow = w.first; ow < w.last; ++ow) {
          const int64_t o = rest * g.out_plane + (od * g.line[1].out + oh) * g.line[2].out + ow;
          if (indices[o] == place) sum = static_cast<Compute<T>>(sum + load(dy + o));
        }
    store(dx + i, sum);
  });
}

// ---- Averages ----

template <class T>
void run_avg(const Windows& g, const Divisor& divisor, const T* x, T* y) {
  using A = Compute<T>;
  for_each(g.planes * g.out_plane, [=] __device__(int64_t i) {
    const Place o = output_place(g, i);
    const Window d = window(g.line[0], o.d), h = window(g.line[1], o.h), w = window(g.line[2], o.w);
    const T* const from = x + o.plane * g.in_plane;
    A sum{};
    for (int64_t id = d.begin; id < d.end; ++id)
      for (int64_t ih = h.begin; ih < h.end; ++ih)
        for (int64_t iw = w.begin; iw < w.end; ++iw)
          sum = static_cast<A>(sum + load(from + (id * g.line[1].in + ih) * g.line[2].in + iw));
    if (!d.empty() && !h.empty() && !w.empty()) sum = static_cast<A>(sum / static_cast<A>(divisor.of(d, h, w)));
    store(y + i, sum);
  });
}

template <class T>
void run_avg_backward(const Windows& g, const Divisor& divisor, const T* dy, T* dx) {
  using A = Compute<T>;
  for_each(g.planes * g.in_plane, [=] __device__(int64_t i) {
    int64_t rest = i;
    const int64_t iw = split(rest, g.line[2].in), ih = split(rest, g.line[1].in), id = split(rest, g.line[0].in);
    const T* const grad = dy + rest * g.out_plane;
    const Outputs d = outputs_of(g.line[0], id), h = outputs_of(g.line[1], ih), w = outputs_of(g.line[2], iw);
    A sum{};
    for (int64_t od = d.first; od < d.last; ++od)
      for (int64_t oh = h.first; oh < h.last; ++oh)
        for (int64_t ow = w.first; ow < w.last; ++ow) {
          const int64_t count = divisor.of(window(g.line[0], od), window(g.line[1], oh), window(g.line[2], ow));
          sum = static_cast<A>(sum + static_cast<A>(load(grad + (od * g.line[1].out + oh) * g.line[2].out + ow) /
                                                    static_cast<A>(count)));
        }
    store(dx + i, sum);
  });
}

constexpr unsigned kReals = kInts | kWideInts | kAllFloats;

}  // namespace

void max_pool_forward(DType dtype, const PoolGeometry& g, const void* x, void* y, int64_t* indices) {
  visit<kReals>(dtype, "max_pool2d", [&](auto tag) {
    using T = typename decltype(tag)::type;
    run_max(cpu::windows_of(g), static_cast<const T*>(x), static_cast<T*>(y), indices);
  });
}

void adaptive_max_pool_forward(DType dtype, int64_t planes, const int64_t in[3], const int64_t out[3], const void* x,
                               void* y, int64_t* indices) {
  visit<kReals>(dtype, "adaptive_max_pool2d", [&](auto tag) {
    using T = typename decltype(tag)::type;
    run_max(cpu::adaptive_windows(planes, in, out), static_cast<const T*>(x), static_cast<T*>(y), indices);
  });
}

void max_pool_backward(DType dtype, int64_t planes, int64_t in_plane, int64_t out_plane, const void* dy,
                       const int64_t* indices, void* dx) {
  visit<kReals>(dtype, "max_pool2d_backward", [&](auto tag) {
    using T = typename decltype(tag)::type;
    run_max_backward(planes, in_plane, out_plane, static_cast<const T*>(dy), indices, static_cast<T*>(dx));
  });
}

bool max_pool_backward_windows(DType dtype, const PoolGeometry& g, const void* dy, const int64_t* indices, void* dx) {
  int64_t windows = 1;
  for (int i = 0; i < 3; ++i) windows *= ((g.kernel[i] - 1) * g.dilation[i]) / g.stride[i] + 1;
  if (windows > kMostWindows) return false;
  visit<kReals>(dtype, "max_pool2d_backward", [&](auto tag) {
    using T = typename decltype(tag)::type;
    run_max_backward_windows(cpu::windows_of(g), static_cast<const T*>(dy), indices, static_cast<T*>(dx));
  });
  return true;
}

void avg_pool_forward(DType dtype, const PoolGeometry& g, bool count_include_pad, int64_t divisor_override,
                      const void* x, void* y) {
  visit<kReals>(dtype, "avg_pool2d", [&](auto tag) {
    using T = typename decltype(tag)::type;
    run_avg(cpu::windows_of(g), {count_include_pad, divisor_override}, static_cast<const T*>(x), static_cast<T*>(y));
  });
}

void avg_pool_backward(DType dtype, const PoolGeometry& g, bool count_include_pad, int64_t divisor_override,
                       const void* dy, void* dx) {
  visit<kReals>(dtype, "avg_pool2d_backward", [&](auto tag) {
    using T = typename decltype(tag)::type;
    run_avg_backward(cpu::windows_of(g), {count_include_pad, divisor_override}, static_cast<const T*>(dy),
                     static_cast<T*>(dx));
  });
}

void adaptive_avg_pool_forward(DType dtype, int64_t planes, const int64_t in[3], const int64_t out[3], const void* x,
                               void* y) {
  visit<kReals>(dtype, "adaptive_avg_pool2d", [&](auto tag) {
    using T = typename decltype(tag)::type;
    run_avg(cpu::adaptive_windows(planes, in, out), cpu::kWholeWindows, static_cast<const T*>(x), static_cast<T*>(y));
  });
}

void adaptive_avg_pool_backward(DType dtype, int64_t planes, const int64_t in[3], const int64_t out[3], const void* dy,
                                void* dx) {
  visit<kReals>(dtype, "adaptive_avg_pool2d_backward", [&](auto tag) {
    using T = typename decltype(tag)::type;
    run_avg_backward(cpu::adaptive_windows(planes, in, out), cpu::kWholeWindows, static_cast<const T*>(dy),
                     static_cast<T*>(dx));
  });
}

}  // namespace tessera::cuda
