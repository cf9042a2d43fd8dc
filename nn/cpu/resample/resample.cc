// Resizing: the places and weights along each dimension are computed once. Where the height grows, lines of the input
// are resized along the width into a ring of lines, from which whole lines of the output are summed; where it shrinks,
// lines of the input are summed first. Volumes are resized slice by slice and then summed along the depth.
#include "nn/cpu/resample/resample.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>
#include <vector>

#include "nn/cpu/resample/taps.h"
#include "tensor/core/parallel.h"
#include "tensor/cpu/support/types.h"
#include "tensor/cpu/pointwise/pointwise.h"
#include "tensor/cpu/support/scratch.h"
#include "tensor/cpu/support/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "nn/cpu/resample/resample.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

#ifndef TESSERA_RESAMPLE_TAPS_
#define TESSERA_RESAMPLE_TAPS_
namespace tessera::cpu::internal {

constexpr int64_t kPad = 32;  // elements that a vector may read behind a line

// One dimension: tap k of output o is input index[k * stride + o], times weight[k * stride + o]. Both are defined up to
// the stride, a multiple of all vectors.
template <class A>
struct Taps {
  int64_t in, out, stride;
  int count;
  bool identity;
  std::vector<int32_t> index;
  std::vector<A> weight;

  const int32_t* indices(int k) const { return index.data() + k * stride; }
  const A* weights(int k) const { return weight.data() + k * stride; }
};

}  // namespace tessera::cpu::internal
#endif

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::internal {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

// to[o] = the sum of a line's taps. The line has kPad elements more. Where the taps of a vector of outputs lie within
// one vector of inputs, that is loaded and permuted.
template <class A>
void ResizeLine(const Taps<A>& t, const A* line, A* to) {
  const hn::ScalableTag<A> d;
  const hn::RebindToSigned<decltype(d)> di;
  using I = hn::TFromD<decltype(di)>;
  constexpr int64_t kLanes = HWY_LANES(A);
  for (int64_t o = 0; o < t.out; o += kLanes) {
    const int64_t base = t.indices(0)[o], reach = t.indices(t.count - 1)[o + kLanes - 1] - base;
    auto sum = hn::Zero(d);
    for (int k = 0; k < t.count; ++k) {
      const int32_t* const index = t.indices(k) + o;
      hn::Vec<decltype(di)> at;
      if constexpr (sizeof(A) == 4) {
        at = hn::LoadU(di, index);
      } else {
        at = hn::PromoteTo(di, hn::LoadU(hn::Rebind<int32_t, decltype(di)>(), index));
      }
      hn::Vec<decltype(d)> x;
      if (reach < kLanes) {
        x = hn::TableLookupLanes(hn::LoadU(d, line + base),
                                 hn::IndicesFromVec(d, hn::Sub(at, hn::Set(di, static_cast<I>(base)))));
      } else {
        x = hn::GatherIndex(d, line, at);
      }
      const auto w = hn::LoadU(d, t.weights(k) + o);
      sum = t.count == 1 ? x : k == 0 ? hn::Mul(x, w) : hn::MulAdd(x, w, sum);
    }
    if (o + kLanes <= t.out) {
      hn::StoreU(sum, d, to + o);
    } else {
      HWY_ALIGN A part[kLanes];
      hn::Store(sum, d, part);
      for (int64_t i = 0; o + i < t.out; ++i) to[o + i] = part[i];
    }
  }
}

// to = the sum of `count` lines times numbers.
template <class A>
void SumLines(int count, const A* const* lines, const A* weights, int64_t n, A* to) {
  const hn::ScalableTag<A> d;
  constexpr int64_t kLanes = HWY_LANES(A);
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    auto sum = hn::Mul(hn::LoadU(d, lines[0] + i), hn::Set(d, weights[0]));
    for (int k = 1; k < count; ++k) sum = hn::MulAdd(hn::LoadU(d, lines[k] + i), hn::Set(d, weights[k]), sum);
    hn::StoreU(sum, d, to + i);
  }
  for (; i < n; ++i) {
    A sum = lines[0][i] * weights[0];
    for (int k = 1; k < count; ++k) sum += lines[k][i] * weights[k];
    to[i] = sum;
  }
}

// to += weight * line.
template <class A>
void AddLine(const A* line, A weight, int64_t n, A* to) {
  const hn::ScalableTag<A> d;
  constexpr int64_t kLanes = HWY_LANES(A);
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    hn::StoreU(hn::MulAdd(hn::LoadU(d, line + i), hn::Set(d, weight), hn::LoadU(d, to + i)), d, to + i);
  for (; i < n; ++i) to[i] += weight * line[i];
}

}  // namespace

void ResizeLineF(const Taps<float>& t, const float* line, float* to) { ResizeLine(t, line, to); }
void ResizeLineD(const Taps<double>& t, const double* line, double* to) { ResizeLine(t, line, to); }
void SumLinesF(int count, const float* const* lines, const float* weights, int64_t n, float* to) {
  SumLines(count, lines, weights, n, to);
}
void SumLinesD(int count, const double* const* lines, const double* weights, int64_t n, double* to) {
  SumLines(count, lines, weights, n, to);
}
void AddLineF(const float* line, float weight, int64_t n, float* to) { AddLine(line, weight, n, to); }
void AddLineD(const double* line, double weight, int64_t n, double* to) { AddLine(line, weight, n, to); }

}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu::internal
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::cpu {
namespace internal {

TESSERA_SIMD_TABLE(ResizeLineF);
TESSERA_SIMD_TABLE(ResizeLineD);
TESSERA_SIMD_TABLE(SumLinesF);
TESSERA_SIMD_TABLE(SumLinesD);
TESSERA_SIMD_TABLE(AddLineF);
TESSERA_SIMD_TABLE(AddLineD);

void resize_line(const Taps<float>& t, const float* line, float* to) { TESSERA_SIMD(ResizeLineF)(t, line, to); }
void resize_line(const Taps<double>& t, const double* line, double* to) { TESSERA_SIMD(ResizeLineD)(t, line, to); }
void sum_lines(int count, const float* const* lines, const float* weights, int64_t n, float* to) {
  TESSERA_SIMD(SumLinesF)(count, lines, weights, n, to);
}
void sum_lines(int count, const double* const* lines, const double* weights, int64_t n, double* to) {
  TESSERA_SIMD(SumLinesD)(count, lines, weights, n, to);
}
void add_line(const float* line, float weight, int64_t n, float* to) { TESSERA_SIMD(AddLineF)(line, weight, n, to); }
void add_line(const double* line, double weight, int64_t n, double* to) { TESSERA_SIMD(AddLineD)(line, weight, n, to); }

}  // namespace internal

namespace {

using namespace internal;  // NOLINT: helpers of these kernels

constexpr int64_t kGrain = 16384;  // elements of output in a piece

// The antialiasing modes' first input of output o, and its weights.
int64_t filter_at(const ResampleLine& l, int64_t o, std::vector<double>* w) {
  const auto [first, last] = filter_span(l, o);
  w->clear();
  double total = 0;
  for (int64_t i = first; i < last; ++i) {
    w->push_back(filter_weight(l, o, i));
    total += w->back();
  }
  for (double& x : *w) x = total != 0 ? x / total : x;
  return first;
}

// Makes room for `count` taps and asks fill(output, weights) for the first input of each.
template <class A, class F>
void fill_taps(Taps<A>* t, int count, F&& fill) {
  t->count = count;
  t->index.resize(count * t->stride);
  t->weight.resize(count * t->stride);
  std::vector<A> w(count);
  for (int64_t o = 0; o < t->stride; ++o) {
    const int64_t first = fill(std::min(o, t->out - 1), w.data());
    for (int k = 0; k < count; ++k) {
      t->index[k * t->stride + o] = static_cast<int32_t>(std::clamp<int64_t>(first + k, 0, t->in - 1));
      t->weight[k * t->stride + o] = w[k];
    }
  }
}

template <class A>
Taps<A> make_taps(const ResampleGeometry& g, int dim) {
  const ResampleLine line = line_of(g, dim);
  Taps<A> t;
  t.in = g.in[dim];
  t.out = g.out[dim];
  t.stride = (t.out + kPad - 1) / kPad * kPad;
  t.identity = line.identity;
  if (!is_antialias(g.mode)) {
    fill_taps(&t, tap_count(g.mode), [&](int64_t o, A* w) { return taps_at(line, o, w); });
    return t;
  }
  // All outputs get as many taps as the one that has most.
  std::vector<std::vector<double>> weights(t.out);
  std::vector<int64_t> first(t.out);
  size_t most = 1;
  for (int64_t o = 0; o < t.out; ++o) {
    first[o] = filter_at(line, o, &weights[o]);
    most = std::max(most, weights[o].size());
  }
  fill_taps(&t, static_cast<int>(most), [&](int64_t o, A* w) {
    std::fill_n(w, most, A(0));
    std::ranges::copy(weights[o], w);
    return first[o];
  });
  return t;
}

template <class A>
struct Axes {
  explicit Axes(const ResampleGeometry& g)
      : depth(make_taps<A>(g, 0)), height(make_taps<A>(g, 1)), width(make_taps<A>(g, 2)) {}
  Taps<A> depth, height, width;
  int64_t in_slice() const { return height.in * width.in; }
  int64_t out_slice() const { return height.out * width.out; }
};

// Lines of dtype elements at `at`, of which A is the arithmetic: read as they lie where the dtype is A.
template <class A>
const A* line_at(DType dtype, const void* at, int64_t n, A* scratch, bool padded) {
  if (dtype == DTypeOf<A>::value && !padded) return static_cast<const A*>(at);
  convert(DTypeOf<A>::value, scratch, dtype, at, n);
  return scratch;
}

// The lines of a slice that rows of the output are summed from: neighbours, made when they are first asked for and kept
// in a ring.
template <class A, class F>
class LineRing {
 public:
  LineRing(int count, int64_t length, F make)
      : count_(count),
        length_(length),
        make_(make),
        memory_(count * length),
        present_(count),
        source_(count),
        weights_(count) {
    std::fill_n(present_.get(), count, int64_t{-1});
  }
  const A* const* sources(const Taps<A>& t, int64_t o) const {
    for (int k = 0; k < count_; ++k) {
      const int64_t i = t.indices(k)[o], slot = i % count_;
      source_[k] = make_(i, memory_.get() + slot * length_, std::exchange(present_[slot], i) == i);
    }
    return source_.get();
  }
  const A* weights(const Taps<A>& t, int64_t o) const {
    for (int k = 0; k < count_; ++k) weights_[k] = t.weights(k)[o];
    return weights_.get();
  }

 private:
  int count_;
  int64_t length_;
  F make_;  // (input line, memory, whether it is there already) -> where it is
  ScratchArray<A> memory_;
  ScratchArray<int64_t> present_;
  ScratchArray<const A*> source_;
  ScratchArray<A> weights_;
};

// Where the rows of a slice come from and go to.
struct SliceRows {
  DType dtype;
  const char* from;
  int64_t begin, end;  // of the output
  DType to_type;
  char* to;
};

// Rows of the output from lines of the input that were summed.
template <class A>
void shrink_rows(const Axes<A>& axes, const SliceRows& s) {
  const Taps<A>&h = axes.height, &w = axes.width;
  const int64_t in_row = w.in * item_size(s.dtype), out_row = w.out * item_size(s.to_type);
  ScratchArray<A> memory(w.in + kPad + w.out);
  A *const line = memory.get(), *const result = line + w.in + kPad;
  std::fill_n(line, w.in + kPad, A(0));
  const bool direct = s.dtype == DTypeOf<A>::value;
  const auto make = [&](int64_t i, A* at, bool there) -> const A* {
    if (direct) return reinterpret_cast<const A*>(s.from + i * in_row);
    if (!there) convert(DTypeOf<A>::value, at, s.dtype, s.from + i * in_row, w.in);
    return at;
  };
  const LineRing<A, decltype(make)> ring(h.count, direct ? 0 : w.in, make);
  for (int64_t o = s.begin; o < s.end; ++o) {
    char* const target = s.to + (o - s.begin) * out_row;
    sum_lines(h.count, ring.sources(h, o), ring.weights(h, o), w.in, line);
    A* const row = s.to_type == DTypeOf<A>::value ? reinterpret_cast<A*>(target) : result;
    if (w.identity)
      std::memcpy(row, line, static_cast<size_t>(w.out) * sizeof(A));
    else
      resize_line(w, line, row);
    if (row == result) convert(s.to_type, target, DTypeOf<A>::value, result, w.out);
  }
}

// Rows of the output as sums of lines that were resized.
template <class A>
void grow_rows(const Axes<A>& axes, const SliceRows& s) {
  const Taps<A>&h = axes.height, &w = axes.width;
  const int64_t in_row = w.in * item_size(s.dtype), out_row = w.out * item_size(s.to_type);
  ScratchArray<A> memory(w.in + kPad + w.out + kPad);
  A *const line = memory.get(), *const sum = line + w.in + kPad;
  std::fill_n(line + w.in, kPad, A(0));
  const auto make = [&](int64_t i, A* at, bool there) -> const A* {
    const char* const from = s.from + i * in_row;
    if (w.identity && s.dtype == DTypeOf<A>::value) return reinterpret_cast<const A*>(from);
    if (there) return at;
    if (w.identity)
      convert(DTypeOf<A>::value, at, s.dtype, from, w.in);
    else
      resize_line(w, line_at(s.dtype, from, w.in, line, true), at);
    return at;
  };
  const LineRing<A, decltype(make)> ring(h.count, w.out + kPad, make);
  for (int64_t o = s.begin; o < s.end; ++o) {
    char* const target = s.to + (o - s.begin) * out_row;
    A* const direct = s.to_type == DTypeOf<A>::value ? reinterpret_cast<A*>(target) : sum;
    const A* const* const sources = ring.sources(h, o);
    const A* result = direct;
    if (h.count == 1 || h.identity) {
      result = sources[0];
      if (direct != sum) std::memcpy(direct, result, static_cast<size_t>(w.out) * sizeof(A));
    } else {
      sum_lines(h.count, sources, ring.weights(h, o), w.out, direct);
    }
    if (direct == sum) convert(s.to_type, target, DTypeOf<A>::value, result, w.out);
  }
}

// The rows [begin, end) of a resized slice, to `to` (of dtype to_type).
template <class A>
void resize_rows(const Axes<A>& axes, DType dtype, const char* slice, int64_t begin, int64_t end, DType to_type,
                 char* to) {
  const Taps<A>& h = axes.height;
  const SliceRows s{dtype, slice, begin, end, to_type, to};
  h.count > 1 && h.out < h.in ? shrink_rows(axes, s) : grow_rows(axes, s);
}

template <class A>
void forward(DType dtype, const ResampleGeometry& g, const char* x, char* y) {
  const Axes<A> axes(g);
  const int64_t size = item_size(dtype), in_slice = axes.in_slice() * size, out_slice = axes.out_slice();
  const int64_t rows = std::clamp<int64_t>(kGrain / axes.width.out, 1, axes.height.out),
                bands = (axes.height.out + rows - 1) / rows;
  const int64_t pieces = std::max<int64_t>(1, kGrain / (rows * axes.width.out));
  if (axes.depth.identity) {
    parallel_for(g.planes * g.in[0] * bands, pieces, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t slice = i / bands, row = i % bands * rows;
        resize_rows(axes, dtype, x + slice * in_slice, row, std::min(row + rows, axes.height.out), dtype,
                    y + (slice * out_slice + row * axes.width.out) * size);
      }
    });
    return;
  }
  const Taps<A>& d = axes.depth;
  parallel_for(g.planes, std::max<int64_t>(1, kGrain / (d.out * out_slice)), [&](int64_t begin, int64_t end) {
    ScratchArray<A> slices(d.in * out_slice), sum(out_slice), weights(d.count);
    ScratchArray<const A*> source(d.count);
    for (int64_t p = begin; p < end; ++p) {
      for (int64_t i = 0; i < d.in; ++i)
        resize_rows(axes, dtype, x + (p * d.in + i) * in_slice, 0, axes.height.out, DTypeOf<A>::value,
                    reinterpret_cast<char*>(slices.get() + i * out_slice));
      for (int64_t o = 0; o < d.out; ++o) {
        for (int k = 0; k < d.count; ++k) {
          source[k] = slices.get() + d.indices(k)[o] * out_slice;
          weights[k] = d.weights(k)[o];
        }
        const A* result = source[0];
        if (d.count > 1) {
          sum_lines(d.count, source.get(), weights.get(), out_slice, sum.get());
          result = sum.get();
        }
        convert(dtype, y + (p * d.out + o) * out_slice * size, DTypeOf<A>::value, result, out_slice);
      }
    }
  });
}

// The adjoint of a dimension, by input: the outputs in which input i has a part are entries [first[i], first[i + 1]).
template <class A>
struct Parts {
  std::vector<int32_t> first, output;
  std::vector<A> weight;

  explicit Parts(const Taps<A>& t) : first(t.in + 1), output(t.count * t.out), weight(t.count * t.out) {
    for (int k = 0; k < t.count; ++k)
      for (int64_t o = 0; o < t.out; ++o) ++first[t.indices(k)[o] + 1];
    for (int64_t i = 0; i < t.in; ++i) first[i + 1] += first[i];
    std::vector<int32_t> next(first.begin(), first.end() - 1);
    for (int64_t o = 0; o < t.out; ++o)
      for (int k = 0; k < t.count; ++k) {
        const int32_t at = next[t.indices(k)[o]]++;
        output[at] = static_cast<int32_t>(o);
        weight[at] = t.weights(k)[o];
      }
  }
  void line(const A* from, int64_t in, A* to) const {
    for (int64_t i = 0; i < in; ++i) {
      A sum = 0;
      for (int32_t j = first[i]; j < first[i + 1]; ++j) sum += weight[j] * from[output[j]];
      to[i] = sum;
    }
  }
};

// dx of one slice from dy of dtype from_type: first along the height, line by line, then along the width.
template <class A>
void slice_backward(const Axes<A>& axes, const Parts<A>& parts, DType from_type, const char* dy, DType dtype,
                    char* dx) {
  const Taps<A>&h = axes.height, &w = axes.width;
  ScratchArray<A> memory(h.in * w.out + w.out + w.in);
  A *const sums = memory.get(), *const line = sums + h.in * w.out, *const result = line + w.out;
  std::fill(sums, sums + h.in * w.out, A(0));
  for (int64_t o = 0; o < h.out; ++o) {
    const A* const grad = line_at(from_type, dy + o * w.out * item_size(from_type), w.out, line, false);
    for (int k = 0; k < (h.identity ? 1 : h.count); ++k)
      add_line(grad, h.weights(k)[o], w.out, sums + h.indices(k)[o] * w.out);
  }
  for (int64_t i = 0; i < h.in; ++i) {
    const A* row = sums + i * w.out;
    if (!w.identity) {
      parts.line(row, w.in, result);
      row = result;
    }
    convert(dtype, dx + i * w.in * item_size(dtype), DTypeOf<A>::value, row, w.in);
  }
}

template <class A>
void backward(DType dtype, const ResampleGeometry& g, const char* dy, char* dx) {
  const Axes<A> axes(g);
  const Parts<A> parts(axes.width);
  const Taps<A>& d = axes.depth;
  const int64_t size = item_size(dtype), in_slice = axes.in_slice() * size, out_slice = axes.out_slice();
  if (d.identity) {
    parallel_for(g.planes * d.in, std::max<int64_t>(1, kGrain / out_slice), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i)
        slice_backward(axes, parts, dtype, dy + i * out_slice * size, dtype, dx + i * in_slice);
    });
    return;
  }
  parallel_for(g.planes, std::max<int64_t>(1, kGrain / (d.out * out_slice)), [&](int64_t begin, int64_t end) {
    ScratchArray<A> sums(d.in * out_slice), line(out_slice);
    for (int64_t p = begin; p < end; ++p) {
      std::fill(sums.get(), sums.get() + d.in * out_slice, A(0));
      for (int64_t o = 0; o < d.out; ++o) {
        const A* const grad = line_at(dtype, dy + (p * d.out + o) * out_slice * size, out_slice, line.get(), false);
        for (int k = 0; k < d.count; ++k)
          add_line(grad, d.weights(k)[o], out_slice, sums.get() + d.indices(k)[o] * out_slice);
      }
      for (int64_t i = 0; i < d.in; ++i) {
        slice_backward(axes, parts, DTypeOf<A>::value, reinterpret_cast<const char*>(sums.get() + i * out_slice), dtype,
                       dx + (p * d.in + i) * in_slice);
      }
    }
  });
}

bool is_double(DType dtype) {
  if (!is_floating_point(dtype) || item_size(dtype) == 1) raise_not_implemented("interpolate", dtype);
  return dtype == DType::kFloat64;
}

}  // namespace

template <class A>
int resample_weights(const ResampleGeometry& g, int dim, std::vector<int64_t>* index, std::vector<A>* weight) {
  const Taps<A> t = make_taps<A>(g, dim);
  for (int k = 0; k < t.count; ++k) {
    index->insert(index->end(), t.indices(k), t.indices(k) + t.out);
    weight->insert(weight->end(), t.weights(k), t.weights(k) + t.out);
  }
  return t.count;
}
template int resample_weights<float>(const ResampleGeometry& g, int dim, std::vector<int64_t>* index,
                                     std::vector<float>* weight);
template int resample_weights<double>(const ResampleGeometry& g, int dim, std::vector<int64_t>* index,
                                      std::vector<double>* weight);

void resample_forward(DType dtype, const ResampleGeometry& g, const void* x, void* y) {
  (is_double(dtype) ? forward<double> : forward<float>)(dtype, g, static_cast<const char*>(x), static_cast<char*>(y));
}
void resample_backward(DType dtype, const ResampleGeometry& g, const void* dy, void* dx) {
  (is_double(dtype) ? backward<double> : backward<float>)(dtype, g, static_cast<const char*>(dy),
                                                          static_cast<char*>(dx));
}

}  // namespace tessera::cpu
#endif
