#include "python/bindings/errors.h"

#include "python/bindings/types.h"
#include "tensor/core/warning.h"

namespace tessera::python {
namespace {
PyObject* g_linalg_error = nullptr;
PyObject* g_oom_error = nullptr;
PyObject* g_accelerator_error = nullptr;

void python_warning(const std::string& message, WarningKind kind) {
  GilAcquire gil;
  PyObject* category = kind == WarningKind::kDeprecation ? PyExc_DeprecationWarning
                       : kind == WarningKind::kFuture    ? PyExc_FutureWarning
                                                         : PyExc_UserWarning;
  if (PyErr_WarnEx(category, message.c_str(), 1) < 0) throw PythonError();
}
}  // namespace

Ref error_class(ErrorClass which) {
  return Ref::borrow(which == ErrorClass::kLinAlg        ? g_linalg_error
                     : which == ErrorClass::kOutOfMemory ? g_oom_error
                                                         : g_accelerator_error);
}

void init_errors(PyObject* module) {
  g_linalg_error = PyErr_NewExceptionWithDoc(
      "torch._C._LinAlgError",
      "Raised when a linear algebra routine fails: a singular matrix, one that is not positive definite.",
      PyExc_RuntimeError, nullptr);
  g_oom_error = PyErr_NewExceptionWithDoc("torch.OutOfMemoryError", "Raised when a device is out of memory.",
                                          PyExc_RuntimeError, nullptr);
  g_accelerator_error = PyErr_NewExceptionWithDoc("torch.AcceleratorError",
                                                  "Raised when a device reports an error; error_code is its number.",
                                                  PyExc_RuntimeError, nullptr);
  PyModule_AddObjectRef(module, "AcceleratorError", check(g_accelerator_error));
  PyModule_AddObjectRef(module, "_LinAlgError", check(g_linalg_error));
  PyModule_AddObjectRef(module, "OutOfMemoryError", check(g_oom_error));
  name_type(g_accelerator_error, "AcceleratorError");
  name_type(g_linalg_error, "_C._LinAlgError");
  name_type(g_oom_error, "OutOfMemoryError");
  set_warning_handler(&python_warning);
}

}  // namespace tessera::python
