// What every file of the binding uses: Python's headers, owned references, the translation of exceptions.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <string>
#include <string_view>
#include <utility>

#include "tensor/core/tensor.h"

namespace tessera::python {

// An owned reference.
class Ref {
 public:
  Ref() = default;
  static Ref steal(PyObject* p) { Ref r; r.p_ = p; return r; }
  static Ref borrow(PyObject* p) { Py_XINCREF(p); return steal(p); }
  Ref(const Ref& o) : p_(o.p_) { Py_XINCREF(p_); }
  Ref(Ref&& o) noexcept : p_(std::exchange(o.p_, nullptr)) {}
  Ref& operator=(Ref o) noexcept { std::swap(p_, o.p_); return *this; }
  ~Ref() { Py_XDECREF(p_); }
  PyObject* get() const { return p_; }
  PyObject* release() { return std::exchange(p_, nullptr); }
  explicit operator bool() const { return p_ != nullptr; }

 private:
  PyObject* p_ = nullptr;
};

// Thrown through C++ frames when a Python exception is already set (or was fetched: see PythonError in errors.h).
struct ErrorAlreadySet {};
inline PyObject* check(PyObject* p) { if (!p) throw ErrorAlreadySet(); return p; }
inline void check(int status) { if (status < 0) throw ErrorAlreadySet(); }

// Sets the Python exception for the C++ exception in flight. Call inside a catch block.
void translate_current_exception();
// Runs f and turns exceptions into Python's; the result is null then.
template <class F>
PyObject* guarded(F&& f) noexcept {
  try { return f(); } catch (...) { translate_current_exception(); return nullptr; }
}
template <class F>
int guarded_int(F&& f) noexcept {
  try { f(); return 0; } catch (...) { translate_current_exception(); return -1; }
}

class GilRelease {
 public:
  explicit GilRelease(bool on = true) : state_(on ? PyEval_SaveThread() : nullptr) {}
  ~GilRelease() { if (state_) PyEval_RestoreThread(state_); }
  GilRelease(const GilRelease&) = delete;
 private:
  PyThreadState* state_;
};
class GilAcquire {
 public:
  GilAcquire() : state_(PyGILState_Ensure()) {}
  ~GilAcquire() { PyGILState_Release(state_); }
  GilAcquire(const GilAcquire&) = delete;
 private:
  PyGILState_STATE state_;
};

inline PyObject* none() { Py_RETURN_NONE; }
inline PyObject* to_python(bool b) { return PyBool_FromLong(b); }
Ref to_python_string(std::string_view s);
std::string from_python_string(PyObject* s);  // TypeError otherwise

}  // namespace tessera::python
