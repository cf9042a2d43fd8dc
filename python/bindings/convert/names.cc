#include "python/bindings/convert/names.h"

#include <algorithm>

#include "named/named.h"
#include "python/bindings/calls.h"
#include "python/bindings/tensor_type.h"
#include "tensor/core/warning.h"

namespace tessera::python {
namespace {

named::Names names_from_python(PyObject* o) {
  if (o == Py_None) return {};
  if (!PyTuple_Check(o) && !PyList_Check(o))
    throw TypeError(
        str_cat("names: an invalid combination of arguments, expected a tuple or list of strings and None, "
                "not ",
                Py_TYPE(o)->tp_name));
  named::Names names;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(o); ++i) {
    PyObject* e = PySequence_Fast_GET_ITEM(o, i);
    if (e != Py_None && !PyUnicode_Check(e))
      throw TypeError(str_cat("names: expected None or a string for dimension ", i, ", not ", Py_TYPE(e)->tp_name));
    names.push_back(e == Py_None ? "" : from_python_string(e));
    TESSERA_CHECK(e == Py_None || !names.back().empty(),
                  "Invalid name: a valid identifier contains only digits, alphabetical characters, and/or underscore "
                  "and starts with a non-digit. got: ''.");
  }
  TESSERA_CHECK(!names.empty(), "names: expected a name or None for each dimension, got an empty sequence");
  return names;
}

void warn_of_names() {
  warn_once(
      "Named tensors and all their associated APIs are an experimental feature and subject to change. "
      "Please do not use them for anything important until they are released as stable.");
}

// A name or its absence, names, or pairs of a name and a size.
bool mentions_name(PyObject* o) {
  for (int depth = 0; depth < 3; ++depth) {
    if (PyUnicode_Check(o) || o == Py_None) return true;
    if (!(PyTuple_Check(o) || PyList_Check(o)) || PySequence_Fast_GET_SIZE(o) == 0) return false;
    o = PySequence_Fast_GET_ITEM(o, 0);
  }
  return false;
}

PyObject* helpers() {
  static constinit MadeOnce module;
  return module.get([] { return Ref::steal(check(PyImport_ImportModule("tessera._named"))); });
}

PyObject* py_set_names(PyObject*, PyObject* const* args, Py_ssize_t n) {
  return guarded([&] {
    if (n != 2 || !is_tensor(args[0])) throw TypeError("_set_names() takes a tensor and its names");
    give_names(unwrap(args[0]), args[1]);
    return none();
  });
}
PyObject* py_dim_by_name(PyObject*, PyObject* const* args, Py_ssize_t n) {
  return guarded([&] {
    if (n != 2 || !is_tensor(args[0])) throw TypeError("_dim_by_name() takes a tensor and a name");
    return PyLong_FromLongLong(named::dim_by_name(unwrap(args[0]), from_python_string(args[1])));
  });
}

PyMethodDef g_functions[] = {
    {"_set_names", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(py_set_names)), METH_FASTCALL,
     "Gives a tensor names, in place."},
    {"_dim_by_name", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(py_dim_by_name)), METH_FASTCALL,
     "The place of a name."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

PyObject* names_of_tensor(const Tensor& t) {
  const auto names = named::names_of(t);
  Ref r = Ref::steal(check(PyTuple_New(t.dim())));
  for (int64_t i = 0; i < t.dim(); ++i) {
    const bool named = !names.empty() && !names[static_cast<size_t>(i)].empty();
    PyTuple_SET_ITEM(r.get(), i, named ? to_python_string(names[static_cast<size_t>(i)]).release() : none());
  }
  return r.release();
}

void keep_names(const Tensor& from, const Tensor& to) {
  const auto names = named::names_of(from);
  if (!names.empty()) named::set_names(to, named::Names(names.begin(), names.end()));
}

void give_names(const Tensor& t, PyObject* names, bool refine) {
  named::Names list = names_from_python(names);
  const auto own = named::names_of(t);
  TESSERA_CHECK(!refine || own.empty() || std::ranges::equal(own, list),
                "Name mismatch: names= differs from the names ", "of ", named::describe(t),
                ". Rename the tensor, or leave names= out.");
  if (!list.empty()) warn_of_names();
  named::set_names(t, std::move(list));
}

PyObject* call_with_names(PyObject* callable, PyObject* const* args, Py_ssize_t n, PyObject* kwnames) {
  const Py_ssize_t keywords = kwnames ? PyTuple_GET_SIZE(kwnames) : 0;
  bool concerned = std::any_of(args, args + n + keywords, &mentions_name);
  for (Py_ssize_t i = 0; i < keywords; ++i)
    concerned = concerned || PyUnicode_CompareWithASCIIString(PyTuple_GET_ITEM(kwnames, i), "names") == 0;
  if (!concerned) return nullptr;
  Ref positional = Ref::steal(check(PyTuple_New(n))), by_name = Ref::steal(check(PyDict_New()));
  for (Py_ssize_t i = 0; i < n; ++i) PyTuple_SET_ITEM(positional.get(), i, Py_NewRef(args[i]));
  for (Py_ssize_t i = 0; i < keywords; ++i)
    check(PyDict_SetItem(by_name.get(), PyTuple_GET_ITEM(kwnames, i), args[n + i]));
  Ref r = Ref::steal(check(PyObject_CallMethod(helpers(), "call", "(OOO)", callable, positional.get(), by_name.get())));
  return r.get() == Py_NotImplemented ? nullptr : r.release();
}

PyObject* named_getitem(PyObject* self, PyObject* index) {
  return check(PyObject_CallMethod(helpers(), "getitem", "(OO)", self, index));
}

int64_t dim_arg(const char* function, const Tensor& t, PyObject* o) {
  return PyUnicode_Check(o) ? named::dim_by_name(t, from_python_string(o)) : int_arg(function, "dim", 1, o);
}

void init_names(PyObject* module) { check(PyModule_AddFunctions(module, g_functions)); }

}  // namespace tessera::python
