// Pieces that attention's kernels are made of, for one SIMD target and one type of the arithmetic
// (TESSERA_ATTENTION_T).
//
// Queries lie across the lanes of vectors: a panel is kVecs vectors of queries, and what belongs to it (query^T,
// scores^T, result^T) is stored as rows of that width, one row for each feature or key. So maxima, exponentials and
// sums of softmax work lane by lane, and key and value are read as they lie, an element at a time.
#if defined(TENSOR_CPU_ATTENTION_TILE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TENSOR_CPU_ATTENTION_TILE_INL_H_
#undef TENSOR_CPU_ATTENTION_TILE_INL_H_
#else
#define TENSOR_CPU_ATTENTION_TILE_INL_H_
#endif

#include "hwy/highway.h"
#include "tensor/cpu/support/integer.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::internal {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using T = TESSERA_ATTENTION_T;
using D = hn::ScalableTag<T>;
using V = hn::Vec<D>;
constexpr D d;
constexpr int64_t kLanes = HWY_MAX_BYTES / sizeof(T);
constexpr int64_t kMaxPanel = 2 * kLanes;
constexpr T kInfinity = std::numeric_limits<T>::infinity();
constexpr double kLog2e = 1.44269504088896340736, kLn2 = 0.69314718055994530942;

// ---- Products ----

// Rows of a tile that stays in registers, two vectors wide. (With 32 registers there are tiles of 6 x 4 too.)
#if HWY_TARGET <= HWY_AVX3
constexpr int kTileRows = 8;
#elif HWY_TARGET <= HWY_AVX2
constexpr int kTileRows = 6;
#else
constexpr int kTileRows = 4;
#endif

enum class Into {
  kSet,
  kAdd,
  kScaled
};  // c = sum, c += sum, c = c * scale + sum; scale: a vector for each of the panel

// c[r][.] (+)= sum_p a[r * a_row + p * a_col] b[p][.], rows of b and c kVecs vectors wide, b_row and c_row apart.
struct TileArgs {
  int64_t k;
  const T* a;
  int64_t a_row, a_col;
  const T* b;
  int64_t b_row;
  T* c;
  int64_t c_row;
  const T* scale;
};
template <int kRows, int kVecs, Into kInto>
HWY_NOINLINE void Tile(const TileArgs& g) {
  V acc[kRows][kVecs];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r)
#pragma GCC unroll 4
    for (int v = 0; v < kVecs; ++v) acc[r][v] = hn::Zero(d);
  const T* HWY_RESTRICT a = g.a;
  const T* HWY_RESTRICT b = g.b;
  const int64_t a_row = g.a_row, a_col = g.a_col, b_row = g.b_row;
  for (int64_t p = g.k; p > 0; --p) {
    V x[kVecs];
#pragma GCC unroll 4
    for (int v = 0; v < kVecs; ++v) x[v] = hn::LoadU(d, b + v * kLanes);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      const V y = hn::Set(d, a[r * a_row]);
#pragma GCC unroll 4
      for (int v = 0; v < kVecs; ++v) acc[r][v] = hn::MulAdd(y, x[v], acc[r][v]);
    }
    a += a_col;
    b += b_row;
  }
  T* c = g.c;
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kVecs; ++v) {
      T* const to = c + v * kLanes;
      if (kInto == Into::kAdd) acc[r][v] = hn::Add(acc[r][v], hn::LoadU(d, to));
      if (kInto == Into::kScaled)
        acc[r][v] = hn::MulAdd(hn::LoadU(d, to), hn::LoadU(d, g.scale + v * kLanes), acc[r][v]);
      hn::StoreU(acc[r][v], d, to);
    }
    c += g.c_row;
  }
}

// All of `rows` rows, kVecs vectors.
template <int kVecs, Into kInto>
HWY_INLINE void ProductColumns(int64_t rows, TileArgs g) {
  constexpr int kMost = kVecs == 4 ? 6 : kTileRows;
  const auto step = [&](int64_t n) HWY_ATTR {
    g.a += n * g.a_row;
    g.c += n * g.c_row;
    rows -= n;
  };
  while (rows >= kMost) {
    Tile<kMost, kVecs, kInto>(g);
    step(kMost);
  }
  if (kMost > 4 && rows >= 4) {
    Tile<4, kVecs, kInto>(g);
    step(4);
  }
  if (rows >= 2) {
    Tile<2, kVecs, kInto>(g);
    step(2);
  }
  if (rows >= 1) Tile<1, kVecs, kInto>(g);
}
// All of `rows` rows and `width` columns, a multiple of kLanes.
template <Into kInto>
HWY_NOINLINE void Product(int64_t rows, int64_t width, TileArgs g) {
#if HWY_TARGET <= HWY_AVX3
  for (; width >= 4 * kLanes; width -= 4 * kLanes) {
    ProductColumns<4, kInto>(rows, g);
    g.b += 4 * kLanes;
    g.c += 4 * kLanes;
    if (kInto == Into::kScaled) g.scale += 4 * kLanes;
  }
#endif
  for (; width >= 2 * kLanes; width -= 2 * kLanes) {
    ProductColumns<2, kInto>(rows, g);
    g.b += 2 * kLanes;
    g.c += 2 * kLanes;
    if (kInto == Into::kScaled) g.scale += 2 * kLanes;
  }
  if (width > 0) ProductColumns<1, kInto>(rows, g);
}

// ---- Transposition ----

// The rows across a vector in groups: 16 bytes from each of kLanes / kQuad rows, `next` elements apart.
constexpr int64_t kQuad = 16 / sizeof(T);
template <class DV>
HWY_INLINE hn::Vec<DV> LoadBlocks(DV dv, const T* const* rows, int64_t at) {
  constexpr int64_t n = hn::MaxLanes(DV());
  if constexpr (n == kQuad) {
    return hn::LoadU(dv, rows[0] + at);
  } else {
    const hn::Half<DV> half;
    return hn::Combine(dv, LoadBlocks(half, rows + n / kQuad / 2, at), LoadBlocks(half, rows, at));
  }
}
template <class DV>
HWY_INLINE void StoreBlocks(DV dv, hn::Vec<DV> x, T* const* rows, int64_t at, int64_t count) {
  constexpr int64_t n = hn::MaxLanes(DV());
  if constexpr (n == kQuad) {
    if (count > 0) hn::StoreU(x, dv, rows[0] + at);
  } else {
    const hn::Half<DV> half;
    StoreBlocks(half, hn::LowerHalf(half, x), rows, at, count);
    StoreBlocks(half, hn::UpperHalf(half, x), rows + n / kQuad / 2, at, count - n / kQuad / 2);
  }
}

// Square blocks of kQuad vectors, transposed within 16 bytes.
HWY_INLINE void TransposeBlocks(V* x) {
  if constexpr (kQuad == 2) {
    const V lo = hn::InterleaveLower(d, x[0], x[1]), hi = hn::InterleaveUpper(d, x[0], x[1]);
    x[0] = lo;
    x[1] = hi;
  } else {
    const hn::Repartition<double, D> dd;
    const auto lo01 = hn::BitCast(dd, hn::InterleaveLower(d, x[0], x[1])),
               lo23 = hn::BitCast(dd, hn::InterleaveLower(d, x[2], x[3]));
    const auto hi01 = hn::BitCast(dd, hn::InterleaveUpper(d, x[0], x[1])),
               hi23 = hn::BitCast(dd, hn::InterleaveUpper(d, x[2], x[3]));
    x[0] = hn::BitCast(d, hn::InterleaveLower(dd, lo01, lo23));
    x[1] = hn::BitCast(d, hn::InterleaveUpper(dd, lo01, lo23));
    x[2] = hn::BitCast(d, hn::InterleaveLower(dd, hi01, hi23));
    x[3] = hn::BitCast(d, hn::InterleaveUpper(dd, hi01, hi23));
  }
}

// to[p * width + r] = factor * from(r)[p] for r < width, p < n; rows from `rows` on repeat the last one.
template <int kVecs>
HWY_NOINLINE void IntoPanel(const T* from, int64_t stride, int64_t rows, int64_t n, T factor, T* to) {
  constexpr int64_t kWidth = kVecs * kLanes;
  const V f = hn::Set(d, factor);
  for (int64_t r0 = 0; r0 < kWidth; r0 += kLanes) {
    const T*
        row[kLanes];  // row i + kQuad j at [i * kLanes / kQuad + j], so that LoadBlocks finds its rows side by side
    for (int64_t i = 0; i < kLanes; ++i)
      row[i % kQuad * (kLanes / kQuad) + i / kQuad] = from + min64(r0 + i, rows - 1) * stride;
    int64_t p = 0;
    for (; p + kQuad <= n; p += kQuad) {
      V x[kQuad];
      for (int64_t i = 0; i < kQuad; ++i) x[i] = LoadBlocks(d, row + i * (kLanes / kQuad), p);
      TransposeBlocks(x);
      for (int64_t i = 0; i < kQuad; ++i) hn::StoreU(hn::Mul(x[i], f), d, to + (p + i) * kWidth + r0);
    }
    for (; p < n; ++p)
      for (int64_t i = 0; i < kLanes; ++i)
        to[p * kWidth + r0 + i] = factor * from[min64(r0 + i, rows - 1) * stride + p];
  }
}

// to(r)[p] = from[p * width + r] * factors[r] for r < rows, p < n.
template <int kVecs>
HWY_NOINLINE void FromPanel(const T* from, int64_t rows, int64_t n, const T* factors, T* to, int64_t stride) {
  constexpr int64_t kWidth = kVecs * kLanes;
  for (int64_t r0 = 0; r0 < rows; r0 += kLanes) {
    T* row[kLanes];
    for (int64_t i = 0; i < kLanes; ++i)
      row[i % kQuad * (kLanes / kQuad) + i / kQuad] = to + min64(r0 + i, rows - 1) * stride;
    const V f = hn::LoadU(d, factors + r0);
    int64_t p = 0;
    for (; p + kQuad <= n; p += kQuad) {
      V x[kQuad];
      for (int64_t i = 0; i < kQuad; ++i) x[i] = hn::Mul(hn::LoadU(d, from + (p + i) * kWidth + r0), f);
      TransposeBlocks(x);
      // Vector i holds the rows i, i + kQuad, i + 2 kQuad ...: those that exist.
      for (int64_t i = 0; i < kQuad; ++i)
        StoreBlocks(d, x[i], row + i * (kLanes / kQuad), p, ceil_div(rows - r0 - i, kQuad));
    }
    for (; p < n; ++p)
      for (int64_t i = 0; i < min64(kLanes, rows - r0); ++i)
        to[(r0 + i) * stride + p] = from[p * kWidth + r0 + i] * factors[r0 + i];
  }
}

// ---- Elements ----

// 2^x for x <= 0 (and a little above): zero below the normal numbers; a nan stays. The polynomials have the least
// greatest error of their degree on [-1/2, 1/2] among those that give 1 at 0: 3e-9 and 2e-17.
HWY_INLINE V Exp2(V x) {
  constexpr bool kSingle = sizeof(T) == 4;
  using U = hn::RebindToUnsigned<D>;
  const V magic = hn::Set(d, static_cast<T>(kSingle ? 12582912.0 + 127 : 6755399441055744.0 + 1023));
  const auto tiny = hn::Lt(x, hn::Set(d, static_cast<T>(kSingle ? -126 : -1022)));
  const V t = hn::Add(x, magic);
  const V r = hn::Sub(x, hn::Sub(t, magic));
  V p;
  if constexpr (kSingle) {
    constexpr double c[] = {1,
                            0.6931472149680278995,
                            0.2402265278288773743,
                            0.05550310551013797173,
                            0.009617692972993062318,
                            0.001340664390235175925,
                            0.0001559467816132661932};
    p = hn::Set(d, static_cast<T>(c[6]));
#pragma GCC unroll 8
    for (int i = 5; i >= 0; --i) p = hn::MulAdd(p, r, hn::Set(d, static_cast<T>(c[i])));
  } else {
    constexpr double c[] = {1,
                            0.69314718055994569675,
                            0.24022650695910098007,
                            0.055504108664790394552,
                            0.0096181291076070023796,
                            0.0013333558153439964747,
                            0.00015403530441572130330,
                            0.000015252727385193868197,
                            1.3215442675329822143e-6,
                            1.0180647659234138888e-7,
                            7.0725704128144235096e-9,
                            4.0780719295883366650e-10};
    p = hn::Set(d, static_cast<T>(c[11]));
#pragma GCC unroll 16
    for (int i = 10; i >= 0; --i) p = hn::MulAdd(p, r, hn::Set(d, static_cast<T>(c[i])));
  }
  const V power = hn::BitCast(d, hn::ShiftLeft < kSingle ? 23 : 52 > (hn::BitCast(U(), t)));
  return hn::IfThenZeroElse(tiny, hn::Mul(p, power));
}

// n elements of `from`, of dtype t, as T (float for the 16-bit types).
inline void Widen(DType t, const void* from, int64_t n, T* to) {
  if (t == DType::kFloat16) return half_to_float(reinterpret_cast<float*>(to), static_cast<const uint16_t*>(from), n);
  if (t == DType::kBFloat16)
    return bfloat16_to_float(reinterpret_cast<float*>(to), static_cast<const uint16_t*>(from), n);
  std::memcpy(to, from, n * sizeof(T));
}
inline void Narrow(DType t, const T* from, int64_t n, void* to) {
  if (t == DType::kFloat16) return float_to_half(static_cast<uint16_t*>(to), reinterpret_cast<const float*>(from), n);
  if (t == DType::kBFloat16)
    return float_to_bfloat16(static_cast<uint16_t*>(to), reinterpret_cast<const float*>(from), n);
  std::memcpy(to, from, n * sizeof(T));
}

// The matrix of one head.
struct Rows {
  const char* data;
  int64_t stride;  // elements
};
inline Rows head_of(const AttentionOperand& x, int64_t b, int64_t h, int64_t item) {
  return {static_cast<const char*>(x.data) + (b * x.batch_stride + h * x.head_stride) * item, x.position_stride};
}

struct Block {
  const T* data;
  int64_t stride;
};
// Rows [at, at + n) as T: where they lie, or copied to `room`. Rows whose distance is a multiple of a large power of
// two would meet in few cache sets.
inline Block block_of(const Rows& x, DType t, int64_t item, int64_t at, int64_t n, int64_t width, T* room,
                      bool must_copy = false) {
  const char* from = x.data + at * x.stride * item;
  if (item == sizeof(T) && !must_copy && (x.stride == width || (x.stride * item) % 1024 != 0))
    return {reinterpret_cast<const T*>(from), x.stride};
  if (x.stride == width)
    Widen(t, from, n * width, room);
  else
    for (int64_t i = 0; i < n; ++i) Widen(t, from + i * x.stride * item, width, room + i * width);
  return {room, width};
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu::internal
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
