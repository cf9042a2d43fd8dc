// C++ exceptions of the CUDA library as the Python exceptions that tessera._C made.
#include <new>

#include "python/bindings/common.h"
#include "tensor/core/accelerator_error.h"
#include "tensor/core/error.h"

namespace tessera::python {
namespace {

// An exception class of tessera._C; RuntimeError if it is missing.
Ref core_class(const char* name) {
  Ref core = Ref::steal(PyImport_ImportModule("tessera._C"));
  Ref type = core ? Ref::steal(PyObject_GetAttrString(core.get(), name)) : Ref();
  if (type) return type;
  PyErr_Clear();
  return Ref::borrow(PyExc_RuntimeError);
}

Ref python_type_of(const Error& e) {
  if (dynamic_cast<const IndexError*>(&e)) return Ref::borrow(PyExc_IndexError);
  if (dynamic_cast<const ValueError*>(&e)) return Ref::borrow(PyExc_ValueError);
  if (dynamic_cast<const TypeError*>(&e)) return Ref::borrow(PyExc_TypeError);
  if (dynamic_cast<const NotImplementedError*>(&e)) return Ref::borrow(PyExc_NotImplementedError);
  if (dynamic_cast<const OutOfMemoryError*>(&e)) return core_class("OutOfMemoryError");
  return Ref::borrow(PyExc_RuntimeError);
}

// With the attribute error_code.
void set_accelerator_error(const AcceleratorError& e) {
  Ref type = core_class("AcceleratorError");
  Ref value = Ref::steal(PyObject_CallFunction(type.get(), "s", e.what()));
  Ref code = value ? Ref::steal(PyLong_FromLong(e.code())) : Ref();
  if (code && PyObject_SetAttrString(value.get(), "error_code", code.get()) == 0)
    PyErr_SetObject(type.get(), value.get());
}

}  // namespace

void translate_current_exception() {
  try {
    throw;
  } catch (const ErrorAlreadySet&) {
  } catch (const AcceleratorError& e) { set_accelerator_error(e); } catch (const Error& e) {
    PyErr_SetString(python_type_of(e).get(), e.what());
  } catch (const std::bad_alloc&) {
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

}  // namespace tessera::python
