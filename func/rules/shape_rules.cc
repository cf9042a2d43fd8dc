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

// as_strided_backward and as_strided_gather: two windows on one memory; each element of the batch has one of its own.
void as_strided_windows_rule(const BatchCall& c) {
  const auto end_of = [&](size_t sizes, size_t strides, size_t offset) {
    int64_t end = c.args[offset].integer() + 1;
    for (size_t d = 0; d < c.args[sizes].int_list().size(); ++d)
      end += std::max<int64_t>(c.args[sizes].int_list()[d] - 1, 0) * c.args[strides].int_list()[d];
    return end;
  };
  TESSERA_CHECK(c.args[1].int_list().size() == c.args[2].int_list().size() &&
                    c.args[4].int_list().size() == c.args[5].int_list().size(),
                c.plan.schema.base_name(), ": expected as many sizes as strides");
  const int64_t apart = std::max(end_of(1, 2, 3), end_of(4, 5, 6));
  std::vector<Value> args = copy_args(c);
  args[0] = Value::of(in_front(part(c, 0), c.batch));
  for (size_t i : {1, 4}) args[i] = Value::of(with_batch(c.batch, c.args[i].int_list()));
  for (size_t i : {2, 5}) args[i] = Value::of(with_batch(apart, c.args[i].int_list()));
  call_outside(c, args, c.rets);
  wrap_results(c);
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

// The last dimension must be one of the function's.
void view_as_complex_rule(const BatchCall& c) {
  const Part p = part(c, 0);
  TESSERA_CHECK(p.rank() > 0, "Input tensor must have one or more dimensions");
  put(c, 0, view_as_complex(in_front(p, c.batch)), 0);
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

// Each element counts into bins of its own; the range is that of its data where none is given.
void histc_rule(const BatchCall& c) {
  const Part p = part(c, 0);
  const int64_t bins = c.args[1].integer();
  const double min = c.args[2].scalar().to_double(), max = c.args[3].scalar().to_double();
  TESSERA_CHECK(bins > 0, "torch.histc(): bins must be > 0, but got ", bins);
  TESSERA_CHECK_NOT_IMPLEMENTED(p.value.is_floating_point(), "\"histogram_cpu\" not implemented for '",
                                type_name_of(p.value.dtype()), "'");
  TESSERA_CHECK(!(min > max), "torch.histc(): max must be larger than min");
  const Tensor x = to(rows(p, c.batch), DType::kFloat64), none = zeros_like(sum(x, IntList(kRest), true, std::nullopt));
  Tensor low = add(none, Scalar(min)), high = add(none, Scalar(max));
  if (min == max && x.numel() > 0) {
    low = amin(x, kRest, true);
    high = amax(x, kRest, true);
    TESSERA_CHECK(!known_to_fail(isfinite(sub(high, low))), "torch.histc(): the range of the data is not finite");
  }
  const Tensor flat = eq(low, high);
  low = where(flat, sub(low, Scalar(x.numel() ? 1.0 : 0.0)), low);
  high = where(flat, add(high, Scalar(1.0)), high);
  const Tensor inside = logical_and(ge(x, low), le(x, high));
  const Tensor place = mul(div(sub(x, low), sub(high, low)), Scalar(static_cast<double>(bins)));
  // What is outside goes to a bin behind the last.
  const Tensor bin = where(inside, clamp(to(place, DType::kInt64), Scalar(int64_t{0}), Scalar(bins - 1)),
                           full_like(to(inside, DType::kInt64), Scalar(bins)));
  const Tensor counts =
      scatter_add(zeros(IntVector{c.batch, bins + 1}, DType::kFloat64, std::nullopt, x.device()), 1, bin, ones_like(x));
  put(c, 0, to(narrow(counts, 1, 0, bins), p.value.dtype()), 0);
}

constexpr WrittenRule kRules[] = {
    {"permute", Family::kWritten, permute_rule},
    {"expand", Family::kWritten, expand_rule},
    {"squeeze.", Family::kWritten, squeeze_all_rule},
    {"t", Family::kWritten, t_rule},
    {"as_strided", Family::kWritten, as_strided_rule},
    {"view_as_complex", Family::kWritten, view_as_complex_rule},
    {"as_strided_backward", Family::kWritten, as_strided_windows_rule},
    {"as_strided_gather", Family::kWritten, as_strided_windows_rule},
    {"histc", Family::kWritten, histc_rule},
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
