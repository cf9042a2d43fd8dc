#include "python/bindings/errors.h"

#include <new>

#include "python/bindings/types.h"
#include "tensor/core/accelerator_error.h"
#include "tensor/core/warning.h"

namespace tessera::python {
namespace {
PyObject* g_linalg_error = nullptr;
PyObject* g_oom_error = nullptr;
PyObject* g_accelerator_error = nullptr;

PyObject* python_type_of(const Error& e) {
  if (dynamic_cast<const IndexError*>(&e)) return PyExc_IndexError;
  if (dynamic_cast<const ValueError*>(&e)) return PyExc_ValueError;
  if (dynamic_cast<const TypeError*>(&e)) return PyExc_TypeError;
  if (dynamic_cast<const NotImplementedError*>(&e)) return PyExc_NotImplementedError;
  if (dynamic_cast<const LinAlgError*>(&e)) return g_linalg_error;
  if (dynamic_cast<const OutOfMemoryError*>(&e)) return g_oom_error;
  if (dynamic_cast<const OverflowError*>(&e)) return PyExc_OverflowError;
  if (dynamic_cast<const BufferError*>(&e)) return PyExc_BufferError;
  if (dynamic_cast<const AssertionError*>(&e)) return PyExc_AssertionError;
  return PyExc_RuntimeError;
}

// With the attribute error_code.
void set_accelerator_error(const AcceleratorError& e) {
  Ref value = Ref::steal(PyObject_CallFunction(g_accelerator_error, "s", e.what()));
  Ref code = value ? Ref::steal(PyLong_FromLong(e.code())) : Ref();
  if (code && PyObject_SetAttrString(value.get(), "error_code", code.get()) == 0)
    PyErr_SetObject(g_accelerator_error, value.get());
}

void python_warning(const std::string& message, WarningKind kind) {
  GilAcquire gil;
  PyObject* category = kind == WarningKind::kDeprecation ? PyExc_DeprecationWarning
                       : kind == WarningKind::kFuture    ? PyExc_FutureWarning
                                                         : PyExc_UserWarning;
  if (PyErr_WarnEx(category, message.c_str(), 1) < 0) throw PythonError();
}
}  // namespace

PythonError::PythonError() : Error("a Python exception") { PyErr_Fetch(&type_, &value_, &trace_); }
PythonError::PythonError(const PythonError& o) : Error(o), type_(o.type_), value_(o.value_), trace_(o.trace_) {
  GilAcquire gil;
  Py_XINCREF(type_);
  Py_XINCREF(value_);
  Py_XINCREF(trace_);
}
PythonError::~PythonError() {
  with_python([&] {
    Py_XDECREF(type_);
    Py_XDECREF(value_);
    Py_XDECREF(trace_);
  });
}
void PythonError::restore() const {
  Py_XINCREF(type_);
  Py_XINCREF(value_);
  Py_XINCREF(trace_);
  PyErr_Restore(type_, value_, trace_);
}

void translate_current_exception() {
  try {
    throw;
  } catch (const ErrorAlreadySet&) {
  } catch (const PythonError& e) { e.restore(); } catch (const AcceleratorError& e) {
    set_accelerator_error(e);
  } catch (const Error& e) { PyErr_SetString(python_type_of(e), e.what()); } catch (const std::bad_alloc&) {
    PyErr_SetString(PyExc_MemoryError, "out of memory");
  } catch (const std::exception& e) { PyErr_SetString(PyExc_RuntimeError, e.what()); } catch (...) {
    PyErr_SetString(PyExc_RuntimeError, "an unknown C++ exception");
  }
}

Ref to_python_string(std::string_view s) {
  return Ref::steal(check(PyUnicode_FromStringAndSize(s.data(), static_cast<Py_ssize_t>(s.size()))));
}
std::string from_python_string(PyObject* s) {
  Py_ssize_t n;
  const char* p = PyUnicode_AsUTF8AndSize(s, &n);
  if (!p) throw ErrorAlreadySet();
  return std::string(p, static_cast<size_t>(n));
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
