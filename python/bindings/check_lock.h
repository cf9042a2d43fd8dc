// Asserts that Python's API is used with the interpreter's lock alone: the build --config=check_lock (CONTRIBUTING.md),
// included by common.h right behind Python.h.
//
// Calls of functions are checked at the extension's own jump table (check_lock.cc), all of them, without a list.
// Counting references is inlined code, and checked here. A failure prints the name and the C++ stack, and aborts, so
// that `-X faulthandler` shows the Python stack.
#pragma once

namespace tessera::python {

void require_lock(const char* what) noexcept;
// Puts the check in front of every function of Python that this extension calls. Called once, while it is loaded.
void check_lock_at_every_call();

namespace counted {
inline void incref(PyObject* o) {
  require_lock("Py_INCREF");
  Py_INCREF(o);
}
inline void decref(PyObject* o) {
  require_lock("Py_DECREF");
  Py_DECREF(o);
}
inline void xincref(PyObject* o) {
  if (o) incref(o);
}
inline void xdecref(PyObject* o) {
  if (o) decref(o);
}
inline PyObject* new_ref(PyObject* o) {
  incref(o);
  return o;
}
inline PyObject* xnew_ref(PyObject* o) {
  xincref(o);
  return o;
}
}  // namespace counted

}  // namespace tessera::python

#undef Py_INCREF
#undef Py_DECREF
#undef Py_XINCREF
#undef Py_XDECREF
#undef Py_NewRef
#undef Py_XNewRef
#define Py_INCREF(o) ::tessera::python::counted::incref((PyObject*)(o))
#define Py_DECREF(o) ::tessera::python::counted::decref((PyObject*)(o))
#define Py_XINCREF(o) ::tessera::python::counted::xincref((PyObject*)(o))
#define Py_XDECREF(o) ::tessera::python::counted::xdecref((PyObject*)(o))
#define Py_NewRef(o) ::tessera::python::counted::new_ref((PyObject*)(o))
#define Py_XNewRef(o) ::tessera::python::counted::xnew_ref((PyObject*)(o))
