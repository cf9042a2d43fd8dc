// Shapes, views, new tensors, copies, and reductions over all dimensions.
#include <algorithm>

#include "func/rules/rules.h"
#include "tensor/ops/api.h"

namespace tessera::func {
namespace {

IntVector behind_batch(const Tensor& t) { return {t.sizes().begin() + 1, t.sizes().end()}; }
IntVector with_batch(int64_t batch, IntList sizes) {
  IntVector r{batch};
  r.insert(r.end(), sizes.begin(), sizes.end());
  return r;
}

// --- views ---

void permute_rule(const BatchCall& c) {
  const Part p = part(c, 0);
  const IntList dims = c.args[1].int_list();
  TESSERA_CHECK(static_cast<int64_t>(dims.size()) == p.rank(),
                "permute(sparse_coo): number of dimensions in the tensor "
                "input does not match the length of the desired ordering of dimensions i.e. input.dim() = ",
                p.rank(), " is not equal to len(dims) = ", dims.size());
  IntVector order{0};
  for (int64_t d : dims) order.push_back(wrap_dim(d, p.rank()) + 1);
  put(c, 0, permute(in_front(p, c.batch), order), 0);
}

Tensor expanded_to(const Part& p, int64_t batch, IntList size) {
  const auto rank = static_cast<int64_t>(size.size());
  TESSERA_CHECK(rank >= p.rank(), "expand(size=", shape_string(size), "): the number of sizes provided (", rank,
                ") must be greater or equal to the number of dimensions in the tensor (", p.rank(), ")");
  return expand(in_front_padded(p, rank), IntList(with_batch(batch, size)));
}
void expand_rule(const BatchCall& c) { put(c, 0, expanded_to(part(c, 0), c.batch, c.args[1].int_list()), 0); }

void squeeze_all_rule(const BatchCall& c) {
  const Tensor t = in_front(part(c, 0), c.batch);
  IntVector dims;
  for (int64_t d = 1; d < t.dim(); ++d)
    if (t.sizes()[static_cast<size_t>(d)] == 1) dims.push_back(d);
  put(c, 0, dims.empty() ? alias(t) : squeeze(t, dims), 0);
}

void t_rule(const BatchCall& c) {
  const Part p = part(c, 0);
  TESSERA_CHECK(p.rank() <= 2, "t() expects a tensor with <= 2 dimensions, but self is ", p.rank(), "D");
  const Tensor t = in_front(p, c.batch);
  put(c, 0, p.rank() == 2 ? transpose(t, 1, 2) : alias(t), 0);
}

// Offsets and strides are those of one element.
void as_strided_rule(const BatchCall& c) {
  const Part p = part(c, 0);
  const Tensor t = in_front(p, c.batch);
  const int64_t offset = c.args[3].is_none() ? t.storage_offset() : c.args[3].integer();
  IntVector strides{t.strides()[0]};
  const IntList given = c.args[2].int_list();
  strides.insert(strides.end(), given.begin(), given.end());
  put(c, 0, as_strided(t, IntList(with_batch(c.batch, c.args[1].int_list())), IntList(strides), offset), 0);
}

// In-place forms that change the shape alone: the wrapper gets another value. f works inside of the level.
template <class F>
void new_shape(const BatchCall& c, F f) {
  const Tensor self = c.args[0].tensor();
  WrapperImpl* w = wrapper_at(self, c.level);
  const Tensor made = f(self);
  WrapperImpl* m = wrapper_at(made, c.level);
  w->set_value(m->value(), m->batch_dim());
  w->bump_version();
  c.rets[0] = Value::of(self);
}
void transpose_inplace(const BatchCall& c) {
  new_shape(c, [&](const Tensor& t) { return transpose(t, c.args[1].integer(), c.args[2].integer()); });
}
void t_inplace(const BatchCall& c) {
  new_shape(c, [](const Tensor& x) { return t(x); });
}
void unsqueeze_inplace(const BatchCall& c) {
  new_shape(c, [&](const Tensor& t) { return unsqueeze(t, c.args[1].integer()); });
}
void squeeze_inplace(const BatchCall& c) {
  new_shape(c, [&](const Tensor& t) {
    if (c.args.size() == 1) return squeeze(t);
    return c.args[1].tag() == Value::Tag::kIntList ? squeeze(t, c.args[1].int_list()) : squeeze(t, c.args[1].integer());
  });
}
void as_strided_inplace(const BatchCall& c) {
  new_shape(c, [&](const Tensor& t) {
    return as_strided(t, c.args[1].int_list(), c.args[2].int_list(),
                      c.args[3].is_none() ? std::optional<SymInt>() : std::optional<SymInt>(c.args[3].integer()));
  });
}
void detach_inplace(const BatchCall& c) {
  new_shape(c, [](const Tensor& t) { return detach(t); });
}

void constant_pad_rule(const BatchCall& c) {
  const Part p = part(c, 0);
  const size_t n = c.args[1].int_list().size();
  TESSERA_CHECK(static_cast<int64_t>(n) <= 2 * p.rank(),
                "Length of pad should be no more than twice the number of "
                "dimensions of the input. Pad length is ",
                n, " while the input has ", p.rank(), " dimensions.");
  std::vector<Value> args = copy_args(c);
  args[0] = Value::of(in_front(p, c.batch));
  call_outside(c, args, c.rets);
  wrap_results(c);
}

// tril, triu: at least two dimensions are the function's.
void matrix_rule(const BatchCall& c) {
  const Part p = part(c, 0);
  TESSERA_CHECK(p.rank() >= 2, c.plan.schema.base_name(), ": input tensor must have at least 2 dimensions");
  std::vector<Value> args = copy_args(c);
  args[0] = Value::of(in_front(p, c.batch));
  call_outside(c, args, c.rets);
  if (!return_written(c)) wrap_results(c);
}

void fill_rule(const BatchCall& c) {
  const Tensor self = tensor_at(c, 0), value = tensor_at(c, 1);
  TESSERA_CHECK(value.dim() == 0, "fill_ only supports 0-dimension value tensor but got tensor with ", value.dim(),
                " dimensions.");
  give(c, clone(expand(to(value, self.dtype()), self.sizes()), MemoryFormat::kContiguous));
}

// x with a part replaced: x must have a batch if the part has one.
void spread_self(const BatchCall& c) {
  std::vector<Value> args = copy_args(c);
  if (!has_batch(args[0], c.level)) {
    Hidden hidden;
    args[0] = Value::of(make_batched(in_front(part(c, 0), c.batch), 0, c.level));
  }
  decompose(c, args);
}

void new_empty_strided_rule(const BatchCall& c) {
  std::vector<Value> args = copy_args(c);
  const IntList size = c.args[1].int_list(), stride = c.args[2].int_list();
  int64_t extent = 1;
  for (size_t i = 0; i < size.size() && i < stride.size(); ++i) extent += (size[i] - 1) * stride[i];
  args[0] = Value::of(in_front(part(c, 0), c.batch));
  args[1] = Value::of(with_batch(c.batch, size));
  args[2] = Value::of(with_batch(std::max<int64_t>(extent, 1), stride));
  call_outside(c, args, c.rets);
  wrap_results(c);
}

// --- reductions over everything ---

Tensor rows(const Part& p, int64_t batch) {
  const Tensor t = in_front(p, batch);
  const IntVector rest = behind_batch(t);
  return reshape(t, IntVector{batch, checked_numel(rest)});
}
const IntVector kRest{1};
std::optional<DType> dtype_at(const BatchCall& c, size_t i) {
  return c.args[i].is_none() ? std::nullopt : std::optional<DType>(c.args[i].dtype());
}
void sum_all(const BatchCall& c) {
  put(c, 0, sum(rows(part(c, 0), c.batch), IntList(kRest), false, dtype_at(c, 1)), 0);
}
void mean_all(const BatchCall& c) {
  put(c, 0, mean(rows(part(c, 0), c.batch), IntList(kRest), false, dtype_at(c, 1)), 0);
}
void prod_all(const BatchCall& c) { put(c, 0, prod(rows(part(c, 0), c.batch), 1, false, dtype_at(c, 1)), 0); }
void max_all(const BatchCall& c) { put(c, 0, amax(rows(part(c, 0), c.batch), kRest), 0); }
void min_all(const BatchCall& c) { put(c, 0, amin(rows(part(c, 0), c.batch), kRest), 0); }
void any_all(const BatchCall& c) { put(c, 0, any(rows(part(c, 0), c.batch), 1), 0); }
void all_all(const BatchCall& c) { put(c, 0, all(rows(part(c, 0), c.batch), 1), 0); }

constexpr WrittenRule kRules[] = {
    {"permute", Family::kWritten, permute_rule},
    {"expand", Family::kWritten, expand_rule},
    {"squeeze.", Family::kWritten, squeeze_all_rule},
    {"t", Family::kWritten, t_rule},
    {"as_strided", Family::kWritten, as_strided_rule},
    {"transpose_", Family::kWritten, transpose_inplace, true},
    {"t_", Family::kWritten, t_inplace, true},
    {"unsqueeze_", Family::kWritten, unsqueeze_inplace, true},
    {"squeeze_", Family::kWritten, squeeze_inplace, true},
    {"as_strided_", Family::kWritten, as_strided_inplace, true},
    {"detach_", Family::kWritten, detach_inplace, true},
    {"detach", Family::kFront},
    {"constant_pad_nd", Family::kWritten, constant_pad_rule},
    {"tril", Family::kWritten, matrix_rule},
    {"triu", Family::kWritten, matrix_rule},
    {"clone", Family::kLike},
    {"_to_copy", Family::kLike},
    {"new_empty_strided", Family::kWritten, new_empty_strided_rule},
    {"copy", Family::kPointwise},
    {"fill.Scalar", Family::kPointwise},
    {"fill.Tensor", Family::kWritten, fill_rule, true},
    {"select_scatter", Family::kWritten, spread_self, true},
    {"slice_scatter", Family::kWritten, spread_self, true},
    {"diagonal_scatter", Family::kWritten, spread_self, true},
    {"as_strided_scatter", Family::kWritten, spread_self, true},
    {"polygamma", Family::kPointwise},
    {"zero", Family::kPointwise},
    {"complex", Family::kPointwise},
    {"frexp", Family::kPointwise},
    {"resize_", Family::kForbidden},
    {"set_", Family::kForbidden},
    {"equal", Family::kForbidden},
    {"sum.", Family::kWritten, sum_all},
    {"mean.", Family::kWritten, mean_all},
    {"prod.", Family::kWritten, prod_all},
    {"max.", Family::kWritten, max_all},
    {"min.", Family::kWritten, min_all},
    {"any.", Family::kWritten, any_all},
    {"all.", Family::kWritten, all_all},
};

}  // namespace

std::span<const WrittenRule> shape_rules() { return kRules; }

}  // namespace tessera::func
