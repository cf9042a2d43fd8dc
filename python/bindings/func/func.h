// Function transforms as Python sees them: tessera._C._func. The transforms themselves are in python/tessera/func.
#pragma once

#include <vector>

#include "python/bindings/common.h"

namespace tessera::python {

std::vector<PyMethodDef> func_functions();
// Names of tessera._C._functorch that other libraries use.
std::vector<PyMethodDef> functorch_functions();
}  // namespace tessera::python
