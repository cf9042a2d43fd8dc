// The exceptions and warnings that tessera._C makes.
#pragma once

#include "python/bindings/translate.h"

namespace tessera::python {

// Makes LinAlgError, OutOfMemoryError and AcceleratorError, and installs the warning handler.
void init_errors(PyObject* module);

}  // namespace tessera::python
