#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <memory>
#include <new>
#include <utility>

#include "distributed/base.h"

// How handles, errors and waits of //distributed look in Python.
namespace tessera::distributed {

extern PyObject* g_errors[6];  // by Fault

struct PythonError {};  // an exception is set

inline void raise(const Error& error) {
  if (error.fault() == Fault::kInterrupted && PyErr_Occurred()) return;
  PyErr_SetString(g_errors[static_cast<int>(error.fault())], error.what());
}

inline bool interrupted() {
  PyGILState_STATE state = PyGILState_Ensure();
  bool raised = PyErr_CheckSignals() != 0;
  PyGILState_Release(state);
  return raised;
}

// Calls f without the interpreter's lock; signals end its waits.
template <class F>
auto unlocked(F f) {
  struct Open {
    PyThreadState* state = PyEval_SaveThread();
    Open() { g_interrupted = interrupted; }
    ~Open() {
      g_interrupted = nullptr;
      PyEval_RestoreThread(state);
    }
  } open;
  return f();
}

template <PyObject* (*F)(PyObject*)>
PyObject* guarded(PyObject*, PyObject* args) {
  try {
    return F(args);
  } catch (const Error& error) { raise(error); } catch (const PythonError&) {
  } catch (const std::bad_alloc&) { PyErr_NoMemory(); } catch (const std::exception& error) {
    PyErr_SetString(PyExc_RuntimeError, error.what());
  }
  return nullptr;
}

template <class T>
struct Named;
template <class T>
using Held = std::shared_ptr<T>;

template <class T>
PyObject* hold(Held<T> value) {
  auto destroy = [](PyObject* capsule) {
    auto held = static_cast<Held<T>*>(PyCapsule_GetPointer(capsule, Named<T>::kName));
    PyThreadState* state = PyEval_SaveThread();  // it may wait for a thread
    delete held;
    PyEval_RestoreThread(state);
  };
  return PyCapsule_New(new Held<T>(std::move(value)), Named<T>::kName, destroy);
}

template <class T>
Held<T> held(PyObject* capsule) {
  auto found = static_cast<Held<T>*>(PyCapsule_GetPointer(capsule, Named<T>::kName));
  if (!found) throw PythonError();
  return *found;
}

inline void parse(int ok) {
  if (!ok) throw PythonError();
}

inline PyObject* checked(PyObject* object) {
  if (!object) throw PythonError();
  return object;
}

extern PyMethodDef g_call_methods[];

}  // namespace tessera::distributed
