// What kernels are made of that hold a small matrix in each lane of their vectors: element i of an array of lanes is a
// vector. Included once per SIMD target.
#include <cstdint>
#include <limits>

#include "hwy/highway.h"
#include "linalg/cpu/inverse_root-inl.h"

#if defined(TESSERA_LINALG_LOCKSTEP_BASE_INL) == defined(HWY_TARGET_TOGGLE)
#ifdef TESSERA_LINALG_LOCKSTEP_BASE_INL
#undef TESSERA_LINALG_LOCKSTEP_BASE_INL
#else
#define TESSERA_LINALG_LOCKSTEP_BASE_INL
#endif

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::internal {
namespace HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

template <class R>
class Lockstep {
 public:
  using D = hn::ScalableTag<R>;
  using V = hn::Vec<D>;
  using M = hn::Mask<D>;
  static constexpr R kEps = std::numeric_limits<R>::epsilon() / 2;
  // What is nothing beside numbers near 1, and has a square that is a number.
  static constexpr R kFloor = sizeof(R) == 4 ? R(1e-17) : R(1e-150);

  static int64_t Lanes() { return static_cast<int64_t>(hn::Lanes(D())); }

 protected:
  static V Load(const R* p, int64_t i) { return hn::Load(D(), p + i * Lanes()); }
  static void Store(V v, R* p, int64_t i) { hn::Store(v, D(), p + i * Lanes()); }
  static V Set(R x) { return hn::Set(D(), x); }

  // sum x_i y_i.
  static V Dot(const R* x, const R* y, int64_t n) {
    V a = Set(0), b = a;
    int64_t i = 0;
    for (; i + 2 <= n; i += 2) {
      a = hn::MulAdd(Load(x, i), Load(y, i), a);
      b = hn::MulAdd(Load(x, i + 1), Load(y, i + 1), b);
    }
    if (i < n) a = hn::MulAdd(Load(x, i), Load(y, i), a);
    return hn::Add(a, b);
  }
  // y_i -= c x_i.
  static void Subtract(V c, const R* x, R* y, int64_t n) {
    for (int64_t i = 0; i < n; ++i) Store(hn::NegMulAdd(c, Load(x, i), Load(y, i)), y, i);
  }

  // I - tau v v^T that turns x into (beta, 0 ... 0); x becomes v.
  static V Reflect(R* x, int64_t n, V* beta) {
    const V zero = Set(0), one = Set(1), alpha = Load(x, 0), norm2 = Dot(x + Lanes(), x + Lanes(), n - 1);
    const M none = hn::Le(norm2, Set(kFloor * kFloor));
    const V size = hn::Sqrt(hn::MulAdd(alpha, alpha, norm2)),
            to = hn::IfThenElse(hn::Ge(alpha, zero), hn::Neg(size), size);
    *beta = hn::IfThenElse(none, alpha, to);
    const V inverse = hn::IfThenElseZero(hn::Not(none), hn::Div(one, hn::Sub(alpha, hn::IfThenElse(none, one, to))));
    for (int64_t i = 1; i < n; ++i) Store(hn::Mul(inverse, Load(x, i)), x, i);
    Store(one, x, 0);
    return hn::IfThenElseZero(hn::Not(none), hn::Div(hn::Sub(to, alpha), hn::IfThenElse(none, one, to)));
  }
  // Rows of `rows` (count of them, n elements each, `stride` apart) times I - tau v v^T.
  static void ReflectRows(const R* v, int64_t n, V tau, R* rows, int64_t stride, int64_t count) {
    int64_t r = 0;
    for (; r + 4 <= count; r += 4) ReflectFour(v, n, tau, rows + r * stride * Lanes(), stride);
    for (; r < count; ++r) {
      R* const row = rows + r * stride * Lanes();
      Subtract(hn::Mul(tau, Dot(row, v, n)), v, row, n);
    }
  }
  // `stride` apart, as many elements in a row.
  static void Identity(R* a, int64_t rows, int64_t stride) {
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < stride; ++j) Store(Set(i == j ? 1 : 0), a, i * stride + j);
  }

  // c x + s z = r, c z - s x = 0, in the lanes of `which`; c = 1, s = 0 in others.
  struct Turn {
    V c, s, r;
  };
  static HWY_INLINE Turn Rotation(V x, V z, M which) {
    const V square = hn::MulAdd(x, x, hn::Mul(z, z));
    return TurnBy(x, z, square, numbers::HWY_NAMESPACE::InverseRoot(D(), square), Turns(square, which));
  }
  // That of a row (f, g), and what turns (f a + g off, g b) of its lanes then: the second waits for no more than a
  // guess of the first, which changes both of its numbers alike. (a, 0) where there is no first.
  struct Turns2 {
    Turn right, left;
  };
  static HWY_INLINE Turns2 RotationsOf(V f, V g, V a, V off, V b, M which) {
    using namespace numbers::HWY_NAMESPACE;
    const D d;
    const V square = hn::MulAdd(f, f, hn::Mul(g, g)), guess = GuessInverseRoot(d, square),
            correction = InverseRootCorrection(d, square, guess);
    const M turns = Turns(square, which);
    const V x = hn::IfThenElse(turns, hn::Mul(guess, hn::MulAdd(f, a, hn::Mul(g, off))), a),
            z = hn::IfThenElseZero(turns, hn::Mul(guess, hn::Mul(g, b)));
    Turns2 two = {TurnBy(f, g, square, hn::MulAdd(guess, correction, guess), turns), Rotation(x, z, which)};
    two.left.r = hn::IfThenElse(turns, hn::MulAdd(two.left.r, correction, two.left.r), two.left.r);
    return two;
  }

  // Sweeps of rotations of rows k and k + 1, k = begin ... end - 1, which wait until there are some: each strip of
  // columns goes through all of them while it is in the first cache.
  class Sweeps {
   public:
    static constexpr int64_t kMost = 4;

    // Of a matrix with `width` columns, whose rows are `stride` elements apart. room: 2 kMost arrays of `most`.
    Sweeps(R* rows, int64_t width, int64_t stride, R* room, int64_t most)
        : rows_(rows), width_(width), stride_(stride), room_(room), most_(most) {}
    // Of the sweep that is added next.
    R* cosines() const { return room_ + 2 * count_ * most_ * Lanes(); }
    R* sines() const { return cosines() + most_ * Lanes(); }
    void add(int64_t begin, int64_t end) {
      begin_[count_] = begin;
      end_[count_] = end;
      if (++count_ == kMost) apply();
    }
    void apply() {
      const int64_t sweeps = count_;
      int64_t j = 0;
      for (; j + 8 <= width_; j += 8) strip<8>(j, sweeps);
      for (; j + 2 <= width_; j += 2) strip<2>(j, sweeps);
      if (j < width_) strip<1>(j, sweeps);
      count_ = 0;
    }

   private:
    template <int kColumns>
    void strip(int64_t j, int64_t sweeps) {
      for (count_ = 0; count_ < sweeps; ++count_)
        rotate<kColumns>(rows_ + j * Lanes(), begin_[count_], end_[count_], cosines(), sines());
    }
    template <int kColumns>
    HWY_INLINE void rotate(R* rows, int64_t begin, int64_t end, const R* c, const R* s) const {
      V carried[kColumns];
#pragma GCC unroll 8
      for (int j = 0; j < kColumns; ++j) carried[j] = Load(rows, begin * stride_ + j);
      for (int64_t k = begin; k < end; ++k) {
        const V cv = Load(c, k), sv = Load(s, k);
#pragma GCC unroll 8
        for (int j = 0; j < kColumns; ++j) {
          const V next = Load(rows, (k + 1) * stride_ + j);
          Store(hn::MulAdd(cv, carried[j], hn::Mul(sv, next)), rows, k * stride_ + j);
          carried[j] = hn::NegMulAdd(sv, carried[j], hn::Mul(cv, next));
        }
      }
#pragma GCC unroll 8
      for (int j = 0; j < kColumns; ++j) Store(carried[j], rows, end * stride_ + j);
    }

    R* rows_;
    int64_t width_, stride_;
    R* room_;
    int64_t most_, count_ = 0, begin_[kMost], end_[kMost];
  };

  static int64_t Least(V v) { return static_cast<int64_t>(hn::GetLane(hn::MinOfLanes(D(), v))); }
  static int64_t Most(V v) { return static_cast<int64_t>(hn::GetLane(hn::MaxOfLanes(D(), v))); }
  static uint32_t Bits(M m) {
    HWY_ALIGN R one[64 / sizeof(R)];
    hn::Store(hn::IfThenElseZero(m, Set(1)), D(), one);
    uint32_t bits = 0;
    for (int64_t i = 0; i < Lanes(); ++i) bits |= static_cast<uint32_t>(one[i] != 0) << i;
    return bits;
  }

 private:
  static HWY_INLINE M Turns(V square, M which) { return hn::And(which, hn::Gt(square, Set(kFloor * kFloor))); }
  static HWY_INLINE Turn TurnBy(V x, V z, V square, V inverse, M turns) {
    return {hn::IfThenElse(turns, hn::Mul(x, inverse), Set(1)), hn::IfThenElseZero(turns, hn::Mul(z, inverse)),
            hn::IfThenElse(turns, hn::Mul(square, inverse), x)};
  }
  static void ReflectFour(const R* v, int64_t n, V tau, R* rows, int64_t stride) {
    V sum[4];
#pragma GCC unroll 4
    for (int r = 0; r < 4; ++r) sum[r] = Set(0);
    for (int64_t i = 0; i < n; ++i) {
      const V x = Load(v, i);
#pragma GCC unroll 4
      for (int r = 0; r < 4; ++r) sum[r] = hn::MulAdd(x, Load(rows, r * stride + i), sum[r]);
    }
#pragma GCC unroll 4
    for (int r = 0; r < 4; ++r) sum[r] = hn::Mul(tau, sum[r]);
    for (int64_t i = 0; i < n; ++i) {
      const V x = Load(v, i);
#pragma GCC unroll 4
      for (int r = 0; r < 4; ++r) Store(hn::NegMulAdd(sum[r], x, Load(rows, r * stride + i)), rows, r * stride + i);
    }
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu::internal
HWY_AFTER_NAMESPACE();

#endif
