#include "func/rules/batching.h"

#include <algorithm>
#include <atomic>
#include <numeric>

#include "tensor/core/warning.h"
#include "tensor/ops/api.h"
#include "tensor/ops/promotion.h"

namespace tessera::func {

Part part_of(const Tensor& t, int64_t level) {
  WrapperImpl* w = wrapper_at(t, level);
  return w ? Part{w->value(), w->batch_dim()} : Part{t, -1};
}
bool has_batch(const Value& v, int64_t level) {
  if (v.is_tensor()) return wrapper_at(v.tensor(), level) != nullptr;
  if (!v.is_tensor_list()) return false;
  return std::any_of(v.tensor_list().begin(), v.tensor_list().end(),
                     [&](const Tensor& t) { return wrapper_at(t, level) != nullptr; });
}

namespace {
Tensor move_to_front(const Tensor& t, int64_t dim) {
  if (dim == 0) return t;
  IntVector order{dim};
  for (int64_t d = 0; d < t.dim(); ++d)
    if (d != dim) order.push_back(d);
  return permute(t, order);
}
std::string full_name(const OpHeader& op) { return str_cat(op.name, op.overload[0] ? "." : "", op.overload); }
}  // namespace

Tensor in_front(const Part& p, int64_t batch) {
  TESSERA_CHECK(p.defined(), "a tensor is missing among the arguments");
  if (p.batched()) return move_to_front(p.value, p.batch_dim);
  IntVector sizes{batch};
  sizes.insert(sizes.end(), p.value.sizes().begin(), p.value.sizes().end());
  return expand(p.value, IntList(sizes));
}

// With `count` dimensions of one element behind the first.
static Tensor view_with_ones(const Tensor& t, int64_t count) {
  if (count <= 0) return t;
  IntVector sizes{t.sizes()[0]};
  sizes.insert(sizes.end(), static_cast<size_t>(count), 1);
  sizes.insert(sizes.end(), t.sizes().begin() + 1, t.sizes().end());
  return view(t, IntList(sizes));
}

Tensor in_front_padded(const Part& p, int64_t rank) {
  if (!p.batched()) return p.value;
  return view_with_ones(move_to_front(p.value, p.batch_dim), rank - p.rank());
}

Tensor folded(const Part& p, int64_t batch, int64_t dim) {
  TESSERA_CHECK(p.defined() && p.rank() > dim, "expected a tensor of at least ", dim + 1, " dimensions, but got ",
                p.defined() ? p.rank() : 0);
  Tensor t = in_front(p, batch);
  if (dim > 0) {
    IntVector order;
    for (int64_t d = 1; d <= dim; ++d) order.push_back(d);
    order.push_back(0);
    for (int64_t d = dim + 1; d < t.dim(); ++d) order.push_back(d);
    t = permute(t, order);
  }
  IntVector sizes(t.sizes().begin(), t.sizes().end());
  sizes[static_cast<size_t>(dim)] *= sizes[static_cast<size_t>(dim) + 1];
  sizes.erase(sizes.begin() + dim + 1);
  return reshape(t, IntList(sizes));
}
Tensor unfolded(const Tensor& t, int64_t batch, int64_t dim) {
  TESSERA_CHECK(t.defined() && t.dim() > dim, "a result of a batch lacks the dimension ", dim);
  IntVector sizes(t.sizes().begin(), t.sizes().end());
  sizes[static_cast<size_t>(dim)] = batch ? sizes[static_cast<size_t>(dim)] / batch : 0;
  sizes.insert(sizes.begin() + dim, batch);
  return reshape(t, IntList(sizes));
}

void call_outside(const BatchCall& c, const std::vector<Value>& args, Value* rets) {
  c.op.info->adapter->call(c.op, nullptr, args.data(), rets);
}

// A result that a call leaves empty (a factor that nobody asked for) has no batch.
bool is_without_batch(const Tensor& t, int64_t batch) {
  return t.numel() == 0 && t.dim() == 1 && t.sizes()[0] != batch;
}

void wrap_results(const BatchCall& c) {
  for (size_t i = 0; i < c.num_rets; ++i) {
    if (c.rets[i].is_tensor() && c.rets[i].tensor().defined()) {
      if (!is_without_batch(c.rets[i].tensor(), c.batch)) put(c, i, Tensor(c.rets[i].tensor()), 0);
    } else if (c.rets[i].is_tensor_list()) {
      std::vector<Tensor> list;
      for (const Tensor& t : c.rets[i].tensor_list()) list.push_back(t.defined() ? make_batched(t, 0, c.level) : t);
      c.rets[i] = Value::of(std::move(list));
    }
  }
}

bool return_written(const BatchCall& c) {
  if (!c.op.mutable_args) return false;
  for (size_t i = 0; i < c.args.size(); ++i) {
    if (!(c.op.mutable_args >> i & 1) || !c.args[i].is_tensor()) continue;
    if (WrapperImpl* w = wrapper_at(c.args[i].tensor(), c.level)) {
      w->bump_version();
      if (has_history(w->value())) w->set_requires_grad(true);
    }
    if (c.num_rets > 0) c.rets[0] = Value::of(Tensor(c.args[i].tensor()));
    return true;
  }
  return true;
}

namespace {

// --- POINTWISE ---

// A 0-dim tensor counts less in promotion than others do. With its batch it is not 0-dim any more, so it takes the
// dtype that it would have had to go along with.
void demote_numbers(const BatchCall& c, const std::vector<Part>& parts, std::vector<Value>& args) {
  bool mixed = false;
  const Part* first = nullptr;
  for (const Part& p : parts) {
    if (!p.defined()) continue;
    if (!first) first = &p;
    mixed = mixed || (p.value.dtype() != first->value.dtype());
  }
  if (!mixed) return;
  ResultType combined;
  for (const Part& p : parts)
    if (p.defined()) {
      if (p.batched() && p.rank() == 0)
        combined.add(empty_tensor({}, {}, p.value.dtype(), Device(DeviceType::kMeta)));
      else
        combined.add(p.value);
    }
  const DType wanted = combined.get();
  const auto category = [](DType t) {
    return tessera::is_complex(t) ? 3 : tessera::is_floating_point(t) ? 2 : t != DType::kBool;
  };
  for (size_t i = 0; i < parts.size(); ++i) {
    const Part& p = parts[i];
    if (!p.defined() || !p.batched() || p.rank() != 0 || (c.op.mutable_args >> i & 1)) continue;
    if (p.value.dtype() != wanted && category(p.value.dtype()) == category(wanted))
      args[i] = Value::of(to(args[i].tensor(), wanted));
  }
}

void run_pointwise(const BatchCall& c) {
  std::vector<Value> args = copy_args(c);
  std::vector<Part> parts(args.size());
  int64_t rank = 0;
  for (size_t i = 0; i < args.size(); ++i) {
    if (!args[i].is_tensor() || !args[i].tensor().defined()) continue;
    parts[i] = part(c, i);
    rank = std::max(rank, parts[i].rank());
  }
  for (size_t i = 0; i < args.size(); ++i) {
    if (!parts[i].defined()) continue;
    TESSERA_CHECK(!(c.op.mutable_args >> i & 1) || parts[i].rank() == rank, "output with shape ",
                  shape_string(c.args[i].tensor().sizes()), " doesn't match the broadcast shape of '", c.op.name,
                  "', which has ", rank, " dimensions");
    args[i] = Value::of(in_front_padded(parts[i], rank));
  }
  demote_numbers(c, parts, args);
  call_outside(c, args, c.rets);
  if (!return_written(c)) wrap_results(c);
}

// --- batch in front ---

// Every tensor with the batch in front; those without one are expanded.
void bring_tensors_in_front(const BatchCall& c, std::vector<Value>& args, bool raise_numbers) {
  const auto one = [&](const Tensor& t) {
    if (!t.defined()) return t;
    Part p = part_of(t, c.level);
    Tensor r = in_front(p, c.batch);
    return raise_numbers && p.rank() == 0 ? unsqueeze(r, 1) : r;
  };
  for (Value& v : args) {
    if (v.is_tensor()) {
      if (v.tensor().defined()) v = Value::of(one(v.tensor()));
    } else if (v.is_tensor_list()) {
      std::vector<Tensor> list;
      for (const Tensor& t : v.tensor_list()) list.push_back(one(t));
      v = Value::of(std::move(list));
    }
  }
}

Value with_batch_size(const Value& sizes, int64_t batch) {
  IntVector r{batch};
  r.insert(r.end(), sizes.int_list().begin(), sizes.int_list().end());
  return Value::of(std::move(r));
}

// Batches of matrices broadcast by dimensions that count from the last: each argument gets as many of them, behind the
// batch of the level. A vector of an equation, which only the same batch tells from a matrix, gets all of it. Returns
// how many dimensions the first matrix got.
int64_t align_matrices(const BatchCall& c, std::vector<Value>& args) {
  const auto own_batch = [&](size_t i) {
    const Tensor& t = c.args[i].tensor();
    const bool is_list = !t.is_floating_point() && !t.is_complex();  // of pivots
    return t.dim() - (is_list ? 1 : 2);
  };
  const auto is_matrices = [&](size_t i) { return c.args[i].is_tensor() && c.args[i].tensor().defined(); };
  if (!is_matrices(0)) return 0;
  const IntList first = c.args[0].tensor().sizes();
  int64_t most = 0;
  for (size_t i = 0; i < args.size(); ++i)
    if (is_matrices(i)) most = std::max(most, own_batch(i));
  for (size_t i = 0; i < args.size(); ++i) {
    if (!is_matrices(i)) continue;
    const IntList sizes = c.args[i].tensor().sizes();
    IntVector wanted{c.batch};
    const bool is_vector = i == 1 && c.plan.schema.base_name() == "_linalg_solve_ex" &&
                           (sizes.size() == 1 || (sizes.size() + 1 == first.size() &&
                                                  std::equal(sizes.begin(), sizes.end(), first.begin())));
    if (is_vector) {
      wanted.insert(wanted.end(), first.begin(), first.end() - 1);
      const int64_t lacking = static_cast<int64_t>(first.size()) - 1 - static_cast<int64_t>(sizes.size());
      args[i] = Value::of(expand(view_with_ones(args[i].tensor(), lacking), IntList(wanted)));
    } else if (own_batch(i) < most) {
      args[i] = Value::of(view_with_ones(args[i].tensor(), most - own_batch(i)));
    }
  }
  return most - own_batch(0);
}

bool is_linear_algebra(std::string_view name) {
  return name.substr(0, 7) == "linalg_" || name.substr(0, 8) == "_linalg_" || name == "cholesky_solve";
}

void run_front(const BatchCall& c) {
  std::vector<Value> args = copy_args(c);
  bring_tensors_in_front(c, args, false);
  const int64_t added = is_linear_algebra(c.plan.schema.base_name()) ? align_matrices(c, args) : 0;
  for (size_t i = 0; i < args.size(); ++i) {
    if (c.plan.roles[i] != Role::kSizes) continue;
    // -1 stands for what is left of one element.
    const IntVector sizes = infer_size(c.args[i].int_list(), c.args[0].tensor().numel());
    args[i] = with_batch_size(Value::borrow(IntList(sizes)), c.batch);
  }
  call_outside(c, args, c.rets);
  if (added > 0 && c.plan.schema.base_name() == "_linalg_solve_ex")  // LU, pivots and info have the batch of A alone
    for (size_t i = 1; i < 4; ++i) c.rets[i] = Value::of(flatten(c.rets[i].tensor(), 0, added));
  if (!return_written(c)) wrap_results(c);
}

// --- dimensions ---

// The tensor whose dimensions an operator counts: the first one; or a shape that it is given.
int64_t counted_rank(const BatchCall& c) {
  for (size_t i = 0; i < c.args.size(); ++i)
    if (c.plan.roles[i] == Role::kInputSizes) return static_cast<int64_t>(c.args[i].int_list().size());
  for (size_t i = 0; i < c.args.size(); ++i) {
    if (c.args[i].is_tensor() && c.args[i].tensor().defined()) return c.args[i].tensor().dim();
    if (c.args[i].is_tensor_list() && !c.args[i].tensor_list().empty()) return c.args[i].tensor_list()[0].dim();
  }
  return 0;
}

bool needs_dimension(std::string_view name) {
  for (std::string_view n : {"select", "slice", "split", "split_with_sizes", "unbind", "cat"})
    if (n == name) return true;
  return false;
}

// No dim: all dimensions as one, and that one is meant.
void flatten_all(const BatchCall& c, std::vector<Value>& args) {
  for (Value& v : args)
    if (v.is_tensor() && v.tensor().defined()) v = Value::of(reshape(v.tensor(), IntVector{c.batch, -1}));
}

struct Shifted {
  std::vector<Value> args;
  bool flattened = false;  // over all dimensions
  bool keepdim = false;
  int64_t rank = 0;
};

Value shifted_dims(const Value& v, int64_t rank, bool empty_means_all) {
  IntVector dims;
  const bool none = v.is_none() || v.int_list().empty();
  if (none && empty_means_all)
    for (int64_t d = 0; d < std::max<int64_t>(rank, 1); ++d) dims.push_back(d + 1);
  else if (!none)
    for (int64_t d : v.int_list()) dims.push_back(wrap_dim(d, rank) + 1);
  return Value::of(std::move(dims));
}

Shifted shift(const BatchCall& c) {
  Shifted s{copy_args(c)};
  const std::string_view name = c.plan.schema.base_name();
  const bool grows = name == "unsqueeze" || name == "unsqueeze_";
  s.rank = counted_rank(c);
  if (s.rank == 0 && needs_dimension(name)) throw IndexError(str_cat(name, "() cannot be applied to a 0-dim tensor."));
  const int64_t rank = grows ? s.rank + 1 : s.rank;
  bring_tensors_in_front(c, s.args, s.rank == 0 && !grows);
  for (size_t i = 0; i < s.args.size(); ++i) {
    Value& v = s.args[i];
    switch (c.plan.roles[i]) {
      case Role::kDim:
        if (v.is_none()) {
          flatten_all(c, s.args);
          s.flattened = true;
          v = Value::of(int64_t{1});
        } else {
          v = Value::of(wrap_dim(v.integer(), rank, !grows) + 1);
        }
        break;
      case Role::kDims:
        v = shifted_dims(v, s.rank, name != "flip" && name != "squeeze" && name != "squeeze_" && name != "roll");
        break;
      case Role::kInputSizes:
        v = with_batch_size(v, c.batch);
        break;
      case Role::kOther:
        if (c.plan.schema.arguments[i].name == "keepdim") s.keepdim = v.boolean();
        break;
      default:
        break;
    }
  }
  return s;
}

void run_shift(const BatchCall& c) {
  const Shifted s = shift(c);
  call_outside(c, s.args, c.rets);
  if (return_written(c)) return;
  const std::string_view name = c.plan.schema.base_name();
  const auto form = [&](const Tensor& t) {
    if (!t.defined()) return t;
    if (s.flattened && s.keepdim) {
      IntVector ones{c.batch};
      ones.insert(ones.end(), static_cast<size_t>(s.rank), 1);
      return view(t, IntList(ones));
    }
    return s.rank == 0 && name != "unsqueeze" && t.dim() > 1 && t.sizes()[1] == 1 ? squeeze(t, 1) : t;
  };
  for (size_t i = 0; i < c.num_rets; ++i) {
    if (c.rets[i].is_tensor()) {
      c.rets[i] = Value::of(form(c.rets[i].tensor()));
    } else if (c.rets[i].is_tensor_list()) {
      std::vector<Tensor> list;
      for (const Tensor& t : c.rets[i].tensor_list()) list.push_back(form(t));
      c.rets[i] = Value::of(std::move(list));
    }
  }
  wrap_results(c);
}

// --- the operator's own batch ---

void run_fold(const BatchCall& c) {
  std::vector<Value> args = copy_args(c);
  bool fold = false;
  for (size_t i = 0; i < args.size(); ++i) {
    if (!args[i].is_tensor() || !args[i].tensor().defined()) continue;
    const Part p = part(c, i);
    const bool own_batch = p.rank() > c.plan.fold_rank;
    fold = fold || own_batch;
    args[i] = Value::of(own_batch ? folded(p, c.batch) : in_front(p, c.batch));
  }
  // A shape of the input has the batch, too (_resample_backward).
  for (size_t i = 0; i < args.size(); ++i)
    if (c.plan.roles[i] == Role::kInputSizes) {
      IntVector sizes(args[i].int_list().begin(), args[i].int_list().end());
      if (static_cast<int>(sizes.size()) > c.plan.fold_rank)
        sizes[0] *= c.batch;
      else
        sizes.insert(sizes.begin(), c.batch);
      args[i] = Value::of(std::move(sizes));
    }
  call_outside(c, args, c.rets);
  if (fold)
    for (size_t i = 0; i < c.num_rets; ++i)
      if (c.rets[i].is_tensor() && c.rets[i].tensor().defined())
        c.rets[i] = Value::of(unfolded(c.rets[i].tensor(), c.batch));
  wrap_results(c);
}

// --- new tensors in the form of another ---

void run_like(const BatchCall& c) {
  std::vector<Value> args = copy_args(c);
  bring_tensors_in_front(c, args, false);
  for (size_t i = 0; i < args.size(); ++i) {
    if (c.plan.roles[i] == Role::kSizes) args[i] = with_batch_size(args[i], c.batch);
    if (args[i].tag() == Value::Tag::kMemoryFormat && args[i].memory_format() != MemoryFormat::kPreserve)
      args[i] = Value::of(MemoryFormat::kContiguous);  // the others have a fixed number of dimensions
  }
  call_outside(c, args, c.rets);
  wrap_results(c);
}

// --- one by one ---

Value element(const Value& v, int64_t level, int64_t b) {
  const auto one = [&](const Tensor& t) {
    if (!t.defined()) return t;
    const Part p = part_of(t, level);
    return p.batched() ? select(p.value, p.batch_dim, b) : t;
  };
  if (v.is_tensor() && v.tensor().defined()) return Value::of(one(v.tensor()));
  if (v.is_tensor_list()) {
    std::vector<Tensor> list;
    for (const Tensor& t : v.tensor_list()) list.push_back(one(t));
    return Value::of(std::move(list));
  }
  return v;
}

Value stacked(const std::vector<std::vector<Value>>& rows, size_t i, int64_t level) {
  const auto column = [&](auto get) {
    std::vector<Tensor> parts;
    for (const auto& row : rows) parts.push_back(get(row[i]));
    return parts[0].defined() ? make_batched(stack(parts, 0), 0, level) : Tensor();
  };
  if (rows[0][i].is_tensor() || rows[0][i].is_none())
    return Value::of(column([](const Value& v) { return v.tensor(); }));
  std::vector<Tensor> list;
  for (size_t k = 0; k < rows[0][i].tensor_list().size(); ++k)
    list.push_back(column([&](const Value& v) { return v.tensor_list()[k]; }));
  return Value::of(std::move(list));
}

}  // namespace

void run_loop(const BatchCall& c) {
  TESSERA_CHECK(c.batch > 0, "vmap: ", full_name(c.op),
                " has no rule for a whole batch and can't be run for each element of an empty one; use a batch of at "
                "least one element");
  std::vector<std::vector<Value>> rows;
  for (int64_t b = 0; b < c.batch; ++b) {
    std::vector<Value> args;
    for (const Value& v : c.args) args.push_back(element(v, c.level, b));
    rows.emplace_back(c.num_rets);
    call_outside(c, args, rows.back().data());
  }
  if (return_written(c)) return;
  for (size_t i = 0; i < c.num_rets; ++i) c.rets[i] = stacked(rows, i, c.level);
}

namespace {

void check_written(const BatchCall& c) {
  for (size_t i = 0; i < c.args.size(); ++i) {
    if (!(c.op.mutable_args >> i & 1)) continue;
    const auto refuse = [&](const Tensor& t) {
      TESSERA_CHECK(!t.defined() || wrapper_at(t, c.level), "vmap: ", full_name(c.op),
                    "(self, *extra_args) is not possible because a Tensor among extra_args is being vmapped over and "
                    "`self` is not: there is no room in it for a value for each element of the batch. Use the "
                    "out-of-place operator instead, or make `self` inside of the function from a tensor that is "
                    "vmapped over (x.new_zeros(...)).");
    };
    if (c.args[i].is_tensor()) refuse(c.args[i].tensor());
    if (c.args[i].is_tensor_list())
      for (const Tensor& t : c.args[i].tensor_list()) refuse(t);
  }
}

[[noreturn]] void refuse(const BatchCall& c) {
  const std::string_view name = c.plan.schema.base_name();
  if (c.op.flags & kIsOut)
    throw Error(str_cat("vmap: ", full_name(c.op),
                        ": there are no batching rules for operators with out=; use the form that returns its result"));
  if (name == "_local_scalar_dense")
    throw Error(
        "vmap: It looks like you're calling .item() on a Tensor (float(x), int(x), bool(x) and `if x:` do that, too). "
        "It "
        "has a value for each element of the batch, so there is no one number; write it with operators on tensors, "
        "such "
        "as torch.where.");
  throw Error(
      str_cat("vmap: ", full_name(c.op),
              ": the result depends on the data of a tensor that is being vmapped over (its shape does, or it is "
              "a Python value that control flow could depend on), so it can't be one for the whole batch. Use "
              "operators whose results have the same shape whatever the data is, such as torch.where."));
}

void run_with_level_hidden(const BatchCall& c) {
  switch (c.plan.family) {
    case Family::kPointwise:
      return run_pointwise(c);
    case Family::kFront:
      return run_front(c);
    case Family::kShift:
      return run_shift(c);
    case Family::kFold:
      return run_fold(c);
    case Family::kLike:
      return run_like(c);
    case Family::kWritten:
    case Family::kRandom:
      return c.plan.rule(c);
    default:
      warn_once(str_cat("There is a performance drop because we have not yet implemented the batching rule for ",
                        full_name(c.op), ". It is computed for each element of the batch by itself."));
      return run_loop(c);
  }
}

}  // namespace

namespace {
std::atomic<ForeignRule> g_foreign{nullptr};
}  // namespace
void set_foreign_rules(ForeignRule rules) { g_foreign = rules; }

void run_batched(const OpHeader& op, const Plan& plan, std::span<const Value> args, Value* rets, size_t num_rets) {
  const Level top = *top_level();
  const BatchCall c{op, plan, args, rets, num_rets, top.id, top.batch_size, top.randomness};
  const bool batched = std::any_of(args.begin(), args.end(), [&](const Value& v) { return has_batch(v, top.id); });
  if (!batched && plan.family != Family::kRandom) {
    if (plan.composite) {  // what it calls may be random
      const DispatchKeySet none;
      op.info->adapter->call(op, &none, args.data(), rets);
      return;
    }
    Hidden hidden;
    op.info->adapter->call(op, nullptr, args.data(), rets);
    return;
  }
  if (plan.foreign && batched)
    if (const ForeignRule rules = g_foreign.load(); rules && rules(c)) return;
  if (plan.family == Family::kForbidden) refuse(c);
  if (plan.family == Family::kDecompose) {
    const DispatchKeySet none;
    op.info->adapter->call(op, &none, args.data(), rets);
    return;
  }
  if (batched && plan.family != Family::kRandom) check_written(c);
  if (plan.inside) return plan.rule(c);
  Hidden hidden;
  run_with_level_hidden(c);
}

}  // namespace tessera::func
