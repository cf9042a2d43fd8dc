// Maxima and minima in Highway.
#include <limits>
#include <type_traits>

#include "tensor/cpu/reduce/reduce_kernels.h"
#include "tensor/cpu/support/simd.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "tensor/cpu/reduce/reduce_extreme.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "tensor/cpu/reduce/rows_simd-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu {
namespace HWY_NAMESPACE {
namespace {
namespace hn = hwy::HWY_NAMESPACE;

// One code for all extrema of a type: the largest of (x & keep) ^ flip, where the two masks turn magnitudes and minima
// (and, for integers without sign, the order of the numbers) into plain maxima. `least` is the element that changes
// nothing. NaN is not touched by the masks but in its sign.
template <class T>
struct Order {
  using Bits = hwy::MakeUnsigned<T>;
  Bits keep, flip;
  T least;
  template <class V>
  HWY_INLINE V Map(V x) const {
    const hn::ScalableTag<T> d;
    const hn::ScalableTag<Bits> du;
    return hn::BitCast(d, hn::Xor(hn::And(hn::BitCast(du, x), hn::Set(du, keep)), hn::Set(du, flip)));
  }
  // Of what Map gave.
  template <class V>
  HWY_INLINE V Back(V x) const {
    const hn::ScalableTag<T> d;
    const hn::ScalableTag<Bits> du;
    return hn::BitCast(d, hn::Xor(hn::BitCast(du, x), hn::Set(du, flip)));
  }
};

// A NaN once held stays.
template <class D, class V>
HWY_INLINE V Largest(D d, V a, V x) {
  if constexpr (hwy::IsFloat<hn::TFromD<D>>())
    return hn::IfThenElse(hn::Or(hn::Ge(a, x), hn::IsNaN(a)), a, x);
  else
    return hn::Max(a, x);
}

// The vector loop takes plain maxima, which lose a NaN, and watches for NaN aside.
template <class T>
HWY_INLINE T LargestOfRow(const Order<T>& order, int64_t n, const T* HWY_RESTRICT x) {
  const hn::ScalableTag<T> d;
  constexpr int64_t kWidth = kWidthOf<T>;
  const auto least = order.Map(hn::Set(d, order.least));
  auto m0 = least, m1 = least, m2 = least, m3 = least;
  auto nan0 = hn::Lt(least, least), nan1 = nan0;
  const auto watch = [&](auto& nan, auto v, auto w) HWY_ATTR {
    if constexpr (hwy::IsFloat<T>()) nan = hn::Or(nan, hn::Or(hn::IsNaN(v), hn::IsNaN(w)));
  };
  int64_t i = 0;
  for (; i + 4 * kWidth <= n; i += 4 * kWidth) {
    const auto a = order.Map(hn::LoadU(d, x + i)), b = order.Map(hn::LoadU(d, x + i + kWidth));
    const auto c = order.Map(hn::LoadU(d, x + i + 2 * kWidth)), e = order.Map(hn::LoadU(d, x + i + 3 * kWidth));
    m0 = hn::Max(m0, a);
    m1 = hn::Max(m1, b);
    m2 = hn::Max(m2, c);
    m3 = hn::Max(m3, e);
    watch(nan0, a, b);
    watch(nan1, c, e);
  }
  for (; i < n; i += kWidth) {
    const auto a = order.Map(i + kWidth <= n ? hn::LoadU(d, x + i) : LoadFirst(d, x + i, n - i, order.least));
    m0 = hn::Max(m0, a);
    watch(nan0, a, a);
  }
  if constexpr (hwy::IsFloat<T>()) {
    if (!hn::AllFalse(d, hn::Or(nan0, nan1))) return std::numeric_limits<T>::quiet_NaN();
  }
  return hn::GetLane(order.Back(hn::MaxOfLanes(d, hn::Max(hn::Max(m0, m1), hn::Max(m2, m3)))));
}
template <class T>
HWY_NOINLINE void LargestRows(const Order<T>& order, int64_t rows, int64_t n, const char* x, int64_t row_stride,
                              T* acc) {
  for (int64_t r = 0; r < rows; ++r) acc[r] = LargestOfRow(order, n, reinterpret_cast<const T*>(x + r * row_stride));
}

// Columns, some vectors of them at a time and four rows between two uses of the accumulators.
template <class T>
HWY_NOINLINE void LargestColumns(const Order<T>& order, int64_t rows, int64_t cols, const char* x, int64_t stride,
                                 T* acc) {
  const hn::ScalableTag<T> d;
  constexpr int64_t kWidth = kWidthOf<T>;
  const int64_t whole = cols / kWidth * kWidth;
  for (int64_t r = 0; r < rows; r += 4) {
    const int64_t end = HWY_MIN(r + 4, rows);
    for (int64_t c = 0; c < whole; c += kWidth) {
      auto a = order.Map(hn::LoadU(d, acc + c));
      for (int64_t i = r; i < end; ++i)
        a = Largest(d, a, order.Map(hn::LoadU(d, reinterpret_cast<const T*>(x + i * stride) + c)));
      hn::StoreU(order.Back(a), d, acc + c);
    }
  }
  if (whole == cols) return;
  auto a = order.Map(LoadFirst(d, acc + whole, cols - whole, order.least));
  for (int64_t r = 0; r < rows; ++r) {
    a = Largest(d, a,
                order.Map(LoadFirst(d, reinterpret_cast<const T*>(x + r * stride) + whole, cols - whole, order.least)));
  }
  StoreFirst(order.Back(a), d, acc + whole, cols - whole);
}

// T: how the elements are compared; kUnsigned: they have no sign.
template <class T, RowOp kOp, bool kUnsigned>
constexpr Order<T> OrderOf() {
  using Bits = hwy::MakeUnsigned<T>;
  constexpr Bits kTop = Bits{1} << (8 * sizeof(T) - 1), kAll = static_cast<Bits>(~Bits{0});
  constexpr bool kMin = kOp == RowOp::kMin || kOp == RowOp::kMinAbs;
  if constexpr (std::is_floating_point_v<T>) {
    constexpr bool kAbs = kOp == RowOp::kMaxAbs || kOp == RowOp::kMinAbs;
    constexpr T kInf = std::numeric_limits<T>::infinity();
    return {kAbs ? static_cast<Bits>(~kTop) : kAll, kMin ? kTop : Bits{0}, kMin ? kInf : kAbs ? T{0} : -kInf};
  } else {
    constexpr Bits kFlip = (kUnsigned ? kTop : Bits{0}) ^ (kMin ? kAll : Bits{0});
    return {kAll, kFlip, static_cast<T>(kTop ^ kFlip)};
  }
}

template <class T, RowOp kOp, bool kUnsigned>
struct Extreme {
  static constexpr Order<T> kOrder = OrderOf<T, kOp, kUnsigned>();
  static void Rows(int64_t rows, int64_t n, const void* x, int64_t row_stride, void* acc) {
    LargestRows(kOrder, rows, n, static_cast<const char*>(x), row_stride, static_cast<T*>(acc));
  }
  static void Cols(int64_t rows, int64_t cols, const void* x, int64_t stride, void* acc) {
    LargestColumns(kOrder, rows, cols, static_cast<const char*>(x), stride, static_cast<T*>(acc));
  }
  static void Init(int64_t n, void* acc) {
    for (int64_t i = 0; i < n; ++i) static_cast<T*>(acc)[i] = kOrder.least;
  }
  static void Merge(int64_t n, void* acc, const void* more) { Cols(1, n, more, 0, acc); }
};
template <class T, RowOp kOp, DType kType>
constexpr ReduceKernel kExtreme = {kType,
                                   sizeof(T),
                                   Extreme<T, kOp, kType == DType::kUInt64>::Rows,
                                   Extreme<T, kOp, kType == DType::kUInt64>::Cols,
                                   Extreme<T, kOp, kType == DType::kUInt64>::Init,
                                   Extreme<T, kOp, kType == DType::kUInt64>::Merge};

template <class T, DType kType>
const ReduceKernel* FindExtremeOf(RowOp op) {
  switch (op) {
    case RowOp::kMax:
      return &kExtreme<T, RowOp::kMax, kType>;
    case RowOp::kMin:
      return &kExtreme<T, RowOp::kMin, kType>;
    default:
      break;
  }
  if constexpr (std::is_floating_point_v<T>) {
    if (op == RowOp::kMaxAbs) return &kExtreme<T, RowOp::kMaxAbs, kType>;
    if (op == RowOp::kMinAbs) return &kExtreme<T, RowOp::kMinAbs, kType>;
  }
  return nullptr;
}

}  // namespace

const ReduceKernel* FindExtreme(RowOp op, DType block) {
  switch (block) {
    case DType::kFloat32:
      return FindExtremeOf<float, DType::kFloat32>(op);
    case DType::kFloat64:
      return FindExtremeOf<double, DType::kFloat64>(op);
    case DType::kInt64:
      return FindExtremeOf<int64_t, DType::kInt64>(op);
    case DType::kUInt64:
      return FindExtremeOf<int64_t, DType::kUInt64>(op);
    case DType::kInt32:
      return FindExtremeOf<int32_t, DType::kInt32>(op);
    default:
      return nullptr;
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tessera::cpu {
TESSERA_SIMD_TABLE(FindExtreme);
const ReduceKernel* find_extreme_kernel(RowOp op, DType block) { return TESSERA_SIMD(FindExtreme)(op, block); }
}  // namespace tessera::cpu
#endif
