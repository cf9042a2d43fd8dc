#include "python/bindings/torch_function.h"

#include <vector>

#include "python/bindings/mode_stack.h"
#include "python/bindings/tensor_type.h"
#include "python/bindings/types.h"
#include "tensor/core/restore.h"

namespace tessera::python {

thread_local constinit FunctionState function_state;
PyObject* g_disabled_torch_function = nullptr;
PyObject* g_str_torch_function = nullptr;

namespace {

// Not destroyed with its thread: at the end of the program there is no interpreter left to give references back to.
std::vector<Ref>& mode_stack() {
  static thread_local auto* stack = new std::vector<Ref>;
  return *stack;
}

bool is_plain(PyTypeObject* t) {
  return t == TensorType || t == &PyLong_Type || t == &PyFloat_Type || t == &PyBool_Type || t == &PyUnicode_Type ||
         t == Py_TYPE(Py_None) || t == &PyTuple_Type || t == &PyList_Type || t == &PyDict_Type ||
         t == &PyComplex_Type || t == &PySlice_Type || t == Py_TYPE(Py_Ellipsis);
}

bool type_overrides(PyTypeObject* t) {
  if (is_plain(t)) return false;
  PyObject* f = type_lookup(t, g_str_torch_function);  // borrowed
  return f && f != g_disabled_torch_function;
}

// Subclasses before their bases, each type once.
void collect(std::vector<PyObject*>& found, PyObject* o) {
  if (!type_overrides(Py_TYPE(o))) return;
  for (PyObject* f : found)
    if (Py_TYPE(f) == Py_TYPE(o)) return;
  size_t at = found.size();
  for (size_t i = 0; i < found.size(); ++i)
    if (PyType_IsSubtype(Py_TYPE(o), Py_TYPE(found[i]))) {
      at = i;
      break;
    }
  found.insert(found.begin() + static_cast<int64_t>(at), o);
}
void collect_deep(std::vector<PyObject*>& found, PyObject* o) {
  if (PyTuple_CheckExact(o) || PyList_Check(o) || Py_TYPE(o) == SizeType) {
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(o); ++i) collect(found, PySequence_Fast_GET_ITEM(o, i));
  } else {
    collect(found, o);
  }
}

PyObject* call_handler(PyObject* handler_owner, PyObject* func, PyObject* types, PyObject* args, PyObject* kwargs) {
  Ref handler = Ref::steal(check(PyObject_GetAttr(handler_owner, g_str_torch_function)));
  Ref r = Ref::steal(check(PyObject_CallFunctionObjArgs(handler.get(), func, types, args, kwargs, nullptr)));
  return r.release();
}

void count_modes() { function_state.num_modes = static_cast<int>(mode_stack().size()); }

PyObject* call_top_mode(PyObject* func, PyObject* types, PyObject* args, PyObject* kwargs) {
  const TopModeOff off(mode_stack(), count_modes);
  return call_handler(off.mode(), func, types, args, kwargs);
}

std::string text_of(Ref text) {
  const char* found = text && PyUnicode_Check(text.get()) ? PyUnicode_AsUTF8(text.get()) : nullptr;
  PyErr_Clear();
  return found ? found : "";
}
// "torch.add", "torch.Tensor.add": what users call the function.
std::string public_name(PyObject* func) {
  std::string module = text_of(Ref::steal(PyObject_GetAttrString(func, "__module__")));
  if (module.empty()) module = std::string(display_name()) + ".Tensor";  // a method
  if (module.starts_with("tessera.")) module.replace(0, 7, display_name());
  return module + "." + text_of(Ref::steal(PyObject_GetAttrString(func, "__name__")));
}

PyObject* dispatch(PyObject* func, const std::vector<PyObject*>& overloaded, PyObject* args, PyObject* kwargs) {
  Ref types = Ref::steal(check(PyTuple_New(static_cast<Py_ssize_t>(overloaded.size()))));
  for (size_t i = 0; i < overloaded.size(); ++i)
    PyTuple_SET_ITEM(types.get(), static_cast<Py_ssize_t>(i),
                     Py_NewRef(reinterpret_cast<PyObject*>(Py_TYPE(overloaded[i]))));
  if (function_state.num_modes > 0 && !function_state.all_disabled) {
    PyObject* r = call_top_mode(func, types.get(), args, kwargs);
    if (r != Py_NotImplemented) return r;
    Py_DECREF(r);
  }
  for (PyObject* o : overloaded) {
    PyObject* r = call_handler(reinterpret_cast<PyObject*>(Py_TYPE(o)), func, types.get(), args, kwargs);
    if (r != Py_NotImplemented) return r;
    Py_DECREF(r);
  }
  std::string list;
  for (PyObject* o : overloaded) {
    Ref type = Ref::steal(PyObject_Repr(reinterpret_cast<PyObject*>(Py_TYPE(o))));
    list += (list.empty() ? "" : ", ") + text_of(std::move(type));
  }
  throw TypeError(str_cat("no implementation found for '", public_name(func),
                          "' on types that implement __torch_function__: [", list, "]"));
}

// --- what the Python side calls ---

PyObject* py_has(PyObject*, PyObject* args) {
  return guarded([&]() -> PyObject* {
    if (function_state.all_disabled) return to_python(false);
    if (function_state.num_modes > 0) return to_python(true);
    if (function_state.subclass_disabled) return to_python(false);
    Ref fast = Ref::steal(check(PySequence_Fast(args, "expected a sequence of arguments")));
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(fast.get()); ++i)
      if (type_overrides(Py_TYPE(PySequence_Fast_GET_ITEM(fast.get(), i)))) return to_python(true);
    return to_python(false);
  });
}
PyObject* py_has_fast(PyObject*, PyObject* const* args, Py_ssize_t n) {
  if (function_state.all_disabled) return to_python(false);
  if (function_state.num_modes > 0) return to_python(true);
  if (function_state.subclass_disabled) return to_python(false);
  for (Py_ssize_t i = 0; i < n; ++i)
    if (type_overrides(Py_TYPE(args[i]))) return to_python(true);
  return to_python(false);
}
// handle_torch_function(public_api, relevant_args, *args, **kwargs)
PyObject* py_handle(PyObject*, PyObject* args, PyObject* kwargs) {
  return guarded([&] {
    if (PyTuple_GET_SIZE(args) < 2)
      throw TypeError("handle_torch_function(public_api, relevant_args, *args, **kwargs)");
    std::vector<PyObject*> found;
    Ref relevant = Ref::steal(check(PySequence_Fast(PyTuple_GET_ITEM(args, 1), "relevant_args must be iterable")));
    if (!function_state.subclass_disabled)
      for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(relevant.get()); ++i)
        collect_deep(found, PySequence_Fast_GET_ITEM(relevant.get(), i));
    Ref rest = Ref::steal(check(PyTuple_GetSlice(args, 2, PyTuple_GET_SIZE(args))));
    Ref kw = kwargs ? Ref::borrow(kwargs) : Ref::steal(check(PyDict_New()));
    return dispatch(PyTuple_GET_ITEM(args, 0), found, rest.get(), kw.get());
  });
}
PyObject* py_disabled_impl(PyObject*, PyObject* args) {
  PyObject *func, *types, *call_args, *kwargs = nullptr;
  if (!PyArg_ParseTuple(args, "OOO|O", &func, &types, &call_args, &kwargs)) return nullptr;
  const ScopedValue<bool> disabled(function_state.subclass_disabled, true);
  Ref tuple = Ref::steal(PySequence_Tuple(call_args));
  return tuple ? PyObject_Call(func, tuple.get(), kwargs == Py_None ? nullptr : kwargs) : nullptr;
}
PyObject* py_push(PyObject*, PyObject* mode) {
  mode_stack().push_back(Ref::borrow(mode));
  count_modes();
  Py_RETURN_NONE;
}
PyObject* py_pop(PyObject*, PyObject*) {
  if (mode_stack().empty()) {
    PyErr_SetString(PyExc_RuntimeError, "the stack of __torch_function__ modes is empty");
    return nullptr;
  }
  Ref top = mode_stack().back();
  mode_stack().pop_back();
  count_modes();
  return top.release();
}
PyObject* py_len(PyObject*, PyObject*) { return PyLong_FromSize_t(mode_stack().size()); }
PyObject* py_at(PyObject*, PyObject* index) {
  const Py_ssize_t i = PyLong_AsSsize_t(index);
  if (i < 0 || static_cast<size_t>(i) >= mode_stack().size()) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_IndexError, "no such __torch_function__ mode");
    return nullptr;
  }
  return Ref(mode_stack()[static_cast<size_t>(i)]).release();
}
PyObject* py_enabled(PyObject*, PyObject*) {
  return to_python(!function_state.subclass_disabled && !function_state.all_disabled);
}
PyObject* py_all_enabled(PyObject*, PyObject*) { return to_python(!function_state.all_disabled); }
// Sets a switch and returns its old value: the context managers on the Python side put it back.
PyObject* py_set_subclass_disabled(PyObject*, PyObject* on) {
  return to_python(std::exchange(function_state.subclass_disabled, PyObject_IsTrue(on) == 1));
}
PyObject* py_set_all_disabled(PyObject*, PyObject* on) {
  return to_python(std::exchange(function_state.all_disabled, PyObject_IsTrue(on) == 1));
}

PyMethodDef g_methods[] = {
    {"_has_torch_function", py_has, METH_O,
     "True if an object of the sequence, or a mode, overrides __torch_function__."},
    {"_has_torch_function_unary", py_has, METH_O, nullptr},
    {"_has_torch_function_variadic", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(py_has_fast)),
     METH_FASTCALL, nullptr},
    {"_handle_torch_function", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(py_handle)),
     METH_VARARGS | METH_KEYWORDS, nullptr},
    {"_disabled_torch_function_impl", py_disabled_impl, METH_VARARGS,
     "A __torch_function__ that does nothing: assign it in a class to opt out."},
    {"_push_on_torch_function_stack", py_push, METH_O, nullptr},
    {"_pop_torch_function_stack", py_pop, METH_NOARGS, nullptr},
    {"_len_torch_function_stack", py_len, METH_NOARGS, nullptr},
    {"_get_function_stack_at", py_at, METH_O, nullptr},
    {"_is_torch_function_enabled", py_enabled, METH_NOARGS, nullptr},
    {"_is_torch_function_all_enabled", py_all_enabled, METH_NOARGS, nullptr},
    {"_set_torch_function_subclass_disabled", py_set_subclass_disabled, METH_O, nullptr},
    {"_set_torch_function_all_disabled", py_set_all_disabled, METH_O, nullptr},
    {nullptr, nullptr, 0, nullptr}};

PyObject* py_has_one(PyObject*, PyObject* o) {
  PyObject* args[] = {o};
  return py_has_fast(nullptr, args, 1);
}

}  // namespace

bool overrides_torch_function(PyObject* o) { return type_overrides(Py_TYPE(o)); }

bool needs_torch_function(PyObject* const* args, Py_ssize_t n) {
  if (function_state.all_disabled) return false;
  if (function_state.num_modes > 0) return true;
  if (function_state.subclass_disabled) return false;
  for (Py_ssize_t i = 0; i < n; ++i) {
    PyObject* o = args[i];
    if (Py_TYPE(o) == TensorType) continue;
    if (PyTuple_CheckExact(o) || PyList_Check(o) || Py_TYPE(o) == SizeType) {
      const Py_ssize_t m = PySequence_Fast_GET_SIZE(o);
      for (Py_ssize_t k = 0; k < m; ++k)
        if (type_overrides(Py_TYPE(PySequence_Fast_GET_ITEM(o, k)))) return true;
    } else if (type_overrides(Py_TYPE(o))) {
      return true;
    }
  }
  return false;
}

Ref overridden_slot(PyObject*& cache, const char* name, PyObject* self) {
  if (!needs_torch_function(&self, 1)) return Ref();
  if (!cache) cache = check(PyObject_GetAttrString(reinterpret_cast<PyObject*>(TensorType), name));
  return Ref::steal(check(call_torch_function(cache, &self, 1, nullptr)));
}

PyObject* call_torch_function(PyObject* func, PyObject* const* args, Py_ssize_t num_positional, PyObject* kwnames) {
  std::vector<PyObject*> found;
  const Py_ssize_t nkw = kwnames ? PyTuple_GET_SIZE(kwnames) : 0;
  if (!function_state.subclass_disabled)
    for (Py_ssize_t i = 0; i < num_positional + nkw; ++i) collect_deep(found, args[i]);
  Ref tuple = Ref::steal(check(PyTuple_New(num_positional)));
  for (Py_ssize_t i = 0; i < num_positional; ++i) PyTuple_SET_ITEM(tuple.get(), i, Py_NewRef(args[i]));
  Ref kwargs = Ref::steal(check(PyDict_New()));
  for (Py_ssize_t i = 0; i < nkw; ++i)
    check(PyDict_SetItem(kwargs.get(), PyTuple_GET_ITEM(kwnames, i), args[num_positional + i]));
  return dispatch(func, found, tuple.get(), kwargs.get());
}

void init_torch_function(PyObject* module) {
  g_str_torch_function = PyUnicode_InternFromString("__torch_function__");
  for (PyMethodDef& m : g_methods)
    if (m.ml_name && std::string_view(m.ml_name) == "_has_torch_function_unary") m.ml_meth = py_has_one;
  check(PyModule_AddFunctions(module, g_methods));
  g_disabled_torch_function = check(PyObject_GetAttrString(module, "_disabled_torch_function_impl"));
}

}  // namespace tessera::python
