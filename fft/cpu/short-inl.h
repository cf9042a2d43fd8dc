// Short lines in registers: m rows of a vector's width, in columns first, then each row across its lanes, four rows at
// a time. Included once per SIMD target.
#include <algorithm>

#include "fft/cpu/line-inl.h"

#if defined(TESSERA_FFT_SHORT_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_FFT_SHORT_INL
#undef TESSERA_FFT_SHORT_INL
#else
#define TESSERA_FFT_SHORT_INL
#endif

// Vectors of four blocks of 16 bytes alone: see ShortPlan::serves.
#if HWY_TARGET == HWY_AVX3
HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::internal {
namespace HWY_NAMESPACE {

// Block i of vector j becomes block j of vector i.
template <class D>
HWY_INLINE void turn_blocks(D d, hn::Vec<D>& v0, hn::Vec<D>& v1, hn::Vec<D>& v2, hn::Vec<D>& v3) {
  const hn::Repartition<float, D> floats;
  using V = hn::Vec<decltype(floats)>;
  const auto raw = [&](hn::Vec<D> v) HWY_ATTR __attribute__((always_inline)) { return hn::BitCast(floats, v).raw; };
  const auto back = [&](__m512 v) HWY_ATTR __attribute__((always_inline)) { return hn::BitCast(d, V{v}); };
  constexpr int kEven = 0x88, kOdd = 0xdd;
  const __m512 even01 = _mm512_shuffle_f32x4(raw(v0), raw(v1), kEven),
               odd01 = _mm512_shuffle_f32x4(raw(v0), raw(v1), kOdd);
  const __m512 even23 = _mm512_shuffle_f32x4(raw(v2), raw(v3), kEven),
               odd23 = _mm512_shuffle_f32x4(raw(v2), raw(v3), kOdd);
  v0 = back(_mm512_shuffle_f32x4(even01, even23, kEven));
  v2 = back(_mm512_shuffle_f32x4(even01, even23, kOdd));
  v1 = back(_mm512_shuffle_f32x4(odd01, odd23, kEven));
  v3 = back(_mm512_shuffle_f32x4(odd01, odd23, kOdd));
}

// Lines of n = m kFftWidth numbers, see ShortPlan.
template <class T>
class ShortLines {
 public:
  ShortLines(const ShortPlan<T>& plan, Form<T> form) : plan_(plan), form_(form) {}
  // Numbers that run() needs besides, 64-byte aligned.
  int64_t scratch() const { return 2 * plan_.first.n * kRow; }

  // in and out may be the same.
  void run(const T* in, T* out, T* scratch) const {
    const D d;
    const int64_t m = plan_.first.n;
    const auto from = interleaved(d, in, kRow, form_);
    if (m == 8)
      eight_rows(from, scratch);
    else if (m > 4)
      transform_columns(d, plan_.first, from, Twiddled<D>{{d, scratch}, plan_.fine.data(), -1}, scratch + m * kRow);
    for (int64_t row = 0; row < m; row += 4) {
      const int64_t first = std::min(row, m - 4);  // the last rows may be done twice
      Complex<D> rows[4];
      if (m > 4) {
        repeat<4>(
            4, TESSERA_FFT_BODY(i) {
              rows[i] = Planar<D>{d, scratch}.load(first + i);
            });
      } else {
        repeat<4>(
            4, TESSERA_FFT_BODY(i) { rows[i] = from.load(i); });
        butterfly<4>(d, nullptr, rows);
        repeat<3>(
            3, TESSERA_FFT_BODY(i) { rows[i + 1] = mul(rows[i + 1], factors(plan_.fine, i + 1)); });
      }
      finish(rows, out + 2 * first);
    }
  }

 private:
  using D = Lanes<T>;
  using V = hn::Vec<D>;
  static constexpr int64_t kWidth = kFftWidth<T>, kRow = 2 * kWidth;
  static constexpr int kLanes = static_cast<int>(kWidth), kNumbers = kBlock<T>;

  // What transform_columns does, without a pass's preparations.
  template <class From>
  HWY_NOINLINE void eight_rows(const From& from, T* scratch) const {
    const D d;
    Complex<D> rows[8];
    repeat<8>(
        8, TESSERA_FFT_BODY(i) { rows[i] = from.load(i); });
    butterfly<8>(d, nullptr, rows);
    repeat<8>(
        8, TESSERA_FFT_BODY(i) {
          Planar<D>{d, scratch}.store(i, i ? mul(rows[i], factors(plan_.fine, i)) : rows[i]);
        });
  }

  static HWY_INLINE Complex<D> factors(const std::vector<T>& table, int64_t row) {
    return {hn::LoadU(D(), table.data() + row * kRow), hn::LoadU(D(), table.data() + row * kRow + kWidth)};
  }

  // Transforms of rows across their lanes. Number e of block b stands for e + kNumbers b: radix 4 over blocks, then
  // the numbers of a block; row r is block r in between, and its result k2 + 4 k3 goes to k1 + m (k2 + 4 k3).
  HWY_INLINE void finish(Complex<D>* rows, T* out) const {
    const D d;
    V re[4], im[4];
    repeat<4>(
        4, TESSERA_FFT_BODY(i) {
          re[i] = rows[i].re;
          im[i] = rows[i].im;
        });
    turn_blocks(d, re[0], re[1], re[2], re[3]);
    turn_blocks(d, im[0], im[1], im[2], im[3]);
    repeat<4>(
        4, TESSERA_FFT_BODY(i) {
          rows[i] = {re[i], im[i]};
        });
    butterfly<4>(d, nullptr, rows);
    repeat<3>(
        3, TESSERA_FFT_BODY(i) { rows[i + 1] = mul(rows[i + 1], factors(plan_.across, i)); });
    repeat<4>(
        4, TESSERA_FFT_BODY(i) {
          re[i] = rows[i].re;
          im[i] = rows[i].im;
        });
    repeat<4 / kNumbers>(
        4 / kNumbers, TESSERA_FFT_BODY(i) {
          cpu::HWY_NAMESPACE::turn_in_blocks(d, re + i * kNumbers);
          cpu::HWY_NAMESPACE::turn_in_blocks(d, im + i * kNumbers);
          Complex<D> a[kNumbers];
          repeat<kNumbers>(
              kNumbers, TESSERA_FFT_BODY(e) {
                a[e] = {re[i * kNumbers + e], im[i * kNumbers + e]};
              });
          butterfly<kNumbers>(d, nullptr, a);
          repeat<kNumbers>(
              kNumbers, TESSERA_FFT_BODY(k3) { put(a[k3], out, i * kNumbers + 4 * k3); });
        });
  }
  // Number e of block r is result k + e of row r.
  HWY_INLINE void put(const Complex<D>& z, T* out, int64_t k) const {
    const D d;
    const V scale = hn::Set(d, form_.scale), scale_im = hn::Set(d, form_.conjugate ? -form_.scale : form_.scale);
    const V re = hn::Mul(z.re, scale), im = hn::Mul(z.im, scale_im);
    const int64_t m = plan_.first.n;
    repeat<2>(
        2, TESSERA_FFT_BODY(half) {
          const V v = choose(re, im, kTurn.lanes[half]);
          constexpr int kEach = kNumbers / 2;  // results of four rows in a vector
          T* const to = out + 2 * m * (k + half * kEach);
          if (kEach == 1 || m == 4) {
            hn::StoreU(v, d, to);
          } else {
            const hn::Half<D> h;
            hn::StoreU(hn::LowerHalf(h, v), h, to);
            hn::StoreU(hn::UpperHalf(h, v), h, to + 2 * m);
          }
        });
  }
  // Lane i: that of the lanes of a, then b, which lanes[i] says.
  static HWY_INLINE V choose(V a, V b, const hwy::MakeSigned<T>* lanes) {
    const __m512i index = _mm512_load_si512(lanes);
    if constexpr (sizeof(T) == 4)
      return V{_mm512_permutex2var_ps(a.raw, index, b.raw)};
    else
      return V{_mm512_permutex2var_pd(a.raw, index, b.raw)};
  }
  struct Turn {
    alignas(64) hwy::MakeSigned<T> lanes[2][kLanes];
  };
  static constexpr Turn make_turn() {
    Turn t{};
    for (int half = 0; half < 2; ++half)
      for (int lane = 0; lane < kLanes; ++lane)
        t.lanes[half][lane] = lane % 2 * kLanes + lane % 8 / 2 * kNumbers + half * kNumbers / 2 + lane / 8;
    return t;
  }
  static constexpr Turn kTurn = make_turn();

  const ShortPlan<T>& plan_;
  Form<T> form_;
};

}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu::internal
HWY_AFTER_NAMESPACE();
#endif
#endif
