// Max and average pooling of floating elements, vectorised along the width. Lines of the input are widened, given a
// border, and taken apart by the stride first, so that the elements that neighbouring windows take at the same place
// are contiguous.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "nn/cpu/pool_lines.cc"
#include "nn/cpu/pool_lines.h"

#include <limits>
#include <type_traits>

#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "tensor/core/parallel.h"
#include "tensor/cpu/support/integer.h"
#include "tensor/cpu/support/types.h"
#include "tensor/cpu/support/scratch.h"
#include "tensor/cpu/support/simd.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::internal {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

constexpr int64_t kBandElements = 16384;  // of the lines prepared at once

// The lines of a piece of output: T elements, computed in A.
template <class T>
class Lines {
 public:
  using A = Acc<T>;
  using D = hn::ScalableTag<A>;
  static constexpr int64_t kLanes = HWY_MAX_BYTES / sizeof(A);

  Lines(const PoolGeometry& g, A border)
      : g_(g),
        border_(border),
        width_(ceil_div(g.out_size[2], kLanes) * kLanes),
        phase_(width_ + (g.kernel[2] - 1) * g.dilation[2] / g.stride[2] + 1),
        line_(ceil_div(phase_, kLanes) * kLanes * g.stride[2]),
        rows_(min64(g.out_size[1], max64(1, (kBandElements / line_ / span(0) - span(1)) / g.stride[1]))),
        flat_(line_ + 2 * kLanes),
        lines_(span(0) * ((rows_ - 1) * g.stride[1] + span(1)) * line_ + 2 * kLanes),
        taps_(g.kernel[2]) {
    for (int64_t kw = 0; kw < g.kernel[2]; ++kw) {
      const int64_t at = kw * g.dilation[2];
      taps_[kw] = at % g.stride[2] * (line_ / g.stride[2]) + at / g.stride[2];
    }
  }

  int64_t rows() const { return rows_; }  // of output in a piece
  int64_t width() const { return width_; }

  // Prepares what output slice od, rows [oh0, oh1) of a plane take.
  void load(const T* plane, int64_t od, int64_t oh0, int64_t oh1) {
    const PoolWindow last = window(g_, 1, oh1 - 1);
    d_ = window(g_, 0, od);
    h0_ = max64(0, oh0 * g_.stride[1] - g_.padding[1]);  // with dilation the first window may begin behind the second
    const int64_t height = max64(0, last.end - h0_);
    height_ = height;
    for (int64_t id = d_.begin; id < d_.end; id += g_.dilation[0])
      for (int64_t h = 0; h < height; ++h)
        prepare(plane + (id * g_.in_size[1] + h0_ + h) * g_.in_size[2], line(id, h0_ + h));
  }
  // The prepared line; tap kw of the window of output column ow is at taps()[kw] + ow.
  A* line(int64_t id, int64_t ih) const {
    return lines_.get() + ((id - d_.begin) / g_.dilation[0] * height_ + ih - h0_) * line_;
  }
  const int64_t* taps() const { return taps_.get(); }

 private:
  int64_t span(int dim) const { return (g_.kernel[dim] - 1) * g_.dilation[dim] + 1; }

  void prepare(const T* from, A* to) const {
    const int64_t left = min64(g_.padding[2], line_), n = min64(g_.in_size[2], line_ - left), stride = g_.stride[2];
    A* const flat = stride == 1 ? to : flat_.get();
    for (int64_t i = 0; i < left; ++i) flat[i] = border_;
    widen(from, n, flat + left);
    fill(flat + left + n, line_ - left - n);
    if (stride == 1) return;
    const int64_t phase = line_ / stride;
    if (stride == 2) {
      const D d;
      for (int64_t i = 0; i < phase; i += kLanes) {
        const auto a = hn::LoadU(d, flat + 2 * i), b = hn::LoadU(d, flat + 2 * i + kLanes);
        hn::StoreU(hn::ConcatEven(d, b, a), d, to + i);
        hn::StoreU(hn::ConcatOdd(d, b, a), d, to + phase + i);
      }
      return;
    }
    for (int64_t q = 0; q < stride; ++q)
      for (int64_t i = 0; i < phase; ++i) to[q * phase + i] = flat[i * stride + q];
  }
  void fill(A* to, int64_t n) const {
    const D d;
    int64_t i = 0;
    for (; i + kLanes <= n; i += kLanes) hn::StoreU(hn::Set(d, border_), d, to + i);
    for (; i < n; ++i) to[i] = border_;
  }
  static void widen(const T* from, int64_t n, A* to) {
    int64_t i = 0;
    if constexpr (std::is_same_v<T, A>) {
      const D d;
      for (; i + kLanes <= n; i += kLanes) hn::StoreU(hn::LoadU(d, from + i), d, to + i);
    }
    for (; i < n; ++i) to[i] = static_cast<A>(from[i]);
  }

  const PoolGeometry& g_;
  const A border_;
  const int64_t width_, phase_, line_, rows_;
  PoolWindow d_;
  int64_t h0_, height_;
  ScratchArray<A> flat_, lines_;
  ScratchArray<int64_t> taps_;
};

// Calls fn(lines, plane, od, first row, last row) for pieces of the output.
template <class T, class F>
void for_pieces(const PoolGeometry& g, Acc<T> border, const T* x, F&& fn) {
  const int64_t in_plane = volume(g.in_size), rows = Lines<T>(g, border).rows(), bands = ceil_div(g.out_size[1], rows);
  const int64_t work = rows * g.out_size[2] * (volume(g.kernel) + g.stride[1] * g.stride[2]);
  parallel_for(g.planes * g.out_size[0] * bands, 1 + 65536 / work, [&](int64_t begin, int64_t end) HWY_ATTR {
    Lines<T> lines(g, border);
    for (int64_t i = begin; i < end; ++i) {
      const int64_t plane = i / bands / g.out_size[0], od = i / bands % g.out_size[0], oh = i % bands * rows,
                    last = min64(oh + rows, g.out_size[1]);
      lines.load(x + plane * in_plane, od, oh, last);
      fn(lines, plane, od, oh, last);
    }
  });
}

// n values of `from`, whole vectors of them there, to T.
template <class T>
HWY_INLINE void put(const Acc<T>* from, int64_t n, T* to) {
  int64_t i = 0;
  if constexpr (std::is_same_v<T, Acc<T>>) {
    const hn::ScalableTag<T> d;
    for (; i + Lines<T>::kLanes <= n; i += Lines<T>::kLanes) hn::StoreU(hn::LoadU(d, from + i), d, to + i);
  }
  for (; i < n; ++i) to[i] = static_cast<T>(from[i]);
}
template <class I>
HWY_INLINE void put_indices(const I* from, int64_t n, int64_t* to) {
  int64_t i = 0;
  if constexpr (sizeof(I) == 4) {
    const hn::ScalableTag<int64_t> d;
    const hn::Rebind<int32_t, decltype(d)> half;
    constexpr int64_t kLanes = HWY_MAX_BYTES / 8;
    for (; i + kLanes <= n; i += kLanes) hn::StoreU(hn::PromoteTo(d, hn::LoadU(half, from + i)), d, to + i);
  }
  for (; i < n; ++i) to[i] = from[i];
}

template <class T>
class MaxRows {
  using A = Acc<T>;
  using D = hn::ScalableTag<A>;
  using DI = hn::RebindToSigned<D>;
  using I = hn::TFromD<DI>;
  static constexpr int64_t kLanes = Lines<T>::kLanes;

 public:
  MaxRows(const PoolGeometry& g, int64_t width) : g_(g), values_(width), indices_(width), first_(width) {
    for (int64_t ow = 0; ow < width; ++ow)
      first_[ow] = static_cast<I>(nearest_place(window(g, 2, ow < g.out_size[2] ? ow : 0).begin, g.in_size[2]));
  }

  template <bool kIndices>
  void row(const Lines<T>& lines, int64_t od, int64_t oh, T* y, int64_t* indices) const {
    const PoolWindow wd = window(g_, 0, od), wh = window(g_, 1, oh);
    const D d;
    const DI di;
    const int64_t height = g_.in_size[1], width = g_.in_size[2], taps_count = g_.kernel[2], dilation = g_.dilation[2];
    const int64_t* const taps = lines.taps();
    // A window of nothing but -inf reports its first element.
    const auto first = hn::Set(
        di,
        static_cast<I>((nearest_place(wd.begin, g_.in_size[0]) * height + nearest_place(wh.begin, height)) * width));
    const auto step = hn::Set(di, static_cast<I>(g_.stride[2]));
    for (int64_t i = 0; i < g_.out_size[2]; i += kLanes) {
      auto best = hn::Set(d, -std::numeric_limits<A>::infinity());
      auto at = hn::Add(first, hn::LoadU(di, first_.get() + i));
      const auto column = hn::Mul(hn::Iota(di, static_cast<I>(i)), step);
      for (int64_t id = wd.begin; id < wd.end; id += g_.dilation[0])
        for (int64_t ih = wh.begin; ih < wh.end; ih += g_.dilation[1]) {
          const A* const line = lines.line(id, ih) + i;
          const int64_t base = (id * height + ih) * width - g_.padding[2];
          for (int64_t kw = 0; kw < taps_count; ++kw) {
            const auto x = hn::LoadU(d, line + taps[kw]);
            const auto better = hn::Or(hn::Gt(x, best), hn::IsNaN(x));
            best = hn::IfThenElse(better, x, best);
            if constexpr (kIndices)
              at = hn::IfThenElse(hn::RebindMask(di, better),
                                  hn::Add(column, hn::Set(di, static_cast<I>(base + kw * dilation))), at);
          }
        }
      hn::StoreU(best, d, values_.get() + i);
      if constexpr (kIndices) hn::StoreU(at, di, indices_.get() + i);
    }
    put<T>(values_.get(), g_.out_size[2], y);
    if constexpr (kIndices) put_indices(indices_.get(), g_.out_size[2], indices);
  }

 private:
  const PoolGeometry& g_;
  ScratchArray<A> values_;
  ScratchArray<I> indices_, first_;
};

template <class T>
class MeanRows {
  using A = Acc<T>;
  using D = hn::ScalableTag<A>;
  static constexpr int64_t kLanes = Lines<T>::kLanes;

 public:
  MeanRows(const PoolGeometry& g, int64_t width, bool include_pad, int64_t divisor)
      : g_(g), include_pad_(include_pad), divisor_(divisor), values_(width), counts_(width) {
    for (int64_t ow = 0; ow < width; ++ow) {
      const PoolWindow w = window(g, 2, ow < g.out_size[2] ? ow : 0);
      counts_[ow] = w.end <= w.begin ? A{0} : static_cast<A>(include_pad ? w.span : w.end - w.begin);
    }
  }

  void row(const Lines<T>& lines, int64_t od, int64_t oh, T* y) const {
    const PoolWindow wd = window(g_, 0, od), wh = window(g_, 1, oh);
    const D d;
    const int64_t taps_count = g_.kernel[2];
    const int64_t* const taps = lines.taps();
    const bool empty = wd.end <= wd.begin || wh.end <= wh.begin;
    const A count =
        empty ? A{0} : static_cast<A>(include_pad_ ? wd.span * wh.span : (wd.end - wd.begin) * (wh.end - wh.begin));
    for (int64_t i = 0; i < g_.out_size[2]; i += kLanes) {
      auto sum = hn::Zero(d);
      for (int64_t id = wd.begin; id < wd.end; ++id)
        for (int64_t ih = wh.begin; ih < wh.end; ++ih) {
          const A* const line = lines.line(id, ih) + i;
          for (int64_t kw = 0; kw < taps_count; ++kw) sum = hn::Add(sum, hn::LoadU(d, line + taps[kw]));
        }
      const auto n = hn::Mul(hn::Set(d, count), hn::LoadU(d, counts_.get() + i));
      const auto divisor = divisor_ != 0 ? hn::Set(d, static_cast<A>(divisor_)) : n;
      hn::StoreU(hn::IfThenZeroElse(hn::Eq(n, hn::Zero(d)), hn::Div(sum, divisor)), d, values_.get() + i);
    }
    put<T>(values_.get(), g_.out_size[2], y);
  }

 private:
  const PoolGeometry& g_;
  const bool include_pad_;
  const int64_t divisor_;
  ScratchArray<A> values_, counts_;
};

}  // namespace

void MaxPoolLines(DType dtype, const PoolGeometry& g, const void* x, void* y, int64_t* indices) {
  visit_floats("max_pool2d", dtype, [&](auto tag) HWY_ATTR {
    using T = decltype(tag);
    const int64_t out_plane = volume(g.out_size);
    for_pieces<T>(g, -std::numeric_limits<Acc<T>>::infinity(), static_cast<const T*>(x),
                  [&](const Lines<T>& lines, int64_t plane, int64_t od, int64_t oh, int64_t last) HWY_ATTR {
                    const MaxRows<T> rows(g, lines.width());
                    for (; oh < last; ++oh) {
                      const int64_t to = plane * out_plane + (od * g.out_size[1] + oh) * g.out_size[2];
                      if (indices)
                        rows.template row<true>(lines, od, oh, static_cast<T*>(y) + to, indices + to);
                      else
                        rows.template row<false>(lines, od, oh, static_cast<T*>(y) + to, nullptr);
                    }
                  });
  });
}

void AvgPoolLines(DType dtype, const PoolGeometry& g, bool include_pad, int64_t divisor, const void* x, void* y) {
  visit_floats("avg_pool2d", dtype, [&](auto tag) HWY_ATTR {
    using T = decltype(tag);
    const int64_t out_plane = volume(g.out_size);
    for_pieces<T>(g, Acc<T>{0}, static_cast<const T*>(x),
                  [&](const Lines<T>& lines, int64_t plane, int64_t od, int64_t oh, int64_t last) HWY_ATTR {
                    const MeanRows<T> rows(g, lines.width(), include_pad, divisor);
                    for (; oh < last; ++oh)
                      rows.row(lines, od, oh,
                               static_cast<T*>(y) + plane * out_plane + (od * g.out_size[1] + oh) * g.out_size[2]);
                  });
  });
}

}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu::internal
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::cpu::internal {

TESSERA_SIMD_TABLE(MaxPoolLines);
TESSERA_SIMD_TABLE(AvgPoolLines);
void max_pool_lines(DType dtype, const PoolGeometry& g, const void* x, void* y, int64_t* indices) {
  TESSERA_SIMD(MaxPoolLines)(dtype, g, x, y, indices);
}
void avg_pool_lines(DType dtype, const PoolGeometry& g, bool include_pad, int64_t divisor, const void* x, void* y) {
  TESSERA_SIMD(AvgPoolLines)(dtype, g, include_pad, divisor, x, y);
}

}  // namespace tessera::cpu::internal
#endif
