// NumPy arrays by their __array_interface__: NumPy itself is imported only when an array has to be made.
#pragma once

#include <optional>

#include "python/bindings/common.h"

namespace tessera::python {

bool is_ndarray(PyObject* o);       // numpy.ndarray or a subclass
bool is_numpy_scalar(PyObject* o);  // numpy.float32(1) and so on
std::optional<DType> numpy_scalar_dtype(PyObject* o);
// A tensor on the array's memory. Errors: TypeError for other dtypes, ValueError for negative strides or foreign byte
// order. warn_read_only: once.
Tensor tensor_from_ndarray(PyObject* array, bool warn_read_only);
// An array on the tensor's memory.
PyObject* tensor_to_ndarray(const Tensor& t, bool force);

}  // namespace tessera::python
