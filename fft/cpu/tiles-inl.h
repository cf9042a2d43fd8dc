// Lines of numbers to rows of kFftWidth lines and back: tiles are turned in registers. Included once per SIMD target.
#include <algorithm>
#include <cstdint>

#include "fft/cpu/columns-inl.h"
#include "tensor/cpu/support/request.h"
#include "tensor/cpu/support/tiles-inl.h"

#if defined(TESSERA_FFT_TILES_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_FFT_TILES_INL
#undef TESSERA_FFT_TILES_INL
#else
#define TESSERA_FFT_TILES_INL
#endif

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::internal {
namespace HWY_NAMESPACE {

// Numbers in a block of 16 bytes: a tile is turned by blocks, which load instructions bring to their places.
template <class T>
inline constexpr int kBlock = 16 / sizeof(T);
template <class D>
inline constexpr int kBlocks = static_cast<int>(hn::MaxLanes(D())) / kBlock<hn::TFromD<D>>;

// v[i], i < kBlock: number i of the blocks at(t, q), that of lane t + kBlock q.
template <class D, class At, class T = hn::TFromD<D>>
HWY_INLINE void load_turned(D d, const At& at, hn::Vec<D>* v) {
  cpu::HWY_NAMESPACE::transpose_block(
      d,
      [&](int i) HWY_ATTR
      __attribute__((always_inline)) { return reinterpret_cast<const char*>(at(i % kBlock<T>, i / kBlock<T>)); },
      [&](int i, auto x) HWY_ATTR __attribute__((always_inline)) { v[i] = x; });
}

// Where number j of all lines is: in one of `rows` planar rows, or half of it, as index[] says.
template <class T>
struct Rows {
  static constexpr int64_t kWidth = kPlanarWidth<hn::ScalableTag<T>>;
  T* at;
  const int32_t* index;
  int64_t rows;
  bool complex;  // the lines' numbers are real and imaginary parts in turn
  HWY_INLINE T* row(int64_t i) const { return at + index[i] * (2 * kWidth); }
  HWY_INLINE T* operator()(int64_t j) const { return complex ? row(j / 2) + j % 2 * kWidth : row(j); }
  Rows from(int64_t j) const { return {at, index + (complex ? j / 2 : j), rows, complex}; }
  Rows lane(int64_t l) const { return {at + lane_begin<T>(l, rows), index, rows, complex}; }
  // The places of N numbers from j on; if they are parts, j and N are even.
  template <int N>
  HWY_INLINE void places(int64_t j, T** p) const {
    if (complex) {
      repeat<N / 2>(
          N / 2, TESSERA_FFT_BODY(i) {
            p[2 * i] = row((j >> 1) + i);
            p[2 * i + 1] = p[2 * i] + kWidth;
          });
    } else {
      repeat<N>(
          N, TESSERA_FFT_BODY(i) { p[i] = row(j + i); });
    }
  }
};

// `count` numbers of kFftWidth dense lines that are `stride` numbers apart: number j of line l goes to lane l of where
// row(j) says. Lines are long: the processor is asked for what follows.
template <class T>
HWY_NOINLINE void lines_to_rows(const T* from, int64_t stride, int64_t count, const Rows<T> row) {
  const hn::ScalableTag<T> d;
  using D = decltype(d);
  constexpr int64_t kWidth = kFftWidth<T>, kStep = kBlock<T>, kLine = 64 / sizeof(T);
  if (count < kStep) {
    for (int64_t j = 0; j < count; ++j)
      for (int64_t l = 0; l < kWidth; ++l) *row.lane(l)(j) = from[l * stride + j];
    return;
  }
  const int64_t stride3 = 3 * stride;
  for (int64_t l = 0; l < kWidth; l += static_cast<int64_t>(hn::Lanes(d))) {
    const Rows<T> here = row.lane(l);
    const T* x[kBlocks<D>];
    const auto line = [&](int t, int q) HWY_ATTR __attribute__((always_inline)) {
      return t == 0 ? x[q] : t == 1 ? x[q] + stride : t == 2 ? x[q] + 2 * stride : x[q] + stride3;
    };
    const auto begin = [&](int64_t j) HWY_ATTR __attribute__((always_inline)) {
      repeat<kBlocks<D>>(
          kBlocks<D>, TESSERA_FFT_BODY(q) { x[q] = from + (l + q * kStep) * stride + j; });
    };
    const auto tile = [&](int64_t j) HWY_ATTR __attribute__((always_inline)) {
      hn::Vec<D> v[kStep];
      load_turned(d, line, v);
      T* p[kStep];
      here.template places<kStep>(j, p);
      repeat<kStep>(
          kStep, TESSERA_FFT_BODY(i) { hn::StoreU(v[i], d, p[i]); });
    };
    begin(0);
    int64_t j = 0;
    for (; j + kStep <= count; j += kStep) {
      if (j % kLine == 0)
        repeat<kBlocks<D>>(
            kBlocks<D>, TESSERA_FFT_BODY(q) {
              repeat<kStep>(
                  kStep, TESSERA_FFT_BODY(t) { request_ahead(line(t, q), 128); });
            });
      tile(j);
      repeat<kBlocks<D>>(
          kBlocks<D>, TESSERA_FFT_BODY(q) { x[q] += kStep; });
    }
    if (j == count) continue;
    begin(count - kStep);  // the last tile begins in the one before
    tile(count - kStep);
  }
}

// And back: number j of line l is in row(j)[l].
template <class T>
HWY_NOINLINE void rows_to_lines(T* to, int64_t stride, int64_t count, const Rows<T> row) {
  const hn::ScalableTag<T> d;
  using D = decltype(d);
  constexpr int64_t kWidth = kFftWidth<T>, kStep = kBlock<T>, kLanes = hn::MaxLanes(d);
  if (count < kLanes) {
    for (int64_t j = 0; j < count; ++j)
      for (int64_t l = 0; l < kWidth; ++l) to[l * stride + j] = *row.lane(l)(j);
    return;
  }
  for (int64_t j = 0; j < count; j += kLanes) {
    const int64_t at = std::min(j, count - kLanes);
    T* p[kLanes];
    row.template places<kLanes>(at, p);
    T* y = to + at;
    for (int64_t l = 0; l < kWidth; l += kStep, y += kStep * stride) {
      const int64_t lane = lane_begin<T>(l, row.rows);
      repeat<kStep>(
          kStep, TESSERA_FFT_BODY(i) { request_ahead(y + i * stride, 128); });
      hn::Vec<D> v[kStep];
      load_turned(
          d, [&](int t, int q) HWY_ATTR __attribute__((always_inline)) { return p[t + q * kStep] + lane; }, v);
      repeat<kStep>(
          kStep, TESSERA_FFT_BODY(i) { hn::StoreU(v[i], d, y + i * stride); });
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu::internal
HWY_AFTER_NAMESPACE();
#endif
