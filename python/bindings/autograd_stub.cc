#include "python/bindings/autograd.h"

#include "python/bindings/common.h"

namespace tessera::python {

PyObject* wrap_node(const IntrusivePtr<autograd::Node>& node) { return node ? to_python_string(node->name()).release() : none(); }
void init_autograd(PyObject*) {}

}  // namespace tessera::python
