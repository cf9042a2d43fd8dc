// The archives of checkpoints for tessera.serialization: _ZipReader, _ZipWriter, _FileSink.
#pragma once

#include "python/bindings/common.h"

namespace tessera::python {

void init_archive(PyObject* module);

}  // namespace tessera::python
