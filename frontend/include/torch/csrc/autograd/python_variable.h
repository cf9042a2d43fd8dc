// Tensors as Python objects. All of it needs the interpreter's lock.
#pragma once

#include <Python.h>

#include <ATen/ATen.h>

#include "python/bindings/tensor_type.h"

// Whether the object is a tensor, of a subclass as well.
inline bool THPVariable_Check(PyObject* object) { return object && tessera::python::is_tensor(object); }
inline bool THPVariable_CheckExact(PyObject* object) { return object && tessera::python::is_exact_tensor(object); }
// The tensor of an object for which THPVariable_Check holds.
inline const at::Tensor& THPVariable_Unpack(PyObject* object) {
  return static_cast<const at::Tensor&>(tessera::python::unwrap(object));
}
// The tensor's one Python object (a new reference); None for an undefined tensor.
inline PyObject* THPVariable_Wrap(const at::Tensor& tensor) {
  if (!tensor.defined()) Py_RETURN_NONE;
  return tessera::python::wrap(tessera::Tensor(tensor));
}
