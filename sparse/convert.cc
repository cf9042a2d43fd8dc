// Between layouts. Whatever the members hold, no number in them is used as an address before it was checked.
#include <algorithm>
#include <atomic>

#include "sparse/all_ops.h"
#include "sparse/cpu/group.h"
#include "sparse/cpu/product.h"
#include "sparse/kernels.h"
#include "sparse/sparse_kernels.h"
#include "tensor/core/parallel.h"

namespace tessera::kernels {
namespace {

// The elements of a sparse tensor one by one (of a block layout: block by block where `whole_blocks`).
struct Elements {
  Tensor batch, row, column;  // int64 of (n)
  Tensor values;              // (n, [block, block,] dense...)
};

// Negative unless 0 <= v < size, for the sign of many of them at once.
uint64_t outside(int64_t v, int64_t size) {
  return static_cast<uint64_t>(v) | (static_cast<uint64_t>(size) - 1 - static_cast<uint64_t>(v));
}

void check_inside(const Tensor& places, int64_t size) {
  check_places(cpu::all_inside(places.data<int64_t>(), places.numel(), size), size);
}

Tensor cut(const Tensor& t, int64_t begin, int64_t n) { return narrow(t, 0, begin, n); }

// (n, blocks..., dense...) of all matrices of a batch in a row.
Tensor flat_values(const Tensor& t) {
  const Members& m = members(t);
  const int64_t batch = m.compressed.dim() - 1;
  IntVector sizes{m.plain.numel()};
  for (int64_t s : m.values.sizes().subspan(static_cast<size_t>(batch + 1))) sizes.push_back(s);
  return reshape(m.values, IntList(sizes));
}

struct Counts {
  int64_t matrices, lines, across;
};
Counts counts_of(const Tensor& t) {
  const auto blocks = blocks_of(t);
  const int64_t batch = batch_dims(t);
  const int64_t height = t.sizes()[static_cast<size_t>(batch)] / std::max<int64_t>(1, blocks[0]);
  const int64_t width = t.sizes()[static_cast<size_t>(batch + 1)] / std::max<int64_t>(1, blocks[1]);
  const int64_t matrices = product(t.sizes().first(static_cast<size_t>(batch)));
  return by_rows(t.layout()) ? Counts{matrices, height, width} : Counts{matrices, width, height};
}

Elements elements_of(const Tensor& t, bool whole_blocks) {
  const Members& m = members(t);
  if (is_coo(t)) {
    TESSERA_CHECK(m.sparse_dim >= 2,
                  "conversion from Sparse to a compressed layout needs 2 sparse dimensions, but the "
                  "tensor has ",
                  m.sparse_dim);
    const int64_t batch = m.sparse_dim - 2;
    const Tensor n = numbers(m.compressed);
    const Tensor row = contiguous(select(n, 0, batch)), column = contiguous(select(n, 0, batch + 1));
    check_inside(row, t.size(batch));
    check_inside(column, t.size(batch + 1));
    return {flat_places(narrow(n, 0, 0, batch), t.sizes().first(static_cast<size_t>(batch))), row, column, m.values};
  }
  const Counts c = counts_of(t);
  const Tensor pointers = numbers(m.compressed), plain = reshape(numbers(m.plain), {-1});
  check_inside(plain, c.across);
  const int64_t nnz = nnz_of(t);
  const Tensor line = empty_kernel(IntVector{plain.numel()}, DType::kInt64),
               batch = empty_kernel(line.sizes(), DType::kInt64);
  for (int64_t b = 0; b < c.matrices; ++b) {
    const Tensor one =
        expanded_pointers(reshape(cut(reshape(pointers, {-1}), b * (c.lines + 1), c.lines + 1), {-1}), nnz);
    std::copy_n(one.data<int64_t>(), nnz, line.data<int64_t>() + b * nnz);
    std::fill_n(batch.data<int64_t>() + b * nnz, nnz, b);
  }
  Elements e{batch, by_rows(t.layout()) ? line : plain, by_rows(t.layout()) ? plain : line, flat_values(t)};
  if (whole_blocks || !has_blocks(t.layout())) return e;
  // Each block becomes height * width elements.
  const auto [height, width] = blocks_of(t);
  const int64_t n = plain.numel(), inside = height * width;
  const auto spread = [&](const Tensor& blocks, int64_t size, bool rows) {
    const Tensor steps = arange(Scalar(inside), DType::kInt64);
    const Tensor within = rows ? floor_divide(steps, Scalar(width)) : remainder(steps, Scalar(width));
    return reshape(add(mul(unsqueeze(blocks, 1), Scalar(size)), unsqueeze(within, 0)), {-1});
  };
  IntVector sizes{n * inside};
  for (int64_t s : e.values.sizes().subspan(3)) sizes.push_back(s);
  return {reshape(expand(unsqueeze(e.batch, 1), IntVector{n, inside}), {-1}), spread(e.row, height, true),
          spread(e.column, width, false), reshape(e.values, IntList(sizes))};
}

// Pointers of `lines` lines from line numbers, checked here. Ascending whatever the order of the numbers is: the end of
// a line is looked for in steps that grow, and then halved.
Tensor pointers_of(const int64_t* sorted, int64_t n, int64_t lines) {
  check_places(cpu::all_inside(sorted, n, lines), lines);
  const Tensor r = empty_kernel(IntVector{lines + 1}, DType::kInt64);
  int64_t* p = r.data<int64_t>();
  p[0] = 0;
  for (int64_t line = 0; line < lines; ++line) {
    int64_t begin = p[line], step = 1;
    while (begin + step <= n && sorted[begin + step - 1] <= line) begin += step, step *= 2;
    p[line + 1] = std::upper_bound(sorted + begin, sorted + std::min(n, begin + step - 1), line) - sorted;
  }
  p[lines] = n;
  return r;
}

// A compressed tensor from elements in any order; numbers are checked. Blocks: e.values are whole blocks already if
// they have the two dimensions.
Tensor assembled(Layout layout, IntList sizes, int64_t batch, IntList blocks, const Elements& e, bool whole_blocks,
                 DType index_dtype) {
  const bool rows = by_rows(layout);
  const int64_t bh = blocks.empty() ? 1 : blocks[0], bw = blocks.empty() ? 1 : blocks[1];
  const int64_t height = sizes[static_cast<size_t>(batch)] / bh, width = sizes[static_cast<size_t>(batch + 1)] / bw;
  const int64_t lines = rows ? height : width, across = rows ? width : height;
  const int64_t matrices = product(sizes.first(static_cast<size_t>(batch)));
  Tensor row = e.row, column = e.column;
  const bool split = !blocks.empty() && !whole_blocks;
  if (split) {
    row = floor_divide(row, Scalar(bh));
    column = floor_divide(column, Scalar(bw));
  }
  const Tensor line = rows ? row : column, plain = rows ? column : row;
  const Tensor stacked = stack(std::vector<Tensor>{e.batch, line, plain});
  const IntVector space{matrices, lines, across};
  const Tensor keys = flat_places(stacked, space);
  const int64_t range = checked_numel(space);
  Tensor values = e.values, distinct;
  if (split) {
    const cpu::Groups g = cpu::group_keys(keys.data<int64_t>(), keys.numel(), std::max<int64_t>(1, range));
    const int64_t n = static_cast<int64_t>(g.keys.size());
    distinct = empty_kernel(IntVector{n}, DType::kInt64);
    std::copy(g.keys.begin(), g.keys.end(), distinct.data<int64_t>());
    // Where each element's block came to stand, and its place there.
    const Tensor block = empty_kernel(keys.sizes(), DType::kInt64);
    for (int64_t k = 0; k < n; ++k)
      for (int64_t i = g.begins[static_cast<size_t>(k)]; i < g.begins[static_cast<size_t>(k) + 1]; ++i)
        block.data<int64_t>()[g.ordered ? i : g.order[static_cast<size_t>(i)]] = k;
    const Tensor inside = add(mul(remainder(e.row, Scalar(bh)), Scalar(bw)), remainder(e.column, Scalar(bw)));
    const Tensor places = contiguous(add(mul(block, Scalar(bh * bw)), inside));
    const Grouped sums = grouped(places, std::max<int64_t>(1, n * bh * bw), e.values);
    IntVector shape{n, bh, bw};
    for (int64_t s : e.values.sizes().subspan(1)) shape.push_back(s);
    values = reshape(scattered_rows(sums.rows, sums.keys, n * bh * bw), IntList(shape));
  } else {
    const Grouped g = grouped(keys, std::max<int64_t>(1, range), values);
    distinct = g.keys;
    values = g.rows;
  }
  const Tensor places = indices_of_places(distinct, space);
  const int64_t total = distinct.numel(), nnz = matrices ? total / matrices : 0;
  const int64_t* lines_at = places.data<int64_t>() + total;
  std::vector<Tensor> pointers;
  int64_t begin = 0;
  for (int64_t b = 0; b < matrices; ++b) {
    const int64_t* first = places.data<int64_t>();
    const int64_t end = std::upper_bound(first + begin, first + total, b) - first;
    TESSERA_CHECK(end - begin == nnz, "Expect the same number of specified elements per batch.");
    pointers.push_back(pointers_of(lines_at + begin, nnz, lines));
    begin = end;
  }
  IntVector c = part(sizes, 0, batch), p = c, v = c;
  c.push_back(lines + 1);
  p.push_back(nnz);
  for (int64_t s : values.sizes().subspan(1)) v.push_back(s);
  v.insert(v.begin() + batch, nnz);
  const Tensor all = pointers.empty() ? empty_kernel(IntVector{0}, DType::kInt64) : cat(pointers);
  const Tensor plain_of = contiguous(select(places, 0, 2));
  return make_compressed(layout, sizes, to(reshape(all, IntList(c)), index_dtype),
                         to(reshape(plain_of, IntList(p)), index_dtype), reshape(values, IntList(v)));
}

void check_blocks(const char* function, IntList blocks, IntList sizes, int64_t batch) {
  TESSERA_CHECK(blocks.size() == 2, function, ": blocksize needs to be a tuple of size 2, but got ", blocks.size());
  TESSERA_CHECK(blocks[0] > 0 && blocks[1] > 0, function, ": blocksize needs to be positive, but got ",
                shape_string(blocks));
  const int64_t h = sizes[static_cast<size_t>(batch)], w = sizes[static_cast<size_t>(batch + 1)];
  TESSERA_CHECK(h % blocks[0] == 0 && w % blocks[1] == 0, function, ": tensor sparse size (", h, ",", w,
                ") must be divisible by given blocksize (", blocks[0], ",", blocks[1], ")");
}

// Which of the leading cells of a strided tensor hold anything but zeros: bool of the first `dims` dimensions.
Tensor specified(const Tensor& t, int64_t dims) {
  const Tensor set = ne(t, Scalar(0));
  IntVector rest;
  for (int64_t d = dims; d < t.dim(); ++d) rest.push_back(d);
  return rest.empty() ? set : any(set, IntList(rest), false);
}

Tensor coo_of_dense(const Tensor& t, int64_t sparse_dim) {
  TESSERA_CHECK(sparse_dim >= 0 && sparse_dim <= t.dim(), "dense_to_sparse: sparse_dim argument must be in [0,",
                t.dim(), "] range, but ", sparse_dim, " is given");
  TESSERA_CHECK(sparse_dim > 0 || t.dim() == 0, "dense_to_sparse: sparse_dim argument must be in >0 when self.dim()>0");
  if (t.dim() == 0) {
    const Tensor there = ne(t, Scalar(0));
    const int64_t n = there.item<bool>() ? 1 : 0;
    return make_coo(t.sizes(), empty_kernel(IntVector{0, n}, DType::kInt64), clone(narrow(reshape(t, {1}), 0, 0, n)),
                    true);
  }
  const Tensor indices = contiguous(tessera::t(nonzero(specified(t, sparse_dim))));
  const IntList outer = t.sizes().first(static_cast<size_t>(sparse_dim));
  IntVector flat{product(outer)};
  for (int64_t s : t.sizes().subspan(static_cast<size_t>(sparse_dim))) flat.push_back(s);
  const Tensor values = index_select(reshape(contiguous(t), IntList(flat)), 0, flat_places(indices, outer));
  return make_coo(t.sizes(), indices, values, true);
}

Tensor compressed_of_dense(const Tensor& t, Layout layout, IntList blocks, int64_t dense_dim) {
  const int64_t batch = t.dim() - 2 - dense_dim;
  TESSERA_CHECK(dense_dim >= 0 && batch >= 0, "dense_to_sparse_", layout_name(layout) + 7,
                ": a tensor of this layout has two sparse dimensions, but got ", t.dim(), " dimensions, of which ",
                dense_dim, " dense");
  const int64_t bh = blocks.empty() ? 1 : blocks[0], bw = blocks.empty() ? 1 : blocks[1];
  const IntList sizes = t.sizes();
  const int64_t matrices = product(sizes.first(static_cast<size_t>(batch)));
  const int64_t h = sizes[static_cast<size_t>(batch)] / bh, w = sizes[static_cast<size_t>(batch + 1)] / bw;
  IntVector shape{matrices, h, bh, w, bw};
  for (int64_t s : sizes.subspan(static_cast<size_t>(batch + 2))) shape.push_back(s);
  // Blocks last, and the compressed dimension before the other one.
  IntVector order = by_rows(layout) ? IntVector{0, 1, 3, 2, 4} : IntVector{0, 3, 1, 2, 4};
  for (int64_t d = 5; d < static_cast<int64_t>(shape.size()); ++d) order.push_back(d);
  const Tensor cells = contiguous(permute(reshape(t, IntList(shape)), IntList(order)));
  const Tensor places = contiguous(tessera::t(nonzero(specified(cells, 3))));
  const IntVector space{matrices, cells.size(1), cells.size(2)};
  IntVector rows{product(space)};
  if (!blocks.empty()) rows.insert(rows.end(), {bh, bw});
  for (int64_t s : sizes.subspan(static_cast<size_t>(batch + 2))) rows.push_back(s);
  const Tensor values = index_select(reshape(cells, IntList(rows)), 0, flat_places(places, space));
  const Tensor line = contiguous(select(places, 0, 1)), plain = contiguous(select(places, 0, 2));
  const Elements e{contiguous(select(places, 0, 0)), by_rows(layout) ? line : plain, by_rows(layout) ? plain : line,
                   values};
  return assembled(layout, sizes, batch, blocks, e, true, DType::kInt64);
}

Tensor coo_of_compressed(const Tensor& t) {
  const Elements e = elements_of(t, false);
  const int64_t batch = batch_dims(t);
  std::vector<Tensor> parts{e.row, e.column};
  if (batch) {
    const Tensor outer = indices_of_places(e.batch, t.sizes().first(static_cast<size_t>(batch)));
    for (int64_t d = batch; d-- > 0;) parts.insert(parts.begin(), select(outer, 0, d));
  }
  return make_coo(t.sizes(), stack(parts), e.values, t.layout() == Layout::kSparseCsr);
}

}  // namespace

void check_places(bool inside, int64_t size) {
  TESSERA_CHECK_INDEX(inside, "an index of a sparse tensor is outside of its dimension of size ", size,
                      "; make it with check_invariants=True to see which");
}

Tensor expanded_pointers(const Tensor& pointers, int64_t nnz) {
  const int64_t* p = pointers.data<int64_t>();
  const int64_t lines = pointers.numel() - 1;
  bool good = lines >= 0 && p[0] == 0 && p[lines] == nnz;
  for (int64_t i = 0; i < lines; ++i) good &= p[i] <= p[i + 1];
  TESSERA_CHECK_INDEX(good, "the compressed indices of a sparse tensor must ascend from 0 to the number of elements, ",
                      nnz, "; make it with check_invariants=True to see where they do not");
  const Tensor r = empty_kernel(IntVector{nnz}, DType::kInt64);
  for (int64_t i = 0; i < lines; ++i) std::fill_n(r.data<int64_t>() + p[i], p[i + 1] - p[i], i);
  return r;
}

Tensor flat_places(const Tensor& indices, IntList sizes) {
  const Tensor n = numbers(indices);
  const int64_t dims = n.size(0), nnz = n.size(1);
  const Tensor r = empty_kernel(IntVector{nnz}, DType::kInt64);
  int64_t* p = r.data<int64_t>();
  checked_numel(sizes);
  if (dims == 0) std::fill_n(p, nnz, 0);
  constexpr int64_t kBlock = 2048;  // stays in the cache over the dimensions
  std::atomic<int64_t> bad{dims};   // the first dimension with an index outside
  parallel_ranges(nnz, 1 << 16, [&](int64_t begin, int64_t end) {
    for (int64_t from = begin; from < end; from += kBlock) {
      const int64_t to = std::min(end, from + kBlock);
      for (int64_t d = 0; d < dims; ++d) {
        const int64_t* in = n.data<int64_t>() + d * nnz;
        const int64_t size = sizes[static_cast<size_t>(d)];
        uint64_t signs = 0;
        for (int64_t k = from; k < to; ++k) {
          signs |= outside(in[k], size);
          p[k] = d == 0 ? in[k]
                        : static_cast<int64_t>(static_cast<uint64_t>(p[k]) * static_cast<uint64_t>(size) +
                                               static_cast<uint64_t>(in[k]));
        }
        int64_t least = bad;
        while (static_cast<int64_t>(signs) < 0 && d < least && !bad.compare_exchange_weak(least, d)) {}
      }
    }
  });
  TESSERA_CHECK_INDEX(bad == dims, "an index of a sparse tensor is outside of its dimension ", bad.load(), " of size ",
                      sizes[static_cast<size_t>(std::min<int64_t>(bad, dims - 1))],
                      "; make it with check_invariants=True to see which");
  return r;
}

Tensor indices_of_places(const Tensor& places, IntList sizes) {
  const int64_t n = places.numel(), dims = static_cast<int64_t>(sizes.size());
  const Tensor r = empty_kernel(IntVector{dims, n}, DType::kInt64);
  const int64_t* in = places.data<int64_t>();
  int64_t* out = r.data<int64_t>();
  if (dims == 1) {
    std::copy_n(in, n, out);
    return r;
  }
  if (dims == 0) return r;
  if (dims == 2) {  // places mostly ascend: the row is the last one's, or the next
    const int64_t width = std::max<int64_t>(1, sizes[1]);
    parallel_ranges(n, 1 << 16, [&](int64_t begin, int64_t end) {
      int64_t row = 0, start = 0;
      for (int64_t k = begin; k < end; ++k) {
        if (static_cast<uint64_t>(in[k] - start) >= static_cast<uint64_t>(width)) {
          row = in[k] - start - width >= 0 && in[k] - start < 2 * width ? row + 1 : in[k] / width;
          start = row * width;
        }
        out[k] = row;
        out[n + k] = in[k] - start;
      }
    });
    return r;
  }
  // From the last dimension to the first. Numbers that fit 32 bits divide in a fraction of the time.
  Tensor left = clone(places);
  int64_t* rest = left.data<int64_t>();
  for (int64_t d = dims; d-- > 0;) {
    const int64_t size = std::max<int64_t>(1, sizes[static_cast<size_t>(d)]);
    int64_t* o = out + d * n;
    const bool small = product(sizes.first(static_cast<size_t>(d + 1))) <= INT32_MAX;
    for (int64_t k = 0; k < n; ++k) {
      const int64_t q = small ? static_cast<uint32_t>(rest[k]) / static_cast<uint32_t>(size) : rest[k] / size;
      o[k] = rest[k] - q * size;
      rest[k] = q;
    }
  }
  return r;
}

namespace {
// Rows k from `first` on whose places are below `end`; returns the first that is not. kBytes: of a row, 0: `bytes`.
template <size_t kBytes>
int64_t put_rows(const char* rows, size_t bytes, const int64_t* at, int64_t first, int64_t count, int64_t end,
                 char* out) {
  const size_t step = kBytes ? kBytes : bytes;
  int64_t k = first;
  for (; k < count && at[k] < end; ++k)
    std::memcpy(out + static_cast<size_t>(at[k]) * step, rows + static_cast<size_t>(k) * step, step);
  return k;
}
}  // namespace

Tensor scattered_rows(const Tensor& rows, const Tensor& places, int64_t total) {
  IntVector sizes{total};
  for (int64_t s : rows.sizes().subspan(1)) sizes.push_back(s);
  check_inside(places, total);
  const Tensor from = contiguous(rows), r = empty_kernel(sizes, rows.dtype());
  const int64_t count = places.numel(), *const at = places.data<int64_t>();
  const size_t bytes = static_cast<size_t>(product(rows.sizes().subspan(1)) * rows.item_size());
  const auto put = bytes == 4 ? put_rows<4> : bytes == 8 ? put_rows<8> : put_rows<0>;
  const char* in = static_cast<const char*>(from.data_ptr());
  char* out = static_cast<char*>(r.data_ptr());
  if (!std::is_sorted(at, at + count)) {
    std::memset(out, 0, static_cast<size_t>(total) * bytes);
    put(in, bytes, at, 0, count, total, out);
    return r;
  }
  // A stretch that stays in the cache is filled with zeros, and gets its rows.
  const int64_t stretch = 16384 / std::max<int64_t>(1, static_cast<int64_t>(bytes)) + 1;
  parallel_ranges(total, 16 * stretch, [&](int64_t begin, int64_t end) {
    int64_t k = std::lower_bound(at, at + count, begin) - at;
    for (int64_t row = begin; row < end; row += stretch) {
      const int64_t to = std::min(end, row + stretch);
      std::memset(out + static_cast<size_t>(row) * bytes, 0, static_cast<size_t>(to - row) * bytes);
      k = put(in, bytes, at, k, count, to, out);
    }
  });
  return r;
}

Grouped grouped(const Tensor& keys, int64_t range, const Tensor& rows) {
  const int64_t n = keys.numel();
  TESSERA_CHECK(n < (int64_t{1} << 32), "sparse tensors of 2^32 elements and more are not supported, got ", n);
  check_inside(keys, range);
  if (rows.dtype() == DType::kFloat32 && rows.dim() == 1 && !rows.is_neg() && cpu::KeySums::fits(n, range) &&
      !std::is_sorted(keys.data<int64_t>(), keys.data<int64_t>() + n)) {
    const Tensor in = contiguous(rows);
    const cpu::KeySums sums(keys.data<int64_t>(), n, range, in.data<float>());
    const Grouped r{empty_kernel(IntVector{sums.size()}, DType::kInt64),
                    empty_kernel(IntVector{sums.size()}, DType::kFloat32)};
    sums.write(r.keys.data<int64_t>(), r.rows.data<float>());
    return r;
  }
  const cpu::Groups g = cpu::group_keys(keys.data<int64_t>(), n, range);
  const int64_t groups = static_cast<int64_t>(g.keys.size());
  if (g.ordered && groups == n) return {keys, rows};
  Grouped r{empty_kernel(IntVector{groups}, DType::kInt64), Tensor()};
  std::copy(g.keys.begin(), g.keys.end(), r.keys.data<int64_t>());
  IntVector sizes{groups};
  for (int64_t s : rows.sizes().subspan(1)) sizes.push_back(s);
  const Tensor in = contiguous(resolve_neg(resolve_conj(rows)));
  r.rows = empty_kernel(sizes, rows.dtype());
  cpu::add_groups(rows.dtype(), g, in.data_ptr(), product(rows.sizes().subspan(1)), r.rows.data_ptr());
  if (rows.dtype() == DType::kBool) r.rows = ne(tessera::view(r.rows, DType::kUInt8), Scalar(0));
  return r;
}

Tensor coalesced(const Tensor& t) {
  check_coo(t, "coalesce");
  const Members& m = members(t);
  if (m.coalesced) return t;
  if (t.is_meta()) return make_coo(t.sizes(), m.compressed, m.values, true);
  const IntList outer = t.sizes().first(static_cast<size_t>(m.sparse_dim));
  const Tensor keys = flat_places(m.compressed, outer);
  const Grouped g = grouped(keys, std::max<int64_t>(1, checked_numel(outer)), m.values);
  return make_coo(t.sizes(), g.keys.is_same(keys) ? m.compressed : indices_of_places(g.keys, outer), g.rows, true);
}
Tensor _coalesce_kernel(const Tensor& self) {
  const Tensor r = coalesced(self);
  return r.is_same(self) ? sparse::twin(self, true) : r;
}
Tensor coalesced_or_self(const Tensor& self) {
  check_coo(self, "coalesce");
  return members(self).coalesced ? self : _coalesce(self);
}

Tensor dense_of(const Tensor& t) {
  if (!is_sparse(t)) return t;
  if (t.is_meta()) return make_filled(t.sizes(), Scalar(0), t.dtype(), t.device());
  if (is_coo(t)) {
    const Tensor c = coalesced(t);
    const Members& m = members(c);
    const IntList outer = t.sizes().first(static_cast<size_t>(m.sparse_dim));
    const Tensor rows =
        scattered_rows(resolve_neg(resolve_conj(m.values)), flat_places(m.compressed, outer), checked_numel(outer));
    return reshape(rows, t.sizes());
  }
  const Elements e = elements_of(t, true);
  const Counts c = counts_of(t);
  const bool rows = by_rows(t.layout());
  const int64_t h = rows ? c.lines : c.across, w = rows ? c.across : c.lines;
  const IntVector space{c.matrices, h, w};
  const Tensor keys = flat_places(stack(std::vector<Tensor>{e.batch, e.row, e.column}), space);
  const Grouped g = grouped(keys, std::max<int64_t>(1, product(space)), e.values);
  const Tensor cells = scattered_rows(resolve_neg(resolve_conj(g.rows)), g.keys, product(space));
  if (!has_blocks(t.layout())) return reshape(cells, t.sizes());
  const auto [bh, bw] = blocks_of(t);
  IntVector shape{c.matrices, h, w, bh, bw}, order{0, 1, 3, 2, 4};
  for (int64_t d = 3; d < cells.dim(); ++d) {
    shape.push_back(cells.size(d));
    order.push_back(d + 2);
  }
  return reshape(permute(reshape(cells, IntList(shape)), IntList(order)), t.sizes());
}

Tensor in_layout(const Tensor& t, Layout layout, IntList blocks) {
  if (layout == t.layout()) {
    const auto have = blocks_of(t);
    TESSERA_CHECK(blocks.empty() || std::ranges::equal(blocks, have), "to_", layout_name(layout), ": conversion from ",
                  shown(layout), " to ", shown(layout), " with blocksize changed from ", shape_string(have), " to ",
                  shape_string(blocks), " is not supported");
    return t;
  }
  if (layout == Layout::kSparseCoo && !t.is_meta()) return coo_of_compressed(t);
  if (layout == Layout::kSparseCsr && is_coo(t) && members(t).sparse_dim == 2 &&
      !t.is_meta()) {  // in order: only counted
    const Tensor c = coalesced(t), n = numbers(members(c).compressed);
    return make_compressed(layout, t.sizes(), pointers_of(n.data<int64_t>(), n.size(1), t.size(0)),
                           contiguous(select(n, 0, 1)), members(c).values);
  }
  const int64_t batch = is_coo(t) ? std::max<int64_t>(0, members(t).sparse_dim - 2) : batch_dims(t);
  if (has_blocks(layout)) check_blocks("to_sparse_blocks", blocks, t.sizes(), batch);
  const bool keep = has_blocks(layout) && has_blocks(t.layout()) && std::ranges::equal(blocks, blocks_of(t));
  const DType index = is_coo(t) ? DType::kInt64 : members(t).compressed.dtype();
  if (t.is_meta())
    return empty_sparse(layout, t.sizes(), t.dtype(), t.device(),
                        layout == Layout::kSparseCoo ? t.dim() - dense_dim_of(t) : batch, blocks, index);
  return assembled(layout, t.sizes(), batch, blocks, elements_of(t, keep), keep, index);
}

Tensor _to_sparse_layout_kernel(const Tensor& self, Layout layout, std::optional<IntList> blocksize,
                                std::optional<int64_t> dense_dim, std::optional<int64_t> sparse_dim) {
  const IntList blocks = blocksize.value_or(IntList());
  TESSERA_CHECK(layout == Layout::kSparseCoo || is_compressed(layout), "to_sparse: expected a sparse layout, but got ",
                shown(layout));
  TESSERA_CHECK(has_blocks(layout) || blocks.empty(), "to_sparse: conversion to ", shown(layout),
                " takes no blocksize, but got ", shape_string(blocks));
  if (is_sparse(self)) {
    const Tensor r = in_layout(self, layout, blocks);
    return r.is_same(self) ? sparse::twin(self, true) : r;
  }
  const Tensor t = resolve_neg(resolve_conj(self));
  if (t.is_meta()) {  // how many elements there are is not known: none
    const int64_t sparse = sparse_dim ? *sparse_dim : t.dim() - dense_dim.value_or(0);
    const bool coo = layout == Layout::kSparseCoo;
    if (has_blocks(layout)) check_blocks("to_sparse", blocks, t.sizes(), std::max<int64_t>(0, sparse - 2));
    return empty_sparse(layout, t.sizes(), t.dtype(), t.device(), coo ? sparse : sparse - 2, blocks);
  }
  TESSERA_CHECK_NOT_IMPLEMENTED(t.is_cpu(), "to_sparse: tensors on ", t.device().str(), " are not supported");
  if (layout == Layout::kSparseCoo) return coo_of_dense(t, sparse_dim ? *sparse_dim : t.dim() - dense_dim.value_or(0));
  if (has_blocks(layout))
    check_blocks(layout == Layout::kSparseBsr ? "dense_to_sparse_bsr" : "dense_to_sparse_bsc", blocks, t.sizes(),
                 std::max<int64_t>(0, t.dim() - 2 - dense_dim.value_or(0)));
  return compressed_of_dense(t, layout, blocks, dense_dim.value_or(0));
}

Tensor to_sparse_dims(const Tensor& self, int64_t sparse_dim) {
  if (is_sparse(self)) {
    TESSERA_CHECK(sparse_dim == sparse_dim_of(self), "to_sparse: conversion from ", shown(self.layout()),
                  " to Sparse with sparse_dim argument !=self.sparse_dim() is not supported: it is ",
                  sparse_dim_of(self), ", not ", sparse_dim);
    return is_coo(self) ? self : _to_sparse_layout(self, Layout::kSparseCoo, std::nullopt, std::nullopt, std::nullopt);
  }
  return _to_sparse_layout(self, Layout::kSparseCoo, std::nullopt, std::nullopt, sparse_dim);
}

Tensor to_sparse_any(const Tensor& self, std::optional<Layout> layout, std::optional<IntList> blocksize,
                     std::optional<int64_t> dense_dim) {
  const Layout wanted = layout.value_or(Layout::kSparseCoo);
  if (wanted == Layout::kStrided) return to_dense_any(self, std::nullopt, std::nullopt);
  TESSERA_CHECK(wanted == Layout::kSparseCoo || is_compressed(wanted), "to_sparse: expected a sparse layout, but got ",
                shown(wanted));
  TESSERA_CHECK(!blocksize || blocksize->size() == 2, "to_sparse: blocksize needs to be a tuple of size 2, but got ",
                blocksize ? blocksize->size() : 0);
  TESSERA_CHECK(has_blocks(wanted) == blocksize.has_value(), "to_sparse: conversion to ", shown(wanted),
                has_blocks(wanted) ? " needs a blocksize" : " takes no blocksize");
  TESSERA_CHECK(!dense_dim || !is_sparse(self) || *dense_dim == dense_dim_of(self),
                "to_sparse: dense_dim argument must ", "be that of a sparse tensor, ", dense_dim_of(self), ", but got ",
                dense_dim.value_or(0));
  if (wanted == self.layout()) {
    in_layout(self, wanted, blocksize.value_or(IntList()));
    return self;
  }
  return _to_sparse_layout(self, wanted, blocksize, dense_dim, std::nullopt);
}

Tensor _to_dense_kernel(const Tensor& self, std::optional<DType> dtype, std::optional<bool>) {
  const Tensor r = dense_of(self);
  return dtype && *dtype != r.dtype() ? to(r, *dtype) : r.is_same(self) ? clone(r) : r;
}
Tensor to_dense_any(const Tensor& self, std::optional<DType> dtype, std::optional<bool> masked_grad) {
  if (!is_sparse(self)) return dtype ? to(self, *dtype) : self;
  return _to_dense(self, dtype, masked_grad);
}

Tensor added_compressed(const Tensor& a, const Tensor& b) {
  if (a.is_meta()) return copied(a);
  const Elements x = elements_of(a, true), y = elements_of(b, true);
  const auto both = [](const Tensor& p, const Tensor& q) { return cat(std::vector<Tensor>{p, q}); };
  const Elements sum{both(x.batch, y.batch), both(x.row, y.row), both(x.column, y.column), both(x.values, y.values)};
  const auto blocks = blocks_of(a);
  return assembled(a.layout(), a.sizes(), batch_dims(a), has_blocks(a.layout()) ? IntList(blocks) : IntList(), sum,
                   true, members(a).compressed.dtype());
}

Tensor gathered(const Tensor& dense, const Tensor& pattern) {
  const Members& m = members(pattern);
  const Tensor all = expand(dense, pattern.sizes());
  if (pattern.is_meta()) return make_filled(m.values.sizes(), Scalar(0), dense.dtype(), pattern.device());
  if (is_coo(pattern)) {
    const Tensor n = numbers(m.compressed);
    std::vector<Tensor> lists;
    for (int64_t d = 0; d < m.sparse_dim; ++d) {
      lists.push_back(contiguous(select(n, 0, d)));
      check_inside(lists.back(), pattern.size(d));
    }
    if (!lists.empty()) return index(all, lists);
    return clone(expand(unsqueeze(all, 0), m.values.sizes()));
  }
  const Elements e = elements_of(pattern, true);
  const Counts c = counts_of(pattern);
  const auto [bh, bw] = blocks_of(pattern);
  const bool rows = by_rows(pattern.layout());
  IntVector shape{c.matrices, rows ? c.lines : c.across, bh, rows ? c.across : c.lines, bw}, order{0, 1, 3, 2, 4};
  for (int64_t d = batch_dims(pattern) + 2; d < pattern.dim(); ++d) {
    order.push_back(static_cast<int64_t>(shape.size()));
    shape.push_back(pattern.size(d));
  }
  const Tensor cells = permute(reshape(all, IntList(shape)), IntList(order));
  return reshape(index(cells, std::vector<Tensor>{e.batch, e.row, e.column}), m.values.sizes());
}

Rows rows_of(const Tensor& matrix, bool transposed, bool columns_too) {
  TESSERA_CHECK(matrix.dim() == 2, "expected a sparse matrix, but got a tensor of shape ",
                shape_string(matrix.sizes()));
  Tensor t = matrix;
  if (is_coo(t)) {
    const Members& m = members(t);
    TESSERA_CHECK(m.sparse_dim == 2, "expected a matrix with two sparse dimensions, but got ", m.sparse_dim);
    if (transposed) t = transposed_any(t, 0, 1);
    const Tensor c = coalesced(t);
    const Tensor n = numbers(members(c).compressed);
    const Tensor columns = contiguous(select(n, 0, 1));
    if (columns_too) check_inside(columns, c.size(1));
    return {pointers_of(n.data<int64_t>(), n.size(1), c.size(0)), columns,
            contiguous(resolve_neg(resolve_conj(members(c).values))), c.size(0), c.size(1)};
  }
  if (transposed) t = transposed_any(t, 0, 1);
  if (t.layout() != Layout::kSparseCsr) t = in_layout(t, Layout::kSparseCsr);
  const Members& m = members(t);
  TESSERA_CHECK(m.values.dim() == 1, "expected a sparse matrix without dense dimensions");
  Rows r{numbers(m.compressed), numbers(m.plain), contiguous(resolve_neg(resolve_conj(m.values))), t.size(0),
         t.size(1)};
  const int64_t* p = r.pointers.data<int64_t>();
  bool good = p[0] == 0 && p[r.height] == r.columns.numel();
  for (int64_t i = 0; i < r.height; ++i) good &= p[i] <= p[i + 1];
  TESSERA_CHECK_INDEX(good, "the compressed indices of a sparse tensor must ascend from 0 to the number of elements, ",
                      r.columns.numel(), "; make it with check_invariants=True to see where they do not");
  if (columns_too) check_inside(r.columns, r.width);
  return r;
}

}  // namespace tessera::kernels
