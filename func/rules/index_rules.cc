// Indices: where they differ across the batch, the batch becomes an index of its own.
#include <algorithm>

#include "func/rules/rules.h"
#include "tensor/ops/api.h"

namespace tessera::func {
namespace {

// A one-dimensional index along `dim` for every other position of `like`.
Tensor spread_index(const Tensor& index, int64_t dim, IntList like) {
  IntVector shape(like.size(), 1), sizes(like.begin(), like.end());
  if (like.empty()) return index.dim() == 0 ? index : squeeze(index, 0);
  const int64_t n = index.numel();
  shape[static_cast<size_t>(dim)] = n;
  sizes[static_cast<size_t>(dim)] = n;
  const Tensor wide = index.dtype() == DType::kInt64 ? index : to(index, DType::kInt64);
  return expand(view(reshape(wide, IntVector{n}), IntList(shape)), IntList(sizes));
}

struct Along {
  Tensor self;  // at least one dimension
  int64_t dim;
  bool was_number;
};
Along along(const BatchCall& c) {
  const Tensor self = tensor_at(c, 0);
  const bool number = self.dim() == 0;
  const int64_t dim = wrap_dim(c.args[1].integer(), self.dim());
  TESSERA_CHECK_INDEX(tensor_at(c, 2).dim() <= 1, c.plan.schema.base_name(), "(): Index is supposed to be a vector");
  return {number ? unsqueeze(self, 0) : self, dim, number};
}
bool index_is_batched(const BatchCall& c) { return has_batch(c.args[2], c.level); }

// The index is the same for the whole batch: dimensions move, nothing else.
void same_index(const BatchCall& c) {
  Hidden hidden;
  std::vector<Value> args = copy_args(c);
  const bool number = tensor_at(c, 0).dim() == 0;
  for (size_t i : {size_t{0}, size_t{3}}) {
    if (i >= args.size() || !args[i].is_tensor() || !args[i].tensor().defined()) continue;
    const Part p = part(c, i);
    if (i == 3 && p.rank() == 0 && c.plan.schema.base_name().substr(0, 10) == "index_fill") continue;
    const Tensor t = in_front(p, c.batch);
    args[i] = Value::of(p.rank() == 0 ? unsqueeze(t, 1) : t);
  }
  args[1] = Value::of(wrap_dim(c.args[1].integer(), tensor_at(c, 0).dim()) + 1);
  call_outside(c, args, c.rets);
  if (return_written(c)) return;
  const Tensor r = c.rets[0].tensor();
  put(c, 0, number && r.dim() > 1 ? squeeze(r, 1) : r, 0);
}

void index_select_rule(const BatchCall& c) {
  if (!index_is_batched(c)) return same_index(c);
  const Along a = along(c);
  const Tensor r = gather(a.self, a.dim, spread_index(tensor_at(c, 2), a.dim, a.self.sizes()));
  c.rets[0] = Value::of(a.was_number ? squeeze(r, 0) : r);
}

// index_add, index_copy: as scatter_add, scatter.
template <class F>
void with_source(const BatchCall& c, F f) {
  if (!index_is_batched(c)) return same_index(c);
  const Along a = along(c);
  Tensor source = tensor_at(c, 3);
  if (source.dim() == 0) source = unsqueeze(source, 0);
  const Tensor r = f(a, spread_index(tensor_at(c, 2), a.dim, a.self.sizes()), source);
  give(c, a.was_number ? squeeze(r, 0) : r);
}
void index_add_rule(const BatchCall& c) {
  with_source(c, [&](const Along& a, const Tensor& index, const Tensor& source) {
    return scatter_add(a.self, a.dim, index, mul(source, c.args[4].scalar()));
  });
}
void index_copy_rule(const BatchCall& c) {
  with_source(c, [&](const Along& a, const Tensor& index, const Tensor& source) {
    return scatter(a.self, a.dim, index, source);
  });
}
void index_fill_rule(const BatchCall& c) {
  if (!index_is_batched(c)) return same_index(c);
  const Along a = along(c);
  const Tensor r = scatter(a.self, a.dim, spread_index(tensor_at(c, 2), a.dim, a.self.sizes()), c.args[3].scalar());
  give(c, a.was_number ? squeeze(r, 0) : r);
}

// The value is a tensor: it may differ across the batch.
void index_fill_tensor_rule(const BatchCall& c) {
  const Along a = along(c);
  const Tensor value = tensor_at(c, 3);
  TESSERA_CHECK(value.dim() == 0, "index_fill_ only supports a 0-dimensional value tensor, but got tensor with ",
                value.dim(), " dimension(s).");
  const Tensor index = spread_index(tensor_at(c, 2), a.dim, a.self.sizes());
  const Tensor places = scatter(zeros_like(a.self, DType::kBool), a.dim, index, Scalar(true));
  const Tensor r = where(places, to(value, a.self.dtype()), a.self);
  give(c, a.was_number ? squeeze(r, 0) : r);
}
void masked_fill_tensor_rule(const BatchCall& c) {
  const Tensor self = tensor_at(c, 0), value = tensor_at(c, 2);
  TESSERA_CHECK(value.dim() == 0, "masked_fill_ only supports a 0-dimensional value tensor, but got tensor with ",
                value.dim(), " dimension(s).");
  give(c, where(tensor_at(c, 1), to(value, self.dtype()), self));
}

// Elements in the order of their places, which are known where the mask is the same for all.
void masked_select_rule(const BatchCall& c) {
  TESSERA_CHECK(!has_batch(c.args[1], c.level),
                "vmap: aten::masked_select with a mask that is being vmapped over: the result depends on the data of a "
                "tensor (it has another number of elements for each element of the batch). Use torch.where(mask, a, b) "
                "instead.");
  const Tensor self = tensor_at(c, 0), mask = tensor_at(c, 1);
  const IntVector sizes = infer_broadcast(self.sizes(), mask.sizes()), flat{-1};
  const Tensor places = select(nonzero(reshape(expand(mask, IntList(sizes)), IntList(flat))), 1, 0);
  c.rets[0] = Value::of(index_select(reshape(expand(self, IntList(sizes)), IntList(flat)), 0, places));
}

// The same length for all: no number may be beyond it.
void bincount_rule(const BatchCall& c) {
  const int64_t length = c.args[2].integer();
  TESSERA_CHECK(length > 0 || !has_batch(c.args[0], c.level),
                "vmap: aten::bincount: the length of the result depends on the data of a tensor that is being vmapped "
                "over; give minlength, which no number may reach");
  const Tensor self = tensor_at(c, 0), weights = tensor_at(c, 1);
  if (!has_batch(c.args[0], c.level)) {  // then the weights have one
    const IntVector length_of_all{std::max(length, bincount(self).numel())};
    return give(c, scatter_add(new_zeros(weights, length_of_all), 0, to(self, DType::kInt64), weights));
  }
  const Tensor values = weights.defined() ? weights : ones_like(self, DType::kInt64);
  give(c, scatter_add(new_zeros(values, IntVector{length}), 0, to(self, DType::kInt64), values));
}

// --- x[i, j] and x[i, j] = v ---

struct Indices {
  std::vector<Part> parts;  // an undefined one: a dimension that is not indexed
  bool batched = false;
  int64_t first = 0;     // dimensions before the first index
  int64_t rank = 0;      // of all indices together
  bool adjacent = true;  // their dimensions stay where they are
};

// Masks become numbers of rows; one that differs across the batch selects another count for each of its elements.
Indices read_indices(const BatchCall& c, const Value& list) {
  Indices r;
  int64_t state = 0;  // before, in, behind the indices
  for (const Tensor& t : list.tensor_list()) {
    if (!t.defined()) {
      r.parts.emplace_back();
      if (state == 0) ++r.first;
      if (state == 1) state = 2;
      continue;
    }
    if (state == 2) r.adjacent = false;
    state = 1;
    const Part p = part_of(t, c.level);
    if (t.dtype() == DType::kBool || t.dtype() == DType::kUInt8) {
      TESSERA_CHECK(!p.batched(),
                    "vmap: an index that is a mask and is being vmapped over selects another number of "
                    "elements for each element of the batch. Use torch.where(mask, a, b) instead.");
      const Tensor found = nonzero(p.value);
      for (int64_t d = 0; d < p.value.dim(); ++d) r.parts.push_back({select(found, 1, d), -1});
      r.rank = std::max<int64_t>(r.rank, 1);
      continue;
    }
    r.batched = r.batched || p.batched();
    r.rank = std::max(r.rank, p.rank());
    r.parts.push_back(p);
  }
  return r;
}

Tensor batch_index(int64_t batch, int64_t rank, Device device) {
  IntVector shape(static_cast<size_t>(rank) + 1, 1);
  shape[0] = batch;
  return view(arange(Scalar(batch), DType::kInt64, std::nullopt, device), IntList(shape));
}
std::vector<Tensor> index_values(const Indices& in) {
  std::vector<Tensor> r;
  for (const Part& p : in.parts) r.push_back(p.defined() ? in_front_padded(p, in.rank) : Tensor());
  return r;
}

// Moves `count` dimensions from `from` to `to`.
Tensor move_dims(const Tensor& t, int64_t from, int64_t count, int64_t to) {
  IntVector order;
  for (int64_t d = 0; d < t.dim(); ++d)
    if (d < from || d >= from + count) order.push_back(d);
  for (int64_t k = 0; k < count; ++k) order.insert(order.begin() + to + k, from + k);
  return permute(t, order);
}

void index_rule(const BatchCall& c) {
  const Part self = part(c, 0);
  const Indices in = read_indices(c, c.args[1]);
  std::vector<Tensor> indices = index_values(in);
  if (!in.batched) {
    indices.insert(indices.begin(), Tensor());
    const Tensor r = index(in_front(self, c.batch), indices);
    // Indices that are apart put their dimensions first, before the batch.
    return put(c, 0, r, in.adjacent ? 0 : in.rank);
  }
  if (!self.batched()) return put(c, 0, index(self.value, indices), in.adjacent ? in.first : 0);
  indices.insert(indices.begin(), batch_index(c.batch, in.rank, self.value.device()));
  const Tensor r = index(in_front(self, c.batch), indices);  // (batch, indices..., the rest)
  const bool moved = in.adjacent && in.first > 0;
  put(c, 0, moved ? move_dims(r, 1, in.rank, 1 + in.first) : r, 0);
}

// Brings indexed dimensions of a tensor with the batch in front behind it.
IntVector indexed_first(const Indices& in, int64_t dims) {
  IntVector order{0};
  for (size_t d = 0; d < in.parts.size(); ++d)
    if (in.parts[d].defined()) order.push_back(static_cast<int64_t>(d) + 1);
  for (int64_t d = 1; d < dims; ++d)
    if (static_cast<size_t>(d) > in.parts.size() || !in.parts[static_cast<size_t>(d) - 1].defined()) order.push_back(d);
  return order;
}

bool is_mask_of_numbers(const BatchCall& c) {
  const TensorList list = c.args[1].tensor_list();
  return list.size() == 1 && list[0].defined() && list[0].dtype() == DType::kBool && has_batch(c.args[1], c.level);
}
// x[mask] = v with a mask for each element: v must fit every position.
Tensor put_by_mask(const BatchCall& c, const Tensor& self) {
  const Part mask = part_of(c.args[1].tensor_list()[0], c.level), value = part(c, 2);
  TESSERA_CHECK(value.value.numel() == (value.batched() ? c.batch : 1),
                "vmap: writing to x[mask] with a mask that is being vmapped over needs one "
                "value for all positions, because their number differs across the batch; use torch.where instead.");
  const bool accumulate = c.args[3].boolean();
  Tensor m = in_front(mask, c.batch);
  while (m.dim() < self.dim()) m = unsqueeze(m, -1);
  Tensor v = value.batched() ? reshape(value.value, IntVector{c.batch}) : reshape(value.value, IntVector{1});
  while (v.dim() < self.dim()) v = unsqueeze(v, -1);
  return where(m, accumulate ? add(self, v) : to(v, self.dtype()), self);
}

void index_put_rule(const BatchCall& c) {
  const Part self = part(c, 0);
  Tensor target = in_front(self, c.batch);
  if (is_mask_of_numbers(c)) {
    const Tensor r = put_by_mask(c, target);
    if (c.op.mutable_args)
      copy_(target, r);
    else
      put(c, 0, r, 0);
    return_written(c);
    return;
  }
  const Indices in = read_indices(c, c.args[1]);
  if (!c.op.mutable_args) target = clone(target, MemoryFormat::kContiguous);
  const IntVector order = indexed_first(in, target.dim());
  const Tensor seen = permute(target, order);
  std::vector<Tensor> indices{batch_index(c.batch, in.rank, target.device())};
  int64_t used = 0;
  for (const Part& p : in.parts)
    if (p.defined()) {
      indices.push_back(in_front_padded(p, in.rank));
      ++used;
    }
  // The values in the form that x[indices] has for one element: (before, indices, behind), or indices first.
  Part value = part(c, 2);
  const int64_t rest = target.dim() - 1 - used, rank = in.rank + rest;
  Tensor v = in_front(value, c.batch);
  v = in_front_padded({v, 0}, rank);
  if (in.adjacent && in.first > 0) {
    // As many dimensions as there are; those in front of the indices go behind them.
    v = move_dims(v, 1 + in.first, std::min(in.rank, v.dim() - 1 - in.first), 1);
  }
  index_put_(seen, indices, v, c.args[3].boolean());
  if (!return_written(c)) put(c, 0, target, 0);
}

// --- sorted sequences ---

void searchsorted_rule(const BatchCall& c) {
  const Part sequence = part(c, 0), values = part(c, 1);
  std::vector<Value> args = copy_args(c);
  const bool sorter = c.args[5].is_tensor() && c.args[5].tensor().defined();
  if (!sequence.batched() && sequence.rank() == 1 && !(sorter && part(c, 5).batched())) {
    args[1] = Value::of(in_front(values, c.batch));
    call_outside(c, args, c.rets);
    return wrap_results(c);
  }
  args[0] = Value::of(in_front(sequence, c.batch));
  if (sorter) args[5] = Value::of(in_front(part(c, 5), c.batch));
  const Tensor v = in_front(values, c.batch);
  const bool as_row = sequence.rank() == 1;  // one sequence for values of any shape
  args[1] = Value::of(as_row ? reshape(v, IntVector{c.batch, v.numel() / std::max<int64_t>(c.batch, 1)}) : v);
  call_outside(c, args, c.rets);
  if (as_row) c.rets[0] = Value::of(view(c.rets[0].tensor(), v.sizes()));
  wrap_results(c);
}

// One table for the whole batch, or one for each element: then they are one long table.
void embedding_rule(const BatchCall& c) {
  const Part weight = part(c, 0), indices = part(c, 1);
  if (!weight.batched()) {
    Hidden hidden;
    std::vector<Value> args = copy_args(c);
    args[1] = Value::of(in_front(indices, c.batch));
    call_outside(c, args, c.rets);
    return wrap_results(c);
  }
  const Tensor table = tensor_at(c, 0), index = tensor_at(c, 1);
  const int64_t padding = c.args[2].integer();
  const Tensor wide = expand(unsqueeze(reshape(index, IntVector{-1}), 1), IntVector{index.numel(), table.size(1)});
  IntVector sizes(index.sizes().begin(), index.sizes().end());
  sizes.push_back(table.size(1));
  const Tensor rows = view(gather(table, 0, to(wide, DType::kInt64)), IntList(sizes));
  // The row of the padding has no gradient.
  c.rets[0] = Value::of(padding < 0 ? rows : where(unsqueeze(eq(index, Scalar(padding)), -1), detach(rows), rows));
}

// Rows of one table for the whole batch: each element of it has a part of its own.
void embedding_backward_rule(const BatchCall& c) {
  const Part grad = part(c, 0), indices = part(c, 1);
  const int64_t rows = c.args[2].integer(), padding = c.args[3].integer();
  const Tensor plain = in_front(indices, c.batch);
  Tensor g = in_front(grad, c.batch);
  if (padding >= 0) g = masked_fill(g, unsqueeze(eq(plain, Scalar(padding)), -1), Scalar(0));
  IntVector shape(static_cast<size_t>(plain.dim()), 1);
  shape[0] = c.batch;
  const Tensor offsets = view(arange(Scalar(int64_t{0}), Scalar(rows * c.batch), Scalar(std::max<int64_t>(rows, 1)),
                                     plain.dtype(), std::nullopt, plain.device()),
                              IntList(shape));
  std::vector<Value> args = copy_args(c);
  args[0] = Value::of(g);
  args[1] = Value::of(add(plain, offsets));
  args[2] = Value::of(rows * c.batch);
  args[3] = Value::of(int64_t{-1});
  call_outside(c, args, c.rets);
  put(c, 0, unfolded(c.rets[0].tensor(), c.batch), 0);
}

// Each true place takes the next element of source: their numbers are running counts of the mask.
void masked_scatter_rule(const BatchCall& c) {
  const Tensor self = tensor_at(c, 0), mask = tensor_at(c, 1), source = tensor_at(c, 2);
  TESSERA_CHECK(mask.dtype() == DType::kBool, "masked_scatter: expected a BoolTensor as mask, but got ",
                type_name_of(mask.dtype()));
  TESSERA_CHECK(self.dtype() == source.dtype(), "masked_scatter: expected self and source to have same dtypes but got ",
                name_of(self.dtype()), " and ", name_of(source.dtype()));
  IntVector sizes = infer_broadcast(self.sizes(), mask.sizes());
  if (c.op.mutable_args) sizes.assign(self.sizes().begin(), self.sizes().end());
  const Tensor places = expand(mask, IntList(sizes)), to_fill = expand(self, IntList(sizes));
  // One more, for masks without a true place; a mask with too many reaches behind it, which gather refuses.
  const Tensor pool[2] = {reshape(source, IntVector{-1}), new_zeros(source, IntVector{source.numel() ? 0 : 1})};
  const Tensor numbers = cumsum(reshape(places, IntVector{-1}), 0, DType::kInt64);
  TESSERA_CHECK(source.numel() > 0 || !known_to_fail(logical_not(innermost(mask))),
                "masked_scatter: expected the number of elements in source to be at least the number of ones in mask");
  const Tensor taken = gather(cat(pool, 0), 0, clamp_min(sub(numbers, Scalar(int64_t{1})), Scalar(int64_t{0})));
  give(c, where(places, reshape(taken, IntList(sizes)), to_fill));
}

// --- bags of embeddings ---

enum : size_t { kTable = 0, kIndices, kOffsets, kBagMode = 4, kFactors = 6, kLastOffset, kPadding };

// Only the table differs: the rows of all tables side by side are one.
void embedding_bag_of_wide_table(const BatchCall& c) {
  const Tensor table = in_front(part(c, kTable), c.batch);
  const int64_t rows = table.sizes()[1], width = table.sizes()[2];
  std::vector<Value> args = copy_args(c);
  args[kTable] = Value::of(reshape(transpose(table, 0, 1), IntVector{rows, c.batch * width}));
  call_outside(c, args, c.rets);
  for (size_t i : {0, 3}) {
    const Tensor r = c.rets[i].tensor();
    if (r.dim() == 2) put(c, i, view(r, IntVector{r.sizes()[0], c.batch, width}), 1);
  }
}

// All bags of the batch in a row. Tables of their own lie one behind the other, and their padding is one row at the
// end. Indices behind the last bag make one more, which is left out.
void embedding_bag_rule(const BatchCall& c) {
  const Part table = part(c, kTable), indices = part(c, kIndices), offsets = part(c, kOffsets),
             factors = part(c, kFactors);
  TESSERA_CHECK(table.rank() == 2, "'weight' must be 2-D, but got ", table.rank(), "-D");
  TESSERA_CHECK(indices.rank() == 1, "input has to be a 1D Tensor, but got Tensor of dimension ", indices.rank());
  TESSERA_CHECK(offsets.rank() == 1, "offsets has to be a 1D Tensor, but got Tensor of dimension ", offsets.rank());
  if (!indices.batched() && !offsets.batched() && !factors.batched()) return embedding_bag_of_wide_table(c);
  const Tensor index = to(in_front(indices, c.batch), DType::kInt64),
               start = to(in_front(offsets, c.batch), DType::kInt64);
  const int64_t rows = table.value.sizes()[table.batch_dim == 0 ? 1 : 0], n = index.sizes()[1],
                starts = start.sizes()[1];
  const bool last_offset = c.args[kLastOffset].boolean();
  TESSERA_CHECK(!last_offset || starts >= 1, "include_last_offset: number of offset should be at least 1");
  const int64_t bags = starts - last_offset;
  TESSERA_CHECK(starts == 0 || !known_to_fail(eq(select(start, 1, 0), Scalar(int64_t{0}))),
                "offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from position 0.");
  TESSERA_CHECK_INDEX(!known_to_fail(logical_and(ge(index, Scalar(int64_t{0})), lt(index, Scalar(rows)))),
                      "index out of range in self");
  const Tensor number = view(arange(c.batch, DType::kInt64, std::nullopt, index.device()), IntVector{c.batch, 1});
  std::vector<Value> args = copy_args(c);
  Tensor moved = index;
  if (table.batched()) {
    const int64_t padding = c.args[kPadding].integer();
    const Tensor all = folded(table, c.batch), parts[2] = {all, new_zeros(all, IntVector{1, all.sizes()[1]})};
    args[kTable] = Value::of(cat(parts, 0));
    moved = add(index, mul(number, Scalar(rows)));
    if (padding >= 0) {
      moved = masked_fill(moved, eq(index, Scalar(padding)), Scalar(c.batch * rows));
      args[kPadding] = Value::of(c.batch * rows);
    }
  }
  args[kIndices] = Value::of(reshape(moved, IntVector{-1}));
  args[kOffsets] = Value::of(reshape(add(start, mul(number, Scalar(n))), IntVector{-1}));
  args[kLastOffset] = Value::of(false);
  if (factors.defined()) args[kFactors] = Value::of(folded(factors, c.batch));
  call_outside(c, args, c.rets);

  const auto of_bags = [&](size_t i) { return narrow(unfolded(c.rets[i].tensor(), c.batch), 1, 0, bags); };
  const Tensor bag = sub(view(c.rets[1].tensor(), IntVector{c.batch, n}), mul(number, Scalar(starts))),
               sizes = of_bags(2);
  Tensor greatest = of_bags(3);
  if (c.args[kBagMode].integer() == 2 && table.batched())
    greatest = masked_fill(sub(greatest, mul(unsqueeze(number, 2), Scalar(rows))),
                           unsqueeze(eq(sizes, Scalar(int64_t{0})), 2), Scalar(int64_t{0}));
  put(c, 0, of_bags(0), 0);
  put(c, 1, masked_fill(bag, ge(bag, Scalar(bags)), Scalar(int64_t{-1})), 0);
  put(c, 2, sizes, 0);
  put(c, 3, greatest, 0);
}

constexpr WrittenRule kRules[] = {
    {"index_select", Family::kWritten, index_select_rule, true},
    {"index_add", Family::kWritten, index_add_rule, true},
    {"index_copy", Family::kWritten, index_copy_rule, true},
    {"index_fill", Family::kWritten, index_fill_rule, true},
    {"index_fill.int_Tensor", Family::kWritten, index_fill_tensor_rule, true},
    {"masked_fill.Tensor", Family::kWritten, masked_fill_tensor_rule, true},
    {"_scatter_reduce", Family::kShift},
    {"embedding", Family::kWritten, embedding_rule, true},
    {"masked_scatter", Family::kWritten, masked_scatter_rule, true},
    {"_embedding_bag", Family::kWritten, embedding_bag_rule},
    {"index", Family::kWritten, index_rule},
    {"index_put", Family::kWritten, index_put_rule},
    {"searchsorted", Family::kWritten, searchsorted_rule},
    {"embedding_dense_backward", Family::kWritten, embedding_backward_rule},
    {"nonzero", Family::kForbidden},
    {"masked_select", Family::kWritten, masked_select_rule, true},
    {"bincount", Family::kWritten, bincount_rule, true},
    {"repeat_interleave.Tensor", Family::kForbidden},
    {"_unique2", Family::kForbidden},
    {"unique_dim", Family::kForbidden},
    {"unique_consecutive", Family::kForbidden},
};

}  // namespace

std::span<const WrittenRule> index_rules() { return kRules; }

}  // namespace tessera::func
