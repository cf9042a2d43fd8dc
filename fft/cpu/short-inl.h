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

// Vectors of more than one block of 16 bytes alone: see ShortPlan::serves.
#if HWY_TARGET != HWY_SSE4
HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::internal {
namespace HWY_NAMESPACE {

#if HWY_TARGET == HWY_AVX3
// Of two vectors, blocks 0 and 2 of both, and blocks 1 and 3.
inline constexpr int kEvenBlocks = 0x88, kOddBlocks = 0xdd;
// Block i of vector j becomes block j of vector i.
template <class D>
HWY_INLINE void turn_blocks(D d, hn::Vec<D>& v0, hn::Vec<D>& v1, hn::Vec<D>& v2, hn::Vec<D>& v3) {
  const hn::Repartition<float, D> floats;
  using V = hn::Vec<decltype(floats)>;
  const auto raw = [&](hn::Vec<D> v) HWY_ATTR __attribute__((always_inline)) { return hn::BitCast(floats, v).raw; };
  const auto back = [&](__m512 v) HWY_ATTR __attribute__((always_inline)) { return hn::BitCast(d, V{v}); };
  const __m512 even01 = _mm512_shuffle_f32x4(raw(v0), raw(v1), kEvenBlocks),
               odd01 = _mm512_shuffle_f32x4(raw(v0), raw(v1), kOddBlocks);
  const __m512 even23 = _mm512_shuffle_f32x4(raw(v2), raw(v3), kEvenBlocks),
               odd23 = _mm512_shuffle_f32x4(raw(v2), raw(v3), kOddBlocks);
  v0 = back(_mm512_shuffle_f32x4(even01, even23, kEvenBlocks));
  v2 = back(_mm512_shuffle_f32x4(even01, even23, kOddBlocks));
  v1 = back(_mm512_shuffle_f32x4(odd01, odd23, kEvenBlocks));
  v3 = back(_mm512_shuffle_f32x4(odd01, odd23, kOddBlocks));
}

template <class T>
class Across {
  using D = Lanes<T>;
  using V = hn::Vec<D>;

 public:
  // Rows that are transformed together.
  static constexpr int kRows = sizeof(T) == 8 ? 8 : 4;

  // Eight rows of eight numbers, or of eight of each of two lines, become their results: number k of row i in lane i of
  // rows[k]. Of two lines, quarters of a vector belong to one and the other by turns.
  static HWY_INLINE void eight(Complex<D>* rows) {
    const D d;
    V re[8], im[8];
    take_apart<8>(rows, re, im);
    turn(d, re);
    turn(d, im);
    put_together<8>(re, im, rows);
    butterfly<8>(d, nullptr, rows);
  }
  // Four rows of floats. Number e of block b stands for e + 4 b: radix 4 over blocks, then the numbers of a block; row
  // r is block r in between, and number e of it in rows[k] is result e + 4 k. factors: see ShortPlan::across.
  static HWY_INLINE void four(const T* factors, Complex<D>* rows) {
    static_assert(kNumbers == 4);
    const D d;
    V re[4], im[4];
    take_apart<4>(rows, re, im);
    turn_blocks(d, re[0], re[1], re[2], re[3]);
    turn_blocks(d, im[0], im[1], im[2], im[3]);
    put_together<4>(re, im, rows);
    butterfly<4>(d, nullptr, rows);
    repeat<3>(
        3, TESSERA_FFT_BODY(i) {
          rows[i + 1] = mul(rows[i + 1], Planar<D>{d, const_cast<T*>(factors)}.load(i));
        });
    take_apart<4>(rows, re, im);
    cpu::HWY_NAMESPACE::turn_in_blocks(d, re);
    cpu::HWY_NAMESPACE::turn_in_blocks(d, im);
    put_together<4>(re, im, rows);
    butterfly<4>(d, nullptr, rows);
  }

 private:
  static constexpr int kNumbers = kBlock<T>;

  template <int N>
  static HWY_INLINE void take_apart(const Complex<D>* rows, V* re, V* im) {
    repeat<N>(
        N, TESSERA_FFT_BODY(i) {
          re[i] = rows[i].re;
          im[i] = rows[i].im;
        });
  }
  template <int N>
  static HWY_INLINE void put_together(const V* re, const V* im, Complex<D>* rows) {
    repeat<N>(
        N, TESSERA_FFT_BODY(i) {
          rows[i] = {re[i], im[i]};
        });
  }
  // Number i of row j becomes number j of row i.
  static HWY_INLINE void turn(D d, V* v) {
    repeat<8 / kNumbers>(
        8 / kNumbers, TESSERA_FFT_BODY(i) { cpu::HWY_NAMESPACE::turn_in_blocks(d, v + kNumbers * i); });
    if constexpr (kNumbers == 2) {
      turn_blocks(d, v[0], v[2], v[4], v[6]);
      turn_blocks(d, v[1], v[3], v[5], v[7]);
    } else {
      repeat<4>(
          4, TESSERA_FFT_BODY(i) {
            const V first = v[i], second = v[i + 4];
            v[i] = {_mm512_shuffle_f32x4(first.raw, second.raw, kEvenBlocks)};
            v[i + 4] = {_mm512_shuffle_f32x4(first.raw, second.raw, kOddBlocks)};
          });
    }
  }
};
#endif

// Lines of n = m kLanes numbers, see ShortPlan.
template <class T>
class ShortLines {
 public:
  ShortLines(const ShortPlan<T>& plan, Form<T> form) : plan_(plan), form_(form) {}
  // Numbers that run() needs besides, 64-byte aligned.
  int64_t scratch() const { return plan_.first.n * kRow; }

  // `count` lines, `in_step` and `out_step` numbers apart. in and out may be the same.
  struct Some {
    int64_t count;
    const T* in;
    int64_t in_step;
    T* out;
    int64_t out_step;
  };
  void run(const Some& lines, T* scratch) const {
    const int64_t m = plan_.first.n;
#if HWY_TARGET == HWY_AVX3
    if (plan_.pairs) return in_pairs(lines);
    if (m == 8) return in_registers(lines);
#endif
    by_columns(lines, scratch);
  }
  void run(const T* in, T* out, T* scratch) const { run({1, in, 0, out, 0}, scratch); }

 private:
  using D = Lanes<T>;
  using V = hn::Vec<D>;
  static constexpr int64_t kLanes = hn::MaxLanes(D()), kRow = 2 * kLanes;
  static constexpr int kNumbers = kBlock<T>;

#if HWY_TARGET == HWY_AVX3
  // Eight rows, which registers hold from the first number that is read to the last one that is written.
  HWY_NOINLINE void in_registers(const Some& lines) const {
    const D d;
    auto from = interleaved(d, lines.in, kRow, form_);
    const Finish finish(plan_, form_);
    T* out = lines.out;
    for (int64_t i = 0; i < lines.count; ++i, from.at += lines.in_step, out += lines.out_step) {
      Complex<D> rows[8];
      repeat<8>(
          8, TESSERA_FFT_BODY(i) { rows[i] = from.load(i); });
      butterfly_times<8>(rows);
      repeat<8 / Finish::kRows>(
          8 / Finish::kRows,
          TESSERA_FFT_BODY(i) { finish.run(rows + Finish::kRows * i, out + 2 * Finish::kRows * i, 8); });
    }
  }
  // Lines of four vectors, two at a time (the last one alone is done twice): rows of each, or, where four rows would
  // be shorter than wide, eight of half a vector of each.
  HWY_NOINLINE void in_pairs(const Some& lines) const {
    const D d;
    const auto from = interleaved(d, lines.in, kRow, form_);
    const Finish finish(plan_, form_, true);
    constexpr int64_t kResults = kLanes / 2;
    const T* in = lines.in;
    T* out = lines.out;
    for (int64_t left = lines.count; left > 0; left -= 2) {
      const int64_t other = left > 1;
      Complex<D> rows[8];
      if constexpr (kLanes == 8) {
        repeat<4>(
            4, TESSERA_FFT_BODY(i) {
              rows[i] = from.pairs.load(in + i * kRow);
              rows[i + 4] = from.pairs.load(in + other * lines.in_step + i * kRow);
            });
        butterfly_times<4>(rows);
        butterfly_times<4>(rows + 4);
      } else {
        repeat<8>(
            8, TESSERA_FFT_BODY(i) {
              rows[i] = from.pairs.load(in + i * kLanes, in + other * lines.in_step + i * kLanes);
            });
        butterfly_times<8>(rows);
      }
      finish.eight(rows, out, out + other * lines.out_step, kResults);
      in += 2 * lines.in_step;
      out += 2 * lines.out_step;
    }
  }
  template <int R>
  HWY_INLINE void butterfly_times(Complex<D>* rows) const {
    butterfly<R>(D(), nullptr, rows);
    repeat<R - 1>(
        R - 1, TESSERA_FFT_BODY(i) { rows[i + 1] = mul(rows[i + 1], factors(plan_.fine.data(), i + 1)); });
  }
#endif
  HWY_NOINLINE void by_columns(const Some& lines, T* scratch) const {
    const D d;
    const int64_t m = plan_.first.n;
    auto from = interleaved(d, lines.in, kRow, form_);
    const Finish finish(plan_, form_);
    const int32_t* const where = plan_.where.data();
    T* out = lines.out;
    for (int64_t i = 0; i < lines.count; ++i, from.at += lines.in_step, out += lines.out_step) {
      if (m == 16)
        two_passes<4>(from, scratch);
      else if (m == 32)
        two_passes<8>(from, scratch);
      else if (kEight < 8 && m == 8)
        two_passes<2>(from, scratch);
      else
        transform_columns(d, plan_.first, from, Twiddled<D>{d, scratch, plan_.fine.data(), kLanes, -1}, scratch);
      for (int64_t row = 0; row < m; row += Finish::kRows) {
        const int64_t first = std::min(row, m - Finish::kRows);  // the last rows may be done twice
        finish.rows(scratch, where + first, out + 2 * first, m);
      }
    }
  }

  // What transform_columns does with passes of radix R (8 may be 2 and 4) and 4, without a pass's preparations.
  template <int R>
  HWY_INLINE void two_passes(const Interleaved<D>& from, T* scratch) const {
    const D d;
    const Planar<D> rows{d, scratch};
    const T *w = plan_.first.numbers.data(), *fine = plan_.fine.data();
    const auto times = [&](const Complex<D>& z, const T* w) HWY_ATTR __attribute__((always_inline)) {
      return mul(z, Complex<D>{hn::Set(d, w[0]), hn::Set(d, w[1])});
    };
    constexpr int kFirst = R == kEight || R < 8 ? R : 4;
    const T* const halves = w;
    if (kFirst < R) w += plan_.first.passes[1].twiddles;
    for (int64_t p = 0; p < 4; ++p, w += 2 * (kFirst - 1)) {
      Complex<D> a[kFirst], b[kFirst];
      repeat<kFirst>(
          kFirst, TESSERA_FFT_BODY(k) {
            a[k] = from.load(p + 4 * k);
            if (kFirst == R) return;
            const auto other = from.load(p + 4 * k + 16);
            b[k] = times(sub(a[k], other), halves + 2 * (p + 4 * k));
            a[k] = add(a[k], other);
          });
      const auto put = [&](Complex<D> * z, int64_t row) HWY_ATTR __attribute__((always_inline)) {
        butterfly<kFirst>(d, nullptr, z);
        rows.store(row, z[0]);
        repeat<kFirst - 1>(
            kFirst - 1, TESSERA_FFT_BODY(j) { rows.store(row + 4 * j + 4, times(z[j + 1], w + 2 * j)); });
      };
      put(a, p);
      if (kFirst < R) put(b, p + 16);
    }
    for (int64_t b = 0; b < 4 * R; b += 4) {
      Complex<D> a[4];
      repeat<4>(
          4, TESSERA_FFT_BODY(k) { a[k] = rows.load(b + k); });
      butterfly<4>(d, nullptr, a);
      repeat<4>(
          4, TESSERA_FFT_BODY(j) { rows.store(b + j, mul(a[j], factors(fine, b + j))); });
    }
  }

  static HWY_INLINE Complex<D> factors(const T* table, int64_t row) {
    return {hn::LoadU(D(), table + row * kRow), hn::LoadU(D(), table + row * kRow + kLanes)};
  }

#if HWY_TARGET == HWY_AVX2
  // Transforms of kLanes rows across their lanes: they are turned as they are read.
  class Finish {
   public:
    static constexpr int64_t kRows = kLanes;
    Finish(const ShortPlan<T>&, Form<T> form) : form_(form), as_is_(form.scale == 1 && !form.conjugate) {}
    HWY_INLINE void rows(const T* from, const int32_t* where, T* out, int64_t m) const {
      const D d;
      Complex<D> a[kLanes];
      repeat<kLanes / kNumbers>(
          kLanes / kNumbers, TESSERA_FFT_BODY(b) {
            V re[kNumbers], im[kNumbers];
            const auto turn = [&](int64_t part, V * v) HWY_ATTR __attribute__((always_inline)) {
              load_turned(
                  d,
                  [&](int t, int q) HWY_ATTR __attribute__((always_inline)) {
                    return from + where[lane_order<T>(t + q * kNumbers)] * kRow + part + b * kNumbers;
                  },
                  v);
            };
            turn(0, re);
            turn(kLanes, im);
            repeat<kNumbers>(
                kNumbers, TESSERA_FFT_BODY(i) {
                  a[lane_order<T>(b * kNumbers + i)] = {re[i], im[i]};
                });
          });
      butterfly<kLanes>(d, nullptr, a);
      const auto to = interleaved(d, out, 2 * m, form_);
      if (as_is_)
        repeat<kLanes>(
            kLanes, TESSERA_FFT_BODY(k) { to.store_as_is(k, a[k]); });
      else
        repeat<kLanes>(
            kLanes, TESSERA_FFT_BODY(k) { to.store(k, a[k]); });
    }

   private:
    Form<T> form_;
    bool as_is_;
  };
#else

  // Rows k1 ... of a line's columns become its results: k2 of row k1 is number k1 + m k2.
  class Finish {
   public:
    static constexpr int64_t kRows = Across<T>::kRows;
    // two: lines of floats by twos.
    Finish(const ShortPlan<T>& plan, Form<T> form, bool two = false)
        : across_(plan.across.data()), scaled_(form.scale != 1), scale_(hn::Set(D(), form.scale)) {
      for (int half = 0; half < 2; ++half)
        lanes_[half] = hn::Xor(hn::Load(I(), (kNumbers == 4 && !two ? kFour : kEight).lanes[half]),
                               hn::Set(I(), static_cast<hn::TFromD<I>>(form.conjugate ? kLanes : 0)));
    }

    HWY_INLINE void rows(const T* from, const int32_t* where, T* out, int64_t m) const {
      Complex<D> some[kRows];
      repeat<kRows>(
          kRows, TESSERA_FFT_BODY(i) {
            some[i] = Planar<D>{D(), const_cast<T*>(from)}.load(where[i]);
          });
      run(some, out, m);
    }
    HWY_INLINE void run(Complex<D>* rows, T* out, int64_t m) const {
      if constexpr (kRows == 8)
        eight(rows, out, out + kLanes, m);
      else
        four(rows, out, m);
    }
    // Of each result of all rows the first half of a vector goes to `out`, the other one to `other`.
    HWY_INLINE void eight(Complex<D>* rows, T* out, T* other, int64_t m) const {
      Across<T>::eight(rows);
      scale<8>(rows);
      repeat<8>(
          8, TESSERA_FFT_BODY(k) {
            hn::StoreU(results(rows[k], 0), D(), out + 2 * m * k);
            hn::StoreU(results(rows[k], 1), D(), other + 2 * m * k);
          });
    }
    HWY_INLINE void four(Complex<D>* rows, T* out, int64_t m) const {
      Across<T>::four(across_, rows);
      scale<4>(rows);
      const hn::Half<D> h;
      repeat<4>(
          4, TESSERA_FFT_BODY(k) {
            repeat<2>(
                2, TESSERA_FFT_BODY(half) {
                  const V v = results(rows[k], half);
                  T* const to = out + 2 * m * (4 * k + 2 * half);
                  hn::StoreU(hn::LowerHalf(h, v), h, to);
                  hn::StoreU(hn::UpperHalf(h, v), h, to + 2 * m);
                });
          });
    }

   private:
    using I = hn::RebindToSigned<D>;

    template <int N>
    HWY_INLINE void scale(Complex<D>* a) const {
      if (scaled_)
        repeat<N>(
            N, TESSERA_FFT_BODY(i) {
              a[i] = {hn::Mul(a[i].re, scale_), hn::Mul(a[i].im, scale_)};
            });
    }
    HWY_INLINE V results(const Complex<D>& z, int half) const { return choose(D(), z.re, z.im, lanes_[half]); }
    struct Turn {
      alignas(64) hn::TFromD<I> lanes[2][kLanes];
    };
    // Where the parts of results are: of four rows, or of eight.
    static constexpr Turn make_turn(bool four) {
      Turn t{};
      for (int half = 0; half < 2; ++half)
        for (int lane = 0; lane < kLanes; ++lane) {
          const int row = lane / 2, of_eight = kNumbers == 2 ? row + 4 * half : row + row / 4 * 4 + 4 * half;
          const int of_four = row % 4 * kNumbers + half * kNumbers / 2 + row / 4;
          t.lanes[half][lane] = lane % 2 * kLanes + (four ? of_four : of_eight);
        }
      return t;
    }
    static constexpr Turn kFour = make_turn(true), kEight = make_turn(false);

    const T* HWY_RESTRICT across_;
    bool scaled_;
    V scale_;
    Choice<D> lanes_[2];
  };
#endif

  const ShortPlan<T>& plan_;
  Form<T> form_;
};

}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu::internal
HWY_AFTER_NAMESPACE();
#endif
#endif
