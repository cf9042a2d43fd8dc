// One fallback serves the keys of sparse tensors: a table says by an operator's name what it does, however it is called
// (functional, in place, out=). A composite that the table does not name is made of operators that it does.
#include "sparse/rules.h"

#include <algorithm>
#include <mutex>
#include <string>

#include "sparse/all_ops.h"
#include "sparse/kernels.h"
#include "tensor/core/device_hooks.h"
#include "tensor/dispatch/registry.h"
#include "tensor/dispatch/runtime.h"
#include "tensor/ops/promotion.h"

namespace tessera::sparse {
namespace {

using namespace kernels;  // NOLINT: what the rules are made of

struct Rule;

struct Call {
  const OpHeader& op;
  const Rule& rule;
  std::string_view name;  // "add": without namespace and the mark of the in-place form
  const Value* args;
  size_t n;
  Value* rets;

  bool inplace() const { return op.flags & kIsInplace; }
  bool out() const { return op.flags & kIsOut; }
  const Tensor& tensor(size_t i) const { return args[i].tensor(); }
  int64_t integer(size_t i) const { return args[i].integer(); }
  Scalar scalar(size_t i) const { return args[i].is_none() ? Scalar(1) : args[i].scalar(); }
  std::optional<DType> dtype(size_t i) const {
    return i >= n || args[i].tag() != Value::Tag::kDType ? std::nullopt : std::optional(args[i].dtype());
  }
  std::vector<int64_t> dims(size_t i) const {
    if (i >= n || (args[i].tag() != Value::Tag::kInt && args[i].tag() != Value::Tag::kIntList)) return {};
    if (args[i].tag() == Value::Tag::kInt) return {args[i].integer()};
    const IntList l = args[i].int_list();
    return {l.begin(), l.end()};
  }
};

// Gives the result; the caller brings it to where an in-place or out= form wants it. An undefined one: rets are set.
using Handler = Tensor (*)(const Call&);

enum : uint8_t {
  kCoalesces = 1,    // not linear: values of equal indices are added first
  kMayCoalesce = 2,  // also those of the tensor that is written
};

struct Rule {
  const char* name;
  Handler run;
  uint8_t flags = 0;
  const char* text = nullptr;  // of the refusal
};

[[noreturn]] void throw_not_served(const OpHeader& op, const Tensor& t) {
  std::string name = op.name;
  if (op.overload[0]) name += std::string(".") + op.overload;
  DispatchKeySet backends = t.keys() & kBackendKeys;
  throw NotImplementedError(
      str_cat("Could not run '", name, "' with arguments from the '", key_name(backends.highest()),
              "' backend. This operator is not defined for tensors of layout torch.", layout_name(t.layout()),
              ": use to_dense(), or values() for the specified elements."));
}

const Tensor& first_sparse(const Value* args, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    if (args[i].is_tensor() && args[i].tensor().defined() && is_sparse(args[i].tensor())) return args[i].tensor();
    if (args[i].is_tensor_list())
      for (const Tensor& t : args[i].tensor_list())
        if (t.defined() && is_sparse(t)) return t;
  }
  static const auto* none = new Tensor;
  return *none;
}

void call_below(const OpHeader& op, DispatchKeySet keys, const Value* args, Value* rets) {
  op.info->adapter->call(op, &keys, args, rets);
}

// --- on values

// The operator itself on the values; the result has the same elements.
Tensor on_values(const Call& c) {
  Tensor self = c.tensor(0);
  if (!is_sparse(self)) throw_not_served(c.op, first_sparse(c.args, c.n));
  if (is_coo(self) && (c.rule.flags & kCoalesces)) {
    TESSERA_CHECK(!c.inplace() || members(self).coalesced || (c.rule.flags & kMayCoalesce), c.name,
                  "_ requires coalesced input: in-place on uncoalesced tensors is not supported yet! Use coalesce() "
                  "first");
    self = coalesced(self);
  }
  std::vector<Value> args(c.args, c.args + c.n);
  args[0] = Value::of(members(self).values);
  for (size_t i = 1; i + (c.out() ? 1 : 0) < c.n; ++i)
    if (args[i].is_tensor() && args[i].tensor().defined() && args[i].tensor().dim() != 0) throw_not_served(c.op, self);
  if (c.out()) {
    const Tensor& out = c.tensor(c.n - 1);
    TESSERA_CHECK(out.layout() == self.layout(), c.name, ": expected out= of layout ", shown(self.layout()),
                  ", but got ", shown(out.layout()));
    args[c.n - 1] = Value::of(empty_kernel(IntVector{0}, out.dtype()));
  }
  Value result;
  c.op.info->adapter->call(c.op, nullptr, args.data(), &result);
  return c.inplace() ? self : with_values(self, result.tensor());
}

// threshold_backward: the gradient and what it depends on, at the same elements.
Tensor thresholded(const Call& c) {
  const Tensor &grad = c.tensor(0),
               self = is_sparse(c.tensor(1)) && is_coo(c.tensor(1)) ? coalesced(c.tensor(1)) : c.tensor(1);
  const Tensor& pattern = is_sparse(self) ? self : grad;
  std::vector<Value> args(c.args, c.args + c.n);
  args[0] = Value::of(members(masked_by(grad, pattern)).values);
  args[1] = Value::of(is_sparse(self) ? members(self).values : gathered(self, pattern));
  Value r;
  c.op.info->adapter->call(c.op, nullptr, args.data(), &r);
  return with_values(pattern, r.tensor());
}

Tensor cloned(const Call& c) { return copied(c.tensor(0)); }

Tensor converted(const Call& c) {  // _to_copy: dtype, layout, device, pin_memory
  const Tensor& self = c.tensor(0);
  const Members& m = members(self);
  const DType dtype = c.dtype(1).value_or(self.dtype());
  const Device device = c.args[3].is_none() ? self.device() : complete_device(c.args[3].device());
  TESSERA_CHECK(c.args[2].is_none() || c.args[2].layout() == self.layout(), "to(): conversion of layout ",
                shown(self.layout()), " to another one is done by to_dense() and to_sparse()");
  const auto there = [&](const Tensor& t, DType d) {
    return t.defined() ? clone(t.dtype() == d && t.device() == device ? t : to(t, device, d)) : t;
  };
  const Tensor compressed = there(m.compressed, m.compressed.dtype()), values = there(m.values, dtype);
  return is_coo(self)
             ? make_coo(self.sizes(), compressed, values, m.coalesced)
             : make_compressed(self.layout(), self.sizes(), compressed, there(m.plain, m.compressed.dtype()), values);
}

Tensor same_members(const Call& c) { return twin(c.tensor(0), true); }  // alias, detach

// view_as_real, view_as_complex: the last dimension, a dense one, holds the parts of complex numbers. What selects a
// part has a gradient where that dimension is a sparse one.
Tensor in_parts(const Call& c) {
  const Tensor& self = c.tensor(0);
  const Members& m = members(self);
  const bool joins = c.name == "view_as_complex", dense = dense_dim_of(self) > 0;
  IntVector sizes(self.sizes().begin(), self.sizes().end());
  TESSERA_CHECK(!joins || ((dense || (is_coo(self) && m.sparse_dim > 1)) && sizes.back() == 2), c.name, "_sparse is ",
                "only supported for sparse tensors with the last dim == 2 and dense_dim > 0, but got shape ",
                shape_string(sizes), " with dense_dim ", dense_dim_of(self));
  joins ? sizes.pop_back() : sizes.push_back(2);
  if (joins && !dense) {
    const int64_t last = m.sparse_dim - 1;
    const Tensor second = ne(select(m.compressed, 0, last), Scalar(0));
    const std::vector<Tensor> parts{masked_fill(m.values, second, 0), masked_fill(m.values, logical_not(second), 0)};
    return make_coo(sizes, narrow(m.compressed, 0, 0, last), view_as_complex(stack(parts, -1)), false);
  }
  const Tensor parts = joins ? view_as_complex(contiguous(m.values)) : view_as_real(resolve_conj(m.values));
  return is_coo(self) ? make_coo(sizes, m.compressed, parts, m.coalesced)
                      : make_compressed(self.layout(), sizes, m.compressed, m.plain, parts);
}

Tensor power(const Call& c) {
  if (c.op.overload == std::string_view("Scalar") || (c.args[1].is_tensor() && c.tensor(1).dim() != 0))
    throw_not_served(c.op, first_sparse(c.args, c.n));
  const Scalar exponent = c.args[1].is_tensor() ? c.tensor(1).item_scalar() : c.scalar(1);
  TESSERA_CHECK(exponent.to_double() != 0, "pow: cannot raise to zeroth power on sparse tensor; it would make the ",
                "result tensor dense");
  return on_values(c);
}

Tensor conjugated(const Call& c) { return with_values(c.tensor(0), conj_physical(members(c.tensor(0)).values)); }

// --- arithmetic

Tensor plus(const Call& c) {
  const bool minus = c.name == "sub";
  const size_t other = 1;
  TESSERA_CHECK(c.args[other].is_tensor(), "add(sparse, dense) is not supported. Use add(dense, sparse) instead.");
  Scalar alpha = c.n > 2 ? c.scalar(2) : Scalar(1);
  if (minus) alpha = -alpha;
  const Tensor &a = c.tensor(0), &b = c.tensor(1);
  if (c.inplace() && !is_sparse(a)) return add_to_dense(a, b, alpha);
  return add_any(a, b, alpha, minus ? "sub" : "add");
}

bool is_number(const Value& v) { return !v.is_tensor() || (v.tensor().dim() == 0 && !is_sparse(v.tensor())); }

Tensor times(const Call& c) {
  if (is_number(c.args[1]) && is_sparse(c.tensor(0))) return on_values(c);
  const Tensor r = multiply_any(c.tensor(0), c.tensor(1));
  return c.inplace() && !is_sparse(c.tensor(0)) ? dense_of(r) : r;
}

Tensor divided(const Call& c) {
  const Tensor& self = c.tensor(0);
  TESSERA_CHECK(is_sparse(self), c.name, ": a dense tensor cannot be divided by a sparse one");
  TESSERA_CHECK(is_number(c.args[1]), c.name == "floor_divide" ? "Sparse floor division" : "Sparse division",
                " requires a scalar or zero-dim dense tensor divisor (got shape ", shape_string(c.tensor(1).sizes()),
                " for divisor)");
  if (is_coo(self) && !members(self).coalesced && (c.name == "floor_divide" || c.n > 2)) {
    const Call rounded{c.op,
                       *[] {
                         static const Rule rule{"", on_values, kCoalesces | kMayCoalesce, nullptr};
                         return &rule;
                       }(),
                       c.name,
                       c.args,
                       c.n,
                       c.rets};
    if (c.name == "floor_divide" || !c.args[2].is_none()) return on_values(rounded);
  }
  return on_values(c);
}

// --- products

Tensor scaled_sum(const Tensor& self, const Tensor& r, const Scalar& beta, const Scalar& alpha) {
  const auto is = [](const Scalar& s, double v) { return s.equals(v); };
  const Tensor p = is(alpha, 1) ? r : mul(r, alpha);
  if (is(beta, 0)) return p;
  const Tensor s = is(beta, 1) ? self : mul(self, beta);
  if (is_sparse(p) && is_sparse(s)) return add_any(s, in_layout(p, s.layout()), Scalar(1), "add");
  TESSERA_CHECK(!is_sparse(s) || is_sparse(p), "addmm: expected strided result tensor, got tensor with layout ",
                shown(s.layout()));
  return is_sparse(p) ? add_any(expand(s, p.sizes()), p, Scalar(1), "add") : add(s, p);
}

Tensor matrix_product(const Call& c) { return product_any(c.tensor(0), c.tensor(1)); }
Tensor added_product(const Call& c) {  // self, a, b, beta, alpha
  return scaled_sum(c.tensor(0), product_any(c.tensor(1), c.tensor(2)), c.scalar(3), c.scalar(4));
}
Tensor batched_product(const Call& c) {
  const Tensor &a = c.tensor(0), &b = c.tensor(1);
  TESSERA_CHECK(a.dim() == 3 && b.dim() == 3, "batch1 and batch2 must be 3D tensors, but got ", a.dim(), "D and ",
                b.dim(), "D");
  TESSERA_CHECK(a.size(0) == b.size(0) && a.size(2) == b.size(1), "bmm: shapes ", shape_string(a.sizes()), " and ",
                shape_string(b.sizes()), " cannot be multiplied");
  std::vector<Tensor> parts;
  for (int64_t i = 0; i < a.size(0); ++i)
    parts.push_back(product_any(is_sparse(a) ? selected(a, 0, i) : select(a, 0, i),
                                is_sparse(b) ? selected(b, 0, i) : select(b, 0, i)));
  if (parts.empty()) return make_filled(IntVector{0, a.size(1), b.size(2)}, Scalar(0), a.dtype(), a.device());
  return stack(parts);
}
Tensor dot_product(const Call& c) {
  const Tensor &a = c.tensor(0), &b = c.tensor(1);
  TESSERA_CHECK(a.dim() == 1 && b.dim() == 1, "1D tensors expected, but got ", a.dim(), "D and ", b.dim(), "D tensors");
  return sum(members(coalesced(multiply_any(a, b))).values, a.dtype());
}

// --- shapes

Tensor swapped(const Call& c) {
  const Tensor& t = c.tensor(0);
  if (c.name == "t") {
    TESSERA_CHECK(t.dim() <= 2, "t() expects a tensor with <= 2 sparse and 0 dense dimensions, but got ", t.dim(), "D");
    return t.dim() < 2 ? twin(t, true) : transposed_any(t, 0, 1);
  }
  return transposed_any(t, c.integer(1), c.integer(2));
}
Tensor reordered(const Call& c) { return permuted(c.tensor(0), c.args[1].int_list()); }
Tensor with_dim(const Call& c) { return unsqueezed(c.tensor(0), c.integer(1)); }
Tensor one_of(const Call& c) { return selected(c.tensor(0), c.integer(1), c.integer(2)); }
Tensor chosen(const Call& c) { return rows_selected(c.tensor(0), c.integer(1), c.tensor(2)); }
Tensor piece(const Call& c) {
  const int64_t d = c.integer(1), dims = c.tensor(0).dim();
  TESSERA_CHECK(d >= 0 && d < dims, "Dimension ", d, " out of range. Expecting 0 <= dim < ", dims, ".");
  return narrowed(c.tensor(0), d, c.integer(2), c.integer(3));
}
Tensor sliced(const Call& c) {  // self, dim, start, end, step
  const Tensor& t = c.tensor(0);
  const int64_t d = wrap_dim(c.integer(1), t.dim()), size = t.size(d);
  const auto clamped = [&](const Value& v, int64_t none) {
    if (v.is_none()) return none;
    const int64_t i = v.integer() < 0 ? v.integer() + size : v.integer();
    return std::clamp<int64_t>(i, 0, size);
  };
  const int64_t start = clamped(c.args[2], 0), end = std::max(start, clamped(c.args[3], size)), step = c.integer(4);
  TESSERA_CHECK(step > 0, "slice step must be positive");
  if (start == 0 && end == size && step == 1) return twin(t, true);
  const int64_t dense_from = t.dim() - dense_dim_of(t);
  if (d >= dense_from && is_coo(t)) {
    const Members& m = members(t);
    IntVector sizes(t.sizes().begin(), t.sizes().end());
    const Tensor v = tessera::slice(m.values, d - m.sparse_dim + 1, SymInt(start), SymInt(end), SymInt(step));
    sizes[static_cast<size_t>(d)] = v.size(d - m.sparse_dim + 1);
    return make_coo(sizes, m.compressed, v, m.coalesced);
  }
  TESSERA_CHECK_NOT_IMPLEMENTED(is_coo(t) && step == 1, "slicing a tensor of layout torch.", layout_name(t.layout()),
                                is_coo(t) ? " along a sparse dimension takes no step" : " is not supported");
  return narrowed(t, d, start, end - start);
}
// Without a dimension of size 1.
Tensor without_dim(const Tensor& t, int64_t d) {
  const Members& m = members(t);
  IntVector sizes(t.sizes().begin(), t.sizes().end());
  sizes.erase(sizes.begin() + d);
  if (d >= m.sparse_dim) return make_coo(sizes, m.compressed, squeeze(m.values, d - m.sparse_dim + 1), m.coalesced);
  const std::vector<Tensor> rows{narrow(m.compressed, 0, 0, d), narrow(m.compressed, 0, d + 1, m.sparse_dim - d - 1)};
  return make_coo(sizes, cat(rows), m.values, m.coalesced);
}
Tensor squeezed(const Call& c) {
  Tensor t = c.tensor(0);
  check_coo(t, "squeeze");
  uint64_t gone = 0;
  for (int64_t d : c.dims(1)) gone |= uint64_t{1} << wrap_dim(d, t.dim());
  if (c.n < 2) gone = ~uint64_t{0};
  for (int64_t d = t.dim(); d-- > 0;)
    if (gone >> d & 1 && t.size(d) == 1 && t.dim() > 1) t = without_dim(t, d);
  return t.is_same(c.tensor(0)) ? twin(t, true) : t;
}
// The gradient of select: grad, sizes, dim, index.
Tensor put_back(const Call& c) {
  const Tensor& grad = c.tensor(0);
  check_coo(grad, "select_backward");
  const IntList sizes = c.args[1].int_list();
  const int64_t d = wrap_dim(c.integer(2), static_cast<int64_t>(sizes.size()));
  const int64_t i = c.integer(3) < 0 ? c.integer(3) + sizes[static_cast<size_t>(d)] : c.integer(3);
  const Members& m = members(grad);
  if (d > m.sparse_dim) throw_not_served(c.op, grad);
  const Tensor wide = unsqueezed(grad, d);
  const Tensor indices = clone(members(wide).compressed);
  fill_(select(indices, 0, d), Scalar(i));
  return make_coo(sizes, indices, members(wide).values, m.coalesced);
}
Tensor concatenated(const Call& c) { return joined(c.args[0].tensor_list(), c.integer(1)); }
Tensor stacked(const Call& c) {
  std::vector<Tensor> parts;
  for (const Tensor& t : c.args[0].tensor_list()) {
    TESSERA_CHECK(is_coo(t), "Concatenating sparse tensors, but a dense tensor was found at position ", parts.size(),
                  ".");
    parts.push_back(unsqueezed(t, wrap_dim(c.integer(1), t.dim() + 1)));
  }
  return joined(parts, wrap_dim(c.integer(1), parts.at(0).dim()));
}
Tensor split_up(const Call& c) {
  const Tensor& t = c.tensor(0);
  const int64_t d = wrap_dim(c.integer(1), t.dim());
  std::vector<Tensor> parts;
  for (int64_t i = 0; i < t.size(d); ++i) parts.push_back(selected(t, d, i));
  c.rets[0] = Value::of(std::move(parts));
  return {};
}

// --- reductions

Tensor summed(const Call& c) {
  const Tensor& self = c.tensor(0);
  if (c.name == "sum" && (c.op.overload[0] == '\0' || std::string_view(c.op.overload) == "out"))
    return sum_all_values(self, c.dtype(1));
  const bool keepdim = c.args[2].boolean();
  const std::vector<int64_t> dims = c.dims(1);
  if (dims.empty() && !keepdim) return sum_all_values(self, c.dtype(3));
  return sum_dims(self, dims, keepdim, c.dtype(3));
}
Tensor averaged(const Call& c) {
  const Tensor& self = c.tensor(0);
  const DType d = c.dtype(c.op.overload[0] ? 3 : 1).value_or(self.dtype());
  TESSERA_CHECK(is_floating_point(d) || is_complex(d),
                "mean(): the result needs a floating point or complex dtype, but that of the tensor is ",
                type_name_of(d));
  if (c.op.overload[0]) {
    const std::vector<int64_t> dims = c.dims(1);
    int64_t n = 1;
    for (int64_t d : dims) n *= self.size(d);
    if (dims.empty()) return div(sum_all_values(self, c.dtype(3)), Scalar(self.numel()));
    return div(sum_dims(self, dims, c.args[2].boolean(), c.dtype(3)), Scalar(n));
  }
  return div(sum_all_values(self, c.dtype(1)), Scalar(self.numel()));
}
const Tensor& distinct_values(const Tensor& t, Tensor& kept) {
  kept = is_coo(t) ? coalesced(t) : t;
  return members(kept).values;
}
Tensor any_set(const Call& c) {
  Tensor kept;
  if (!c.dims(1).empty()) throw_not_served(c.op, c.tensor(0));
  return any(ne(distinct_values(c.tensor(0), kept), Scalar(0)));
}
Tensor all_set(const Call& c) {
  const Tensor& self = c.tensor(0);
  if (!c.dims(1).empty()) throw_not_served(c.op, self);
  Tensor kept;
  const Tensor v = distinct_values(self, kept);
  return v.numel() == self.numel() ? all(v) : make_filled(IntVector(), Scalar(false), DType::kBool, self.device());
}
Tensor normed(const Call& c) {  // self, p, [dim, keepdim, dtype]
  const Tensor& self = c.tensor(0);
  const std::vector<int64_t> dims = c.dims(2);
  TESSERA_CHECK(dims.empty() || static_cast<int64_t>(dims.size()) == self.dim(),
                "norm_sparse currently only supports full reductions, so 'dim' must either be empty or contain all "
                "dimensions of the input");
  const std::optional<DType> wanted = c.dtype(c.n - (c.out() ? 2 : 1));
  TESSERA_CHECK(c.n < 4 || c.args[3].tag() != Value::Tag::kBool || !c.args[3].boolean(),
                "norm_sparse currently does not support keepdim=True");
  TESSERA_CHECK(!wanted, "norm_sparse currently does not support 'dtype' argument");
  Tensor kept;
  const Tensor v = distinct_values(self, kept);
  const Scalar p = c.args[1].is_none() ? Scalar(2.0) : c.args[1].scalar();
  return linalg_vector_norm(reshape(v, {-1}), p, std::nullopt, false, std::nullopt);
}

Tensor one_number(const Call& c) {
  const Tensor& self = c.tensor(0);
  TESSERA_CHECK(self.numel() == 1, "a Tensor with ", self.numel(), " elements cannot be converted to Scalar");
  c.rets[0] = Value::of(dense_of(self).item_scalar());
  return {};
}
Tensor equal_all(const Call& c) {
  const Tensor &a = c.tensor(0), &b = c.tensor(1);
  bool same = std::ranges::equal(a.sizes(), b.sizes()) && a.layout() == b.layout();
  if (same && is_coo(a)) {
    const Tensor x = coalesced(a), y = coalesced(b);
    same = equal(members(x).compressed, members(y).compressed) && equal(members(x).values, members(y).values);
  } else if (same) {
    const Members &x = members(a), &y = members(b);
    same = equal(x.compressed, y.compressed) && equal(x.plain, y.plain) && equal(x.values, y.values);
  }
  c.rets[0] = Value::of(same);
  return {};
}
Tensor same_size(const Call& c) {
  c.rets[0] = Value::of(std::ranges::equal(c.tensor(0).sizes(), c.tensor(1).sizes()));
  return {};
}

// --- making others

// ones_like, full_like, rand_like ...: the elements of a compressed tensor stay where they are.
Tensor pattern_like(const Call& c) {
  if (!is_compressed(c.tensor(0))) throw_not_served(c.op, c.tensor(0));
  std::vector<Value> args(c.args, c.args + c.n);
  args[0] = Value::of(members(c.tensor(0)).values);
  for (size_t i = 1; i < c.n; ++i)
    if (args[i].tag() == Value::Tag::kLayout) {
      TESSERA_CHECK(args[i].layout() == c.tensor(0).layout(), c.name, ": layout ", shown(args[i].layout()),
                    " differs from that of the tensor, ", shown(c.tensor(0).layout()));
      args[i] = Value::none();
    }
  Value r;
  c.op.info->adapter->call(c.op, nullptr, args.data(), &r);
  return copied(with_values(c.tensor(0), r.tensor()));
}
Tensor like(const Call& c) {  // zeros_like, empty_like: self, dtype, layout, device ...
  const Tensor& self = c.tensor(0);
  const Layout layout = c.args[2].is_none() ? self.layout() : c.args[2].layout();
  const DType dtype = c.dtype(1).value_or(self.dtype());
  const Device device = c.args[3].is_none() ? self.device() : complete_device(c.args[3].device());
  if (layout == Layout::kStrided) return make_filled(self.sizes(), Scalar(0), dtype, device);
  TESSERA_CHECK(!is_coo(self) || c.args[5].is_none(), c.name,
                ": memory format option is only supported by strided tensors");
  if (layout == Layout::kSparseCoo)
    return empty_sparse(layout, self.sizes(), dtype, device, self.dim() - dense_dim_of(self));
  if (c.name == "empty_like" && layout == self.layout() && device == self.device()) return pattern_like(c);
  const auto blocks = blocks_of(self);
  return empty_sparse(layout, self.sizes(), dtype, device, is_coo(self) ? -1 : batch_dims(self),
                      has_blocks(layout) ? IntList(blocks) : IntList(),
                      is_coo(self) ? DType::kInt64 : members(self).compressed.dtype());
}
Tensor fresh(const Call& c) {  // new_zeros, new_empty: self, size, dtype, layout, device
  const Tensor& self = c.tensor(0);
  const Layout layout = c.args[3].is_none() ? self.layout() : c.args[3].layout();
  const DType dtype = c.dtype(2).value_or(self.dtype());
  const Device device = c.args[4].is_none() ? self.device() : complete_device(c.args[4].device());
  return layout == Layout::kStrided ? make_filled(c.args[1].int_list(), Scalar(0), dtype, device)
                                    : empty_sparse(layout, c.args[1].int_list(), dtype, device);
}

Tensor zeros_into(const Call& c) {  // zeros: size, out
  const Tensor& out = c.tensor(c.n - 1);
  return empty_sparse(out.layout(), c.args[0].int_list(), out.dtype(), out.device());
}

Tensor cleared(const Call& c) {  // zero_
  const Tensor& self = c.tensor(0);
  const auto blocks = blocks_of(self);
  return empty_sparse(self.layout(), self.sizes(), self.dtype(), self.device(),
                      is_coo(self) ? sparse_dim_of(self) : batch_dims(self),
                      has_blocks(self.layout()) ? IntList(blocks) : IntList(), members(self).compressed.dtype());
}
Tensor filled_pattern(const Call& c) {
  if (!is_compressed(c.tensor(0))) throw_not_served(c.op, c.tensor(0));
  return on_values(c);
}
Tensor overwritten(const Call& c) {  // copy_
  const Tensor &self = c.tensor(0), &src = c.tensor(1);
  TESSERA_CHECK(is_sparse(self) && is_sparse(src),
                "copy_() between dense and sparse Tensors is not implemented! Found ",
                "self type = ", shown(self.layout()), " and src type = ", shown(src.layout()));
  TESSERA_CHECK(self.layout() == src.layout(), "copy_(): expected tensors of one layout, but got ",
                shown(self.layout()), " and ", shown(src.layout()));
  if (self.is_same(src)) return self;
  const DType places = members(self).compressed.dtype();
  if (is_coo(self) || members(src).compressed.dtype() == places) return copied(src);
  const Members& m = members(src);
  return make_compressed(src.layout(), src.sizes(), to(m.compressed, places), to(m.plain, places), clone(m.values));
}
Tensor resized(const Call& c) {  // resize_ of CSR: lines may come to it and leave it, and more fit in a line
  const Tensor& self = c.tensor(0);
  const IntList size = c.args[1].int_list();
  if (!is_compressed(self)) throw_not_served(c.op, self);
  TESSERA_CHECK(static_cast<int64_t>(size.size()) == self.dim(), "torch.resize_: Only batched sparse ",
                shown(self.layout()), " matrices are supported, but got size ", shape_string(size), " for ",
                shape_string(self.sizes()));
  const Members& m = members(self);
  const int64_t batch = batch_dims(self), line = batch + (by_rows(self.layout()) ? 0 : 1);
  for (int64_t d = 0; d < self.dim(); ++d) {
    const int64_t n = size[static_cast<size_t>(d)];
    const bool across = d != line && (d == batch || d == batch + 1);
    TESSERA_CHECK(!across || n >= self.size(d), "torch.resize_: Resizing ", by_rows(self.layout()) ? "columns" : "rows",
                  " of sparse ", shown(self.layout()), " tensors to a smaller value is not supported: got ",
                  shape_string(size), " for ", shape_string(self.sizes()));
    TESSERA_CHECK(across || (d == line ? n >= 0 : n == self.size(d)), "torch.resize_: rows and columns of a tensor of ",
                  "layout ", shown(self.layout()), " can change, and no other dimension; got ", shape_string(size),
                  " for ", shape_string(self.sizes()));
  }
  const auto blocks = blocks_of(self);
  const int64_t block = blocks[by_rows(self.layout()) ? 0 : 1];
  const int64_t more = (size[static_cast<size_t>(line)] - self.size(line)) / block;
  Tensor compressed = m.compressed;
  if (more < 0) {
    compressed = contiguous(narrow(compressed, -1, 0, compressed.size(-1) + more));
    const Tensor ends = numbers(select(compressed, -1, compressed.size(-1) - 1));
    const int64_t* const end = ends.data<int64_t>();
    const int64_t nnz = ends.numel() ? end[0] : 0;
    for (int64_t i = 0; i < ends.numel(); ++i)
      TESSERA_CHECK(end[i] == nnz, "torch.resize_: the matrices of a batch must keep equally many elements, but got ",
                    nnz, " and ", end[i]);
    return make_compressed(self.layout(), size, compressed, contiguous(narrow(m.plain, -1, 0, nnz)),
                           contiguous(narrow(m.values, batch, 0, nnz)));
  }
  if (more > 0) {
    IntVector tail = part(compressed.sizes(), 0, batch);
    tail.push_back(more);
    const std::vector<Tensor> both{compressed,
                                   clone(expand(narrow(compressed, -1, compressed.size(-1) - 1, 1), IntList(tail)))};
    compressed = cat(both, -1);
  }
  return make_compressed(self.layout(), size, compressed, m.plain, m.values);
}
Tensor resized_as(const Call& c) { return resize_as_sparse_(c.tensor(0), c.tensor(1)); }

Tensor refused(const Call& c) {
  throw Error(str_cat(c.rule.text, shown(first_sparse(c.args, c.n).layout()), " tensors"));
}

Tensor embedded(const Call& c) {  // F.linear with a sparse weight
  const Tensor &input = c.tensor(0), &weight = c.tensor(1), bias = c.n > 2 ? c.tensor(2) : Tensor();
  TESSERA_CHECK(!is_sparse(input) && weight.dim() == 2, "linear: expected a dense input and a sparse matrix, but got ",
                shown(input.layout()), " and ", shown(weight.layout()), " of shape ", shape_string(weight.sizes()));
  const Tensor rows = reshape(input, IntVector{-1, input.size(-1)});
  const Tensor r = tessera::t(product_any(weight, tessera::t(rows)));
  IntVector sizes(input.sizes().begin(), input.sizes().end() - 1);
  sizes.push_back(weight.size(0));
  const Tensor shaped = reshape(r, IntList(sizes));
  return bias.defined() ? add(shaped, bias) : shaped;
}

constexpr Rule kRules[] = {
    // by name
    {"_conj", conjugated},
    {"_conj_physical", on_values},
    {"_local_scalar_dense", one_number},
    {"_neg_view", on_values},
    {"_square", on_values, kCoalesces},
    {"_to_copy", converted},
    {"_view_as_real_physical", in_parts},
    {"abs", on_values, kCoalesces},
    {"add", plus},
    {"addmm", added_product},
    {"addmv", added_product},
    {"alias", same_members},
    {"all", all_set},
    {"angle", on_values, kCoalesces},
    {"any", any_set},
    {"asin", on_values, kCoalesces},
    {"asinh", on_values, kCoalesces},
    {"atan", on_values, kCoalesces},
    {"atanh", on_values, kCoalesces},
    {"bmm", batched_product},
    {"cat", concatenated},
    {"ceil", on_values, kCoalesces},
    {"clone", cloned},
    {"conj_physical", on_values},
    {"copy", overwritten},
    {"deg2rad", on_values, kCoalesces},
    {"detach", same_members},
    {"div", divided},
    {"dot", dot_product},
    {"empty_like", like},
    {"equal", equal_all},
    {"erf", on_values, kCoalesces},
    {"erfinv", on_values, kCoalesces},
    {"expand", refused, 0, "expand is unsupported for "},
    {"expm1", on_values, kCoalesces},
    {"fill", filled_pattern},
    {"floor", on_values, kCoalesces},
    {"floor_divide", divided},
    {"frac", on_values, kCoalesces},
    {"full_like", pattern_like},
    {"index_select", chosen},
    {"is_same_size", same_size},
    {"isinf", on_values, kCoalesces},
    {"isnan", on_values, kCoalesces},
    {"isneginf", on_values, kCoalesces},
    {"isposinf", on_values, kCoalesces},
    {"linalg_vector_norm", normed},
    {"linear", embedded},
    {"log1p", on_values, kCoalesces},
    {"mean", averaged},
    {"mm", matrix_product},
    {"mul", times},
    {"mv", matrix_product},
    {"nan_to_num", on_values, kCoalesces},
    {"narrow_copy", piece},
    {"neg", on_values},
    {"new_empty", fresh},
    {"new_zeros", fresh},
    {"norm", normed},
    {"ones_like", pattern_like},
    {"permute", reordered},
    {"positive", same_members},
    {"pow", power, kCoalesces},
    {"rad2deg", on_values, kCoalesces},
    {"rand_like", pattern_like},
    {"randint_like", pattern_like},
    {"randn_like", pattern_like},
    {"relu", on_values, kCoalesces},
    {"reshape", refused, 0, "reshape is not implemented for "},
    {"resize", resized},
    {"resize_as", resized_as},
    {"resolve_conj", same_members},
    {"resolve_neg", same_members},
    {"round", on_values, kCoalesces},
    {"select", one_of},
    {"select_backward", put_back},
    {"sgn", on_values, kCoalesces},
    {"sign", on_values, kCoalesces},
    {"signbit", on_values, kCoalesces},
    {"sin", on_values, kCoalesces},
    {"sinh", on_values, kCoalesces},
    {"slice", sliced},
    {"sqrt", on_values, kCoalesces},
    {"square", on_values, kCoalesces},
    {"squeeze", squeezed},
    {"stack", stacked},
    {"sub", plus},
    {"sum", summed},
    {"t", swapped},
    {"tan", on_values, kCoalesces},
    {"tanh", on_values, kCoalesces},
    {"threshold_backward", thresholded},
    {"transpose", swapped},
    {"trunc", on_values, kCoalesces},
    {"unbind", split_up},
    {"unsqueeze", with_dim},
    {"view_as_complex", in_parts},
    {"view_as_real", in_parts},
    {"zero", cleared},
    {"zeros", zeros_into},
    {"zeros_like", like},
};
static_assert(std::ranges::is_sorted(kRules, {}, [](const Rule& r) { return std::string_view(r.name); }));

const Rule* rule_of(std::string_view name) {
  const auto* r =
      std::ranges::lower_bound(kRules, name, {}, [](const Rule& rule) { return std::string_view(rule.name); });
  return r != std::end(kRules) && r->name == name ? r : nullptr;
}

// Whether autograd follows the call. An operator with a node of its own has been recorded when it comes here; one that
// is made of others has not.
bool is_recorded(const Value* args, size_t n) {
  if (!thread_state.grad_enabled || thread_state.inference_mode || (thread_state.excluded & kAutogradKeys.bits()))
    return false;
  for (size_t i = 0; i < n; ++i) {
    if (args[i].is_tensor() && args[i].tensor().defined() && args[i].tensor().requires_grad()) return true;
    if (args[i].is_tensor_list())
      for (const Tensor& t : args[i].tensor_list())
        if (t.defined() && t.requires_grad()) return true;
  }
  return false;
}

bool writes_self(const OpHeader& op) { return op.mutable_args & 1; }

void fallback(void*, const OpHeader& op, DispatchKeySet, const Value* args, size_t n, Value* rets, size_t num_rets) {
  std::string_view name = op.name;
  const bool core = name.starts_with("aten::");
  if (core) name.remove_prefix(6);
  if (writes_self(op) && name.ends_with("_") && !name.starts_with("__")) name.remove_suffix(1);
  const bool ours = op.info && std::string_view(op.info->source()).starts_with("sparse/");
  // Products with out_dtype are made of the ones without.
  const bool converts = name.ends_with("mm") && std::string_view(op.overload).starts_with("dtype");
  const Rule* rule = core && !ours && !converts ? rule_of(name) : nullptr;
  if (rule && rule->run != refused && has_kernel(op, DispatchKey::kCompositeImplicitAutograd) && is_recorded(args, n))
    rule = nullptr;
  if (!rule) {
    // Its own kernels, or a composite: it is made of operators that are looked for again.
    if (ours || has_kernel(op, DispatchKey::kCompositeImplicitAutograd) ||
        (!core && has_kernel(op, DispatchKey::kCompositeExplicitAutograd)))
      return call_below(op, DispatchKeySet(), args, rets);
    throw_not_served(op, first_sparse(args, n));
  }
  const Call call{op, *rule, name, args, n, rets};
  const Tensor result = rule->run(call);
  if (!result.defined()) return;
  int64_t target = -1;
  for (size_t i = 0; i < n; ++i)
    if (op.mutable_args >> i & 1) target = static_cast<int64_t>(i);
  if (target < 0) {
    if (num_rets) rets[0] = Value::of(result);
    return;
  }
  const Tensor& written = args[target].tensor();
  if (!result.is_same(written)) {
    const bool turned = is_coo(written) && (name == "t" || name == "transpose");
    if (target == 0 && op.overload != std::string_view("out") && name != "resize" && name != "resize_as" && !turned)
      TESSERA_CHECK(std::ranges::equal(result.sizes(), written.sizes()) && result.layout() == written.layout(), name,
                    "_: the result, of layout ", shown(result.layout()), " and shape ", shape_string(result.sizes()),
                    ", does not fit the tensor, of layout ", shown(written.layout()), " and shape ",
                    shape_string(written.sizes()));
    write_sparse(written, result);
  }
  written.bump_version();
  if (num_rets) rets[0] = Value::of(Tensor(written));
}

}  // namespace

void install_rules() {
  static std::once_flag once;
  std::call_once(once, [] {
    for (const DispatchKey key :
         {DispatchKey::kSparseCPU, DispatchKey::kSparseCUDA, DispatchKey::kSparseMeta, DispatchKey::kSparseCsrCPU,
          DispatchKey::kSparseCsrCUDA, DispatchKey::kSparseCsrMeta}) {
      auto entry = make_intrusive<BoxedEntry>();
      entry->kernel = &fallback;
      RuntimeKernel kernel;
      kernel.boxed = std::move(entry);
      static auto* kept = new std::vector<Registration>;
      kept->push_back(register_fallback(key, std::move(kernel)));
    }
  });
}

}  // namespace tessera::sparse
