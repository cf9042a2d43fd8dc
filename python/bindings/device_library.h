// Device libraries are extension modules of their own (tessera._cuda), loaded when a tensor is first wanted on such a
// device. They are given the core's tables to fill (device_api.h).
#pragma once

#include "python/bindings/common.h"

namespace tessera::python {

void init_device_library(PyObject* module);

}  // namespace tessera::python
