// What every file of the binding uses: Python's headers, owned references, the translation of exceptions.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#ifdef TESSERA_CHECK_LOCK
#include "python/bindings/check_lock.h"
#endif

#include <string>
#include <string_view>
#include <utility>

#include "tensor/core/tensor.h"

namespace tessera::python {

// An owned reference.
class Ref {
 public:
  Ref() = default;
  static Ref steal(PyObject* p) {
    Ref r;
    r.p_ = p;
    return r;
  }
  static Ref borrow(PyObject* p) {
    Py_XINCREF(p);
    return steal(p);
  }
  Ref(const Ref& o) : p_(o.p_) { Py_XINCREF(p_); }
  Ref(Ref&& o) noexcept : p_(std::exchange(o.p_, nullptr)) {}
  Ref& operator=(Ref o) noexcept {
    std::swap(p_, o.p_);
    return *this;
  }
  ~Ref() { Py_XDECREF(p_); }
  PyObject* get() const { return p_; }
  PyObject* release() { return std::exchange(p_, nullptr); }
  explicit operator bool() const { return p_ != nullptr; }

 private:
  PyObject* p_ = nullptr;
};

// Thrown through C++ frames when a Python exception is already set (or was fetched: see PythonError in errors.h).
struct ErrorAlreadySet {};
inline PyObject* check(PyObject* p) {
  if (!p) throw ErrorAlreadySet();
  return p;
}
inline void check(int status) {
  if (status < 0) throw ErrorAlreadySet();
}

// Sets the Python exception for the C++ exception in flight. Call inside a catch block.
void translate_current_exception();
// Runs f and turns exceptions into Python's; the result is null then.
template <class F>
PyObject* guarded(F&& f) noexcept {
  try {
    return f();
  } catch (...) {
    translate_current_exception();
    return nullptr;
  }
}
template <class F>
int guarded_int(F&& f) noexcept {
  try {
    f();
    return 0;
  } catch (...) {
    translate_current_exception();
    return -1;
  }
}

// Between these two lines no function of Python may be called and no reference be counted: nothing that is found or
// made at a first call may be left to that moment.
class GilRelease {
 public:
  explicit GilRelease(bool on = true) : state_(on ? PyEval_SaveThread() : nullptr) {}
  ~GilRelease() {
    if (state_) PyEval_RestoreThread(state_);
  }
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
// For destructors, which run on any thread and at any time: f with the lock. Once the interpreter has gone, or is
// going, nothing is done: what f would have freed ends with the process.
template <class F>
void with_python(F&& f) {
  if (!Py_IsInitialized()) return;
  GilAcquire gil;
  f();
}

// A Python object that is made at first use and kept for ever (borrowed). Never a static with an initializer: making
// the object may let go of the lock (an import does), and a second thread would wait for the compiler's guard while it
// holds the lock that the first one wants back.
class MadeOnce {
 public:
  constexpr MadeOnce() = default;
  template <class Make>
  PyObject* get(Make make) {
    if (!object_) [[unlikely]] {
      Ref made = make();
      if (!object_) object_ = made.release();
    }
    return object_;
  }

 private:
  PyObject* object_ = nullptr;
};

inline PyObject* none() { Py_RETURN_NONE; }
inline PyObject* to_python(bool b) { return PyBool_FromLong(b); }
Ref to_python_string(std::string_view s);
std::string from_python_string(PyObject* s);  // TypeError otherwise

// --- what CPython gives different names in different versions, or only private ones: nowhere else in the binding ---

// What the type, or a base of it, defines under a name: borrowed, or null without an exception. Python's own lookup,
// with its cache; it has no public form before 3.14.
inline PyObject* type_lookup(PyTypeObject* type, PyObject* name) { return _PyType_Lookup(type, name); }
// object.__getattribute__, but null without an exception where there is no such attribute.
inline PyObject* plain_attribute(PyObject* o, PyObject* name) {
  return _PyObject_GenericGetAttrWithDict(o, name, nullptr, 1);
}
// hasattr(): 1, 0, or -1 with an exception.
inline int has_attribute(PyObject* o, PyObject* name) {
#if PY_VERSION_HEX >= 0x030D0000
  return PyObject_HasAttrWithError(o, name);
#else
  if (Ref found = Ref::steal(PyObject_GetAttr(o, name))) return 1;
  if (!PyErr_ExceptionMatches(PyExc_AttributeError)) return -1;
  PyErr_Clear();
  return 0;
#endif
}
// Brings an object that was kept for use again back to one reference.
inline void new_reference(PyObject* o) { _Py_NewReference(o); }
inline Py_hash_t hash_of_address(const void* p) {
#if PY_VERSION_HEX >= 0x030D0000
  return Py_HashPointer(p);
#else
  return _Py_HashPointer(p);
#endif
}

}  // namespace tessera::python
