#include "python/bindings/translate.h"

#include <new>

#include "tensor/core/accelerator_error.h"

namespace tessera::python {
namespace {

Ref python_type_of(const Error& e) {
  if (dynamic_cast<const LinAlgError*>(&e)) return error_class(ErrorClass::kLinAlg);
  if (dynamic_cast<const OutOfMemoryError*>(&e)) return error_class(ErrorClass::kOutOfMemory);
  return Ref::borrow(dynamic_cast<const IndexError*>(&e)            ? PyExc_IndexError
                     : dynamic_cast<const ValueError*>(&e)          ? PyExc_ValueError
                     : dynamic_cast<const TypeError*>(&e)           ? PyExc_TypeError
                     : dynamic_cast<const NotImplementedError*>(&e) ? PyExc_NotImplementedError
                     : dynamic_cast<const OverflowError*>(&e)       ? PyExc_OverflowError
                     : dynamic_cast<const BufferError*>(&e)         ? PyExc_BufferError
                     : dynamic_cast<const AssertionError*>(&e)      ? PyExc_AssertionError
                                                                    : PyExc_RuntimeError);
}

// With the attribute error_code.
void set_accelerator_error(const AcceleratorError& e) {
  Ref type = error_class(ErrorClass::kAccelerator);
  Ref value = Ref::steal(PyObject_CallFunction(type.get(), "s", e.what()));
  Ref code = value ? Ref::steal(PyLong_FromLong(e.code())) : Ref();
  if (code && PyObject_SetAttrString(value.get(), "error_code", code.get()) == 0)
    PyErr_SetObject(type.get(), value.get());
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
  } catch (const Error& e) { PyErr_SetString(python_type_of(e).get(), e.what()); } catch (const std::bad_alloc&) {
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
