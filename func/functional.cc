#include "func/functional.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "autograd/tangent.h"
#include "func/arguments.h"
#include "func/copies/copies.h"
#include "func/front.h"
#include "func/rules/plan.h"
#include "func/view_call.h"
#include "tensor/dispatch/runtime.h"
#include "tensor/ops/api.h"
#include "tensor/ops/promotion.h"

namespace tessera::func {
namespace {

// What tensors that are views of each other share.
struct Memory final : public RefCounted {
  Tensor base;             // the whole of it, as it is now
  int64_t generation = 0;  // number of writes
};

// What a call runs under while the layer works on values: the innermost level hidden, or for kAtKey the keys down to
// Functionalize excluded.
class Below {
 public:
  explicit Below(int64_t level) {
    if (level == kAtKey)
      excluded_.emplace(kAutogradKeys | DispatchKey::kFunctionalize | DispatchKey::kForward |
                        DispatchKey::kADInplaceOrView);
    else
      hidden_.emplace();
  }

 private:
  std::optional<Hidden> hidden_;
  std::optional<ExcludeKeys> excluded_;
};

// The part of a tensor in its memory.
struct Alias final : public RefCounted {
  IntrusivePtr<Memory> memory;
  std::vector<ViewCall> steps;  // from the memory's base to the tensor
};

Alias& alias_of(WrapperImpl& w) { return static_cast<Alias&>(*w.part()); }

Tensor wrapped(const Tensor& value, int64_t level, IntrusivePtr<Alias> alias) {
  Tensor t = make_tracked(value, level);
  if (has_history(value)) t.impl()->set_requires_grad(true);  // composite operators ask
  WrapperImpl& w = static_cast<WrapperImpl&>(*t.impl());
  w.set_number(alias->memory->generation);
  w.set_part(std::move(alias));
  return t;
}
Tensor with_memory_of_its_own(const Tensor& value, int64_t level) {
  auto alias = make_intrusive<Alias>();
  alias->memory = make_intrusive<Memory>();
  alias->memory->base = value;
  return wrapped(value, level, std::move(alias));
}

const Tensor& current(WrapperImpl& w) {
  Alias& a = alias_of(w);
  if (w.number() != a.memory->generation) {
    Tensor value = a.memory->base;
    for (const ViewCall& step : a.steps) value = step.again(value);
    w.set_value(std::move(value), -1);
    w.set_number(a.memory->generation);
  }
  return w.value();
}

// --- writes through views ---

IntVector inverse_order(IntList order, int64_t rank) {
  IntVector r(order.size());
  for (size_t i = 0; i < order.size(); ++i) r[static_cast<size_t>(wrap_dim(order[i], rank))] = static_cast<int64_t>(i);
  return r;
}

// With other sizes; copies: by operators that make no views.
Tensor shaped(const Tensor& t, IntVector sizes, bool copies) {
  return copies ? view_copy(contiguous(t), sizes) : reshape(t, sizes);
}
Tensor shaped_like(const Tensor& t, const Tensor& like, bool copies) {
  const Tensor part = copies ? contiguous(t) : t;
  if (&internal::give_sizes)
    internal::give_sizes(copies ? static_cast<const OpHeader&>(op::view_copy) : op::reshape, like);
  return copies ? view_copy(part, to_vector(like.sizes())) : reshape(part, to_vector(like.sizes()));
}
Tensor expanded_like(const Tensor& t, const Tensor& like) {
  if (&internal::give_sizes) internal::give_sizes(op::expand, like);
  return expand(t, to_vector(like.sizes()));
}

// `whole` with `part` at the elements that the view takes, wherever they are.
Tensor scattered(const ViewCall& view, const Tensor& whole, const Tensor& part, bool copies) {
  const IntVector flat{-1}, sizes = to_vector(whole.sizes());
  const Tensor numbers =
      shaped(arange(Scalar(whole.numel()), DType::kInt64, std::nullopt, whole.device()), sizes, copies);
  const Tensor places[] = {shaped(view.again(numbers), flat, copies)};
  return shaped(index_put(shaped(whole, flat, copies), places, shaped(part, flat, copies)), sizes, copies);
}

// `whole` as it is when its view is `part`.
Tensor put_back(const ViewCall& view, const Tensor& whole, const Tensor& part) {
  std::string_view name = view.op->name;
  if (name.substr(0, 6) == "aten::") name.remove_prefix(6);
  const bool copies = name.size() > 5 && name.substr(name.size() - 5) == "_copy";
  if (copies) name.remove_suffix(5);
  const std::vector<Value>& a = view.args;
  const auto size = [](const Value& v) { return v.is_none() ? std::optional<SymInt>() : SymInt(v.integer()); };
  if (name == "select") {
    give_symbols(op::select_scatter, view.symbols, 1);
    return select_scatter(whole, part, a[1].integer(), a[2].integer());
  }
  if (name == "slice") {
    give_symbols(op::slice_scatter, view.symbols, 1);
    return slice_scatter(whole, part, a[1].integer(), size(a[2]), size(a[3]), a[4].integer());
  }
  if (name == "diagonal") return diagonal_scatter(whole, part, a[1].integer(), a[2].integer(), a[3].integer());
  if (name == "unbind") return select_scatter(whole, part, a[1].integer(), static_cast<int64_t>(view.output));
  if (name == "transpose") {
    const int64_t first = a[1].integer(), second = a[2].integer();
    return copies ? transpose_copy(part, first, second) : transpose(part, first, second);
  }
  if (name == "t") return copies ? t_copy(part) : t(part);
  if (name == "permute") {
    const IntVector order = inverse_order(a[1].int_list(), whole.dim());
    return copies ? permute_copy(part, order) : permute(part, order);
  }
  if (name == "view_as_real") return copies ? view_as_complex_copy(part) : view_as_complex(contiguous(part));
  if (name == "_view_as_real_physical") {  // of the numbers in memory, whatever a lazy conjugate makes of them
    const Tensor stored = view_as_complex(contiguous(part));
    return whole.is_conj() ? conj(stored) : stored;
  }
  if (name == "view_as_complex") return copies ? view_as_real_copy(part) : view_as_real(part);
  if (name == "_conj") return conj(part);
  if (name == "_neg_view") return neg(part);
  if (whole.dtype() != part.dtype())
    return copies ? view_copy(contiguous(part), whole.dtype()) : tessera::view(contiguous(part), whole.dtype());
  TESSERA_CHECK(name != "expand" || part.numel() == whole.numel(),
                "unsupported operation: more than one element of the written-to tensor refers to a single memory "
                "location. Please clone() the tensor before performing the operation.");
  if (name == "unfold" || name == "as_strided" || part.numel() != whole.numel())
    return scattered(view, whole, part, copies);
  return shaped_like(part, whole, copies);
}

// The base of a tensor's memory, and what each of its views but the last makes of it.
std::vector<Tensor> values_along(const Alias& a) {
  std::vector<Tensor> path{a.memory->base};
  for (size_t k = 0; k + 1 < a.steps.size(); ++k) path.push_back(a.steps[k].again(path.back()));
  return path;
}
// What the first `count` views make of the base when all of them make `part` of it.
Tensor put_back_to(const Alias& a, const std::vector<Tensor>& path, size_t count, Tensor part) {
  for (size_t k = a.steps.size(); k-- > count;) part = put_back(a.steps[k], path[k], part);
  return part;
}

// The tensor has this value from now on, and with it what shares its memory.
void write(WrapperImpl& w, const Tensor& value) {
  Alias& a = alias_of(w);
  const std::vector<Tensor> path = values_along(a);
  const Tensor whole = put_back_to(a, path, 0, value);
  a.memory->base = whole.is_conj() && !path[0].is_conj() ? resolve_conj(whole) : whole;
  ++a.memory->generation;
  // A lazy conjugate stays one: its value is made anew from the memory when it is asked for.
  if (value.is_conj() == w.is_conj() && value.is_neg() == w.is_neg()) {
    w.set_number(a.memory->generation);
    w.set_value(value, -1);
  }
  w.bump_version();
}

// --- calls ---

void call(const OpHeader& op, const std::vector<Value>& args, Value* rets) {
  op.info->adapter->call(op, nullptr, args.data(), rets);
}

[[noreturn]] void throw_plain(const OpHeader& op) {
  throw Error(str_cat("functionalize: '", op.name,
                      "' would write to a tensor that the function got from elsewhere: mutating a non-functional "
                      "tensor with a functional tensor is not allowed. Please ensure that all of your inputs are "
                      "wrapped inside of a functionalize() call: make the tensor an argument of the function."));
}

// What an in-place form would have left of the functional form's result.
Tensor as_written(const OpHeader& op, const Tensor& self, const Tensor& result) {
  TESSERA_CHECK(std::ranges::equal(result.sizes(), self.sizes()), "output with shape ", shape_string(self.sizes()),
                " doesn't match the broadcast shape ", shape_string(result.sizes()), " in '", op.name, "'");
  if (result.dtype() == self.dtype()) return result;
  check_can_cast(result.dtype(), self.dtype());
  return to(result, self.dtype());
}

// An out= form by the form that makes its results. What they are written to takes their shape, and keeps its dtype.
void run_without_out(const OpHeader& op, const Plan& plan, const std::vector<Value>& values,
                     std::vector<Value>& written) {
  std::vector<Value> found(plan.schema.returns.size()), given;
  for (size_t i = 0; i < values.size(); ++i)
    if (!(plan.writes >> i & 1)) given.push_back(values[i]);
  call(*plan.functional, given, found.data());
  size_t r = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    if (!(plan.writes >> i & 1)) continue;
    const Tensor &result = found[r++].tensor(), &out = values[i].tensor();
    if (result.dtype() != out.dtype()) check_can_cast(result.dtype(), out.dtype());
    written[i] = result.dtype() == out.dtype() ? Value::of(Tensor(result)) : Value::of(to(result, out.dtype()));
  }
}

// The values that `op` leaves in what it writes, by operators that write to nothing. False if there is none for it.
bool run_twin(const OpHeader& op, const Plan& plan, const std::vector<Value>& values, Value* rets,
              std::vector<Value>& written, const Symbols& symbols) {
  if (std::string_view(op.name) == "aten::copy_") {
    const Tensor& self = values[0].tensor();
    written[0] = Value::of(_to_copy(expanded_like(values[1].tensor(), self), self.dtype(), std::nullopt, self.device(),
                                    std::nullopt, false, MemoryFormat::kContiguous));
    return true;
  }
  if (std::string_view(op.name) == "aten::zero_") {
    written[0] = Value::of(zeros_like(values[0].tensor()));
    return true;
  }
  if (!plan.functional) return false;
  if (std::string_view(op.name) == "aten::_batch_norm") {  // of training; the new statistics are its last results
    const auto given = [&](size_t i) { return values[i].tensor().defined(); };
    if (!values[7].boolean() || !given(5) || !given(6) || given(3) || given(4)) return false;
    Value found[5];
    call(*plan.functional, {values[0], values[1], values[2], values[5], values[6], values[7], values[8], values[9]},
         found);
    std::copy_n(found, 3, rets);
    std::copy_n(found + 3, 2, &written[5]);
    return true;
  }
  if (op.flags & kIsOut) return run_without_out(op, plan, values, written), true;
  if (plan.writes != 1) return false;
  Value found;
  give_symbols(*plan.functional, symbols);
  call(*plan.functional, values, &found);
  size_t k = 0;
  written[0] = map_tensors(found, [&](const Tensor& t) { return as_written(op, tensor_at(values[0], k++), t); });
  return true;
}

// The op itself, on copies of what it writes.
void run_on_copies(const OpHeader& op, const Plan& plan, std::vector<Value> values, Value* rets,
                   std::vector<Value>& written) {
  for (size_t i = 0; i < values.size(); ++i) {
    if (!(plan.writes >> i & 1)) continue;
    values[i] = map_tensors(values[i], [](const Tensor& t) { return clone(t); });
  }
  call(op, values, rets);
  for (size_t i = 0; i < values.size(); ++i)
    if (plan.writes >> i & 1) written[i] = values[i];
}

// An in-place form that only makes another view of its tensor (t.transpose_()).
void reshape_in_place(const OpHeader& view, const Value* args, size_t n, const std::vector<Value>& values,
                      WrapperImpl& w, const Symbols& symbols) {
  Value result;
  give_symbols(view, symbols);
  call(view, values, &result);
  auto changed = make_intrusive<Alias>();  // its own: twins of the tensor keep their form
  changed->memory = alias_of(w).memory;
  changed->steps = alias_of(w).steps;
  changed->steps.emplace_back(view, args, n, 1);
  changed->steps.back().symbols = symbols;
  w.set_part(std::move(changed));
  w.set_value(Tensor(result.tensor()), -1);
  w.bump_version();
  if (w.level() == kAtKey) extend_view(args[0].tensor(), view, args, n);  // for autograd above
}

void run_write(const OpHeader& op, const Plan& plan, const Value* args, size_t n, const std::vector<Value>& values,
               Value* rets, size_t num_rets, int64_t level, bool removes_views, const Symbols& symbols) {
  std::vector<Value> written(n);
  {
    const Below below(level);
    if (plan.functional && plan.functional->flags & kIsView) {
      const OpHeader* copying = removes_views ? plan_of(*plan.functional).copying : nullptr;
      reshape_in_place(copying ? *copying : *plan.functional, args, n, values, *wrapper_at(args[0].tensor(), level),
                       symbols);
    } else {
      if (!run_twin(op, plan, values, rets, written, symbols)) run_on_copies(op, plan, values, rets, written);
      each_tensor(args, n, [&](const Tensor& t, size_t i, size_t k) {
        if (plan.writes >> i & 1) write(*wrapper_at(t, level), tensor_at(written[i], k));
      });
    }
  }
  // Results are what was written, in order, or new tensors.
  size_t r = 0;
  for (size_t i = 0; i < n && r < num_rets; ++i)
    if ((plan.writes >> i & 1) && args[i].is_tensor() && plan.schema.returns[r].type.alias_anywhere())
      rets[r++] = args[i];
  for (; r < num_rets; ++r)
    if (rets[r].is_tensor() && rets[r].tensor().defined())
      rets[r] = Value::of(with_memory_of_its_own(rets[r].tensor(), level));
}

void run_view(const OpHeader& op, const Value* args, size_t n, Value* rets, size_t num_rets, int64_t level,
              WrapperImpl& viewed, const Symbols& symbols) {
  const auto make = [&](const Tensor& value, size_t output, bool is_list) {
    auto alias = make_intrusive<Alias>();
    alias->memory = alias_of(viewed).memory;
    alias->steps = alias_of(viewed).steps;
    alias->steps.emplace_back(op, args, n, num_rets);
    alias->steps.back().output = output;
    alias->steps.back().is_list = is_list;
    alias->steps.back().symbols = symbols;
    Tensor t = wrapped(value, level, std::move(alias));
    if (level == kAtKey && op.flags & kIsView)
      mark_view(t, args[0].tensor(), op, args, n, output, is_list, num_rets);  // for autograd above
    else if (level == kAtKey)
      t.impl()->set_own_version(args[0].tensor().impl()->own_version());
    return t;
  };
  for (size_t i = 0; i < num_rets; ++i) {
    const bool is_list = rets[i].is_tensor_list();
    size_t output = is_list ? 0 : i;
    rets[i] = map_tensors(rets[i], [&](const Tensor& t) { return make(t, output++, is_list); });
  }
}

}  // namespace

namespace {

// What of `values`, the arguments with values for wrappers, the call is to have; the rest of it as its results.
void run_in(const OpHeader& op, const Value* args, size_t n, Value* rets, size_t num_rets, int64_t id,
            bool removes_views) {
  const Plan& plan = plan_of(op);
  const Symbols symbols = symbols_of(op);  // before views are made anew
  std::vector<Value> values(args, args + n);
  bool any = false, writes = false, writes_plain = false;
  {
    const Below below(id);
    each_tensor(args, n, [&](const Tensor& t, size_t i, size_t k) {
      WrapperImpl* w = wrapper_at(t, id);
      const bool written = plan.writes >> i & 1;
      writes = writes || written;
      if (!w) {
        writes_plain = writes_plain || written;
        return;
      }
      any = true;
      put_tensor(values[i], k, current(*w));
    });
  }
  if (any && writes_plain) throw_plain(op);
  if (any && writes) return run_write(op, plan, args, n, values, rets, num_rets, id, removes_views, symbols);
  const bool view = plan.shares_memory;
  const OpHeader& called = view && removes_views && plan.copying ? *plan.copying : op;
  {
    const Below below(id);
    give_symbols(called, symbols);
    call(called, values, rets);
    if (view && removes_views && !plan.copying)
      for (size_t i = 0; i < num_rets; ++i) rets[i] = map_tensors(rets[i], [](const Tensor& t) { return clone(t); });
  }
  if (writes) return;  // a tensor from elsewhere, written to as ever
  // A view of a tensor from elsewhere: writes to it go there. (A new tensor of Python's numbers comes through alias.)
  if (op.flags & kIsView && !any && std::string_view(op.name) != "aten::alias") return;
  if (WrapperImpl* viewed = view && n > 0 && args[0].is_tensor() ? wrapper_at(args[0].tensor(), id) : nullptr)
    return run_view(called, args, n, rets, num_rets, id, *viewed, symbols);
  const auto result = [&](const Tensor& value) {
    Tensor same;
    each_tensor(args, n, [&](const Tensor& t, size_t, size_t) {
      WrapperImpl* w = wrapper_at(t, id);
      if (w && w->value().is_same(value)) same = t;
    });
    return same.defined() ? same : with_memory_of_its_own(value, id);
  };
  for (size_t i = 0; i < num_rets; ++i) rets[i] = map_tensors(rets[i], result);
}

thread_local const std::set<const OpHeader*>* t_whole = nullptr;
thread_local bool t_removes_views = false;

void at_key(void*, const OpHeader& op, DispatchKeySet, const Value* args, size_t n, Value* rets, size_t num_rets) {
  if (plan_of(op).composite && !stays_whole(op, args, n)) {
    const DispatchKeySet none;
    op.info->adapter->call(op, &none, args, rets);
    return;
  }
  run_in(op, args, n, rets, num_rets, kAtKey, t_removes_views);
}

}  // namespace

void run_functional(const OpHeader& op, const Value* args, size_t n, Value* rets, size_t num_rets) {
  run_in(op, args, n, rets, num_rets, top_level()->id, top_level()->removes_views);
}

bool stays_whole(const OpHeader& op, const Value* args, size_t n) {
  if (!t_whole || !t_whole->count(&op)) return false;
  return !thread_state.grad_enabled || !any_tensor(args, n, [](const Tensor& t) { return t.requires_grad(); });
}
const std::set<const OpHeader*>* keep_whole(const std::set<const OpHeader*>* ops) {
  return std::exchange(t_whole, ops);
}

bool include_functional(bool on, bool removes_views) {
  register_at_key();
  constexpr uint64_t bit = DispatchKeySet(DispatchKey::kFunctionalize).bits();
  const bool was = thread_state.included & bit;
  thread_state.included = on ? thread_state.included | bit : thread_state.included & ~bit;
  t_removes_views = removes_views;
  return was;
}

void register_at_key() {
  // Not std::call_once: its thread-local variables would have to lie in the static block, where there may be no room
  // for the C++ library's.
  [[maybe_unused]] static const auto* const kept = [] {
    RuntimeKernel kernel;
    kernel.boxed = make_intrusive<BoxedEntry>();
    kernel.boxed->kernel = at_key;
    return new Registration(register_fallback(DispatchKey::kFunctionalize, std::move(kernel)));
  }();
}

Tensor to_functional(const Tensor& t) {
  TESSERA_CHECK(!wrapper_at(t, kAtKey), "_to_functional_tensor(): the tensor is functional already");
  register_at_key();
  return with_memory_of_its_own(t, kAtKey);
}

Functional functional_state(const Tensor& t) {
  WrapperImpl* w = wrapper_at(t, kAtKey);
  TESSERA_CHECK(w, "expected a functional tensor (of _to_functional_tensor)");
  const Alias& a = alias_of(*w);
  return {a.memory->generation, a.steps.size()};
}
Tensor before_reshapes(const Tensor& t, size_t count) {
  const Alias& a = alias_of(*wrapper_at(t, kAtKey));
  if (a.steps.size() <= count) return t;
  const std::vector<Tensor> path = [&] {
    const Below below(kAtKey);
    return values_along(a);
  }();
  return put_back_to(a, path, count, t);
}
void replace_functional(const Tensor& t, const Tensor& value) {
  WrapperImpl* w = wrapper_at(t, kAtKey);
  TESSERA_CHECK(w, "expected a functional tensor (of _to_functional_tensor)");
  const Below below(kAtKey);
  write(*w, value);
}

std::vector<Tensor> functional_arguments(TensorList given, int64_t level) {
  std::vector<Tensor> seen;
  for (size_t i = 0; i < given.size(); ++i) {
    const auto before = std::find_if(given.begin(), given.begin() + static_cast<ptrdiff_t>(i),
                                     [&](const Tensor& t) { return t.is_same(given[i]); });
    const auto at = static_cast<size_t>(before - given.begin());
    seen.push_back(at < i ? seen[at] : with_memory_of_its_own(given[i], level));
  }
  return seen;
}

Tensor functional_value(const Tensor& t, int64_t level) {
  WrapperImpl* w = wrapper_at(t, level);
  if (!w) return t;
  const Below below(level);
  return current(*w);
}

void write_back(TensorList given, TensorList seen) {
  std::vector<size_t> changed;
  for (size_t i = 0; i < given.size(); ++i) {
    const Alias& a = alias_of(*wrapper_of(seen[i]));
    TESSERA_CHECK(std::ranges::equal(seen[i].sizes(), given[i].sizes()) && a.steps.empty(),
                  "functionalize: the function changes the form of an argument in place (from ",
                  shape_string(given[i].sizes()), " to ", shape_string(seen[i].sizes()),
                  "), which is not supported: return the new tensor instead");
    if (a.memory->generation == 0) continue;
    changed.push_back(i);
    for (size_t k = 0; k < given.size(); ++k)
      TESSERA_CHECK(given[k].is_same(given[i]) || !autograd::same_memory(given[k], given[i]),
                    "functionalize: the function writes to argument tensor ", i,
                    ", which shares its memory with "
                    "argument tensor ",
                    k, ": pass one of them, and make the other of it inside of the function");
  }
  for (size_t i : changed) copy_(given[i], alias_of(*wrapper_of(seen[i])).memory->base);
}

}  // namespace tessera::func
