// x[index] and x[index] = value.
#pragma once

#include "python/bindings/common.h"

namespace tessera::python {

PyObject* tensor_getitem(PyObject* self, PyObject* index);
int tensor_setitem(PyObject* self, PyObject* index, PyObject* value);

}  // namespace tessera::python
