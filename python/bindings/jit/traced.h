// Numbers of programs that are traced: sizes are tensors, and who reads arguments tells which tensor a number was.
#pragma once

#include <vector>

#include "jit/tracer.h"
#include "python/bindings/common.h"

namespace tessera::python {

// The size of a tensor as tensors, so that it stays a function of the inputs: a torch.Size, one size, or numel(). Plain
// numbers for tensors that the trace knows as constants.
PyObject* traced_shape(jit::Tracer& trace, const Tensor& t);
PyObject* traced_size(jit::Tracer& trace, const Tensor& t, int64_t dim);
PyObject* traced_numel(jit::Tracer& trace, const Tensor& t);

// Adds the tensor that an argument is, or those in it, where numbers are asked for.
void add_sources(int argument, PyObject* o, std::vector<jit::NumberSource>* to);

// A TracerWarning where a trace is under way. kind: "value" (what: "a Python integer"), "length", "iteration" or
// "constant" (what: "torch.tensor").
void warn_of_trace(const char* kind, const char* what);
inline void warn_if_traced(const char* kind, const char* what = "") {
  if (jit::current_trace()) [[unlikely]]
    warn_of_trace(kind, what);
}

}  // namespace tessera::python
