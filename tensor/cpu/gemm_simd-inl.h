// The product of real matrices, for one SIMD target (included by gemm_f32.cc and gemm_f64.cc inside foreach_target; TESSERA_GEMM_T names the element
// type).
//
// The plan is that of Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication" (ACM TOMS 34, 2008): B is packed in panels of two
// vectors' width, A in panels of up to kMaxRows rows, and a micro kernel keeps one small tile of C in registers over a block of k. Every cut depends
// on the sizes only, and each tile of C is computed by one piece of work, so the bits of the result do not depend on the number of threads.
#if defined(TENSOR_CPU_GEMM_SIMD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TENSOR_CPU_GEMM_SIMD_INL_H_
#undef TENSOR_CPU_GEMM_SIMD_INL_H_
#else
#define TENSOR_CPU_GEMM_SIMD_INL_H_
#endif

#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::internal {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;
using T = TESSERA_GEMM_T;
using D = hn::ScalableTag<T>;
using V = hn::Vec<D>;
constexpr D d;
constexpr int64_t kLanes = HWY_MAX_BYTES / sizeof(T);
constexpr int64_t kPanel = 2 * kLanes;  // columns of a micro tile
// Rows of a micro tile: 32 registers hold 14 x 2 accumulators, two vectors of B and an element of A; 16 registers hold 6 x 2.
#if HWY_TARGET <= HWY_AVX3
constexpr int64_t kMaxRows = 14;
#else
constexpr int64_t kMaxRows = 6;
#endif
constexpr int64_t kBlockK = 256;     // a panel of B (32 KB at most) stays in L1
constexpr int64_t kBlockRows = 168;  // a block of A in L2
constexpr int64_t kTileCols = 8 * kPanel;
constexpr int64_t kSuperRows = 2016;  // packed at once: A in L3 ...
constexpr int64_t kSuperCols = 4096;  // ... and B

inline int64_t ceil_div(int64_t a, int64_t b) { return (a + b - 1) / b; }
inline int64_t min64(int64_t a, int64_t b) { return a < b ? a : b; }
inline int64_t max64(int64_t a, int64_t b) { return a > b ? a : b; }

// One tile of up to kRows rows and kPanel columns: c = beta c + alpha a b. A is read as a[r * a_row + p * a_col] (packed: a[p * kRows + r]).
struct MicroArgs {
  int64_t k;
  const T* a;
  int64_t a_row, a_col;
  const T* b;
  int64_t b_row;
  T alpha, beta;
  T* c;
  int64_t c_row;
  int64_t rows;  // rows of c that exist
};

template <int kRows, bool kPacked>
HWY_NOINLINE void Micro(const MicroArgs& g) {
  V acc0[kRows], acc1[kRows];
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) acc0[r] = acc1[r] = hn::Zero(d);
  const T* HWY_RESTRICT a = g.a;
  const T* HWY_RESTRICT b = g.b;
  const int64_t a_row = kPacked ? 1 : g.a_row, a_col = kPacked ? kRows : g.a_col, b_row = kPacked ? kPanel : g.b_row;
  for (int64_t p = g.k; p > 0; --p) {
    const V b0 = hn::LoadU(d, b), b1 = hn::LoadU(d, b + kLanes);
#pragma GCC unroll 16
    for (int r = 0; r < kRows; ++r) {
      const V x = hn::Set(d, a[r * a_row]);
      acc0[r] = hn::MulAdd(x, b0, acc0[r]);
      acc1[r] = hn::MulAdd(x, b1, acc1[r]);
    }
    a += a_col;
    b += b_row;
  }
  const V alpha = hn::Set(d, g.alpha), beta = hn::Set(d, g.beta);
  T* c = g.c;
#pragma GCC unroll 16
  for (int r = 0; r < kRows; ++r) {
    if (r >= g.rows) return;
    V v0 = hn::Mul(alpha, acc0[r]), v1 = hn::Mul(alpha, acc1[r]);
    if (g.beta != T{0}) {
      v0 = hn::MulAdd(beta, hn::LoadU(d, c), v0);
      v1 = hn::MulAdd(beta, hn::LoadU(d, c + kLanes), v1);
    }
    hn::StoreU(v0, d, c);
    hn::StoreU(v1, d, c + kLanes);
    c += g.c_row;
  }
}

using MicroFn = void (*)(const MicroArgs&);

// Panel heights with a kernel of their own.
constexpr int8_t kHeights[] = {1, 2, 4, 6, 8, 10, 12, 14};
template <bool kPacked>
MicroFn micro_for(int64_t height) {
  switch (height) {
    case 1:
      return Micro<1, kPacked>;
    case 2:
      return Micro<2, kPacked>;
    case 4:
      return Micro<4, kPacked>;
#if HWY_TARGET <= HWY_AVX3
    case 8:
      return Micro<8, kPacked>;
    case 10:
      return Micro<10, kPacked>;
    case 12:
      return Micro<12, kPacked>;
    case 14:
      return Micro<14, kPacked>;
#endif
    default:
      return Micro<6, kPacked>;
  }
}
// The height whose panels have the fewest rows too many, the taller of equals: from 8 rows (4 with few registers) a tile keeps the multipliers busy.
int64_t panel_height(int64_t m, int64_t max_rows) {
  constexpr int64_t kLeast = kMaxRows > 8 ? 8 : 4;
  int64_t best = max_rows;
  for (int64_t h : kHeights) {
    if (h > max_rows) break;
    if (h >= m) return h;
    if (h >= kLeast && ceil_div(m, h) * h <= ceil_div(m, best) * best - (h < best)) best = h;
  }
  for (int64_t h : kHeights)
    if (h > best && h <= max_rows && ceil_div(m, h) * h <= ceil_div(m, best) * best * 103 / 100) best = h;
  return best;
}

// A micro tile at any place of C: whole tiles of row-major C directly, others through a temporary.
HWY_INLINE void RunTile(MicroFn micro, MicroArgs& g, int64_t cols, int64_t c_col) {
  if (cols == kPanel && c_col == 1) return micro(g);
  HWY_ALIGN T tmp[kMaxRows * kPanel];
  T* const c = g.c;
  const int64_t c_row = g.c_row;
  const T beta = g.beta;
  g.c = tmp;
  g.c_row = kPanel;
  g.beta = T{0};
  micro(g);
  g.beta = beta;
  g.c = c;
  g.c_row = c_row;
  for (int64_t r = 0; r < g.rows; ++r)
    for (int64_t j = 0; j < cols; ++j) {
      T* const to = c + r * c_row + j * c_col;
      *to = beta == T{0} ? tmp[r * kPanel + j] : beta * *to + tmp[r * kPanel + j];
    }
}

// ---- Packing ----

#if HWY_TARGET <= HWY_AVX2
inline float load_half(uint16_t bits) { return _cvtsh_ss(bits); }
#else
inline float load_half(uint16_t bits) { return half_bits_to_float(bits); }
#endif

inline T element(const GemmSource& s, int64_t i, int64_t j) {
  switch (s.kind) {
    case SourceKind::kPlain:
      return static_cast<const T*>(s.data)[i * s.row_stride + j * s.col_stride];
    case SourceKind::kHalf:
      return load_half(static_cast<const uint16_t*>(s.data)[i * s.row_stride + j * s.col_stride]);
    case SourceKind::kBFloat16:
      return bfloat16_bits_to_float(static_cast<const uint16_t*>(s.data)[i * s.row_stride + j * s.col_stride]);
    case SourceKind::kComplexPairs:
      return static_cast<const T*>(s.data)[2 * (i * s.row_stride + (j >> 1) * s.col_stride) + (j & 1)];
    case SourceKind::kVirtual:
      break;
    case SourceKind::kComplexExpand: {
      const T* z = static_cast<const T*>(s.data) + 2 * ((i >> 1) * s.row_stride + (j >> 1) * s.col_stride);
      if ((i ^ j) & 1) return (i & 1 ? -static_cast<T>(s.odd_sign) : T{1}) * static_cast<T>(s.imag_sign) * z[1];
      return (i & 1 ? static_cast<T>(s.odd_sign) : T{1}) * z[0];
    }
  }
  return T{0};
}

// dst[p * width + r] = source(r, p) for r < rows, zero for rows <= r < width; transposed: source(p, r).
// Element by element, for sources that need a conversion and for odd strides.
template <bool kTransposed, class Load>
HWY_INLINE void pack_elements(Load load, int64_t rows, int64_t k, int64_t width, T* HWY_RESTRICT dst) {
  for (int64_t p = 0; p < k; ++p, dst += width) {
    for (int64_t r = 0; r < rows; ++r) dst[r] = kTransposed ? load(p, r) : load(r, p);
    for (int64_t r = rows; r < width; ++r) dst[r] = T{0};
  }
}

// A square block, of 16 bytes a row, from rows `stride` apart to rows `width` apart.
using DB = hn::CappedTag<T, 16 / sizeof(T)>;
constexpr DB db;
constexpr int64_t kBlock = 16 / sizeof(T);
HWY_INLINE void transpose_block(const T* src, int64_t stride, T* dst, int64_t width) {
  const auto r0 = hn::LoadU(db, src), r1 = hn::LoadU(db, src + stride);
  if constexpr (sizeof(T) == 4) {
    const hn::Repartition<double, DB> dd;
    const auto r2 = hn::LoadU(db, src + 2 * stride), r3 = hn::LoadU(db, src + 3 * stride);
    const auto lo01 = hn::BitCast(dd, hn::InterleaveLower(db, r0, r1)), lo23 = hn::BitCast(dd, hn::InterleaveLower(db, r2, r3));
    const auto hi01 = hn::BitCast(dd, hn::InterleaveUpper(db, r0, r1)), hi23 = hn::BitCast(dd, hn::InterleaveUpper(db, r2, r3));
    hn::StoreU(hn::BitCast(db, hn::InterleaveLower(dd, lo01, lo23)), db, dst);
    hn::StoreU(hn::BitCast(db, hn::InterleaveUpper(dd, lo01, lo23)), db, dst + width);
    hn::StoreU(hn::BitCast(db, hn::InterleaveLower(dd, hi01, hi23)), db, dst + 2 * width);
    hn::StoreU(hn::BitCast(db, hn::InterleaveUpper(dd, hi01, hi23)), db, dst + 3 * width);
  } else {
    hn::StoreU(hn::InterleaveLower(db, r0, r1), db, dst);
    hn::StoreU(hn::InterleaveUpper(db, r0, r1), db, dst + width);
  }
}

// Source rows contiguous along k: src[r * stride + p]. A cache line of each source row is used up before the next row: with strides of a power of
// two, all rows meet in the same few cache sets.
HWY_INLINE void pack_transposing(const T* HWY_RESTRICT src, int64_t stride, int64_t rows, int64_t k, int64_t width, T* HWY_RESTRICT dst) {
  constexpr int64_t kLine = 64 / sizeof(T);
  const int64_t last = rows - kBlock;  // the last block may overlap the one before
  int64_t p = 0;
  for (; p + kLine <= k && last >= 0; p += kLine) {
    T* const to = dst + p * width;
    for (int64_t r = 0; r < rows; r += kBlock) {
      const int64_t at = r < last ? r : last;
      for (int64_t q = 0; q < kLine; q += kBlock) transpose_block(src + at * stride + p + q, stride, to + q * width + at, width);
    }
    for (int64_t q = 0; q < kLine && rows < width; ++q)
      for (int64_t r = rows; r < width; ++r) to[q * width + r] = T{0};
  }
  for (; p < k; ++p)
    for (int64_t r = 0; r < width; ++r) dst[p * width + r] = r < rows ? src[r * stride + p] : T{0};
}

// Source columns contiguous across the panel: src[p * stride + r].
HWY_INLINE void pack_copying(const T* HWY_RESTRICT src, int64_t stride, int64_t rows, int64_t k, int64_t width, T* HWY_RESTRICT dst) {
  if (rows == kPanel && width == kPanel) {
    for (int64_t p = 0; p < k; ++p, src += stride, dst += kPanel) {
      hn::StoreU(hn::LoadU(d, src), d, dst);
      hn::StoreU(hn::LoadU(d, src + kLanes), d, dst + kLanes);
    }
    return;
  }
  for (int64_t p = 0; p < k; ++p, src += stride, dst += width) {
    for (int64_t r = 0; r < rows; ++r) dst[r] = src[r];
    for (int64_t r = rows; r < width; ++r) dst[r] = T{0};
  }
}

template <bool kTransposed>
HWY_NOINLINE void pack_converted(const GemmSource& s, int64_t row, int64_t rows, int64_t p0, int64_t k, int64_t width, T* dst) {
  const auto pack = [&](auto kind) HWY_ATTR {
    GemmSource known = s;
    known.kind = kind.value;
    pack_elements<kTransposed>([known, row, p0](int64_t i, int64_t j)
                                   HWY_ATTR { return kTransposed ? element(known, p0 + i, row + j) : element(known, row + i, p0 + j); },
                               rows, k, width, dst);
  };
  switch (s.kind) {
    case SourceKind::kPlain:
      return pack(std::integral_constant<SourceKind, SourceKind::kPlain>());
    case SourceKind::kHalf:
      return pack(std::integral_constant<SourceKind, SourceKind::kHalf>());
    case SourceKind::kBFloat16:
      return pack(std::integral_constant<SourceKind, SourceKind::kBFloat16>());
    case SourceKind::kComplexPairs:
      return pack(std::integral_constant<SourceKind, SourceKind::kComplexPairs>());
    case SourceKind::kComplexExpand:
      return pack(std::integral_constant<SourceKind, SourceKind::kComplexExpand>());
    case SourceKind::kVirtual:
      return s.pack(s.data, row, rows, p0, k, width, dst);
  }
}

// A panel of `width` rows of A (not kTransposed) or columns of B (kTransposed), [p0, p0 + k) of the inner dimension.
template <bool kTransposed>
void pack_panel(const GemmSource& s, int64_t first, int64_t count, int64_t p0, int64_t k, int64_t width, T* dst) {
  if (s.kind == SourceKind::kPlain) {
    const int64_t across = kTransposed ? s.col_stride : s.row_stride, along = kTransposed ? s.row_stride : s.col_stride;
    const T* const src = static_cast<const T*>(s.data) + first * across + p0 * along;
    if (across == 1) return pack_copying(src, along, count, k, width, dst);
    if (along == 1) return pack_transposing(src, across, count, k, width, dst);
  }
  pack_converted<kTransposed>(s, first, count, p0, k, width, dst);
}

template <bool kTransposed>
void pack_all(const GemmSource& s, int64_t first, int64_t count, int64_t p0, int64_t k, int64_t width, T* dst) {
  const int64_t grain = max64(1, 32768 / (width * k));
  parallel_for(ceil_div(count, width), grain, [&](int64_t begin, int64_t end) HWY_ATTR {
    for (int64_t i = begin; i < end; ++i)
      pack_panel<kTransposed>(s, first + i * width, min64(width, count - i * width), p0, k, width, dst + i * width * k);
  });
}

// ---- The packed product ----

struct Blocks {
  int64_t height;  // rows of a micro tile
  int64_t rows;    // rows of a tile of work, a multiple of height
  int64_t k;       // inner block
};
Blocks choose_blocks(int64_t m, int64_t k) {
  Blocks b;
  b.height = panel_height(m, kMaxRows);
  const int64_t tiles = ceil_div(m, kBlockRows);
  b.rows = ceil_div(ceil_div(m, tiles), b.height) * b.height;
  const int64_t parts = ceil_div(k, kBlockK);
  b.k = ceil_div(ceil_div(k, parts), 8) * 8;
  return b;
}

// A tile whose columns lie in several blocks of C (GemmProblem::c_block); j is its first column.
HWY_NOINLINE void RunStraddlingTile(MicroFn micro, MicroArgs& g, const GemmProblem<T>& problem, T* c, int64_t j, int64_t cols) {
  HWY_ALIGN T tmp[kMaxRows * kPanel];
  const T beta = g.beta;
  g.c = tmp;
  g.c_row = kPanel;
  g.beta = T{0};
  micro(g);
  g.beta = beta;
  g.c_row = problem.c_row;
  for (int64_t q = 0; q < cols; ++q) {
    T* to = c + (j + q) / problem.c_block * problem.c_block_stride + (j + q) % problem.c_block * problem.c_col;
    for (int64_t r = 0; r < g.rows; ++r, to += problem.c_row) *to = beta == T{0} ? tmp[r * kPanel + q] : beta * *to + tmp[r * kPanel + q];
  }
}

// One block of C: rows [i0, i1) of the packed A, columns [j0, j1) of the packed B, whose first is column j_origin of C; c points at row 0 of the
// packed region.
void RunBlock(const GemmProblem<T>& g, const Blocks& blocks, MicroFn micro, const T* a, const T* b, T* c, int64_t j_origin, int64_t kc, T beta,
              int64_t i0, int64_t i1, int64_t j0, int64_t j1) {
  MicroArgs args;
  args.k = kc;
  args.alpha = g.alpha;
  args.beta = beta;
  args.c_row = g.c_row;
  for (int64_t j = j0; j < j1; j += kPanel) {
    args.b = b + j * kc;
    const int64_t cols = min64(kPanel, j1 - j), column = j_origin + j;
    const bool straddles = g.c_block != 0 && column % g.c_block + cols > g.c_block;
    T* const to = g.c_block == 0 ? c + column * g.c_col : c + column / g.c_block * g.c_block_stride + column % g.c_block * g.c_col;
    for (int64_t i = i0; i < i1; i += blocks.height) {
      args.a = a + i * kc;
      args.rows = min64(blocks.height, i1 - i);
      if (straddles) {
        RunStraddlingTile(micro, args, g, c + i * g.c_row, column, cols);
      } else {
        args.c = to + i * g.c_row;
        RunTile(micro, args, cols, g.c_col);
      }
    }
  }
}

void GemmPacked(const GemmProblem<T>& g) {
  const Blocks blocks = choose_blocks(g.m, g.k);
  const MicroFn micro = micro_for<true>(blocks.height);
  const int64_t super_rows = max64(1, kSuperRows / blocks.rows) * blocks.rows;
  ScratchArray<T> a(ceil_div(min64(super_rows, g.m), blocks.height) * blocks.height * blocks.k);
  ScratchArray<T> b(ceil_div(min64(kSuperCols, g.n), kPanel) * kPanel * blocks.k);
  for (int64_t j = 0; j < g.n; j += kSuperCols) {
    const int64_t nc = min64(kSuperCols, g.n - j), col_tiles = ceil_div(nc, kTileCols);
    for (int64_t p = 0; p < g.k; p += blocks.k) {
      const int64_t kc = min64(blocks.k, g.k - p);
      pack_all<true>(g.b, j, nc, p, kc, kPanel, b.get());
      for (int64_t i = 0; i < g.m; i += super_rows) {
        const int64_t mc = min64(super_rows, g.m - i);
        pack_all<false>(g.a, i, mc, p, kc, blocks.height, a.get());
        T* const c = g.c + i * g.c_row;
        const T beta = p == 0 ? g.beta : T{1};
        const int64_t tile_work = min64(blocks.rows, mc) * min64(kTileCols, nc) * kc;
        parallel_for(ceil_div(mc, blocks.rows) * col_tiles, max64(1, (1 << 19) / tile_work), [&](int64_t begin, int64_t end) HWY_ATTR {
          for (int64_t t = begin; t < end; ++t) {
            const int64_t i0 = t / col_tiles * blocks.rows, j0 = t % col_tiles * kTileCols;
            RunBlock(g, blocks, micro, a.get(), b.get(), c, j, kc, beta, i0, min64(mc, i0 + blocks.rows), j0, min64(nc, j0 + kTileCols));
          }
        });
      }
    }
  }
}

// ---- Without packing A: small products, and few rows against a large row-major B ----

constexpr int64_t kDirectRows = kMaxRows < 8 ? kMaxRows : 8;

void DirectColumns(const GemmProblem<T>& g, int64_t height, MicroFn micro, int64_t j0, int64_t j1) {
  const bool b_in_place = g.b.col_stride == 1;
  const T* const b = static_cast<const T*>(g.b.data);
  MicroArgs args;
  args.a_row = g.a.row_stride;
  args.a_col = g.a.col_stride;
  args.alpha = g.alpha;
  args.c_row = g.c_row;
  ScratchArray<T> panel(kPanel * min64(g.k, kBlockK));
  for (int64_t p = 0; p < g.k; p += kBlockK) {
    args.k = min64(kBlockK, g.k - p);
    args.beta = p == 0 ? g.beta : T{1};
    for (int64_t j = j0; j < j1; j += kPanel) {
      const int64_t cols = min64(kPanel, j1 - j);
      if (b_in_place && cols == kPanel) {
        args.b = b + p * g.b.row_stride + j;
        args.b_row = g.b.row_stride;
      } else {
        pack_panel<true>(g.b, j, cols, p, args.k, kPanel, panel.get());
        args.b = panel.get();
        args.b_row = kPanel;
      }
      for (int64_t i = 0; i < g.m; i += height) {
        args.rows = min64(height, g.m - i);
        args.a = static_cast<const T*>(g.a.data) + i * g.a.row_stride + p * g.a.col_stride;
        args.c = g.c + i * g.c_row + j * g.c_col;
        if (args.rows == height) {
          RunTile(micro, args, cols, g.c_col);
        } else {  // the rows below do not exist and must not be read
          for (int64_t done = 0, h; done < g.m - i; done += h) {
            h = args.rows = g.m - i - done >= 4 ? 4 : g.m - i - done >= 2 ? 2 : 1;
            args.a = static_cast<const T*>(g.a.data) + (i + done) * g.a.row_stride + p * g.a.col_stride;
            args.c = g.c + (i + done) * g.c_row + j * g.c_col;
            RunTile(micro_for<false>(h), args, cols, g.c_col);
          }
        }
      }
    }
  }
}

void GemmDirect(const GemmProblem<T>& g) {
  int64_t height = min64(panel_height(g.m, kDirectRows), g.m);
  while (height > 1 && height % 2) --height;  // 3, 5, 7 rows: the rest by smaller kernels
  const MicroFn micro = micro_for<false>(height);
  const int64_t grain = max64(16, (1 << 17) / (g.m * g.k * kPanel)) * kPanel;
  parallel_for(g.n, grain, [&](int64_t begin, int64_t end) HWY_ATTR { DirectColumns(g, height, micro, begin, end); });
}

// ---- Products along contiguous k: x[p] y[p] ----

HWY_INLINE T sum_lanes(V v) { return hn::GetLane(hn::SumOfLanes(d, v)); }

// out[j] = sum_p x[p] y[j * stride + p], kCols of them.
template <int kCols>
HWY_INLINE void dot_columns(int64_t k, const T* HWY_RESTRICT x, const T* HWY_RESTRICT y, int64_t stride, T* out) {
  V acc0[kCols], acc1[kCols];
#pragma GCC unroll 8
  for (int j = 0; j < kCols; ++j) acc0[j] = acc1[j] = hn::Zero(d);
  int64_t p = 0;
  for (; p + kPanel <= k; p += kPanel) {
    const V x0 = hn::LoadU(d, x + p), x1 = hn::LoadU(d, x + p + kLanes);
#pragma GCC unroll 8
    for (int j = 0; j < kCols; ++j) {
      acc0[j] = hn::MulAdd(x0, hn::LoadU(d, y + j * stride + p), acc0[j]);
      acc1[j] = hn::MulAdd(x1, hn::LoadU(d, y + j * stride + p + kLanes), acc1[j]);
    }
  }
  for (; p + kLanes <= k; p += kLanes) {
    const V x0 = hn::LoadU(d, x + p);
#pragma GCC unroll 8
    for (int j = 0; j < kCols; ++j) acc0[j] = hn::MulAdd(x0, hn::LoadU(d, y + j * stride + p), acc0[j]);
  }
#pragma GCC unroll 8
  for (int j = 0; j < kCols; ++j) {
    T sum = sum_lanes(hn::Add(acc0[j], acc1[j]));
    for (int64_t q = p; q < k; ++q) sum += x[q] * y[j * stride + q];
    out[j] = sum;
  }
}

inline void store(const GemmProblem<T>& g, int64_t i, int64_t j, T value) {
  T* const to = g.c + i * g.c_row + j * g.c_col;
  *to = g.beta == T{0} ? g.alpha * value : g.beta * *to + g.alpha * value;
}

// Few rows, A and B^T both contiguous along k (a linear layer on a small batch): no packing at all.
void GemmDots(const GemmProblem<T>& g) {
  const T* const a = static_cast<const T*>(g.a.data);
  const T* const b = static_cast<const T*>(g.b.data);
  const int64_t grain = ceil_div(max64(16, (1 << 17) / (g.m * g.k)), 4) * 4;
  parallel_for(g.n, grain, [&](int64_t begin, int64_t end) HWY_ATTR {
    T out[4];
    for (int64_t j = begin; j < end; j += 4) {
      const T* const columns = b + j * g.b.col_stride;
      if (end - j >= 4) {
        for (int64_t i = 0; i < g.m; ++i) {
          dot_columns<4>(g.k, a + i * g.a.row_stride, columns, g.b.col_stride, out);
          for (int q = 0; q < 4; ++q) store(g, i, j + q, out[q]);
        }
      } else {
        for (int64_t q = 0; q < end - j; ++q)
          for (int64_t i = 0; i < g.m; ++i) {
            dot_columns<1>(g.k, a + i * g.a.row_stride, columns + q * g.b.col_stride, 0, out);
            store(g, i, j + q, out[0]);
          }
      }
    }
  });
}

// ---- One row against a row-major B: sums of rows, read in the order they lie ----

template <int kRows>
HWY_INLINE void add_rows(int64_t n, const T* HWY_RESTRICT x, int64_t x_stride, const T* HWY_RESTRICT b, int64_t b_row, T* HWY_RESTRICT sum) {
  V xs[kRows];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) xs[r] = hn::Set(d, x[r * x_stride]);
  int64_t j = 0;
  for (; j + kLanes <= n; j += kLanes) {
    V v = hn::LoadU(d, sum + j);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) v = hn::MulAdd(xs[r], hn::LoadU(d, b + r * b_row + j), v);
    hn::StoreU(v, d, sum + j);
  }
  for (; j < n; ++j) {
    T v = sum[j];
    for (int r = 0; r < kRows; ++r) v += x[r * x_stride] * b[r * b_row + j];
    sum[j] = v;
  }
}

void GemvRows(const GemmProblem<T>& g) {
  const T* const x = static_cast<const T*>(g.a.data);
  const T* const b = static_cast<const T*>(g.b.data);
  const int64_t xs = g.a.col_stride, b_row = g.b.row_stride;
  const int64_t grain = min64(2048, max64(256, (1 << 17) / g.k / kPanel * kPanel));
  parallel_for(g.n, grain, [&](int64_t begin, int64_t end) HWY_ATTR {
    HWY_ALIGN T sum[2048];
    for (int64_t j = begin; j < end; j += 2048) {
      const int64_t n = min64(2048, end - j);
      for (int64_t i = 0; i < n; ++i) sum[i] = T{0};
      int64_t p = 0;
      for (; p + 4 <= g.k; p += 4) add_rows<4>(n, x + p * xs, xs, b + p * b_row + j, b_row, sum);
      for (; p < g.k; ++p) add_rows<1>(n, x + p * xs, xs, b + p * b_row + j, b_row, sum);
      for (int64_t i = 0; i < n; ++i) store(g, 0, j + i, sum[i]);
    }
  });
}

// ---- The choice ----

// Few tiles of C but long sums (the gradient of a weight over a large batch): parts of k by fixed cuts, added in order.
constexpr int64_t kSplitK = 4096;
void GemmSplitK(const GemmProblem<T>& g);

}  // namespace

void GemmEntry(const GemmProblem<T>& g) {
  const bool plain = g.a.kind == SourceKind::kPlain && g.b.kind == SourceKind::kPlain;
  if (!plain) return GemmPacked(g);
  if (g.m == 1 && (g.b.col_stride == 1 || g.n == 1)) {
    if (g.n > 1 || (g.a.col_stride != 1 || g.b.row_stride != 1)) return GemvRows(g);
  }
  // A narrow C wastes the lanes of its panels: its transpose does not. (After that m < n, so this happens once.)
  if (g.n > 1 && g.n <= kPanel / 2 && g.m >= 2 * g.n) {
    return GemmEntry({g.n,
                      g.m,
                      g.k,
                      g.alpha,
                      g.beta,
                      {g.b.data, g.b.col_stride, g.b.row_stride},
                      {g.a.data, g.a.col_stride, g.a.row_stride},
                      g.c,
                      g.c_col,
                      g.c_row});
  }
  const bool along_k = g.a.col_stride == 1 && g.b.row_stride == 1;
  if (along_k && g.m <= 4 && g.k >= kLanes) return GemmDots(g);
  const bool small = g.m * g.n <= (1 << 18) && g.m * g.n * g.k <= (1 << 18);
  if (small || (g.m <= kDirectRows && g.b.col_stride == 1)) return GemmDirect(g);
  if (g.m * g.n <= 4 * kBlockRows * kTileCols && g.k >= 2 * kSplitK) return GemmSplitK(g);
  GemmPacked(g);
}

namespace {
void GemmSplitK(const GemmProblem<T>& g) {
  const int64_t parts = min64(16, g.k / kSplitK);
  const int64_t part = ceil_div(ceil_div(g.k, parts), 8) * 8;
  ScratchArray<T> sums(parts * g.m * g.n);
  parallel_for(parts, 1, [&](int64_t begin, int64_t end) HWY_ATTR {
    for (int64_t s = begin; s < end; ++s) {
      GemmProblem<T> sub = g;
      const int64_t p = s * part;
      sub.k = min64(part, g.k - p);
      sub.alpha = T{1};
      sub.beta = T{0};
      sub.a.data = static_cast<const T*>(g.a.data) + p * g.a.col_stride;
      sub.b.data = static_cast<const T*>(g.b.data) + p * g.b.row_stride;
      sub.c = sums.get() + s * g.m * g.n;
      sub.c_row = g.n;
      sub.c_col = 1;
      if (sub.k > 0) GemmPacked(sub);
    }
  });
  const int64_t used = ceil_div(g.k, part), size = g.m * g.n;
  for (int64_t i = 0; i < g.m; ++i)
    for (int64_t j = 0; j < g.n; ++j) {
      T sum = sums[i * g.n + j];
      for (int64_t s = 1; s < used; ++s) sum += sums[s * size + i * g.n + j];
      store(g, i, j, sum);
    }
}
}  // namespace

T DotEntry(int64_t n, const T* x, const T* y) {
  T out;
  dot_columns<1>(n, x, y, 0, &out);
  return out;
}

}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu::internal
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
