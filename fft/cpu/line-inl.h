// Transforms of numbers that lie one after the other. Included once per SIMD target.
#include <algorithm>
#include <cstring>
#include <utility>

#include "fft/cpu/columns-inl.h"
#include "fft/cpu/tiles-inl.h"
#include "tensor/core/parallel.h"

#if defined(TESSERA_FFT_LINE_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_FFT_LINE_INL
#undef TESSERA_FFT_LINE_INL
#else
#define TESSERA_FFT_LINE_INL
#endif

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::internal {
namespace HWY_NAMESPACE {

// Which transform: with the other sign, numbers are conjugated before and after.
template <class T>
struct Form {
  bool conjugate;
  T scale;
};

template <class T>
using Lanes = hn::ScalableTag<T>;

template <class D, class T = hn::TFromD<D>>
HWY_INLINE Interleaved<D> interleaved(D d, const T* at, int64_t stride, Form<T> form) {
  return {d, at, stride, form.conjugate, form.scale};
}

// Columns of complex numbers, a row of kFftWidth of them `stride` (in parts) behind the other, in place. Of the lanes
// the first `lanes` matter.
template <class T>
void columns_in_place(const ColumnPlan<T>& plan, T* rows, int64_t stride, int64_t lanes, Form<T> form, T* scratch) {
  const Lanes<T> d;
  const auto step = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t l = 0; l < lanes; l += step) {
    const auto at = interleaved(d, rows + 2 * l, stride, form);
    transform_columns(d, plan, at, at, scratch);
  }
}

template <class T>
void copy_lanes(T* to, int64_t to_stride, const T* from, int64_t from_stride, int64_t rows, int64_t lanes) {
  for (int64_t i = 0; i < rows; ++i)
    std::memcpy(to + i * to_stride, from + i * from_stride, static_cast<size_t>(2 * lanes) * sizeof(T));
}

// to[i] = scale a[i] b[i] for n complex numbers; numbers are conjugated on the way in, or out.
template <class T>
void multiply_numbers(int64_t n, const T* a, bool conjugate_in, const T* b, T scale, T* to, bool conjugate_out) {
  const T sign_in = conjugate_in ? T{-1} : T{1}, sign_out = conjugate_out ? T{-1} : T{1};
  const auto some = [&](auto d, int64_t i) HWY_ATTR {
    hn::Vec<decltype(d)> ar, ai, br, bi;
    hn::LoadInterleaved2(d, a + 2 * i, ar, ai);
    hn::LoadInterleaved2(d, b + 2 * i, br, bi);
    ar = hn::Mul(ar, hn::Set(d, scale));
    ai = hn::Mul(ai, hn::Set(d, scale * sign_in));
    const auto re = hn::NegMulAdd(ai, bi, hn::Mul(ar, br)), im = hn::MulAdd(ai, br, hn::Mul(ar, bi));
    hn::StoreInterleaved2(re, hn::Mul(im, hn::Set(d, sign_out)), d, to + 2 * i);
  };
  const Lanes<T> d;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) some(d, i);
  for (; i < n; ++i) some(hn::CappedTag<T, 1>(), i);
}

template <class T>
class ShortLines;

// One line of n = n1 * n2 numbers, or of any number by a convolution.
template <class T>
class Line {
 public:
  Line(const LinePlan<T>& plan, Form<T> form) : plan_(plan), form_(form) {}

  // Numbers that run() needs besides, 64-byte aligned.
  HWY_NOINLINE int64_t scratch() const {
    const int64_t n1 = plan_.first.n, n2 = plan_.second.n;
    if (plan_.inner) return 2 * plan_.inner->n + inner_scratch();
    if (n2 == 1) return 2 * plan_.n * kRow;
    return serial() ? middle() + std::max(first_scratch(n1), second_scratch(n2)) : middle();
  }
  // in and out may be the same.
  HWY_NOINLINE void run(const T* in, T* out, T* scratch) const {
    if (plan_.inner)
      (this->*(plan_.powers.empty() ? &Line::convolve : &Line::convolve_powers))(in, out, scratch);
    else if (plan_.second.n == 1)
      one_column(in, out, scratch);
    else
      two_stages(in, out, scratch);
  }

 private:
  static constexpr int64_t kWidth = kFftWidth<T>;
  static constexpr int64_t kRow = 2 * kWidth;          // numbers in a row of a group
  static constexpr int64_t kPiece = int64_t{1} << 15;  // numbers worth a thread

  static int64_t groups(int64_t n) { return (n + kWidth - 1) / kWidth; }
  bool serial() const { return plan_.n <= kPiece; }
  // [group of n2][k1, up to whole groups][re, im][lane]
  int64_t middle() const { return groups(plan_.second.n) * groups(plan_.first.n) * kWidth * kRow; }
  static int64_t first_scratch(int64_t n1) { return 2 * n1 * kRow; }
  static int64_t second_scratch(int64_t n2) { return (groups(n2) * kWidth + n2) * kRow; }

  HWY_NOINLINE void one_column(const T* in, T* out, T* rows) const {
    const int64_t n = plan_.n;
    std::memset(rows, 0, static_cast<size_t>(n * kRow) * sizeof(T));
    for (int64_t i = 0; i < n; ++i) std::memcpy(rows + i * kRow, in + 2 * i, 2 * sizeof(T));
    columns_in_place(plan_.first, rows, kRow, 1, form_, rows + n * kRow);
    for (int64_t i = 0; i < n; ++i) std::memcpy(out + 2 * i, rows + i * kRow, 2 * sizeof(T));
  }

  void two_stages(const T* in, T* out, T* scratch) const {
    const int64_t n1 = plan_.first.n, n2 = plan_.second.n, groups1 = groups(n1), groups2 = groups(n2);
    T* const middle = scratch;
    const auto first = [&](int64_t begin, int64_t end, T* extra) HWY_ATTR {
      for (int64_t g = begin; g < end; ++g) first_stage(g, in, middle + g * groups1 * kWidth * kRow, groups1, extra);
    };
    const auto second = [&](int64_t begin, int64_t end, T* extra) HWY_ATTR {
      for (int64_t h = begin; h < end; ++h) second_stage(h, middle, groups1 * kWidth * kRow, out, extra);
    };
    if (serial()) {
      first(0, groups2, middle + this->middle());
      return second(0, groups1, middle + this->middle());
    }
    const int64_t grain1 = std::max<int64_t>(1, kPiece / (n1 * kWidth));
    const int64_t grain2 = std::max<int64_t>(1, kPiece / (n2 * kWidth));
    parallel_for(groups2, grain1,
                 [&](int64_t begin, int64_t end) { first(begin, end, ScratchArray<T>(first_scratch(n1)).get()); });
    parallel_for(groups1, grain2,
                 [&](int64_t begin, int64_t end) { second(begin, end, ScratchArray<T>(second_scratch(n2)).get()); });
  }

  // Columns n2 of group g, times their twiddle factors.
  void first_stage(int64_t g, const T* in, T* to, int64_t groups1, T* scratch) const {
    const Lanes<T> d;
    const int64_t n1 = plan_.first.n, n2 = plan_.second.n, lanes = std::min(kWidth, n2 - g * kWidth);
    const T* from = in + 2 * g * kWidth;
    int64_t stride = 2 * n2;
    if (lanes < kWidth) {
      T* rows = scratch + n1 * kRow;
      std::memset(rows, 0, static_cast<size_t>(n1 * kRow) * sizeof(T));
      copy_lanes(rows, kRow, from, stride, n1, lanes);
      from = rows;
      stride = kRow;
    }
    const T* fine = plan_.fine.data() + g * (plan_.two_levels ? kWidth : n1) * kRow;
    for (int64_t l = 0; l < lanes; l += static_cast<int64_t>(hn::Lanes(d))) {
      const Twiddled<Lanes<T>> target{d, to + l, fine + l, kWidth, plan_.two_levels ? kWidth - 1 : -1};
      transform_columns(d, plan_.first, interleaved(d, from + 2 * l, stride, form_), target, scratch);
    }
    // The rows that fill up the last group: anything will do, but numbers that cost time.
    if (n1 % kWidth) std::memset(to + n1 * kRow, 0, static_cast<size_t>((groups1 * kWidth - n1) * kRow) * sizeof(T));
  }

  // Rows k1 of group h, turned so that they stand side by side as columns.
  void second_stage(int64_t h, const T* middle, int64_t group, T* out, T* scratch) const {
    const Lanes<T> d;
    const int64_t n1 = plan_.first.n, n2 = plan_.second.n, lanes = std::min(kWidth, n1 - h * kWidth);
    T *columns = scratch, *rows = columns + (n2 + kWidth - 1) / kWidth * kWidth * kRow;
    const T* coarse = plan_.two_levels ? plan_.coarse.data() + 2 * h * groups(n2) * kWidth : nullptr;
    for (int64_t g = 0; g * kWidth < n2; ++g)
      turn_rows(middle + g * group + h * kWidth * kRow, coarse ? coarse + 2 * g * kWidth : nullptr,
                columns + g * kWidth * 2 * kPlanarWidth<Lanes<T>>, groups(n2) * kWidth);
    const bool whole = lanes == kWidth;
    T* to = whole ? out + 2 * h * kWidth : rows;
    const int64_t stride = whole ? 2 * n1 : kRow;
    for (int64_t l = 0; l < lanes; l += static_cast<int64_t>(hn::Lanes(d))) {
      T* const from = columns + lane_begin<T>(l, groups(n2) * kWidth);
      transform_columns(d, plan_.second, Planar<Lanes<T>>{d, from}, interleaved(d, to + 2 * l, stride, form_), from);
    }
    if (!whole) copy_lanes(out + 2 * h * kWidth, 2 * n1, rows, kRow, n2, lanes);
  }

  // Rows of complex numbers to columns, a square of kWidth, whose vectors have `rows` rows; times `coarse`, a factor
  // for each row that comes out.
  HWY_NOINLINE static void turn_rows(const T* from, const T* coarse, T* to, int64_t rows) {
    const Lanes<T> d;
    constexpr int kStep = kBlock<T>;
    for (int64_t l = 0; l < kWidth; l += static_cast<int64_t>(hn::Lanes(d)))
      for (int64_t j = 0; j < kWidth; j += kStep) {
        hn::Vec<Lanes<T>> re[kStep], im[kStep];
        const auto turn = [&](int64_t part, hn::Vec<Lanes<T>> * v) HWY_ATTR __attribute__((always_inline)) {
          load_turned(
              d,
              [&](int t, int q) HWY_ATTR
              __attribute__((always_inline)) { return from + (l + lane_order<T>(t + q * kStep)) * kRow + part + j; },
              v);
        };
        turn(0, re);
        turn(kWidth, im);
        repeat<kStep>(
            kStep, TESSERA_FFT_BODY(i) {
              Complex<Lanes<T>> z{re[i], im[i]};
              const int64_t column = lane_order<T>(static_cast<int>(j) + i);
              const T* factor = coarse + 2 * column;
              if (coarse) z = mul(z, {hn::Set(d, factor[0]), hn::Set(d, factor[1])});
              Planar<Lanes<T>>{d, to + lane_begin<T>(l, rows)}.store(column, z);
            });
      }
  }

  // The transform of length m that a convolution takes, in place; the one with the other sign on its way back.
  HWY_NOINLINE void inner(T* x, bool back, T* scratch) const {
    const Form<T> form{back, T{1}};
#if HWY_TARGET != HWY_SSE4
    if (plan_.brief) return ShortLines<T>(*plan_.brief, form).run(x, x, scratch);
#endif
    Line(*plan_.inner, form).run(x, x, scratch);
  }
  HWY_NOINLINE int64_t inner_scratch() const {
    const int64_t most = Line(*plan_.inner, {false, T{1}}).scratch();
#if HWY_TARGET != HWY_SSE4
    if (plan_.brief) return std::max(most, ShortLines<T>(*plan_.brief, {false, T{1}}).scratch());
#endif
    return most;
  }
  // Bluestein 1970: j k = (j^2 + k^2 - (k - j)^2) / 2.
  HWY_NOINLINE void convolve(const T* in, T* out, T* scratch) const {
    const int64_t n = plan_.n, m = plan_.inner->n;
    const T *chirp = plan_.chirp.data(), *filter = plan_.filter.data();
    T *const x = scratch, *const extra = scratch + 2 * m;
    multiply_numbers(n, in, form_.conjugate, chirp, T{1}, x, false);
    std::memset(x + 2 * n, 0, static_cast<size_t>(2 * (m - n)) * sizeof(T));
    inner(x, false, extra);
    multiply_numbers(m, x, false, filter, T{1}, x, false);
    inner(x, true, extra);
    multiply_numbers(n, x, false, chirp, form_.scale, out, form_.conjugate);
  }

  // Rader 1968: where j and k are powers of a root, j k is a power whose exponent is the sum of theirs.
  HWY_NOINLINE void convolve_powers(const T* in, T* out, T* scratch) const {
    const int64_t m = plan_.inner->n;
    const int32_t* const powers = plan_.powers.data();
    T *const x = scratch, *const extra = scratch + 2 * m;
    const T scale = form_.scale, first[2] = {in[0] * scale, in[1] * scale};
    const auto move = [](T* to, const T* from) { std::memcpy(to, from, 2 * sizeof(T)); };
    for (int64_t k = 0; k < m; ++k) move(x + 2 * k, in + 2 * powers[k]);
    inner(x, false, extra);
    out[0] = first[0] + x[0] * scale;
    out[1] = first[1] + x[1] * scale;
    multiply_numbers(m, x, false, plan_.filter.data(), scale, x, false);
    x[0] += first[0];  // the sum of which is a part of each result
    x[1] += first[1];
    inner(x, true, extra);
    // Result k is that of root^-k; with the other sign of the transform that of -root^-k, and -1 is root^(m / 2).
    for (int64_t k = 0, at = form_.conjugate ? m / 2 : 0; k < m; ++k) {
      move(out + 2 * powers[at], x + 2 * k);
      at = (at == 0 ? m : at) - 1;
    }
  }

  const LinePlan<T>& plan_;
  Form<T> form_;
};

// ---- Real signals of even length ----

// What the transform z of x[2 j] + i x[2 j + 1] (m = n / 2 numbers) and that of x have to do with each other: with
// e = z[k] + conj z[m - k], o = -i w^k (z[k] - conj z[m - k]), w = exp(-2 pi i / n): X[k] = (e + o) / 2 and
// X[m - k] = conj(e - o) / 2. On the way back, from X to 2 z, with i w^-k instead of -i w^k, and nothing halved.
// a, b: numbers k and m - k, replaced. w: half of it. part: what sums are multiplied by; conjugate: X stands for its
// conjugate.
template <bool kBack, class D, class V = hn::Vec<D>>
HWY_INLINE void join_pair(Complex<D>& a, Complex<D>& b, const Complex<D>& w, V part, bool conjugate) {
  const auto turn = [&]() HWY_ATTR __attribute__((always_inline)) {
    a.im = hn::Neg(a.im);
    b.im = hn::Neg(b.im);
  };
  if (kBack && conjugate) turn();
  const V whole = hn::Add(part, part);
  const V er = hn::Add(a.re, b.re), ei = hn::Sub(a.im, b.im);
  const V dr = hn::Mul(hn::Sub(a.re, b.re), whole), di = hn::Mul(hn::Add(a.im, b.im), whole);
  const V o_r = kBack ? hn::NegMulAdd(di, w.re, hn::Mul(dr, w.im)) : hn::MulAdd(di, w.re, hn::Mul(dr, w.im));
  const V o_i = kBack ? hn::MulAdd(dr, w.re, hn::Mul(di, w.im)) : hn::NegMulAdd(dr, w.re, hn::Mul(di, w.im));
  a = {hn::MulAdd(er, part, o_r), hn::MulAdd(ei, part, o_i)};
  b = {hn::MulSub(er, part, o_r), hn::NegMulAdd(ei, part, o_i)};
  if (!kBack && conjugate) turn();
}

// Lines, `step` parts apart: m numbers of `from` become m + 1 in `to`, other memory, or back.
template <bool kBack, class T>
void join_lines(const RealPlan<T>& plan, int64_t count, const T* from, int64_t from_step, T* to, int64_t to_step,
                bool conjugate, T scale) {
  const int64_t m = plan.half;
  const T* HWY_RESTRICT const w = plan.roots.data();
  const auto some = [&](const auto& pairs, const auto& mirrored, int64_t k) HWY_ATTR __attribute__((always_inline)) {
    const auto d = pairs.d;
    const int64_t j = m - k - static_cast<int64_t>(hn::Lanes(d)) + 1;
    const Complex<std::decay_t<decltype(d)>> root{pairs.numbers(w + k), pairs.numbers(w + plan.stride + k)};
    auto a = pairs.load(from + 2 * k), b = mirrored.load(from + 2 * j);
    join_pair<kBack>(a, b, root, hn::Set(d, kBack ? scale : scale / 2), conjugate);
    pairs.store(a, to + 2 * k);
    mirrored.store(b, to + 2 * j);
    // Where the next line goes: most of its vectors are parts of two lines of memory, and would wait for both.
    for (const int64_t next : {to_step + 2 * k, to_step + 2 * j})
      for (int64_t l = 0; l < 2 * static_cast<int64_t>(hn::Lanes(d)); l += 64 / static_cast<int64_t>(sizeof(T)))
        __builtin_prefetch(to + next + l, 1, 2);
  };
  const Lanes<T> d;
  using One = hn::CappedTag<T, 1>;
  const Pairs<Lanes<T>> pairs{d};
  const Pairs<Lanes<T>, true> mirrored{d};
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t i = 0; i < count; ++i, from += from_step, to += to_step) {
    const T first = from[0], other = kBack ? from[2 * m] : from[1];
    to[0] = (first + other) * scale;
    (kBack ? to[1] : to[2 * m]) = (first - other) * scale;
    if (!kBack) to[1] = to[2 * m + 1] = T{0};
    int64_t k = 1;
    for (; 2 * k <= m && k + lanes <= m; k += lanes) some(pairs, mirrored, k);  // the last may be joined twice
    for (; 2 * k <= m; ++k) some(Pairs<One>{One()}, Pairs<One, true>{One()}, k);
  }
}

// The same in place for planar rows of kFftWidth lines, those of the m numbers in the order of the plan: m rows become
// m + 1, or (all in their natural order) the other way round.
template <bool kBack, class T>
void join_rows(const RealPlan<T>& plan, const int32_t* index, int64_t height, T* rows, bool conjugate, T scale) {
  const Lanes<T> d;
  const int64_t m = plan.half;
  const auto half = hn::Set(d, kBack ? scale : scale / 2), whole = hn::Set(d, scale);
  for (int64_t l = 0; l < kFftWidth<T>; l += static_cast<int64_t>(hn::Lanes(d))) {
    const Planar<Lanes<T>> at{d, rows + lane_begin<T>(l, height)};
    const auto first = at.load(index[0]);
    const auto other = kBack ? at.load(index[m]).re : first.im;
    const auto sum = hn::Mul(hn::Add(first.re, other), whole), rest = hn::Mul(hn::Sub(first.re, other), whole);
    at.store(index[0], {sum, kBack ? rest : hn::Zero(d)});
    if (!kBack) at.store(index[m], {rest, hn::Zero(d)});
    for (int64_t k = 1; 2 * k <= m; ++k) {
      const Complex<Lanes<T>> w{hn::Set(d, plan.roots[k]), hn::Set(d, plan.roots[plan.stride + k])};
      const int64_t i = index[k], j = index[m - k];
      auto a = at.load(i), b = at.load(j);
      join_pair<kBack>(a, b, w, half, conjugate);
      at.store(i, a);
      at.store(j, b);
    }
  }
}

// The transform z of a + i b (a, b real) holds theirs: A[k] = (z[k] + conj z[n - k]) / 2, B[k] = -i (z[k] - conj z[n -
// k]) / 2. Planar rows of z (in the order of the plan) become those of A, and of B where z[n - k] was (B[0] in row n);
// or back, all in their natural order: z[k] = A[k] + i B[k], z[n - k] = conj A[k] + i conj B[k].
template <bool kBack, class T>
void split_rows(int64_t n, const int32_t* index, int64_t height, T* rows, bool conjugate, T scale) {
  const Lanes<T> d;
  const auto whole = hn::Set(d, scale), half = hn::Set(d, kBack ? scale : scale / 2);
  const auto turned = hn::Set(d, (kBack ? scale : scale / 2) * static_cast<T>(conjugate ? -1 : 1));
  for (int64_t l = 0; l < kFftWidth<T>; l += static_cast<int64_t>(hn::Lanes(d))) {
    const Planar<Lanes<T>> at{d, rows + lane_begin<T>(l, height)};
    const auto first = at.load(index[0]);
    const auto other = kBack ? at.load(index[n]).re : first.im;
    at.store(index[0], {hn::Mul(first.re, whole), kBack ? hn::Mul(other, whole) : hn::Zero(d)});
    if (!kBack) at.store(index[n], {hn::Mul(other, whole), hn::Zero(d)});
    for (int64_t k = 1; 2 * k < n; ++k) {
      const int64_t i = index[k], j = index[n - k];
      const auto a = at.load(i), b = at.load(j);
      if (kBack) {
        const auto ar = hn::Mul(a.re, half), ai = hn::Mul(a.im, turned);
        const auto br = hn::Mul(b.re, half), bi = hn::Mul(b.im, turned);
        at.store(i, {hn::Sub(ar, bi), hn::Add(ai, br)});
        at.store(j, {hn::Add(ar, bi), hn::Sub(br, ai)});
      } else {
        at.store(i, {hn::Mul(hn::Add(a.re, b.re), half), hn::Mul(hn::Sub(a.im, b.im), turned)});
        at.store(j, {hn::Mul(hn::Add(a.im, b.im), half), hn::Mul(hn::Sub(b.re, a.re), turned)});
      }
    }
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu::internal
HWY_AFTER_NAMESPACE();
#endif
