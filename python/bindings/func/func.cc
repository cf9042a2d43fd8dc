#include "python/bindings/func/func.h"

#include <cstring>
#include <memory>
#include <set>
#include <utility>

#include "func/functional.h"
#include "func/rules/batching.h"
#include "func/transforms.h"
#include "python/bindings/autograd/autograd.h"
#include "python/bindings/library/library.h"
#include "python/bindings/operators.h"
#include "python/bindings/tensor_type.h"

namespace tessera::python {
namespace {

using func::Level;
using func::WrapperImpl;

void need(bool ok, const char* function, const char* wanted) {
  if (!ok) throw TypeError(str_cat(function, "(): expected ", wanted));
}
int64_t integer(PyObject* o) {
  const int64_t v = PyLong_AsLongLong(o);
  if (v == -1 && PyErr_Occurred()) throw ErrorAlreadySet();
  return v;
}
const Tensor& tensor(const char* function, PyObject* o) {
  need(is_tensor(o), function, "a Tensor");
  return unwrap(o);
}

PyObject* py_push_vmap(PyObject*, PyObject* const* args, Py_ssize_t n) {
  return guarded([&] {
    need(n == 2, "_push_vmap", "(batch_size, randomness)");
    const std::string mode = from_python_string(args[1]);
    using func::Randomness;
    TESSERA_CHECK_VALUE(mode == "error" || mode == "same" || mode == "different",
                        "Only allowed values for randomness are 'error', 'different', or 'same'. Got ", mode);
    return PyLong_FromLongLong(func::push_vmap(integer(args[0]), mode == "error"  ? Randomness::kError
                                                                 : mode == "same" ? Randomness::kSame
                                                                                  : Randomness::kDifferent));
  });
}
PyObject* py_push_grad(PyObject*, PyObject*) {
  return guarded([] { return PyLong_FromLongLong(func::push_grad()); });
}
PyObject* py_push_jvp(PyObject*, PyObject*) {
  return guarded([] { return PyLong_FromLongLong(func::push_jvp()); });
}
PyObject* py_push_functional(PyObject*, PyObject* removes_views) {
  return guarded([&] { return PyLong_FromLongLong(func::push_functional(removes_views == Py_True)); });
}
PyObject* py_push_tape(PyObject*, PyObject*) {
  return guarded([] { return PyLong_FromLongLong(func::push_tape()); });
}
PyObject* py_pop(PyObject*, PyObject* id) {
  return guarded([&] {
    func::pop_level(integer(id));
    return none();
  });
}
PyObject* py_add_batch_dim(PyObject*, PyObject* const* args, Py_ssize_t n) {
  return guarded([&] {
    need(n == 3, "_add_batch_dim", "(tensor, dim, level)");
    return wrap(func::add_batch_dim(tensor("_add_batch_dim", args[0]), integer(args[1]), integer(args[2])));
  });
}
PyObject* py_remove_batch_dim(PyObject*, PyObject* const* args, Py_ssize_t n) {
  return guarded([&] {
    need(n == 4, "_remove_batch_dim", "(tensor, level, batch_size, dim)");
    return wrap(func::remove_batch_dim(tensor("_remove_batch_dim", args[0]), integer(args[3]), integer(args[1]),
                                       integer(args[2])));
  });
}
PyObject* py_watch(PyObject*, PyObject* const* args, Py_ssize_t n) {
  return guarded([&] {
    need(n == 2, "_watch", "(tensor, level)");
    return wrap(func::watched(tensor("_watch", args[0]), integer(args[1])));
  });
}
PyObject* py_track(PyObject*, PyObject* const* args, Py_ssize_t n) {
  return guarded([&] {
    need(n == 2, "_track", "(tensor, level)");
    return wrap(func::make_tracked(tensor("_track", args[0]), integer(args[1])));
  });
}
PyObject* py_outside(PyObject*, PyObject* const* args, Py_ssize_t n) {
  return guarded([&] {
    need(n == 2, "_outside", "(tensor, level)");
    return wrap(func::outside_of(tensor("_outside", args[0]), integer(args[1])));
  });
}

std::vector<Tensor> tensors(const char* function, PyObject* sequence) {
  need(PyTuple_Check(sequence) || PyList_Check(sequence), function, "tuples of tensors");
  std::vector<Tensor> r;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(sequence); ++i)
    r.push_back(tensor(function, PySequence_Fast_GET_ITEM(sequence, i)));
  return r;
}
PyObject* py_settle(PyObject*, PyObject* const* args, Py_ssize_t n) {
  return guarded([&] {
    need(n == 2, "_settle", "(outputs, level)");
    return to_python(func::settle_histories(tensors("_settle", args[0]), integer(args[1])));
  });
}
PyObject* py_pull_back(PyObject*, PyObject* const* args, Py_ssize_t n) {
  return guarded([&] {
    need(n == 5, "_pull_back", "(outputs, cotangents, inputs, retain_graph, history)");
    const std::vector<Tensor> outputs = tensors("_pull_back", args[0]), inputs = tensors("_pull_back", args[2]);
    std::vector<Tensor> cotangents;
    if (args[1] != Py_None) cotangents = tensors("_pull_back", args[1]);
    const int retain = PyObject_IsTrue(args[3]), history = PyObject_IsTrue(args[4]);
    if (retain < 0 || history < 0) throw ErrorAlreadySet();
    std::vector<Tensor> found = func::pull_back(outputs, cotangents, inputs, retain != 0, history != 0);
    Ref r = Ref::steal(check(PyTuple_New(static_cast<Py_ssize_t>(found.size()))));
    for (size_t i = 0; i < found.size(); ++i) {
      if (!found[i].defined()) found[i] = func::zeros_of(func::without_dead(inputs[i]));
      PyTuple_SET_ITEM(r.get(), static_cast<Py_ssize_t>(i), check(wrap(std::move(found[i]))));
    }
    return r.release();
  });
}
PyObject* py_dual(PyObject*, PyObject* const* args, Py_ssize_t n) {
  return guarded([&] {
    need(n == 3, "_dual", "(tensor, tangent, level)");
    return wrap(func::dual(tensor("_dual", args[0]), tensor("_dual", args[1]), integer(args[2])));
  });
}
PyObject* py_split_dual(PyObject*, PyObject* const* args, Py_ssize_t n) {
  return guarded([&] {
    need(n == 2, "_split_dual", "(tensor, level)");
    std::pair<Tensor, Tensor> parts = func::split_dual(tensor("_split_dual", args[0]), integer(args[1]));
    Ref value = Ref::steal(check(wrap(std::move(parts.first))));
    Ref tangent = Ref::steal(check(wrap_or_none(std::move(parts.second))));
    return check(PyTuple_Pack(2, value.get(), tangent.get()));
  });
}

// --- functionalize ---

Ref list_of(std::vector<Tensor> tensors) {
  Ref r = Ref::steal(check(PyList_New(static_cast<Py_ssize_t>(tensors.size()))));
  for (size_t i = 0; i < tensors.size(); ++i)
    PyList_SET_ITEM(r.get(), static_cast<Py_ssize_t>(i), check(wrap_or_none(std::move(tensors[i]))));
  return r;
}
PyObject* py_functional_arguments(PyObject*, PyObject* const* args, Py_ssize_t n) {
  return guarded([&] {
    need(n == 2, "_functional_arguments", "(tensors, level)");
    return list_of(func::functional_arguments(tensors("_functional_arguments", args[0]), integer(args[1]))).release();
  });
}
PyObject* py_functional_value(PyObject*, PyObject* const* args, Py_ssize_t n) {
  return guarded([&] {
    need(n == 2, "_functional_value", "(tensor, level)");
    return wrap(func::functional_value(tensor("_functional_value", args[0]), integer(args[1])));
  });
}
PyObject* py_write_back(PyObject*, PyObject* const* args, Py_ssize_t n) {
  return guarded([&] {
    need(n == 2, "_write_back", "(given, seen)");
    func::write_back(tensors("_write_back", args[0]), tensors("_write_back", args[1]));
    return none();
  });
}

// --- functional tensors below autograd ---

PyObject* py_to_functional(PyObject*, PyObject* o) {
  return guarded([&] { return wrap(func::to_functional(tensor("_to_functional_tensor", o))); });
}
PyObject* py_is_functional(PyObject*, PyObject* o) {
  return guarded([&] { return to_python(is_tensor(o) && func::wrapper_at(unwrap(o), func::kAtKey)); });
}
PyObject* py_from_functional(PyObject*, PyObject* o) {
  return guarded([&] {
    const Tensor& t = tensor("_from_functional_tensor", o);
    func::functional_state(t);  // an Error for others
    return wrap(func::functional_value(t, func::kAtKey));
  });
}
PyObject* py_functional_state(PyObject*, PyObject* o) {
  return guarded([&] {
    const func::Functional f = func::functional_state(tensor("_functional_state", o));
    return Py_BuildValue("(Ln)", static_cast<long long>(f.writes), static_cast<Py_ssize_t>(f.views));
  });
}
PyObject* py_replace_functional(PyObject*, PyObject* const* args, Py_ssize_t n) {
  return guarded([&] {
    need(n == 2, "_replace_functional", "(tensor, value)");
    func::replace_functional(tensor("_replace_functional", args[0]), tensor("_replace_functional", args[1]));
    return none();
  });
}
PyObject* py_include_functional(PyObject*, PyObject* const* args, Py_ssize_t n) {
  return guarded([&] {
    need(n == 2, "_include_functional", "(on, removes_views)");
    return to_python(func::include_functional(args[0] == Py_True, args[1] == Py_True));
  });
}

// Sets of operators in capsules.
constexpr const char* kOperators = "tessera.func.operators";
using Operators = std::set<const OpHeader*>;
PyObject* py_operators(PyObject*, PyObject* names) {
  return guarded([&] {
    auto made = std::make_unique<Operators>();
    Ref list = Ref::steal(check(PySequence_List(names)));
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(list.get()); ++i) {
      const std::string name = from_python_string(PyList_GET_ITEM(list.get(), i));
      const OpInfo* info = find_op(name);
      TESSERA_CHECK(info, "there is no operator ", name);
      made->insert(info->op);
    }
    PyObject* capsule = check(PyCapsule_New(made.get(), kOperators, [](PyObject* c) {
      delete static_cast<Operators*>(PyCapsule_GetPointer(c, kOperators));
    }));
    made.release();
    return capsule;
  });
}
// The set of this thread, or null. Never destroyed: a thread may end after the interpreter.
Ref& whole() {
  static thread_local auto* kept = new Ref;
  return *kept;
}
PyObject* py_keep_whole(PyObject*, PyObject* capsule) {
  return guarded([&] {
    const Operators* ops = nullptr;
    if (capsule != Py_None) {
      ops = static_cast<const Operators*>(PyCapsule_GetPointer(capsule, kOperators));
      if (!ops) throw ErrorAlreadySet();
    }
    func::keep_whole(ops);
    Ref before = std::exchange(whole(), ops ? Ref::borrow(capsule) : Ref());
    return before ? before.release() : none();
  });
}

const OpHeader* find_operator(std::string_view name) {
  const OpInfo* info = find_op(name);
  return info ? info->op : nullptr;
}

// --- linearize ---

constexpr const char* kLinear = "tessera.func.linear";

// A tape and the tensors of it that are wanted, in a capsule.
struct Linear {
  IntrusivePtr<func::Tape> tape;
  std::vector<int64_t> wanted;
};
Linear& linear(PyObject* capsule) {
  auto* l = static_cast<Linear*>(PyCapsule_GetPointer(capsule, kLinear));
  if (!l) throw ErrorAlreadySet();
  return *l;
}

PyObject* py_on_tape(PyObject*, PyObject* const* args, Py_ssize_t n) {
  return guarded([&] {
    need(n == 2, "_on_tape", "(tensor, level)");
    return wrap(func::on_tape(tensor("_on_tape", args[0]), integer(args[1])));
  });
}
PyObject* py_take_tape(PyObject*, PyObject* const* args, Py_ssize_t n) {
  return guarded([&] {
    need(n == 2, "_take_tape", "(outputs, level)");
    const int64_t level = integer(args[1]);
    const Level* l = func::find_level(level);
    TESSERA_CHECK(l && l->tape, "_take_tape(): this level has no tape");
    auto made = std::make_unique<Linear>();
    made->tape = l->tape;
    for (const Tensor& t : tensors("_take_tape", args[0])) {
      const WrapperImpl* w = func::wrapper_at(t, level);
      made->wanted.push_back(w ? w->number() : -1);
    }
    PyObject* capsule = check(PyCapsule_New(
        made.get(), kLinear, [](PyObject* c) { delete static_cast<Linear*>(PyCapsule_GetPointer(c, kLinear)); }));
    made.release();
    return capsule;
  });
}
PyObject* py_is_stale(PyObject*, PyObject* capsule) {
  return guarded([&] { return to_python(linear(capsule).tape->is_stale()); });
}
PyObject* py_replay(PyObject*, PyObject* const* args, Py_ssize_t n) {
  return guarded([&] {
    need(n == 2, "_replay", "(linear function, inputs)");
    const Linear& l = linear(args[0]);
    return list_of(l.tape->replay(tensors("_replay", args[1]), l.wanted)).release();
  });
}

// (level, batch dim or None) of a wrapper, or None.
PyObject* py_wrapper(PyObject*, PyObject* o) {
  return guarded([&]() -> PyObject* {
    WrapperImpl* w = is_tensor(o) ? func::wrapper_of(unwrap(o)) : nullptr;
    if (!w) return none();
    return w->is_batched()
               ? Py_BuildValue("(LL)", static_cast<long long>(w->level()), static_cast<long long>(w->batch_dim()))
               : Py_BuildValue("(LO)", static_cast<long long>(w->level()), Py_None);
  });
}
PyObject* py_value(PyObject*, PyObject* o) {
  return guarded([&]() -> PyObject* {
    WrapperImpl* w = func::wrapper_of(tensor("_value", o));
    return w ? wrap(w->value()) : Py_NewRef(o);
  });
}
PyObject* py_is_batched(PyObject*, PyObject* o) {
  return guarded([&] {
    WrapperImpl* w = is_tensor(o) ? func::wrapper_of(unwrap(o)) : nullptr;
    return to_python(w && w->is_batched());
  });
}
PyObject* py_is_tracked(PyObject*, PyObject* o) {
  return guarded([&] {
    WrapperImpl* w = is_tensor(o) ? func::wrapper_of(unwrap(o)) : nullptr;
    return to_python(w && !w->is_batched());
  });
}
// The level has not ended.
PyObject* py_is_alive(PyObject*, PyObject* id) {
  return guarded([&] { return to_python(func::find_level(integer(id)) != nullptr); });
}

PyObject* level_tuple(const Level& l) {
  static const char* const kinds[] = {"vmap", "grad", "jvp", "tape", "functionalize"};
  static const char* const modes[] = {"error", "same", "different"};
  return Py_BuildValue("(sLLs)", kinds[static_cast<int>(l.kind)], static_cast<long long>(l.id),
                       static_cast<long long>(l.batch_size), modes[static_cast<int>(l.randomness)]);
}
// (kind, id, batch size, randomness) of each level, the outermost first.
PyObject* py_levels(PyObject*, PyObject*) {
  return guarded([&] {
    Ref list = Ref::steal(check(PyList_New(0)));
    for (const Level& l : func::levels()) {
      Ref t = Ref::steal(check(level_tuple(l)));
      check(PyList_Append(list.get(), t.get()));
    }
    return list.release();
  });
}
// Calls f(*args) with the innermost level taken off.
PyObject* py_call_outside(PyObject*, PyObject* const* args, Py_ssize_t n) {
  return guarded([&] {
    need(n >= 1, "_call_outside", "a function");
    TESSERA_CHECK(func::top_level(), "_call_outside(): there is no function transform");
    func::Hidden hidden;
    return check(PyObject_Vectorcall(args[0], args + 1, static_cast<size_t>(n - 1), nullptr));
  });
}
// {operator: (family, whether it was derived)}: how each operator of the registry is batched.
PyObject* py_batching_rules(PyObject*, PyObject*) {
  return guarded([&] {
    Ref dict = Ref::steal(check(PyDict_New()));
    for (const OpInfo* info : all_ops()) {
      const func::Plan& p = func::plan_of(*info->op);
      const std::string name = str_cat(info->op->name, info->op->overload[0] ? "." : "", info->op->overload);
      Ref entry = Ref::steal(check(Py_BuildValue("(sO)", func::family_name(p.family), p.derived ? Py_True : Py_False)));
      check(PyDict_SetItemString(dict.get(), name.c_str(), entry.get()));
    }
    return dict.release();
  });
}

// --- torch.library.register_vmap ---

PyObject* registered_rules() {
  static constinit MadeOnce rules;
  return rules.get([] {
    Ref m = checked_call(PyImport_ImportModule("tessera.library"));
    return checked_call(PyObject_GetAttrString(m.get(), "_vmap_rules"));
  });
}
PyObject* vmap_info_type() {
  static constinit MadeOnce type;
  return type.get([] {
    Ref m = checked_call(PyImport_ImportModule("tessera.func._custom"));
    return checked_call(PyObject_GetAttrString(m.get(), "VmapInfo"));
  });
}

Ref dim_of(const Tensor& t, int64_t level) {
  const func::Part p = func::part_of(t, level);
  return p.batched() ? checked_call(PyLong_FromLongLong(p.batch_dim)) : Ref::borrow(Py_None);
}
// The positional arguments' dimensions, in the arguments' structure; the arguments themselves without their batch.
Ref take_dims(const func::BatchCall& c, std::vector<Value>& values) {
  Ref dims = checked_call(PyList_New(0));
  for (size_t i = 0; i < c.args.size(); ++i) {
    Ref dim = Ref::borrow(Py_None);
    if (c.args[i].is_tensor() && c.args[i].tensor().defined()) {
      dim = dim_of(c.args[i].tensor(), c.level);
      values[i] = Value::of(func::part(c, i).value);
    } else if (c.args[i].is_tensor_list()) {
      dim = checked_call(PyList_New(0));
      std::vector<Tensor> list;
      for (const Tensor& t : c.args[i].tensor_list()) {
        check(PyList_Append(dim.get(), dim_of(t, c.level).get()));
        list.push_back(func::part_of(t, c.level).value);
      }
      values[i] = Value::of(std::move(list));
    }
    if (!c.plan.schema.arguments[i].kwarg_only) check(PyList_Append(dims.get(), dim.get()));
  }
  return checked_call(PyList_AsTuple(dims.get()));
}

int64_t out_dim(PyObject* dims, size_t i) {
  PyObject* d = PyTuple_Check(dims) || PyList_Check(dims)
                    ? PySequence_Fast_GET_ITEM(
                          dims, std::min<Py_ssize_t>(static_cast<Py_ssize_t>(i), PySequence_Fast_GET_SIZE(dims) - 1))
                    : dims;
  return d == Py_None ? -1 : integer(d);
}

void call_rule(const func::BatchCall& c, PyObject* rule) {
  static const char* const modes[] = {"error", "same", "different"};
  Ref out_dims;
  {
    func::Hidden hidden;
    std::vector<Value> values(c.args.begin(), c.args.end());
    Ref in_dims = take_dims(c, values), positional, keywords;
    arguments_to_python(*c.op.info, values.data(), values.size(), &positional, &keywords);
    Ref info = checked_call(PyObject_CallFunction(vmap_info_type(), "Ls", static_cast<long long>(c.batch),
                                                  modes[static_cast<int>(c.randomness)]));
    Ref first = checked_call(PyTuple_Pack(2, info.get(), in_dims.get()));
    Ref all = checked_call(PySequence_Concat(first.get(), positional.get()));
    Ref result = checked_call(PyObject_Call(rule, all.get(), keywords.get()));
    if (!PyTuple_Check(result.get()) || PyTuple_GET_SIZE(result.get()) != 2)
      throw Error(str_cat("the vmap rule of ", c.op.name, " must return (outputs, out_dims)"));
    results_from_python(*c.op.info, PyTuple_GET_ITEM(result.get(), 0), c.rets, c.num_rets);
    out_dims = Ref::borrow(PyTuple_GET_ITEM(result.get(), 1));
  }
  for (size_t i = 0; i < c.num_rets; ++i) {
    const int64_t dim = out_dim(out_dims.get(), i);
    if (dim < 0) continue;
    if (c.rets[i].is_tensor() && c.rets[i].tensor().defined()) {
      func::put(c, i, Tensor(c.rets[i].tensor()), dim);
    } else if (c.rets[i].is_tensor_list()) {
      std::vector<Tensor> list;
      for (const Tensor& t : c.rets[i].tensor_list()) list.push_back(func::make_batched(t, dim, c.level));
      c.rets[i] = Value::of(std::move(list));
    }
  }
}

bool registered_rule(const func::BatchCall& c) {
  GilAcquire gil;
  try {
    Ref name = to_python_string(c.plan.schema.qualified_name());
    PyObject* rule = PyDict_GetItemWithError(registered_rules(), name.get());
    if (!rule && PyErr_Occurred()) throw ErrorAlreadySet();
    if (!rule && c.plan.schema.overload.empty()) {
      Ref full = to_python_string(c.plan.schema.name + ".default");
      rule = PyDict_GetItemWithError(registered_rules(), full.get());
    }
    if (!rule) return false;
    Ref kept = Ref::borrow(rule);
    call_rule(c, kept.get());
    return true;
  } catch (const ErrorAlreadySet&) { throw PythonError(); }
}

PyCFunction fast(PyObject* (*f)(PyObject*, PyObject* const*, Py_ssize_t)) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(f));
}

}  // namespace

std::vector<PyMethodDef> functorch_functions() {
  return {
      {"_add_batch_dim", fast(py_add_batch_dim), METH_FASTCALL, nullptr},
      {"_remove_batch_dim", fast(py_remove_batch_dim), METH_FASTCALL, nullptr},
      {"get_unwrapped", py_value, METH_O, nullptr},
      {"is_batchedtensor", py_is_batched, METH_O, nullptr},
      {"is_gradtrackingtensor", py_is_tracked, METH_O, nullptr},
  };
}

std::vector<PyMethodDef> func_functions() {
  func::set_foreign_rules(registered_rule);
  func::set_operator_finder(find_operator);
  return {
      {"_push_vmap", fast(py_push_vmap), METH_FASTCALL, "(batch_size, randomness): begins a level; its number."},
      {"_push_grad", py_push_grad, METH_NOARGS, "Begins a level; its number."},
      {"_push_jvp", py_push_jvp, METH_NOARGS, "Begins a level; its number."},
      {"_pop", py_pop, METH_O, "Ends the innermost level, which must have this number."},
      {"_settle", fast(py_settle), METH_FASTCALL,
       "(outputs, level): their histories, complete; whether values of the level have one outside of it."},
      {"_add_batch_dim", fast(py_add_batch_dim), METH_FASTCALL,
       "(tensor, dim, level): the tensor as the level sees it."},
      {"_remove_batch_dim", fast(py_remove_batch_dim), METH_FASTCALL,
       "(tensor, level, batch_size, dim): the tensor with the batch at dim."},
      {"_watch", fast(py_watch), METH_FASTCALL, "(tensor, level): a tensor whose use the level of a grad records."},
      {"_track", fast(py_track), METH_FASTCALL, "(tensor, level): a constant of the level."},
      {"_outside", fast(py_outside), METH_FASTCALL, "(tensor, level): the value outside of the level."},
      {"_pull_back", fast(py_pull_back), METH_FASTCALL,
       "(outputs, cotangents or None, inputs, retain_graph, history): gradients of the watched inputs; zeros for those "
       "that nothing depends on."},
      {"_dual", fast(py_dual), METH_FASTCALL, "(tensor, tangent, level): a tensor of a jvp with its tangent."},
      {"_split_dual", fast(py_split_dual), METH_FASTCALL,
       "(tensor, level): value and tangent (None: zeros) of what a jvp made, outside of it."},
      {"_push_functional", py_push_functional, METH_O, "(removes_views): begins a level; its number."},
      {"_functional_arguments", fast(py_functional_arguments), METH_FASTCALL,
       "(tensors, level): arguments as the level sees them."},
      {"_functional_value", fast(py_functional_value), METH_FASTCALL,
       "(tensor, level): what it holds now, outside of the level."},
      {"_write_back", fast(py_write_back), METH_FASTCALL,
       "(given, seen): writes to the arguments what was written to what stood for them."},
      {"_to_functional_tensor", py_to_functional, METH_O, "The tensor as a functional one."},
      {"_from_functional_tensor", py_from_functional, METH_O, "What a functional tensor holds now."},
      {"_is_functional_tensor", py_is_functional, METH_O, nullptr},
      {"_functional_state", py_functional_state, METH_O,
       "(number of writes to its memory, number of views between the two) of a functional tensor."},
      {"_replace_functional", fast(py_replace_functional), METH_FASTCALL,
       "(tensor, value): a functional tensor holds the value from now on."},
      {"_include_functional", fast(py_include_functional), METH_FASTCALL,
       "(on, removes_views): whether operators without tensors make functional ones on this thread; what it was."},
      {"_operators", py_operators, METH_O, "A set of operators by their qualified names, for _keep_whole."},
      {"_keep_whole", py_keep_whole, METH_O,
       "(set or None): composite operators that __torch_dispatch__ gets as one call on this thread; what it was."},
      {"_push_tape", py_push_tape, METH_NOARGS, "Begins a level; its number."},
      {"_on_tape", fast(py_on_tape), METH_FASTCALL, "(tensor, level): a new input of the level's tape."},
      {"_take_tape", fast(py_take_tape), METH_FASTCALL, "(outputs, level): the function from its inputs to these."},
      {"_is_stale", py_is_stale, METH_O, "Whether a constant of such a function was written to since."},
      {"_replay", fast(py_replay), METH_FASTCALL,
       "(function, inputs): its outputs for other inputs; None for one that is constant."},
      {"_wrapper", py_wrapper, METH_O, "(level, batch dim or None) of a tensor inside of a transform, else None."},
      {"_value", py_value, METH_O, "What a tensor of a level wraps; other tensors as they are."},
      {"_is_batched", py_is_batched, METH_O, nullptr},
      {"_is_tracked", py_is_tracked, METH_O, nullptr},
      {"_is_alive", py_is_alive, METH_O, nullptr},
      {"_levels", py_levels, METH_NOARGS, "(kind, number, batch size, randomness) of each level, outermost first."},
      {"_call_outside", fast(py_call_outside), METH_FASTCALL, "(f, *args): f(*args) outside of the innermost level."},
      {"_batching_rules", py_batching_rules, METH_NOARGS,
       "{operator: (family of its batching rule, whether it follows from the tables)}."},
  };
}

}  // namespace tessera::python
