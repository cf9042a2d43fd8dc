// Real lines of 8, 14 or 16 vectors, without a transform of half the length that has to be taken apart: columns of real
// numbers have half a spectrum, which leaves half as many rows. Included once per SIMD target.
#include <cstring>

#include "fft/cpu/short-inl.h"

#if defined(TESSERA_FFT_REAL_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_FFT_REAL_INL
#undef TESSERA_FFT_REAL_INL
#else
#define TESSERA_FFT_REAL_INL
#endif

#if HWY_TARGET == HWY_AVX3
HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::internal {
namespace HWY_NAMESPACE {

// Of n = 2 rows kLanes real numbers, results k1 of all columns (of 2 rows numbers), times their twiddle factors and
// transformed, are results k1 + 2 rows k2 of the line, k2 < kLanes. Those of the second half are conjugates of results
// 2 rows - k1 + 2 rows (kLanes - 1 - k2): of 0 < k1 < rows they are all results but the multiples of `rows`. These are
// the spectrum of 2 kLanes numbers, sums of all rows with an even number and of all others, which go with the other
// rows as one more, of half as many complex numbers.
template <class T>
class ShortReal {
 public:
  ShortReal(const ShortRealPlan<T>& plan, bool conjugate, T scale) : plan_(plan), conjugate_(conjugate), scale_(scale) {
    const D d;
    const V minus = hn::Set(d, -T{0});
    signs_[kForward] = conjugate ? minus : hn::Zero(d);
    signs_[kBackward] = hn::Xor(signs_[kForward], minus);
    for (int half = 0; half < 2; ++half)
      for (const Way way : {kForward, kBackward}) lanes_[way][half] = hn::Load(I(), kTurns[way].lanes[half]);
  }
  // Numbers that run() needs besides, 64-byte aligned.
  static constexpr int64_t scratch() { return 2 * kQuads * kRow; }

  void run(const typename ShortLines<T>::Some& lines, T* scratch) const {
    if constexpr (kQuads == 2)
      if (plan_.rows == 4) return run<4>(lines, scratch);
    plan_.rows == 7 ? run<7>(lines, scratch) : run<8>(lines, scratch);
  }

 private:
  using D = Lanes<T>;
  using V = hn::Vec<D>;
  using I = hn::RebindToSigned<D>;
  enum Way { kForward, kBackward };
  static constexpr int64_t kLanes = hn::MaxLanes(D()), kRow = 2 * kLanes;
  // Rows that are transformed together, by four; results k2 of them in a vector.
  static constexpr int kTogether = Across<T>::kRows, kQuads = kTogether / 4, kEach = kQuads == 2 ? 1 : 4;

  // Rows first + 1 to first + 4 of a line, transformed, go to where their results belong.
  struct Quad {
    int first;
    T *out, *multiples;
  };

  template <int R>
  HWY_NOINLINE void run(const typename ShortLines<T>::Some& lines, T* scratch) const {
    constexpr int kLines = 4 * kQuads == 2 * R ? 2 : 1, kSteps = R > 4 ? 2 / kQuads : 1;
    for (int64_t i = 0; i < lines.count; i += kLines) {
      Complex<D> rows[kLines][R];
      T* const multiples = scratch + i / kLines % 2 * (kLines * kRow);
      Quad quads[2];
      repeat<kLines>(
          kLines, TESSERA_FFT_BODY(l) {
            const int64_t line = std::min(i + l, lines.count - 1);  // the last one may be done twice
            columns<R>(lines.in + line * lines.in_step, rows[l]);
            quads[l] = {0, lines.out + line * lines.out_step, multiples + l * kRow};
          });
      if (kLines == 1) quads[1] = {R - 4, quads[0].out, quads[0].multiples};
      repeat<kSteps>(
          kSteps, TESSERA_FFT_BODY(s) {
            Complex<D> some[kTogether];
            repeat<kTogether>(
                kTogether, TESSERA_FFT_BODY(k) {
                  const int quad = s * kQuads + k / 4, number = (kLines == 1 ? quad * (R - 4) : 0) + k % 4 + 1;
                  some[k] = rows[kLines == 1 ? 0 : quad][number % R];
                });
            results<R>(quads + s * kQuads, some);
          });
      // Of the lines before: what was just stored number by number is not there as a vector for long.
      if (i > 0) each_multiple_of<R, kLines>(lines, i - kLines, scratch);
    }
    if (lines.count > 0) each_multiple_of<R, kLines>(lines, (lines.count - 1) / kLines * kLines, scratch);
  }
  template <int R, int kLines>
  HWY_INLINE void each_multiple_of(const typename ShortLines<T>::Some& lines, int64_t i, T* scratch) const {
    for (int64_t l = 0; l < std::min<int64_t>(kLines, lines.count - i); ++l)
      each_multiple(R, scratch + i / kLines % 2 * (kLines * kRow) + l * kRow, lines.out + (i + l) * lines.out_step);
  }

  static HWY_INLINE Complex<D> row(const T* rows, int64_t i) { return Planar<D>{D(), const_cast<T*>(rows)}.load(i); }
  HWY_INLINE Complex<D> factors(int64_t k) const { return row(plan_.fine.data(), k - 1); }

  // Results of a line's columns, times their factors: row k > 0, and in row 0 the one that stands for multiples.
  template <int R>
  HWY_INLINE void columns(const T* in, Complex<D>* rows) const {
    const D d;
    // Two real rows as one of complex numbers; they are taken apart before they meet.
    repeat<R>(
        R, TESSERA_FFT_BODY(k) { rows[k] = row(in, k); });
    butterfly<R>(d, plan_.odd.data(), rows);
    const Complex<D> sums = rows[0];
    rows[0] = {hn::ConcatEven(d, sums.im, sums.re), hn::ConcatOdd(d, sums.im, sums.re)};
    const T* const roots = plan_.columns.roots.data();
    repeat<(R - 1) / 2>((R - 1) / 2, TESSERA_FFT_BODY(i) {
      const int k = i + 1;
      Complex<D>&a = rows[k], &b = rows[R - k];
      const Complex<D> root{hn::Set(d, roots[k]), hn::Set(d, roots[plan_.columns.stride + k])};
      join_pair<false>(a, b, root, hn::Set(d, scale_ / 2), false);
      a = mul(a, factors(k));
      b = mul(b, factors(R - k));
    });
    if (R % 2) return;
    Complex<D>& middle = rows[R / 2];
    middle = mul({hn::Mul(middle.re, hn::Set(d, scale_)), hn::Mul(middle.im, hn::Set(d, -scale_))}, factors(R / 2));
  }

  // Forwards, and results of the second half backwards. Row R stands for multiples: its results go elsewhere.
  template <int R>
  HWY_INLINE void results(const Quad* quads, Complex<D>* rows) const {
    if constexpr (kQuads == 2)
      Across<T>::eight(rows);
    else
      Across<T>::four(plan_.across.data(), rows);
    constexpr int64_t kStep = 4 * R;
    const auto keep = [&](int from, int by) HWY_ATTR __attribute__((always_inline)) {
      repeat<kQuads>(
          kQuads, TESSERA_FFT_BODY(q) {
            if (quads[q].first + 4 == R)
              repeat<kLanes / 2>(
                  kLanes / 2, TESSERA_FFT_BODY(k) {
                    move(quads[q].multiples + 2 * (from + by * k), quads[q].out + kStep * k + 2 * R);
                  });
          });
    };
    T* to[kQuads];
    const auto all = [&](Way way) HWY_ATTR __attribute__((always_inline)) {
      repeat<kTogether / 2>(
          kTogether / 2, TESSERA_FFT_BODY(k) {
            const Complex<D>& z = rows[way == kForward ? k : kTogether - 1 - k];
            const V im = hn::Xor(z.im, signs_[way]);
            repeat<2>(
                2, TESSERA_FFT_BODY(half) {
                  const V v = choose(D(), z.re, im, lanes_[way][half]);
                  if constexpr (kQuads == 2) {
                    hn::StoreU(v, D(), to[half] + kStep * k);
                  } else {
                    const hn::Half<D> h;
                    T* const at = to[0] + kStep * (4 * k + 2 * half);
                    hn::StoreU(hn::LowerHalf(h, v), h, at);
                    hn::StoreU(hn::UpperHalf(h, v), h, at + kStep);
                  }
                });
          });
    };
    repeat<kQuads>(
        kQuads, TESSERA_FFT_BODY(q) { to[q] = quads[q].out + 2 * (quads[q].first + 1); });
    all(kForward);
    keep(0, 1);
    repeat<kQuads>(
        kQuads, TESSERA_FFT_BODY(q) { to[q] = quads[q].out + 2 * (2 * R - quads[q].first - 4); });
    all(kBackward);
    keep(kLanes - 1, -1);
  }
  static HWY_INLINE void move(T* to, const T* from) { std::memcpy(to, from, 2 * sizeof(T)); }

  // From z, the transform of the row that stands for them.
  HWY_NOINLINE void each_multiple(int64_t count, T* z, T* out) const {
    const D d;
    const Pairs<D> pairs{d};
    Complex<D> a = pairs.load(z);
    a.im = hn::Xor(a.im, hn::IfThenElse(hn::FirstN(d, kLanes / 2), signs_[kForward], signs_[kBackward]));
    const T re = hn::GetLane(a.re), im = hn::GetLane(a.im);
    const auto mirrored = hn::SetTableIndices(d, kMirrored.lanes[0]);
    Complex<D> b{hn::TableLookupLanes(a.re, mirrored), hn::TableLookupLanes(a.im, mirrored)};
    const T* const roots = plan_.multiples.roots.data();
    join_pair<false>(a, b, Complex<D>{hn::LoadU(d, roots), hn::LoadU(d, roots + plan_.multiples.stride)},
                     hn::Set(d, scale_ / 2), conjugate_);
    pairs.store(a, z);
    const int64_t step = 2 * count;
    for (int64_t k = 1; k < kLanes; ++k) move(out + step * k, z + 2 * k);
    T* const end = out + step * kLanes;
    out[0] = (re + im) * scale_;
    end[0] = (re - im) * scale_;
    out[1] = end[1] = T{0};
  }

  struct Turn {
    alignas(64) hn::TFromD<I> lanes[2][kLanes];
  };
  // Where the parts of results are: of four rows four results, or one of each of eight.
  static constexpr Turn make_turn(Way way) {
    const auto turned = [&](int i) { return way == kBackward ? 3 - i : i; };
    Turn t{};
    for (int half = 0; half < 2; ++half)
      for (int lane = 0; lane < kLanes; ++lane) {
        const int place = half * kLanes / 2 + lane / 2, row = turned(place % 4), four = place / 4;
        t.lanes[half][lane] = lane % 2 * kLanes + (kEach == 1 ? four * 4 + row : row * kEach + turned(four));
      }
    return t;
  }
  static constexpr Turn make_mirrored() {
    Turn t{};
    for (int lane = 0; lane < kLanes; ++lane) t.lanes[0][lane] = (kLanes - lane) % kLanes;
    return t;
  }
  static constexpr Turn kTurns[2] = {make_turn(kForward), make_turn(kBackward)}, kMirrored = make_mirrored();

  const ShortRealPlan<T>& plan_;
  bool conjugate_;
  T scale_;
  V signs_[2];
  Choice<D> lanes_[2][2];
};

}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu::internal
HWY_AFTER_NAMESPACE();
#endif
#endif
