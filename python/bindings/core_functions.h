// Functions of the top-level namespace that are no operators: defaults, promotion, threads, properties of tensors.
#pragma once

#include <vector>

#include "python/bindings/common.h"

namespace tessera::python {

std::vector<PyMethodDef> core_functions();

}  // namespace tessera::python
