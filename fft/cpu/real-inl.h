// Real lines of 16 vectors, without a transform of half the length that has to be taken apart: columns of real numbers
// have half a spectrum, which leaves half as many rows. Included once per SIMD target.
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

// Results k1 of all columns, times their twiddle factors and transformed, are results k1 + 16 k2 of the line, k2 <
// kLanes. Those of the second half are conjugates of results 16 - k1 + 16 (kLanes - 1 - k2): of 0 < k1 < 8 they are
// all results but each eighth. These are the spectrum of 2 kLanes numbers, sums of all rows with an even number and of
// all others, which go with the other rows as one more, of half as many complex numbers.
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
  static constexpr int64_t scratch() { return 2 * kRow; }

  void run(const typename ShortLines<T>::Some& lines, T* scratch) const {
    const D d;
    const T* in = lines.in;
    T* out = lines.out;
    for (int64_t i = 0; i < lines.count; ++i, in += lines.in_step, out += lines.out_step) {
      T* const eighths = scratch + i % 2 * kRow;
      // Two real rows as one of complex numbers; they are taken apart before they meet.
      Complex<D> rows[kRows];
      repeat<kRows>(
          kRows, TESSERA_FFT_BODY(k) { rows[k] = row(in, k); });
      butterfly<kRows>(d, nullptr, rows);
      const Complex<D> sums = rows[0];
      repeat<kRows / 2 - 1>(
          kRows / 2 - 1, TESSERA_FFT_BODY(k) { join(rows[k + 1], rows[kRows - 1 - k], k + 1); });
      Complex<D>& middle = rows[kRows / 2];
      middle = mul({hn::Mul(middle.re, hn::Set(d, scale_)), hn::Mul(middle.im, hn::Set(d, -scale_))}, factors(4));
      repeat<kRows - 1>(
          kRows - 1, TESSERA_FFT_BODY(k) { rows[k] = rows[k + 1]; });
      rows[kRows - 1] = {hn::ConcatEven(d, sums.im, sums.re), hn::ConcatOdd(d, sums.im, sums.re)};
      repeat<kRows / kTogether>(
          kRows / kTogether, TESSERA_FFT_BODY(g) { results(g * kTogether, rows + g * kTogether, out, eighths); });
      // Of the line before: what was just stored number by number is not there as a vector for long.
      if (i > 0) each_eighth(scratch + (i + 1) % 2 * kRow, out - lines.out_step);
    }
    if (lines.count > 0) each_eighth(scratch + (lines.count + 1) % 2 * kRow, out - lines.out_step);
  }

 private:
  using D = Lanes<T>;
  using V = hn::Vec<D>;
  using I = hn::RebindToSigned<D>;
  enum Way { kForward, kBackward };
  static constexpr int64_t kLanes = hn::MaxLanes(D()), kRow = 2 * kLanes;
  // Rows that are transformed together, and results k2 of them in a vector.
  static constexpr int kRows = 8, kTogether = Across<T>::kRows, kEach = kTogether == kRows ? 1 : 4;

  static HWY_INLINE Complex<D> row(const T* rows, int64_t i) { return Planar<D>{D(), const_cast<T*>(rows)}.load(i); }
  HWY_INLINE Complex<D> factors(int64_t k) const { return row(plan_.fine.data(), k - 1); }
  HWY_INLINE void join(Complex<D>& a, Complex<D>& b, int64_t k) const {
    const D d;
    const T* const roots = plan_.columns.roots.data();
    const Complex<D> root{hn::Set(d, roots[k]), hn::Set(d, roots[plan_.columns.stride + k])};
    join_pair<false>(a, b, root, hn::Set(d, scale_ / 2), false);
    a = mul(a, factors(k));
    b = mul(b, factors(kRows - k));
  }

  // Rows from `first` on, transformed, to where their results belong: forwards, and those of the second half backwards,
  // in place of results of the row that stands for each eighth one, which go elsewhere.
  HWY_INLINE void results(int first, Complex<D>* rows, T* out, T* eighths) const {
    if constexpr (kTogether == kRows)
      Across<T>::eight(rows);
    else
      Across<T>::four(plan_.across.data(), rows);
    const auto keep = [&](int from, int step) HWY_ATTR __attribute__((always_inline)) {
      if (first + kTogether == kRows)
        repeat<kLanes / 2>(
            kLanes / 2, TESSERA_FFT_BODY(k) { move(eighths + 2 * (from + step * k), out + 2 * kRows * (2 * k + 1)); });
    };
    T* const forward = out + 2 * (first + 1);
    T* const backward = out + 2 * (2 * kRows - first - kTogether);
    repeat<kTogether / 2>(
        kTogether / 2, TESSERA_FFT_BODY(k) { put(rows[k], kForward, forward + 4 * kRows * kEach * k); });
    keep(0, 1);
    repeat<kTogether / 2>(
        kTogether / 2,
        TESSERA_FFT_BODY(k) { put(rows[kTogether - 1 - k], kBackward, backward + 4 * kRows * kEach * k); });
    keep(kLanes - 1, -1);
  }
  HWY_INLINE void put(const Complex<D>& z, Way way, T* to) const {
    const D d;
    const V im = hn::Xor(z.im, signs_[way]);
    repeat<2>(
        2, TESSERA_FFT_BODY(half) {
          const V v = choose(d, z.re, im, lanes_[way][half]);
          if constexpr (kEach == 1) {
            hn::StoreU(v, d, to + half * kLanes);
          } else {
            const hn::Half<D> h;
            hn::StoreU(hn::LowerHalf(h, v), h, to + 8 * kRows * half);
            hn::StoreU(hn::UpperHalf(h, v), h, to + 8 * kRows * half + 4 * kRows);
          }
        });
  }
  static HWY_INLINE void move(T* to, const T* from) { std::memcpy(to, from, 2 * sizeof(T)); }

  // From z, the transform of the row that stands for them.
  HWY_NOINLINE void each_eighth(T* z, T* out) const {
    const D d;
    const Pairs<D> pairs{d};
    Complex<D> a = pairs.load(z);
    a.im = hn::Xor(a.im, hn::IfThenElse(hn::FirstN(d, kLanes / 2), signs_[kForward], signs_[kBackward]));
    const T re = hn::GetLane(a.re), im = hn::GetLane(a.im);
    const auto mirrored = hn::SetTableIndices(d, kMirrored.lanes[0]);
    Complex<D> b{hn::TableLookupLanes(a.re, mirrored), hn::TableLookupLanes(a.im, mirrored)};
    const T* const roots = plan_.eighths.roots.data();
    join_pair<false>(a, b, Complex<D>{hn::LoadU(d, roots), hn::LoadU(d, roots + plan_.eighths.stride)},
                     hn::Set(d, scale_ / 2), conjugate_);
    pairs.store(a, z);
    repeat<kLanes - 1>(
        kLanes - 1, TESSERA_FFT_BODY(k) { move(out + 2 * kRows * (k + 1), z + 2 * (k + 1)); });
    T* const end = out + 2 * kRows * kLanes;
    out[0] = (re + im) * scale_;
    end[0] = (re - im) * scale_;
    out[1] = end[1] = T{0};
  }

  struct Turn {
    alignas(64) hn::TFromD<I> lanes[2][kLanes];
  };
  static constexpr Turn make_turn(Way way) {
    const auto turned = [&](int i, int of) { return way == kBackward ? of - 1 - i : i; };
    Turn t{};
    for (int half = 0; half < 2; ++half)
      for (int lane = 0; lane < kLanes; ++lane) {
        const int place = half * kLanes / 2 + lane / 2;
        t.lanes[half][lane] =
            lane % 2 * kLanes + turned(place % kTogether, kTogether) * kEach + turned(place / kTogether, kEach);
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
