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
#include "tensor/cpu/gemm_micro-inl.h"
#include "tensor/cpu/gemm_pack-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::internal {
namespace HWY_NAMESPACE {
namespace {

constexpr int64_t kTileRows = 12 * kMaxRows;     // rows of a tile of work: a block of A in L2
constexpr int64_t kTileCols = 8 * kPanel;
constexpr int64_t kSuperRows = 12 * kTileRows;   // packed at once: A in L3 ...
constexpr int64_t kSuperCols = 4096;             // ... and B

// The length of equal parts of n, at most `most`, a multiple of `unit`.
inline int64_t part_of(int64_t n, int64_t most, int64_t unit) { return ceil_div(n <= most ? n : ceil_div(n, ceil_div(n, most)), unit) * unit; }

// ---- The packed product ----

void pack_columns(const GemmSource& s, int64_t first, int64_t count, int64_t p0, int64_t k, T* dst) {
  parallel_for(ceil_div(count, kPanel), max64(1, 32768 / (kPanel * k)), [&](int64_t begin, int64_t end) HWY_ATTR {
    for (int64_t i = begin; i < end; ++i) pack_panel<true>(s, first + i * kPanel, min64(kPanel, count - i * kPanel), p0, k, kPanel, dst + i * kPanel * k);
  });
}
void pack_rows(const GemmSource& s, int64_t first, const RowPanels& panels, int64_t p0, int64_t k, T* dst) {
  parallel_for(panels.count, max64(1, 32768 / (kMaxRows * k)), [&](int64_t begin, int64_t end) HWY_ATTR {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t row = panels.first(i), height = panels.height(i);
      pack_panel<false>(s, first + row, height, p0, k, height, dst + row * k);
    }
  });
}

// A piece of C: row panels [i0, i1) of the packed A, columns [j0, j1) of the packed B (of `nc` columns, the first of which is column j_origin of C).
struct PackedPiece {
  const GemmProblem<T>& g;
  const RowPanels& panels;
  const T *a, *b;
  T* c;  // row 0 of the packed A
  int64_t j_origin, nc, kc;
  T beta;

  void run(int64_t i0, int64_t i1, int64_t j0, int64_t j1) const {
    MicroArgs args{};
    args.k = kc;
    args.alpha = g.alpha;
    args.beta = beta;
    args.c_row = g.c_row;
    args.a_row = 1;
    args.b_row = kPanel;
    const int64_t panel = kPanel * kc, share = ceil_div(panel, i1 - i0);
    const T* const b_end = b + ceil_div(nc, kPanel) * panel;
    for (int64_t j = j0; j < j1; j += kPanel) {
      args.b = b + j * kc;
      args.cols = min64(kPanel, j1 - j);
      const int64_t column = j_origin + j;
      const bool straddles = g.c_block != 0 && column % g.c_block + args.cols > g.c_block;
      T* const to = c + place(column);
      for (int64_t i = i0; i < i1; ++i) {
        const int64_t row = panels.first(i), height = panels.height(i);
        const T* const next = args.b + panel + (i - i0) * share;
        args.next = reinterpret_cast<const char*>(next);
        args.next_end = next + share <= b_end ? reinterpret_cast<const char*>(next + share) : args.next;
        args.a = a + row * kc;
        args.a_col = height;
        if (straddles) {
          through_temporary(kMicro.packed[height - 1], args, height,
                            [this, column, from = c + row * g.c_row](int64_t r, int64_t q) { return from + place(column + q) + r * g.c_row; });
        } else {
          args.c = to + row * g.c_row;
          RunTile(kMicro.packed[height - 1], args, height, g.c_col);
        }
      }
    }
  }
  int64_t place(int64_t column) const {
    return g.c_block == 0 ? column * g.c_col : column / g.c_block * g.c_block_stride + column % g.c_block * g.c_col;
  }
};

void GemmPacked(const GemmProblem<T>& g) {
  const int64_t kc_most = part_of(g.k, kBlockK, 8), rows_most = part_of(g.m, kSuperRows, 1), cols_most = part_of(g.n, kSuperCols, kPanel);
  ScratchArray<T> a(rows_most * kc_most), b(cols_most * kc_most);
  for (int64_t j = 0; j < g.n; j += cols_most) {
    const int64_t nc = min64(cols_most, g.n - j), col_tiles = ceil_div(nc, kTileCols);
    for (int64_t p = 0; p < g.k; p += kc_most) {
      const int64_t kc = min64(kc_most, g.k - p);
      pack_columns(g.b, j, nc, p, kc, b.get());
      for (int64_t i = 0; i < g.m; i += rows_most) {
        const RowPanels panels(min64(rows_most, g.m - i), kMaxRows);
        pack_rows(g.a, i, panels, p, kc, a.get());
        const PackedPiece piece{g, panels, a.get(), b.get(), g.c + i * g.c_row, j, nc, kc, p == 0 ? g.beta : T{1}};
        const int64_t tile = part_of(panels.count, kTileRows / kMaxRows, 1), tile_work = tile * panels.low * min64(kTileCols, nc) * kc;
        parallel_for(ceil_div(panels.count, tile) * col_tiles, max64(1, (1 << 19) / tile_work), [&](int64_t begin, int64_t end) HWY_ATTR {
          for (int64_t t = begin; t < end; ++t) {
            const int64_t i0 = t / col_tiles * tile, j0 = t % col_tiles * kTileCols;
            piece.run(i0, min64(panels.count, i0 + tile), j0, min64(nc, j0 + kTileCols));
          }
        });
      }
    }
  }
}

// ---- One panel of B after the other: small products, and those whose A fits in a cache ----

// Memory that a later product of a batch will read, in pieces.
struct Later {
  const char* at = nullptr;
  const char* end = nullptr;
  int64_t share = 0;

  void spread(const GemmSource& s, int64_t step, int64_t rows, int64_t cols, int64_t pieces) {
    const int64_t reach = ((rows - 1) * s.row_stride + (cols - 1) * s.col_stride + 1) * static_cast<int64_t>(sizeof(T));
    if (step <= 0 || s.row_stride < 0 || s.col_stride < 0 || reach > 2 * rows * cols * static_cast<int64_t>(sizeof(T))) return;
    at = static_cast<const char*>(s.data) + step * static_cast<int64_t>(sizeof(T));
    end = at + reach;
    share = ceil_div(reach, pieces * kLine) * kLine;
  }
  HWY_INLINE void take(MicroArgs& args) {
    args.next = at;
    at = at + share < end ? at + share : end;
    args.next_end = at;
  }
};

inline int64_t direct_block(int64_t k) { return part_of(k, kBlockK, 8); }

// Columns [j0, j1) of C; panel: room for kPanel x kBlockK elements. packed: null, or all of A in panels, one block of k after the other.
void DirectColumns(const GemmProblem<T>& g, int64_t j0, int64_t j1, T* panel, const T* packed, Later* later) {
  const RowPanels panels(g.m, packed ? kMaxRows : kMostDirect);
  const int64_t kc = direct_block(g.k), tiles = panels.count * ceil_div(g.k, kc);
  // B as it lies where it is read once or twice; a copy does not have rows that all meet in the same few cache sets.
  const bool in_place = !packed && g.b.col_stride == 1 && (panels.count <= 2 || g.b.row_stride * static_cast<int64_t>(sizeof(T)) <= 1024);
  const T* const b = static_cast<const T*>(g.b.data);
  MicroArgs args{};
  args.a_row = packed ? 1 : g.a.row_stride;
  args.a_col = g.a.col_stride;
  args.alpha = g.alpha;
  args.c_row = g.c_row;
  for (int64_t j = j0; j < j1; j += kPanel) {
    args.cols = min64(kPanel, j1 - j);
    const MicroFn* const micro = packed ? kMicro.packed : args.cols <= kLanes ? kMicro.narrow : kMicro.direct;
    Later columns;  // the next ones of B, where each is contiguous
    if (!later && g.b.row_stride == 1 && j + kPanel < j1)
      columns.spread(g.b, (j + kPanel) * g.b.col_stride, g.k, min64(kPanel, j1 - j - kPanel), tiles);
    for (int64_t p = 0; p < g.k; p += kc) {
      args.k = min64(kc, g.k - p);
      args.beta = p == 0 ? g.beta : T{1};
      if (in_place && (kMasks || args.cols == kPanel)) {
        args.b = b + p * g.b.row_stride + j;
        args.b_row = g.b.row_stride;
      } else {
        pack_panel<true>(g.b, j, args.cols, p, args.k, kPanel, panel);
        args.b = panel;
        args.b_row = kPanel;
      }
      for (int64_t i = 0; i < panels.count; ++i) {
        const int64_t row = panels.first(i), height = panels.height(i);
        if (packed) args.a_col = height;
        args.a = packed ? packed + p * g.m + row * args.k : static_cast<const T*>(g.a.data) + row * g.a.row_stride + p * g.a.col_stride;
        args.c = g.c + row * g.c_row + j * g.c_col;
        (later ? later[i & 1] : columns).take(args);
        RunTile(micro[height - 1], args, height, g.c_col);
      }
    }
  }
}

// A fits in L2 (half of a small one): it is packed once, and every panel of B is used as soon as it is copied. Where the columns of B are contiguous
// (a linear layer), the next panel comes nearer meanwhile.
bool packs_a_once(const GemmProblem<T>& g) {
  return (g.b.row_stride == 1 || g.b.col_stride == 1) && g.a.col_stride == 1 && g.m <= 1024 && g.m * g.k * static_cast<int64_t>(sizeof(T)) <= (1 << 20);
}
// All of it is in L2, or soon there.
bool is_small(const GemmProblem<T>& g) { return g.m * g.n <= (1 << 18) && g.m * g.n * g.k <= (1 << 22); }

void GemmDirect(const GemmProblem<T>& g) {
  const bool packs = !is_small(g) && g.m > kMaxRows;
  ScratchArray<T> a(packs ? g.m * g.k : 0);
  const int64_t kc = direct_block(g.k);
  for (int64_t p = 0; packs && p < g.k; p += kc) pack_rows(g.a, 0, RowPanels(g.m, kMaxRows), p, min64(kc, g.k - p), a.get() + p * g.m);
  const int64_t grain = max64(16, (1 << 17) / (g.m * g.k * kPanel)) * kPanel;
  parallel_for(g.n, grain, [&](int64_t begin, int64_t end) HWY_ATTR {
    ScratchArray<T> panel(kPanel * kBlockK);
    DirectColumns(g, begin, end, panel.get(), packs ? a.get() : nullptr, nullptr);
  });
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
  if (is_small(g) || packs_a_once(g) || (g.m <= 2 * kMaxRows && g.b.col_stride == 1)) return GemmDirect(g);
  if (g.m * g.n <= 4 * kTileRows * kTileCols && g.k >= 2 * kSplitK) return GemmSplitK(g);
  GemmPacked(g);
}

// `count` products like g, one after the other on this thread; the strides of the batch in elements.
void GemmBatchEntry(GemmProblem<T> g, int64_t count, int64_t a_step, int64_t b_step, int64_t c_step) {
  const bool tiles = is_small(g) && g.m > 1 && g.n > 1;
  ScratchArray<T> panel(tiles ? kPanel * kBlockK : 0);
  const int64_t calls = ceil_div(g.n, kPanel) * ceil_div(g.m, kMaxRows) * ceil_div(g.k, kBlockK);
  for (int64_t i = 0; i < count; ++i) {
    if (tiles) {
      Later later[2];
      if (i + 1 < count && calls > 1) {
        later[0].spread(g.a, a_step, g.m, g.k, ceil_div(calls, 2));
        later[1].spread(g.b, b_step, g.k, g.n, ceil_div(calls, 2));
      }
      DirectColumns(g, 0, g.n, panel.get(), nullptr, later);
    } else {
      GemmEntry(g);
    }
    g.a.data = static_cast<const T*>(g.a.data) + a_step;
    g.b.data = static_cast<const T*>(g.b.data) + b_step;
    g.c += c_step;
  }
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
