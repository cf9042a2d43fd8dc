// Functions of the top-level namespace that are no operators: defaults, promotion, threads, properties of tensors.
#pragma once

#include <vector>

#include "python/bindings/common.h"

namespace tessera::python {

std::vector<PyMethodDef> core_functions();
std::vector<PyMethodDef> autocast_functions();
// nonzero(t): a tensor, or a tuple with one for each dimension.
PyObject* nonzero_of(const Tensor& t, bool as_tuple);

}  // namespace tessera::python
