// The parts of tessera._cuda; each adds its functions and types to the module.
#pragma once

#include <span>

#include "python/bindings/common.h"

namespace tessera {
struct PointwiseOp;
}

namespace tessera::python {

void add_cuda_devices(PyObject* module);  // devices, streams, events
void add_cuda_memory(PyObject* module);   // allocator, pinned memory, statistics
void add_cuda_graphs(PyObject* module);   // capture and replay
// The library's names of the elementwise ops, in the order of tensor/cpu/pointwise/pointwise_ops.inc.
std::span<const PointwiseOp* const> pointwise_standins();
inline void add_cuda_parts(PyObject* module) {
  add_cuda_devices(module);
  add_cuda_memory(module);
  add_cuda_graphs(module);
}

}  // namespace tessera::python
