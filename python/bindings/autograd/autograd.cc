#include "python/bindings/autograd/autograd.h"

namespace tessera::python {

void drop_reference(PyObject* o) {
  if (o) with_python([&] { Py_DECREF(o); });
}
PyHolder::~PyHolder() { drop_reference(object); }

void init_autograd(PyObject* module) {
  init_autograd_nodes(module);
  init_autograd_hooks(module);
  init_autograd_function(module);
  init_autograd_engine(module);
  init_autograd_forward(module);
}

}  // namespace tessera::python
