// The way a call takes through the house, for tessera.explain.
#pragma once

#include <vector>

#include "python/bindings/common.h"

namespace tessera::python {

std::vector<PyMethodDef> explain_functions();

}  // namespace tessera::python
