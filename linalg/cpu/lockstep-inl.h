// What kernels are made of that hold a small matrix in each lane of their vectors: element i of an array of lanes is a
// vector. Included once per SIMD target.
#include <cstdint>
#include <limits>

#include "hwy/highway.h"

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
    for (int64_t r = 0; r < count; ++r) {
      R* const row = rows + r * stride * Lanes();
      Subtract(hn::Mul(tau, Dot(row, v, n)), v, row, n);
    }
  }
  static void Identity(R* a, int64_t rows, int64_t cols) {
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < cols; ++j) Store(Set(i == j ? 1 : 0), a, i * cols + j);
  }

  // c x + s z = r, c z - s x = 0, in the lanes of `which`; c = 1, s = 0 in others.
  struct Turn {
    V c, s, r;
  };
  static HWY_INLINE Turn Rotation(V x, V z, M which) {
    const V square = hn::MulAdd(x, x, hn::Mul(z, z));
    const M turns = hn::And(which, hn::Gt(square, Set(kFloor * kFloor)));
    const V r = hn::Sqrt(square), inverse = hn::Div(Set(1), hn::IfThenElse(turns, r, Set(1)));
    return {hn::IfThenElse(turns, hn::Mul(x, inverse), Set(1)), hn::IfThenElseZero(turns, hn::Mul(z, inverse)),
            hn::IfThenElse(turns, r, x)};
  }
  // Rotations k = begin ... end - 1 on the rows k and k + 1.
  static void RotateRows(R* rows, int64_t width, int64_t begin, int64_t end, const R* c, const R* s) {
    int64_t j = 0;
    for (; j + 4 <= width; j += 4) RotateColumns<4>(rows + j * Lanes(), width, begin, end, c, s);
    for (; j < width; ++j) RotateColumns<1>(rows + j * Lanes(), width, begin, end, c, s);
  }

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
  template <int kColumns>
  static HWY_INLINE void RotateColumns(R* rows, int64_t width, int64_t begin, int64_t end, const R* c, const R* s) {
    V carried[kColumns];
#pragma GCC unroll 4
    for (int j = 0; j < kColumns; ++j) carried[j] = Load(rows, begin * width + j);
    for (int64_t k = begin; k < end; ++k) {
      const V cv = Load(c, k), sv = Load(s, k);
#pragma GCC unroll 4
      for (int j = 0; j < kColumns; ++j) {
        const V next = Load(rows, (k + 1) * width + j);
        Store(hn::MulAdd(cv, carried[j], hn::Mul(sv, next)), rows, k * width + j);
        carried[j] = hn::NegMulAdd(sv, carried[j], hn::Mul(cv, next));
      }
    }
#pragma GCC unroll 4
    for (int j = 0; j < kColumns; ++j) Store(carried[j], rows, end * width + j);
  }
};

}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu::internal
HWY_AFTER_NAMESPACE();

#endif
