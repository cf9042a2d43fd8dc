#include "python/bindings/translate.h"

namespace tessera::python {

// RuntimeError if tessera._C lacks the class.
Ref error_class(ErrorClass which) {
  Ref core = Ref::steal(PyImport_ImportModule("tessera._C"));
  const char* name = which == ErrorClass::kLinAlg        ? "_LinAlgError"
                     : which == ErrorClass::kOutOfMemory ? "OutOfMemoryError"
                                                         : "AcceleratorError";
  Ref type = core ? Ref::steal(PyObject_GetAttrString(core.get(), name)) : Ref();
  if (type) return type;
  PyErr_Clear();
  return Ref::borrow(PyExc_RuntimeError);
}

}  // namespace tessera::python
