// Attributes and calls of nn.Module without a Python frame: the type slots of Module and of its subclasses that keep
// Module's own __getattr__ and __call__.
//
// The Python methods stay the definition: _install_module_slots looks at each class when it is made, and Python puts
// its general slots back by itself when somebody assigns a new __getattr__ or __call__ to a class.
#include <utility>

#include "python/bindings/args.h"
#include "python/bindings/calls.h"
#include "python/bindings/profiler/profiler.h"
#include "python/bindings/shells/python_shells.h"

namespace tessera::python {
namespace {

struct Names {
  PyObject* places[3];  // where a module keeps its members
  PyObject* hooks[4];   // dicts that are empty unless somebody registered something
  PyObject* compiled = PyUnicode_InternFromString("_compiled_call_impl");
  PyObject* forward = PyUnicode_InternFromString("forward");
  PyObject* getattr = PyUnicode_InternFromString("__getattr__");
  PyObject* getattribute = PyUnicode_InternFromString("__getattribute__");
  PyObject* call = PyUnicode_InternFromString("__call__");
  Names() {
    const char* const places_text[] = {"_parameters", "_buffers", "_modules"};
    for (int i = 0; i < 3; ++i) places[i] = PyUnicode_InternFromString(places_text[i]);
    const char* const hooks_text[] = {"_forward_pre_hooks", "_forward_hooks", "_backward_hooks", "_backward_pre_hooks"};
    for (int i = 0; i < 4; ++i) hooks[i] = PyUnicode_InternFromString(hooks_text[i]);
  }
};
const Names& names() {
  static const Names n;
  return n;
}

PyObject *g_getattr, *g_call;  // Module's own methods
PyObject* g_global_hooks;      // tuple of dicts

// Functions that stand in for both methods on this thread while a program is traced; null otherwise.
thread_local PyObject *t_getattr, *t_call;

// A member that is no ordinary attribute: borrowed, or null. Dicts of other kinds are left to the Python method.
PyObject* member(PyObject* dict, PyObject* name) {
  for (PyObject* place : names().places) {
    PyObject* members = PyDict_GetItemWithError(dict, place);
    if (!members || !PyDict_CheckExact(members)) {
      if (members || PyErr_Occurred()) return nullptr;
      continue;
    }
    PyObject* found = PyDict_GetItemWithError(members, name);
    if (found || PyErr_Occurred()) return found;
  }
  return nullptr;
}

// Whether a name is in none of the places, which all are plain dicts.
bool is_no_member(PyObject* dict, PyObject* name) {
  for (PyObject* place : names().places) {
    PyObject* members = PyDict_GetItemWithError(dict, place);
    if (!members || !PyDict_CheckExact(members) || PyDict_Contains(members, name) != 0) return false;
  }
  return true;
}

PyObject* module_getattro(PyObject* self, PyObject* name) {
  PyObject* plain = plain_attribute(self, name);
  if (plain || PyErr_Occurred()) return plain;
  PyObject* dict = PyObject_GenericGetDict(self, nullptr);
  if (!dict) return nullptr;
  PyObject* found = Py_XNewRef(member(dict, name));
  Py_DECREF(dict);
  if (found && t_getattr) [[unlikely]] {
    Py_DECREF(found);
    return PyObject_CallFunctionObjArgs(t_getattr, self, name, nullptr);
  }
  if (found || PyErr_Occurred()) return found;
  return PyObject_CallFunctionObjArgs(g_getattr, self, name, nullptr);  // which names what is missing
}

bool is_empty(PyObject* dict) { return dict && PyDict_Check(dict) && PyDict_GET_SIZE(dict) == 0; }

// Whether nothing but forward() runs: no hooks, no compiled form.
bool only_forward(PyObject* self) {
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(g_global_hooks); ++i)
    if (!is_empty(PyTuple_GET_ITEM(g_global_hooks, i))) return false;
  PyObject* dict = PyObject_GenericGetDict(self, nullptr);
  if (!dict) {
    PyErr_Clear();
    return false;
  }
  bool plain = true;
  for (PyObject* hook : names().hooks) plain = plain && is_empty(PyDict_GetItemWithError(dict, hook));
  PyObject* compiled = PyDict_GetItemWithError(dict, names().compiled);
  plain = plain && (!compiled || compiled == Py_None) && type_lookup(Py_TYPE(self), names().compiled) == Py_None;
  Py_DECREF(dict);
  PyErr_Clear();
  return plain;
}

PyObject* module_call(PyObject* self, PyObject* args, PyObject* kwargs) {
  if (t_call) [[unlikely]] {
    Ref bound = Ref::steal(PyMethod_New(t_call, self));
    return bound ? PyObject_Call(bound.get(), args, kwargs) : nullptr;
  }
  Ref callee = Ref::steal(only_forward(self) ? PyObject_GetAttr(self, names().forward) : PyMethod_New(g_call, self));
  if (!callee) return nullptr;
  if (!modules_are_recorded()) [[likely]]
    return PyObject_Call(callee.get(), args, kwargs);
  return guarded([&] {
    const profiler::RecordFunction event = record_module(self);
    return check(PyObject_Call(callee.get(), args, kwargs));
  });
}

// _module_has(module, name): hasattr(), without making an exception where there is nothing.
PyObject* py_module_has(PyObject*, CallArgs call) {
  PyObject* a[2];
  read_args({"_module_has", {"module", "name"}, 2, 2}, call, a);
  if (Py_TYPE(a[0])->tp_getattro == module_getattro && PyUnicode_Check(a[1])) {
    if (Ref found = Ref::steal(plain_attribute(a[0], a[1]))) return to_python(true);
    if (PyErr_Occurred()) throw ErrorAlreadySet();
    Ref dict = Ref::steal(check(PyObject_GenericGetDict(a[0], nullptr)));
    if (is_no_member(dict.get(), a[1])) return to_python(false);
    PyErr_Clear();
  }
  const int found = has_attribute(a[0], a[1]);
  check(found);
  return to_python(found == 1);
}

// _trace_modules(call, getattr) -> the pair before: on this thread modules are called as call(module, *args, **kwargs),
// and getattr(module, name) reads their parameters, buffers and children. None, None: as usual.
PyObject* py_trace_modules(PyObject*, CallArgs call) {
  PyObject* a[2];
  read_args({"_trace_modules", {"call", "getattr"}, 2, 2}, call, a);
  PyObject** const places[] = {&t_call, &t_getattr};
  Ref before = Ref::steal(check(PyTuple_New(2)));
  for (int i = 0; i < 2; ++i) {
    PyObject* old = std::exchange(*places[i], a[i] == Py_None ? nullptr : Py_NewRef(a[i]));
    PyTuple_SET_ITEM(before.get(), i, old ? old : Py_NewRef(Py_None));
  }
  return before.release();
}

// _install_module_slots(cls[, global_hooks]): for Module itself with the dicts of global hooks (once), for every
// subclass without.
PyObject* py_install_module_slots(PyObject*, CallArgs call) {
  PyObject* a[2];
  read_args({"_install_module_slots", {"cls", "global_hooks"}, 2, 1}, call, a);
  if (!PyType_Check(a[0]))
    throw TypeError(str_cat("_install_module_slots: expected a class, not ", Py_TYPE(a[0])->tp_name));
  auto* type = reinterpret_cast<PyTypeObject*>(a[0]);
  if (a[1]) {
    if (!PyTuple_Check(a[1])) throw TypeError("_install_module_slots: expected a tuple of dicts");
    g_getattr = Py_XNewRef(type_lookup(type, names().getattr));
    g_call = Py_XNewRef(type_lookup(type, names().call));
    g_global_hooks = Py_NewRef(a[1]);
  }
  PyObject* plain_getattribute = type_lookup(&PyBaseObject_Type, names().getattribute);
  if (g_getattr && type_lookup(type, names().getattr) == g_getattr &&
      type_lookup(type, names().getattribute) == plain_getattribute)
    type->tp_getattro = module_getattro;
  if (g_call && type_lookup(type, names().call) == g_call) type->tp_call = module_call;
  PyType_Modified(type);
  return none();
}

}  // namespace

std::vector<PyMethodDef> module_shell_functions() {
  return {function<"_install_module_slots", py_install_module_slots>(), function<"_module_has", py_module_has>(),
          function<"_trace_modules", py_trace_modules>()};
}

}  // namespace tessera::python
