// __torch_dispatch__: modes and tensor subclasses see operators below autograd, as one fallback of the Python key.
#include <vector>

#include "func/functional.h"
#include "python/bindings/autograd/autograd.h"
#include "python/bindings/library/fake.h"
#include "python/bindings/library/library.h"
#include "python/bindings/mode_stack.h"
#include "python/bindings/operators.h"
#include "python/bindings/tensor_type.h"
#include "tensor/dispatch/runtime.h"

namespace tessera::python {
namespace {

PyObject* g_disabled_dispatch = nullptr;
PyObject* g_str_dispatch = nullptr;

// Never destroyed: a thread may end after the interpreter.
std::vector<Ref>& stack() {
  static thread_local auto* s = new std::vector<Ref>;
  return *s;
}
constexpr uint64_t kPythonBit = DispatchKeySet(DispatchKey::kPython).bits();
void update_included() {
  thread_state.included = stack().empty() ? thread_state.included & ~kPythonBit : thread_state.included | kPythonBit;
}

// Python objects whose type takes part; subclasses before their bases, each type once.
void collect(std::vector<Ref>& found, const Tensor& t) {
  if (!t.defined() || !t.keys().has(DispatchKey::kPython)) return;
  Ref o = checked_call(wrap(t));
  PyTypeObject* type = Py_TYPE(o.get());
  if (!overrides_torch_dispatch(type)) return;
  size_t at = found.size();
  for (size_t i = 0; i < found.size(); ++i) {
    if (Py_TYPE(found[i].get()) == type) return;
    if (at == found.size() && PyType_IsSubtype(type, Py_TYPE(found[i].get()))) at = i;
  }
  found.insert(found.begin() + static_cast<int64_t>(at), std::move(o));
}

// Decomposed before anybody sees it: made of other operators, without a kernel or derivative of its own.
bool is_composite(const OpHeader& op) {
  if (has_kernel(op, DispatchKey::kCPU) || op.slots()[static_cast<int>(Slot::kAutograd)] ||
      op.slots()[static_cast<int>(Slot::kCompositeExplicit)])
    return false;
  return has_kernel(op, DispatchKey::kCompositeImplicitAutograd) &&
         !has_kernel(op, DispatchKey::kCompositeExplicitAutograd);
}

// What register_torch_dispatch registered for this operator and this class, or null.
Ref rule_for(const OpHeader& op, PyObject* owner_type) {
  static constinit MadeOnce find;
  Ref func = checked_call(overload_object(op));
  Ref rule = checked_call(PyObject_CallFunctionObjArgs(find.get([] { return ops_function("_dispatch_rule"); }),
                                                       func.get(), owner_type, nullptr));
  return rule.get() == Py_None ? Ref() : rule;
}

// handler(func, types, args, kwargs). Classes of a program are told the operators that are documented.
Ref call_handler(const OpHeader& op, PyObject* owner_type, PyObject* handler, PyObject* func, PyObject* types,
                 PyObject* args, PyObject* kwargs) {
  static constinit MadeOnce find;
  const std::string_view name = op.name;
  if (name[name.rfind(':') + 1] == '_' || std::string_view(op.overload).starts_with("Tensor")) {
    Ref shown = checked_call(PyObject_CallFunctionObjArgs(find.get([] { return ops_function("_documented_call"); }),
                                                          func, args, kwargs, owner_type, nullptr));
    if (shown.get() != Py_None)
      return checked_call(PyObject_CallFunctionObjArgs(handler, PyTuple_GET_ITEM(shown.get(), 0), types,
                                                       PyTuple_GET_ITEM(shown.get(), 1),
                                                       PyTuple_GET_ITEM(shown.get(), 2), nullptr));
  }
  return checked_call(PyObject_CallFunctionObjArgs(handler, func, types, args, kwargs, nullptr));
}

Ref call_mode(const OpHeader& op, PyObject* func, PyObject* types, PyObject* args, PyObject* kwargs) {
  const TopModeOff off(stack(), update_included);
  if (Ref rule = rule_for(op, reinterpret_cast<PyObject*>(Py_TYPE(off.mode()))))
    return checked_call(PyObject_CallFunctionObjArgs(rule.get(), off.mode(), func, types, args, kwargs, nullptr));
  Ref handler = checked_call(PyObject_GetAttr(off.mode(), g_str_dispatch));
  return call_handler(op, reinterpret_cast<PyObject*>(Py_TYPE(off.mode())), handler.get(), func, types, args, kwargs);
}

// A wrapper that lost its class has nothing that a kernel could read.
void check_data(const Value* args, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    if (!args[i].is_tensor() || !args[i].tensor().defined()) continue;
    const Tensor& t = args[i].tensor();
    TESSERA_CHECK(!t.is_cpu() || t.numel() == 0 || t.data_ptr(),
                  "Cannot access data pointer of Tensor that doesn't have storage");
  }
}

void python_dispatch(void*, const OpHeader& op, DispatchKeySet keys, const Value* args, size_t num_args, Value* rets,
                     size_t num_rets) {
  GilAcquire gil;
  try {
    const bool decomposes = is_composite(op) && !func::stays_whole(op, args, num_args);
    PyObject* top = stack().empty() ? nullptr : stack().back().get();
    const Ref symbols = take_symbols(op);
    if (decomposes ? symbolic_composite(top, op, args, num_args, rets, num_rets, symbols.get())
                   : fake_dispatch(top, op, args, num_args, rets, num_rets, symbols.get()))
      return;
    std::vector<Ref> found;
    for (size_t i = 0; i < num_args; ++i) {
      if (args[i].is_tensor()) collect(found, args[i].tensor());
      if (args[i].is_tensor_list())
        for (const Tensor& t : args[i].tensor_list()) collect(found, t);
    }
    if (decomposes || (stack().empty() && found.empty())) {
      if (!decomposes) check_data(args, num_args);
      const DispatchKeySet below = keys - DispatchKeySet(DispatchKey::kPython);
      try {
        op.info->adapter->call(op, &below, args, rets);
      } catch (const Error& e) {
        if (!reads_fake_tensors(e)) throw;
        refuse_values(op);
      }
      return;
    }
    Ref func = checked_call(overload_object(op)), positional, keywords;
    call_as_written(*op.info, args, num_args, &positional, &keywords, symbols.get());
    Ref types = checked_call(PyTuple_New(static_cast<Py_ssize_t>(found.size())));
    for (size_t i = 0; i < found.size(); ++i)
      PyTuple_SET_ITEM(types.get(), static_cast<Py_ssize_t>(i),
                       Py_NewRef(reinterpret_cast<PyObject*>(Py_TYPE(found[i].get()))));
    if (!stack().empty()) {
      Ref r = call_mode(op, func.get(), types.get(), positional.get(), keywords.get());
      if (r.get() != Py_NotImplemented) {
        results_from_python(*op.info, r.get(), rets, num_rets);
        return;
      }
    }
    for (const Ref& o : found) {
      PyObject* type = reinterpret_cast<PyObject*>(Py_TYPE(o.get()));
      Ref rule = rule_for(op, type);
      Ref handler = rule ? Ref() : checked_call(PyObject_GetAttr(type, g_str_dispatch));
      Ref r = rule ? checked_call(PyObject_CallFunctionObjArgs(rule.get(), type, func.get(), types.get(),
                                                               positional.get(), keywords.get(), nullptr))
                   : call_handler(op, type, handler.get(), func.get(), types.get(), positional.get(), keywords.get());
      if (r.get() != Py_NotImplemented) {
        results_from_python(*op.info, r.get(), rets, num_rets);
        return;
      }
    }
    std::string names;
    for (const Ref& o : found) names += std::string("\n  - tensor subclass ") + Py_TYPE(o.get())->tp_name;
    throw TypeError(str_cat("Multiple dispatch failed for '", op.name, op.overload[0] ? "." : "", op.overload,
                            "'; all __torch_dispatch__ handlers returned NotImplemented:", names));
  } catch (const ErrorAlreadySet&) { throw PythonError(); }
}

PyObject* py_push(PyObject*, PyObject* mode) {
  stack().push_back(Ref::borrow(mode));
  update_included();
  return none();
}
PyObject* py_pop(PyObject*, PyObject*) {
  return guarded([&] {
    TESSERA_CHECK(!stack().empty(), "the stack of __torch_dispatch__ modes is empty");
    Ref top = stack().back();
    stack().pop_back();
    update_included();
    return top.release();
  });
}
PyObject* py_len(PyObject*, PyObject*) { return PyLong_FromSize_t(stack().size()); }
PyObject* py_at(PyObject*, PyObject* index) {
  return guarded([&] {
    const Py_ssize_t i = PyLong_AsSsize_t(index);
    if (i == -1 && PyErr_Occurred()) throw ErrorAlreadySet();
    TESSERA_CHECK_INDEX(i >= 0 && static_cast<size_t>(i) < stack().size(), "there is no __torch_dispatch__ mode ", i,
                        " on a stack of ", stack().size());
    return Ref(stack()[static_cast<size_t>(i)]).release();
  });
}
// func(*args, **kwargs) as if there were no __torch_dispatch__.
PyObject* py_disabled(PyObject*, PyObject* given) {
  return guarded([&] {
    PyObject *func, *types, *args = nullptr, *kwargs = nullptr;
    if (!PyArg_ParseTuple(given, "OO|OO:_disabled_torch_dispatch_impl", &func, &types, &args, &kwargs))
      throw ErrorAlreadySet();
    ExcludeKeys off{DispatchKeySet(DispatchKey::kPython)};
    Ref tuple = args ? Ref::steal(check(PySequence_Tuple(args))) : Ref::steal(check(PyTuple_New(0)));
    return check(PyObject_Call(func, tuple.get(), kwargs == Py_None ? nullptr : kwargs));
  });
}

PyMethodDef g_functions[] = {{"_push_on_torch_dispatch_stack", py_push, METH_O, nullptr},
                             {"_pop_torch_dispatch_stack", py_pop, METH_NOARGS, nullptr},
                             {"_len_torch_dispatch_stack", py_len, METH_NOARGS, nullptr},
                             {"_get_dispatch_stack_at", py_at, METH_O, nullptr},
                             {"_disabled_torch_dispatch_impl", py_disabled, METH_VARARGS,
                              "A __torch_dispatch__ that does nothing: assign it in a class to opt out."},
                             {nullptr, nullptr, 0, nullptr}};

}  // namespace

PyObject* innermost_dispatch_mode(bool (*wanted)(PyObject*)) {
  for (size_t i = stack().size(); i-- > 0;)
    if (wanted(stack()[i].get())) return stack()[i].get();
  return nullptr;
}

bool overrides_torch_dispatch(PyTypeObject* type) {
  if (type == TensorType) return false;
  PyObject* f = type_lookup(type, g_str_dispatch);
  return f && f != g_disabled_dispatch;
}

void init_dispatch_modes(PyObject* module) {
  g_str_dispatch = check(PyUnicode_InternFromString("__torch_dispatch__"));
  check(PyModule_AddFunctions(module, g_functions));
  g_disabled_dispatch = check(PyObject_GetAttrString(module, "_disabled_torch_dispatch_impl"));
  check(PyObject_SetAttr(reinterpret_cast<PyObject*>(TensorType), g_str_dispatch, g_disabled_dispatch));
  RuntimeKernel kernel;
  kernel.boxed = make_intrusive<BoxedEntry>();
  kernel.boxed->kernel = &python_dispatch;
  static auto* kept = new Registration(register_fallback(DispatchKey::kPython, std::move(kernel)));  // for ever
  (void)kept;
}

}  // namespace tessera::python
