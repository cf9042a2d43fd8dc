// Autograd in Python: nodes as objects, grad modes, hooks, Function, backward.
#pragma once

#include "autograd/node.h"
#include "python/bindings/common.h"

namespace tessera::python {

// The Python object of a node (new reference); None for a null one.
PyObject* wrap_node(const IntrusivePtr<autograd::Node>& node);

void init_autograd(PyObject* module);

}  // namespace tessera::python
