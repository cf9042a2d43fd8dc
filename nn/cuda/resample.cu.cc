// Resizing of images. An output adds up its inputs over all three dimensions; in the gradient an input looks for the
// outputs that it belongs to, in their order, so that results are the same on every run. The antialiasing modes, which
// have many inputs, go along one dimension after the other.
#include "nn/cpu/resample/taps.h"
#include "nn/cuda/nn_kernels.h"
#include "nn/cuda/resample_engines.h"
#include "tensor/cuda/support/types.h"

namespace tessera::cuda {
namespace {

using cpu::ResampleGeometry;
using cpu::ResampleLine;
using internal::split;

struct Image {
  ResampleLine line[3];
  int64_t planes;
  int64_t in_plane() const { return line[0].in * line[1].in * line[2].in; }
  int64_t out_plane() const { return line[0].out * line[1].out * line[2].out; }
};

// The inputs of an output along a dimension, and their weights, all but the antialiasing ones at hand.
template <class A>
struct Taps {
  int64_t first, last;  // [first, last), which may reach beyond the ends
  A weight[4];
  double total;  // of the antialiasing weights

  __device__ Taps(const ResampleLine& l, int64_t o) {
    total = 0;
    if (l.identity) {
      first = o;
      last = o + 1;
      weight[0] = 1;
    } else if (cpu::is_antialias(l.mode)) {
      const cpu::FilterSpan span = cpu::filter_span(l, o);
      first = span.first;
      last = span.last;
      for (int64_t i = first; i < last; ++i) total += cpu::filter_weight(l, o, i);
    } else {
      first = cpu::taps_at(l, o, weight);
      last = first + cpu::tap_count(l.mode);
    }
  }
  __device__ A at(const ResampleLine& l, int64_t o, int64_t i) const {
    if (l.identity || !cpu::is_antialias(l.mode)) return weight[i - first];
    const double w = cpu::filter_weight(l, o, i);
    return static_cast<A>(total != 0 ? w / total : w);
  }
};
__device__ inline int64_t within(int64_t i, int64_t n) { return i < 0 ? 0 : i < n ? i : n - 1; }

// In: what is read; Out: what is written; A: arithmetic.
template <class A, class In, class Out>
void resize(const Image& g, const In* x, Out* y) {
  for_each(g.planes * g.out_plane(), [=, in_plane = g.in_plane()] __device__(int64_t i) {
    int64_t plane = i;
    const int64_t ow = split(plane, g.line[2].out), oh = split(plane, g.line[1].out), od = split(plane, g.line[0].out);
    const Taps<A> d(g.line[0], od), h(g.line[1], oh), w(g.line[2], ow);
    const In* const from = x + plane * in_plane;
    A volume = 0;
    for (int64_t id = d.first; id < d.last; ++id) {
      A area = 0;
      for (int64_t ih = h.first; ih < h.last; ++ih) {
        const int64_t row = (within(id, g.line[0].in) * g.line[1].in + within(ih, g.line[1].in)) * g.line[2].in;
        A sum = 0;
        for (int64_t iw = w.first; iw < w.last; ++iw)
          sum += static_cast<A>(load(from + row + within(iw, g.line[2].in))) * w.at(g.line[2], ow, iw);
        area += sum * h.at(g.line[1], oh, ih);
      }
      volume += area * d.at(g.line[0], od, id);
    }
    store(y + i, static_cast<Compute<Out>>(volume));
  });
}

// The outputs [first, last) that may have input i: where their inputs begin does not fall.
struct Outputs {
  int64_t first, last;
};
template <class A>
__device__ int64_t first_output(const ResampleLine& l, int64_t i, bool beyond) {
  int64_t low = 0, high = l.out;  // the first output whose inputs end behind i, or begin behind it
  while (low < high) {
    const int64_t middle = low + (high - low) / 2;
    int64_t begin = middle, end = middle + 1;
    if (!l.identity) {
      if (cpu::is_antialias(l.mode)) {
        const cpu::FilterSpan span = cpu::filter_span(l, middle);
        begin = span.first;
        end = span.last;
      } else {
        A unused[4];
        begin = cpu::taps_at(l, middle, unused);
        end = within(begin + cpu::tap_count(l.mode) - 1, l.in) + 1;
        begin = within(begin, l.in);
      }
    }
    if (beyond ? begin > i : end > i)
      high = middle;
    else
      low = middle + 1;
  }
  return low;
}
template <class A>
__device__ Outputs outputs_of(const ResampleLine& l, int64_t i) {
  return {first_output<A>(l, i, false), first_output<A>(l, i, true)};
}
// What input i counts in output o: inputs beyond the ends count for the ends.
template <class A>
__device__ A share_of(const ResampleLine& l, int64_t o, int64_t i) {
  const Taps<A> t(l, o);
  A sum = 0;
  for (int64_t k = t.first; k < t.last; ++k)
    if (within(k, l.in) == i) sum += t.at(l, o, k);
  return sum;
}

template <class A, class In, class Out>
void resize_gradient(const Image& g, const In* dy, Out* dx) {
  for_each(g.planes * g.in_plane(), [=, out_plane = g.out_plane()] __device__(int64_t i) {
    int64_t plane = i;
    const int64_t iw = split(plane, g.line[2].in), ih = split(plane, g.line[1].in), id = split(plane, g.line[0].in);
    const Outputs d = outputs_of<A>(g.line[0], id), h = outputs_of<A>(g.line[1], ih), w = outputs_of<A>(g.line[2], iw);
    const In* const from = dy + plane * out_plane;
    A volume = 0;
    for (int64_t od = d.first; od < d.last; ++od) {
      A area = 0;
      for (int64_t oh = h.first; oh < h.last; ++oh) {
        const In* const row = from + (od * g.line[1].out + oh) * g.line[2].out;
        A sum = 0;
        for (int64_t ow = w.first; ow < w.last; ++ow)
          sum += static_cast<A>(load(row + ow)) * share_of<A>(g.line[2], ow, iw);
        area += sum * share_of<A>(g.line[1], oh, ih);
      }
      volume += area * share_of<A>(g.line[0], od, id);
    }
    store(dx + i, static_cast<Compute<Out>>(volume));
  });
}

template <class T>
using Arithmetic = std::conditional_t<std::is_same_v<T, double>, double, float>;

// Of g the dimension `dim` alone, the ones before it at their size of `before`, those behind at that of `behind`.
Image along(const ResampleGeometry& g, int dim, const int64_t (&before)[3], const int64_t (&behind)[3]) {
  Image one{{}, g.planes};
  for (int d = 0; d < 3; ++d) {
    const int64_t n = d < dim ? before[d] : behind[d];
    one.line[d] = d == dim ? cpu::line_of(g, d) : ResampleLine{g.mode, g.align_corners, true, n, n, 1};
  }
  return one;
}
Image whole(const ResampleGeometry& g) {
  return {{cpu::line_of(g, 0), cpu::line_of(g, 1), cpu::line_of(g, 2)}, g.planes};
}
// The antialiasing modes are for planes.
bool in_two_steps(const ResampleGeometry& g) { return cpu::is_antialias(g.mode) && g.in[0] == 1 && g.out[0] == 1; }

}  // namespace

void resample_forward(DType dtype, const ResampleGeometry& g, const void* x, void* y) {
  visit<kAllFloats>(dtype, "interpolate", [&]<class T>(Tag<T>) {
    using A = Arithmetic<T>;
    const T* const from = static_cast<const T*>(x);
    T* const to = static_cast<T*>(y);
    if (!in_two_steps(g)) return resize<A>(whole(g), from, to);
    const Image height = along(g, 1, g.out, g.in);
    const Buffer between(static_cast<size_t>(g.planes * height.out_plane()) * sizeof(A));
    resize<A>(height, from, between.as<A>());
    resize<A>(along(g, 2, g.out, g.in), between.as<A>(), to);
  });
}

void resample_backward(DType dtype, const ResampleGeometry& g, const void* dy, void* dx) {
  visit<kAllFloats>(dtype, "interpolate_backward", [&]<class T>(Tag<T>) {
    using A = Arithmetic<T>;
    const T* const from = static_cast<const T*>(dy);
    T* const to = static_cast<T*>(dx);
    if (!in_two_steps(g)) return resize_gradient<A>(whole(g), from, to);
    const Image width = along(g, 2, g.out, g.in);
    const Buffer between(static_cast<size_t>(g.planes * width.in_plane()) * sizeof(A));
    resize_gradient<A>(width, from, between.as<A>());
    resize_gradient<A>(along(g, 1, g.out, g.in), between.as<A>(), to);
  });
}

}  // namespace tessera::cuda
