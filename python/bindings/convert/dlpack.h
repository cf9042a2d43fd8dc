// Exchange of tensors with other libraries by the DLPack protocol (version 1, and the unversioned form before it).
#pragma once

#include "python/bindings/common.h"

namespace tessera::python {

// A capsule "dltensor" ("dltensor_versioned" where versioned). BufferError for tensors that need grad or carry lazy
// bits.
PyObject* to_dlpack(const Tensor& t, bool versioned);
// (device type, index) as DLPack numbers them.
std::pair<int, int> dlpack_device(const Tensor& t);
// Takes over the memory of a capsule.
Tensor from_dlpack(PyObject* capsule);

}  // namespace tessera::python
