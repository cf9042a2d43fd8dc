// Tensors from Python data: numbers, nested sequences, arrays, buffers, DLPack capsules.
#pragma once

#include <optional>
#include <vector>

#include "python/bindings/common.h"

namespace tessera::python {

// A tensor of nested sequences, numbers, 0-dim tensors or arrays. dtype empty: inferred. Makes a copy always.
Tensor tensor_from_data(PyObject* data, std::optional<DType> dtype, std::optional<Device> device);
// The part of it for numbers and sequences; always on the CPU.
Tensor tensor_from_sequence(PyObject* data, std::optional<DType> dtype);
// t with another dtype or device, recorded by autograd; t itself where nothing changes.
Tensor converted(const Tensor& t, std::optional<DType> dtype, std::optional<Device> device);
// Tensor(...), a subclass, as the old constructor takes it.
PyObject* legacy_constructor(PyTypeObject* type, PyObject* args, PyObject* kwargs);

std::vector<PyMethodDef> creation_functions();

}  // namespace tessera::python
