// The product of real matrices, for one SIMD target (included by gemm_f32.cc and gemm_f64.cc inside foreach_target;
// TESSERA_GEMM_T names the element type).
//
// The plan is like that of Goto and van de Geijn, "Anatomy of High-Performance Matrix Multiplication" (ACM TOMS 34,
// 2008): a block of A is packed into L2 in panels of up to kMaxRows rows, one panel of B of two vectors' width after
// the other into L1, and a micro kernel keeps one small tile of C in registers over a part of k. While a panel of B is
// used, the source of the next one comes nearer. Every cut depends on the sizes only, and each tile of C is computed by
// one piece of work, so the bits of the result do not depend on the number of threads.
#if defined(TENSOR_CPU_GEMM_SIMD_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef TENSOR_CPU_GEMM_SIMD_INL_H_
#undef TENSOR_CPU_GEMM_SIMD_INL_H_
#else
#define TENSOR_CPU_GEMM_SIMD_INL_H_
#endif

#include "hwy/highway.h"
#include "tensor/cpu/support/request.h"
#include "tensor/cpu/gemm/gemm_micro-inl.h"
#include "tensor/cpu/gemm/gemm_pack-inl.h"

HWY_BEFORE_NAMESPACE();
namespace tessera::cpu::internal {
namespace HWY_NAMESPACE {
namespace {

constexpr int64_t kBlockElements = (int64_t{1} << 19) / sizeof(T);  // a block of A, packed, in L2
constexpr int64_t kBlockRows = 40 * kMaxRows;                       // of it: rows of C are often in pages of their own

// The length of equal parts of n, at most `most`, a multiple of `unit`.
inline int64_t part_of(int64_t n, int64_t most, int64_t unit) {
  return ceil_div(n <= most ? n : ceil_div(n, ceil_div(n, most)), unit) * unit;
}

// ---- The packed product ----

// Values of k [p0, p0 + depth) of the rows, in parts of kc.
void pack_rows(const GemmSource& s, int64_t first, const RowPanels& panels, int64_t p0, int64_t depth, int64_t kc,
               T* dst) {
  const int64_t rows = panels.first(panels.count);
  parallel_for(panels.count, max64(1, 4096 / (kMaxRows * depth)), [&](int64_t begin, int64_t end) HWY_ATTR {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t row = panels.first(i), height = panels.height(i);
      for (int64_t p = 0; p < depth; p += kc) {
        const int64_t k = min64(kc, depth - p);
        pack_panel<false>(s, first + row, height, p0 + p, k, height, dst + p * rows + row * k);
      }
    }
  });
}

// Where the source of a panel of B lies, to bring it nearer before it is packed: a micro kernel requests one piece of
// two lines every kPrefetchStep values of k, so that some calls request all.
struct PanelSource {
  const char* data = nullptr;
  int64_t call_step = 0, step = 0, count = 0, calls = 0;

  PanelSource() = default;
  // Rows [p, p + k) of the panel at column j.
  PanelSource(const GemmSource& s, int64_t p, int64_t k, int64_t j) {
    const bool complex = s.kind == SourceKind::kComplexExpand,
               reduced = s.kind == SourceKind::kHalf || s.kind == SourceKind::kBFloat16;
    if (s.kind == SourceKind::kVirtual || (s.row_stride != 1 && s.col_stride != 1)) return;
    const int64_t item = complex ? 2 * sizeof(T) : reduced ? 2 : sizeof(T), shift = complex ? 1 : 0;
    data = static_cast<const char*>(s.data) + ((p >> shift) * s.row_stride + (j >> shift) * s.col_stride) * item;
    count = ceil_div(k, kPrefetchStep);
    if (s.col_stride == 1) {
      step = s.row_stride * item;
      call_step = count * step;
      calls = ceil_div(k >> shift, count);
    } else {
      step = s.col_stride * item;
      call_step = 2 * kLine;
      calls = ceil_div((k >> shift) * item, call_step);
      count = min64(count, kPanel >> shift);
    }
  }
  HWY_INLINE void take(MicroArgs& args, int64_t call) const {
    args.next = data + call * call_step;
    args.next_step = step;
    args.next_count = call < calls ? count : 0;
  }
};

// A product whose C may be reduced floats: c_reduced of c_kind instead of c.
struct Problem : GemmProblem<T> {
  Problem(const GemmProblem<T>& g) : GemmProblem<T>(g) {}  // NOLINT: any is one
  uint16_t* c_reduced = nullptr;
  SourceKind c_kind = SourceKind::kPlain;
};

#ifdef TESSERA_GEMM_ROUNDS
// The last part of some sums, and those before (or null), become numbers of C: from (row, column) on.
HWY_NOINLINE void round_tile(const Problem& g, int64_t row, int64_t column, int64_t rows, int64_t cols, const T* tile,
                             const T* sums, int64_t sums_row) {
  const hn::ScalableTag<uint16_t> du16;
  const V alpha = hn::Set(d, g.alpha), beta = hn::Set(d, g.beta);
  const bool direct = g.c_kind == SourceKind::kBFloat16 && cols == kPanel;
  HWY_ALIGN T line[kPanel] = {};
  uint16_t* c = g.c_reduced + row * g.c_row + column;
  for (int64_t r = 0; r < rows; ++r, tile += kPanel, c += g.c_row) {
    V v[2] = {hn::Load(d, tile), hn::Load(d, tile + kLanes)};
    if (sums) {
      for (int q = 0; q < 2; ++q) v[q] = hn::Add(hn::LoadU(d, sums + q * kLanes), v[q]);
      sums += sums_row;
    }
    for (int q = 0; q < 2 && g.alpha != 1; ++q) v[q] = hn::Mul(alpha, v[q]);
    if (g.beta != 0) {
      convert_line(d, g.c_kind, c, cols, line);
      for (int q = 0; q < 2; ++q) v[q] = hn::MulAdd(beta, hn::Load(d, line + q * kLanes), v[q]);
    }
    if (direct) {
      hn::StoreU(cpu::HWY_NAMESPACE::RoundTwo(v[0], v[1]), du16, c);
      continue;
    }
    for (int q = 0; q < 2; ++q) hn::Store(v[q], d, line + q * kLanes);
    store_reduced(g.c_kind, cols, 1, 0, line, c);
  }
}
#else
inline void round_tile(const Problem&, int64_t, int64_t, int64_t, int64_t, const T*, const T*, int64_t) {}
#endif

// Whether a tile of C lies where C may be left as it is; columns are real ones.
HWY_INLINE bool is_left_out(const GemmProblem<T>& g, int64_t row, int64_t rows, int64_t column, int64_t cols) {
  if (g.part == GemmPart::kAll) return false;
  const int64_t parts = g.b.kind == SourceKind::kComplexExpand ? 2 : 1;
  return g.part == GemmPart::kLower ? column >= parts * (row + rows) : column + cols <= parts * row;
}

// Rows [row, row + rows) of A, values of k [p0, p0 + depth), packed: one part of kc values of k after the other.
struct PackedBlock {
  const GemmProblem<T>& g;
  const RowPanels& panels;
  int64_t row, rows, p0, depth, kc;
  const T* a;
  // Where C is in reduced floats: the problem, and where g's C begins in its C. g is about the sums before
  // the last part of k.
  const Problem* rounded = nullptr;
  int64_t first_row = 0, first_column = 0;

  // What the row panels [i0, i1) add to columns [j0, j1) of C; panel: room for one of B, which stays in L1 while A
  // streams by.
  void run(int64_t i0, int64_t i1, int64_t j0, int64_t j1, T* panel) const {
    MicroArgs args{};
    args.alpha = g.alpha;
    args.c_row = g.c_row;
    args.a_row = 1;
    args.b = panel;
    args.b_row = kPanel;
    for (int64_t j = j0; j < j1; j += kPanel) {
      args.cols = min64(kPanel, g.n - j);
      for (int64_t p = 0; p < depth; p += kc) {
        args.k = min64(kc, depth - p);
        args.beta = p0 + p == 0 ? g.beta : T{1};
        pack_panel<true>(g.b, j, args.cols, p0 + p, args.k, kPanel, panel);
        const bool last = p + kc >= depth;
        const int64_t next_j = last ? j + kPanel : j, next_p = last ? 0 : p + kc;
        add(args, i0, i1, j, p,
            next_j < g.n ? PanelSource(g.b, p0 + next_p, min64(kc, depth - next_p), next_j) : PanelSource());
      }
    }
  }
  // One panel of B.
  void add(MicroArgs& args, int64_t i0, int64_t i1, int64_t column, int64_t p, const PanelSource& next) const {
    const bool straddles = g.c_block != 0 && column % g.c_block + args.cols > g.c_block;
    const bool plain = args.cols == kPanel && is_plain(args, g.c_col), rounds = rounded && p0 + p + kc >= g.k;
    T* const to = g.c + place(column);
    for (int64_t i = i0; i < i1; ++i) {
      const int64_t first = panels.first(i), height = panels.height(i);
      if (is_left_out(g, row + first, height, column, args.cols)) continue;
      next.take(args, i - i0);
      args.a = a + p * rows + first * args.k;
      args.a_col = height;
      if (rounds) {
        add_last(args, i, column, p0 + p == 0 ? nullptr : to + first * g.c_row);
      } else if (straddles) {
        T* const from = g.c + (row + first) * g.c_row;
        through_temporary(kMicro.packed[height - 1], args, [&](const T* tile) {
          for (int64_t q = 0; q < args.cols; ++q)
            for (int64_t r = 0; r < height; ++r) {
              T* const c = from + place(column + q) + r * g.c_row;
              const T value = args.alpha * tile[r * kPanel + q];
              *c = args.beta == T{0} ? value : args.beta * *c + value;
            }
        });
      } else {
        args.c = to + (row + first) * g.c_row;
        RunTile(kMicro.packed[height - 1], args, height, g.c_col, plain);
      }
    }
  }
  // The last part of k: what becomes numbers of C, whose places come nearer while the tile is summed.
  void add_last(MicroArgs args, int64_t i, int64_t column, const T* sums) const {
    HWY_ALIGN T tile[kMaxRows * kPanel];
    const int64_t height = panels.height(i), i0 = first_row + panels.first(i), j0 = first_column + column;
    for (int64_t r = 0; r < height; ++r) {
      __builtin_prefetch(rounded->c_reduced + (i0 + r) * rounded->c_row + j0, 1);
      if (sums == nullptr) continue;
      prefetch_near(sums + r * g.c_row);
      prefetch_near(sums + r * g.c_row + kPanel - 1);
    }
    args.c = tile;
    args.c_row = kPanel;
    args.beta = T{0};
    kMicro.packed[height - 1](args);
    round_tile(*rounded, i0, j0, height, args.cols, tile, sums, g.c_row);
  }
  int64_t place(int64_t column) const {
    return g.c_block == 0 ? column * g.c_col : column / g.c_block * g.c_block_stride + column % g.c_block * g.c_col;
  }
};

// How a block's product is cut for the threads: into some pieces of columns, and of rows where there are few columns.
struct Pieces {
  static constexpr int64_t kLeastPanels = 8;  // of rows, for each of which B is packed
  int64_t cols, rows, row_pieces, count;      // cols: a multiple of kPanel; rows: in panels
  Pieces(int64_t n, const RowPanels& panels, int64_t work) {
    const int64_t col_panels = ceil_div(n, kPanel);
    cols = ceil_div(col_panels, max64(1, min64(64, work >> 19)));
    const int64_t col_pieces = ceil_div(col_panels, cols);
    cols *= kPanel;
    rows = ceil_div(panels.count, max64(1, min64(min64(16, work >> 21) / col_pieces, panels.count / kLeastPanels)));
    row_pieces = ceil_div(panels.count, rows);
    count = col_pieces * row_pieces;
  }
};

// Rows of A that a thread packs and multiplies by itself: its core then has them, and no thread waits for others. Sums
// do not depend on this cut. Few rows are shared by all threads, and so are those of a product whose B is wide or
// exists only packed: every thread would pack all of it.
int64_t own_rows(const GemmProblem<T>& g) {
  constexpr int64_t kLeast = 8 * kMaxRows, kMost = 512, kWidest = 4;
  const int64_t threads = in_parallel_region() ? 1 : num_threads(), rows = ceil_div(g.m, threads);
  if (threads == 1 || rows < kLeast || g.n > kWidest * rows || g.b.kind == SourceKind::kVirtual ||
      g.part != GemmPart::kAll)
    return g.m;
  return ceil_div(g.m, threads * max64(1, rows / kMost));
}
Problem rows_of(Problem g, int64_t begin, int64_t end) {
  const int64_t item = g.a.kind == SourceKind::kPlain          ? sizeof(T)
                       : g.a.kind == SourceKind::kComplexPairs ? 2 * sizeof(T)
                                                               : 2;
  g.m = end - begin;
  g.a.data = static_cast<const char*>(g.a.data) + begin * g.a.row_stride * item;
  if (g.c_kind == SourceKind::kPlain)
    g.c += begin * g.c_row;
  else
    g.c_reduced += begin * g.c_row;
  return g;
}

// Sums that wait to be rounded: so many stay in L2.
constexpr int64_t kBlockSums = (int64_t{1} << 20) / sizeof(T);

// Columns [j, j + g.n) of all; g has these alone, but for where its sums are rounded to.
void GemmBand(const Problem& g, int64_t j) {
  const int64_t kc = part_of(g.k, kBlockK, 8),
                rows_most = part_of(g.m, min64(kBlockRows, max64(kMaxRows, kBlockElements / kc)), 1);
  const int64_t depth_most = min64(ceil_div(g.k, kc), max64(1, kBlockElements / (rows_most * kc))) * kc;
  const bool rounds = g.c_kind != SourceKind::kPlain;
  ScratchArray<T> a(rows_most * depth_most), sums(rounds && g.k > kc ? rows_most * g.n + kPanel : 0);
  GemmProblem<T> to = g;
  if (rounds) {
    to.c = sums.get();
    to.c_row = g.n;
    to.c_col = 1;
    to.alpha = 1;
    to.beta = 0;
  }
  for (int64_t i = 0; i < g.m; i += rows_most) {
    const int64_t rows = min64(rows_most, g.m - i);
    const RowPanels panels(rows, kMaxRows);
    for (int64_t p = 0; p < g.k; p += depth_most) {
      const int64_t depth = min64(depth_most, g.k - p);
      pack_rows(g.a, i, panels, p, depth, kc, a.get());
      const PackedBlock block{to, panels, rounds ? 0 : i, rows, p, depth, kc, a.get(), rounds ? &g : nullptr, i, j};
      const Pieces pieces(g.n, panels, rows * g.n * depth);
      parallel_for(pieces.count, 1, [&](int64_t begin, int64_t end) HWY_ATTR {
        ScratchArray<T> panel(kPanel * kc);
        for (int64_t t = begin; t < end; ++t) {
          const int64_t i0 = t % pieces.row_pieces * pieces.rows, j0 = t / pieces.row_pieces * pieces.cols;
          block.run(i0, min64(panels.count, i0 + pieces.rows), j0, min64(g.n, j0 + pieces.cols), panel.get());
        }
      });
    }
  }
}

void GemmShared(const Problem& g) {
  if (g.c_kind == SourceKind::kPlain || g.k <= kBlockK) return GemmBand(g, 0);
  // Sums that wait to be rounded come in bands of columns, for each of which A is packed again.
  const int64_t cols = part_of(g.n, max64(16 * kPanel, kBlockSums / min64(g.m, kBlockRows)), kPanel);
  Problem band = g;
  for (int64_t j = 0; j < g.n; j += cols) {
    band.n = min64(cols, g.n - j);
    GemmBand(band, j);
    band.b.data = static_cast<const uint16_t*>(band.b.data) + cols * g.b.col_stride;
  }
}

void GemmPacked(const Problem& g) {
  parallel_for(g.m, own_rows(g), [&](int64_t begin, int64_t end) HWY_ATTR { GemmShared(rows_of(g, begin, end)); });
}

// ---- A where it lies, one panel of B after the other: small products ----

constexpr int64_t kNearRows = 512;  // bytes between rows of B that share L1 well
constexpr int64_t kDirectK = 256;   // the longest range of k at a time: A is read where it lies
inline int64_t direct_block(int64_t k) { return part_of(k, kDirectK, 8); }

// Rows of A that are multiples of 4 KB apart meet in the same sets of L1: fewer of them at a time.
RowPanels direct_panels(const GemmProblem<T>& g) {
  return RowPanels(g.m, g.a.row_stride * static_cast<int64_t>(sizeof(T)) % 4096 == 0 ? kMostAliased : kMaxRows);
}
// B as it lies where it is read once or twice, or its rows are near; a copy does not have rows that all meet in the
// same few cache sets.
bool takes_in_place(const GemmProblem<T>& g, const RowPanels& panels) {
  return g.b.kind == SourceKind::kPlain && g.b.col_stride == 1 &&
         (panels.count <= 2 || g.b.row_stride * static_cast<int64_t>(sizeof(T)) <= kNearRows);
}

constexpr int64_t kDirectRoom = kPanel * kDirectK;  // elements for what is packed of B

// Columns [j0, j1) of C.
void DirectColumns(const GemmProblem<T>& g, const RowPanels& panels, int64_t j0, int64_t j1, T* panel) {
  const int64_t kc = direct_block(g.k);
  const bool in_place = takes_in_place(g, panels);
  const T* const b = static_cast<const T*>(g.b.data);
  MicroArgs args{};
  args.a_row = g.a.row_stride;
  args.a_col = g.a.col_stride;
  args.alpha = g.alpha;
  args.c_row = g.c_row;
  for (int64_t j = j0; j < j1; j += args.cols) {
    // Columns that fill no panel go by the vector, where kernels read and write just those that exist.
    args.cols = min64(kMasks && j1 - j < kPanel ? kLanes : kPanel, j1 - j);
    const bool narrow = kMasks && args.cols <= kLanes;
    const MicroFn* const micro = narrow ? kMicro.narrow : kMicro.direct;
    const RowPanels rows = narrow ? RowPanels(g.m, kMostNarrow) : panels;
    for (int64_t p = 0; p < g.k; p += kc) {
      args.k = min64(kc, g.k - p);
      args.beta = p == 0 ? g.beta : T{1};
      if (in_place && (args.cols == kPanel || narrow)) {
        args.b = b + p * g.b.row_stride + j;
        args.b_row = g.b.row_stride;
      } else {
        pack_panel<true>(g.b, j, args.cols, p, args.k, kPanel, panel);
        args.b = panel;
        args.b_row = kPanel;
      }
      const bool plain = is_plain(args, g.c_col);
      for (int64_t i = 0; i < rows.count; ++i) {
        const int64_t row = rows.first(i), height = rows.height(i);
        if (is_left_out(g, row, height, j, args.cols)) continue;
        args.a = static_cast<const T*>(g.a.data) + row * g.a.row_stride + p * g.a.col_stride;
        args.c = g.c + row * g.c_row + j * g.c_col;
        RunTile(micro[height - 1], args, height, g.c_col, plain && (args.cols == kPanel || narrow));
      }
    }
  }
}

// All of it is in L2, or soon there.
bool is_small(const GemmProblem<T>& g) {
  return g.m * g.n * static_cast<int64_t>(sizeof(T)) <= (1 << 20) && g.m * g.n * g.k <= (1 << 24);
}

// All of B stays in L1, so that rows of A and of C are read and written once, in their order.
bool is_near(const GemmProblem<T>& g) { return g.n > kPanel && ceil_div(g.n, kPanel) * g.k <= kDirectK; }

// Rows of A that are used soon.
HWY_INLINE void request_rows(const GemmSource& a, int64_t row, int64_t rows, int64_t k) {
  const T* from = static_cast<const T*>(a.data) + row * a.row_stride;
  for (int64_t r = 0; r < rows; ++r, from += a.row_stride)
    for (int64_t p = 0; p < k; p += kLine / sizeof(T)) prefetch_near(from + p);
}

// Row panels [i0, i1) of C.
void DirectRows(const GemmProblem<T>& g, const RowPanels& panels, int64_t i0, int64_t i1, T* packed) {
  const int64_t col_panels = ceil_div(g.n, kPanel), packed_from = takes_in_place(g, panels) ? g.n / kPanel : 0;
  const int64_t share = g.a.col_stride == 1 ? ceil_div(panels.tallest(), col_panels)
                                            : 0;  // rows of A to request for the next row panel during a tile
  MicroArgs args{};
  args.k = g.k;
  args.a_row = g.a.row_stride;
  args.a_col = g.a.col_stride;
  args.alpha = g.alpha;
  args.beta = g.beta;
  args.c_row = g.c_row;
  const bool plain = is_plain(args, g.c_col);
  for (int64_t i = i0; i < i1; ++i) {
    const int64_t row = panels.first(i), height = panels.height(i);
    args.a = static_cast<const T*>(g.a.data) + row * g.a.row_stride;
    for (int64_t q = 0; q < col_panels; ++q) {
      const int64_t j = q * kPanel;
      args.cols = min64(kPanel, g.n - j);
      args.b = static_cast<const T*>(g.b.data) + j;
      args.b_row = g.b.row_stride;
      if (q >= packed_from) {
        T* const panel = packed + (q - packed_from) * kPanel * g.k;
        if (i == i0) pack_panel<true>(g.b, j, args.cols, 0, g.k, kPanel, panel);
        args.b = panel;
        args.b_row = kPanel;
      }
      request_rows(g.a, row + height + q * share, share, g.k);
      if (is_left_out(g, row, height, j, args.cols)) continue;
      args.c = g.c + row * g.c_row + j * g.c_col;
      RunTile(kMicro.direct[height - 1], args, height, g.c_col, plain && args.cols == kPanel);
    }
  }
}

void GemmDirect(const GemmProblem<T>& g) {
  const RowPanels panels = direct_panels(g);
  const bool near = is_near(g);
  const int64_t pieces = max64(1, min64(16, (g.m * g.n * g.k) >> 19)),
                units = near ? panels.count : ceil_div(g.n, kPanel), unit = near ? 1 : kPanel;
  parallel_for(near ? units : g.n, ceil_div(units, pieces) * unit, [&](int64_t begin, int64_t end) HWY_ATTR {
    ScratchArray<T> room(kDirectRoom);
    near ? DirectRows(g, panels, begin, end, room.get()) : DirectColumns(g, panels, begin, end, room.get());
  });
}

// ---- Products along contiguous k: x[p] y[p] ----

HWY_INLINE T sum_lanes(V v) { return hn::GetLane(hn::SumOfLanes(d, v)); }

// out[j] = sum_p x[p] y[j * stride + p], kCols of them; kFar: y comes from memory.
template <int kCols, bool kFar = false>
HWY_INLINE void dot_columns(int64_t k, const T* HWY_RESTRICT x, const T* HWY_RESTRICT y, int64_t stride, T* out) {
  V acc0[kCols], acc1[kCols];
#pragma GCC unroll 8
  for (int j = 0; j < kCols; ++j) acc0[j] = acc1[j] = hn::Zero(d);
  int64_t p = 0;
  for (; p + kPanel <= k; p += kPanel) {
    const V x0 = hn::LoadU(d, x + p), x1 = hn::LoadU(d, x + p + kLanes);
#pragma GCC unroll 8
    for (int j = 0; j < kCols; ++j) {
      if (kFar) {
        request_ahead(y + j * stride + p);
        if (sizeof(V) == kLine) request_ahead(y + j * stride + p + kLanes);
      }
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

// Whether so many elements are more than what L2 holds.
inline bool is_far(int64_t count) { return count * static_cast<int64_t>(sizeof(T)) > (1 << 21); }

// Few rows, A and B^T both contiguous along k (a linear layer on a small batch): no packing at all.
void GemmDots(const GemmProblem<T>& g) {
  const T* const a = static_cast<const T*>(g.a.data);
  const T* const b = static_cast<const T*>(g.b.data);
  const int64_t grain = ceil_div(max64(16, (1 << 17) / (g.m * g.k)), 4) * 4;
  const bool far = is_far(g.n * g.k);
  parallel_for(g.n, grain, [&](int64_t begin, int64_t end) HWY_ATTR {
    T out[4];
    for (int64_t j = begin; j < end; j += 4) {
      const T* const columns = b + j * g.b.col_stride;
      if (end - j >= 4) {
        for (int64_t i = 0; i < g.m; ++i) {
          (far && i == 0 ? dot_columns<4, true> : dot_columns<4>)(g.k, a + i * g.a.row_stride, columns, g.b.col_stride,
                                                                  out);
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

// kAhead: from far memory, where as many rows behind these are requested; so many pages at once bring a third more than
// one.
template <int kRows, bool kAhead = false>
HWY_INLINE void add_rows(int64_t n, const T* HWY_RESTRICT x, int64_t x_stride, const T* HWY_RESTRICT b, int64_t b_row,
                         T* HWY_RESTRICT sum) {
  V xs[kRows];
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) xs[r] = hn::Set(d, x[r * x_stride]);
  int64_t j = 0;
  for (; j + kLanes <= n; j += kLanes) {
    V v = hn::LoadU(d, sum + j);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      if (kAhead) request_ahead(b + (r + kRows) * b_row + j, 0);
      v = hn::MulAdd(xs[r], hn::LoadU(d, b + r * b_row + j), v);
    }
    hn::StoreU(v, d, sum + j);
  }
  for (; j < n; ++j) {
    T v = sum[j];
    for (int r = 0; r < kRows; ++r) v += x[r * x_stride] * b[r * b_row + j];
    sum[j] = v;
  }
}

constexpr int64_t kRowCols = 16384 / sizeof(T);  // of the sum at a time, in L1

// At most 4 kRowCols columns of C, from j0 on. Whole rows of B are read in their order; parts of k by fixed cuts, added
// in order.
void gemv_columns(const GemmProblem<T>& g, int64_t j0, int64_t n) {
  const T *const x = static_cast<const T*>(g.a.data), *const b = static_cast<const T*>(g.b.data) + j0;
  const int64_t xs = g.a.col_stride, b_row = g.b.row_stride, chunks = ceil_div(n, kRowCols);
  const int64_t pieces = max64(1, min64(16, (n * g.k) >> 18)),
                part = ceil_div(ceil_div(g.k, max64(1, min64(pieces / chunks, g.k / 16))), 4) * 4;
  const int64_t parts = ceil_div(g.k, part);
  const bool far = is_far(n * g.k);
  ScratchArray<T> sums(parts * n);
  parallel_for(parts * chunks, ceil_div(parts * chunks, pieces), [&](int64_t begin, int64_t end) HWY_ATTR {
    for (int64_t t = begin; t < end; ++t) {
      const int64_t j = t % chunks * kRowCols, cols = min64(kRowCols, n - j);
      int64_t p = t / chunks * part;
      const int64_t p1 = min64(g.k, p + part);
      T* const sum = sums.get() + t / chunks * n + j;
      for (int64_t i = 0; i < cols; ++i) sum[i] = T{0};
      for (; p + 4 <= p1; p += 4)
        (far ? add_rows<4, true> : add_rows<4>)(cols, x + p * xs, xs, b + p * b_row + j, b_row, sum);
      for (; p < p1; ++p) add_rows<1>(cols, x + p * xs, xs, b + p * b_row + j, b_row, sum);
    }
  });
  for (int64_t s = 1; s < parts; ++s) {
    T* const sum = sums.get();
    const T* const other = sum + s * n;
    int64_t j = 0;
    for (; j + kLanes <= n; j += kLanes)
      hn::StoreU(hn::Add(hn::LoadU(d, sum + j), hn::LoadU(d, other + j)), d, sum + j);
    for (; j < n; ++j) sum[j] += other[j];
  }
  for (int64_t j = 0; j < n; ++j) store(g, 0, j0 + j, sums[j]);
}

void GemvRows(const GemmProblem<T>& g) {
  const int64_t cols = part_of(g.n, 4 * kRowCols, kPanel);
  for (int64_t j = 0; j < g.n; j += cols) gemv_columns(g, j, min64(cols, g.n - j));
}

// ---- The choice ----

// Few tiles of C but long sums (the gradient of a weight over a large batch): parts of k by fixed cuts, added in order.
inline int64_t split_k(const GemmProblem<T>& g) { return g.m * g.n <= (1 << 14) ? 1024 : 4096; }
void GemmSplitK(const GemmProblem<T>& g);

// The same product as that of the transposed matrices, of plain sources.
GemmProblem<T> transposed(const GemmProblem<T>& g) {
  const auto turned = [](const GemmSource& x) { return GemmSource{x.data, x.col_stride, x.row_stride}; };
  return {g.n, g.m, g.k, g.alpha, g.beta, turned(g.b), turned(g.a), g.c, g.c_col, g.c_row};
}

// A column, by sums of fewer numbers than a vector has.
void FewNumbers(const GemmProblem<T>& g) {
  const T* const b = static_cast<const T*>(g.b.data);
  for (int64_t i = 0; i < g.m; ++i) {
    const T* const a = static_cast<const T*>(g.a.data) + i * g.a.row_stride;
    T sum = 0;
    for (int64_t p = 0; p < g.k; ++p) sum += a[p * g.a.col_stride] * b[p * g.b.row_stride];
    store(g, i, 0, sum);
  }
}

}  // namespace

void GemmEntry(const GemmProblem<T>& g) {
  const bool plain = g.a.kind == SourceKind::kPlain && g.b.kind == SourceKind::kPlain;
  if (!plain || g.part != GemmPart::kAll) {
    const bool lies = g.a.kind == SourceKind::kPlain && (plain || g.b.kind == SourceKind::kComplexExpand);
    return lies && is_small(g) ? GemmDirect(g) : GemmPacked(g);
  }
  if (g.m == 1 && (g.b.col_stride == 1 || g.n == 1)) {
    if (g.n > 1 || (g.a.col_stride != 1 || g.b.row_stride != 1)) return GemvRows(g);
  }
  // A narrow C wastes the lanes of its panels: its transpose does not. (After that m < n, so this happens once.)
  if (g.n > 1 && g.n <= kPanel / 2 && g.m >= 2 * g.n) return GemmEntry(transposed(g));
  const bool along_k = g.a.col_stride == 1 && g.b.row_stride == 1;
  if (along_k && g.m <= 4 && g.k >= kLanes) return GemmDots(g);
  if (is_small(g) || (g.m <= 2 * kMaxRows && g.b.col_stride == 1)) return GemmDirect(g);
  if (g.m * g.n <= (1 << 17) && g.k >= 2 * split_k(g)) return GemmSplitK(g);
  GemmPacked(g);
}

// `count` products like g, one after the other on this thread; the strides of the batch in elements. Operands come from
// far: only small ones are read where they lie.
void GemmBatchEntry(GemmProblem<T> g, int64_t count, int64_t a_step, int64_t b_step, int64_t c_step) {
  // Vectors that are so short that a choice of kernels would take longer than the product.
  if (g.m == 1 && g.b.col_stride != 1 && g.k < kLanes) {
    g = transposed(g);
    std::swap(a_step, b_step);
  }
  const bool few = g.n == 1 && g.k < kLanes, brief = kMasks && g.m == 1 && g.b.col_stride == 1 && g.n * g.k <= 256;
  const bool small = is_small(g) && (brief || (g.m > 1 && g.n > 1)), tiles = small && g.m * g.n * g.k <= (1 << 22);
  const bool near = is_near(g) && !(kMasks && g.n % kPanel != 0);
  const RowPanels panels = direct_panels(g);
  ScratchArray<T> room(tiles ? kDirectRoom : 0);
  for (int64_t i = 0; i < count; ++i) {
    if (few) {
      FewNumbers(g);
    } else if (tiles) {
      near ? DirectRows(g, panels, 0, panels.count, room.get()) : DirectColumns(g, panels, 0, g.n, room.get());
    } else if (small) {
      GemmPacked(g);
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
  const int64_t parts = min64(16, g.k / split_k(g));
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

#ifdef TESSERA_GEMM_ROUNDS
void GemmRounded(const GemmProblem<T>& g, SourceKind kind, uint16_t* c) {
  Problem rounded = g;
  rounded.c_kind = kind;
  rounded.c_reduced = c;
  GemmPacked(rounded);
}
#endif

T DotEntry(int64_t n, const T* x, const T* y) {
  T out;
  dot_columns<1>(n, x, y, 0, &out);
  return out;
}

}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu::internal
HWY_AFTER_NAMESPACE();

#endif  // per-target include guard
