// The Python type of tensors.
#pragma once

#include <vector>

#include "python/bindings/common.h"

namespace tessera::python {

struct PyTensor {
  PyObject_HEAD TensorImpl* impl;  // a reference, except while owned_by_impl
  PyObject* dict;
  PyObject* weakrefs;
  bool owned_by_impl;  // nobody in Python holds this object, its tensor keeps it (attributes, subclass, hooks) alive
};

extern PyTypeObject* TensorType;

inline bool is_exact_tensor(PyObject* o) { return Py_TYPE(o) == TensorType; }
// Numbers, strings and None are told apart without a walk along base classes: the collector does not know their types.
inline bool is_tensor(PyObject* o) {
  return Py_TYPE(o) == TensorType || (PyType_IS_GC(Py_TYPE(o)) && PyType_IsSubtype(Py_TYPE(o), TensorType));
}
// Borrowed view of the handle inside a tensor object.
inline const Tensor& unwrap(PyObject* o) {
  static_assert(sizeof(Tensor) == sizeof(TensorImpl*));
  return reinterpret_cast<const Tensor&>(reinterpret_cast<PyTensor*>(o)->impl);
}
// The one Python object of a tensor (new reference); None for an undefined one.
PyObject* wrap(Tensor t);
// A new object of a subclass for a tensor that has none yet.
PyObject* wrap_as(PyTypeObject* type, Tensor t);
inline PyObject* wrap_or_none(Tensor t) { return t.defined() ? wrap(std::move(t)) : none(); }

// CPython runs a finalizer once an object and marks it after that. What may come back any number of times has the mark
// (bit 0 of the collector's header) taken off when it does.
void forget_finalized(PyObject* o);

void init_tensor_type(PyObject* module);
// Getters (tensor_getset.cc) and plain C methods (tensor_methods*.cc), each ended by a null entry.
std::vector<PyGetSetDef> tensor_getters();
std::vector<PyMethodDef> tensor_methods();

}  // namespace tessera::python
