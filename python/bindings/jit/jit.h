// Scripted programs in Python: functions, classes, types and graphs of //jit as objects of tessera._C._jit.
#pragma once

#include <vector>

#include "jit/interpreter.h"
#include "jit/source/sugar.h"
#include "python/bindings/common.h"

namespace tessera::python {

// A C++ value inside of a Python object.
template <class T>
struct Boxed {
  PyObject_HEAD T value;
};
template <class T>
T& boxed(PyObject* o) {
  return reinterpret_cast<Boxed<T>*>(o)->value;
}

// A function, with the object that it is a method of.
struct PyJitFunction {
  jit::Function* function = nullptr;
  IntrusivePtr<jit::Unit> unit;
  Value self;
  vectorcallfunc call = nullptr;
};
extern PyTypeObject JitFunctionType, JitClassType, JitTypeType, JitObjectType, JitGraphType, JitNodeType, JitValueType;

PyObject* wrap_function(jit::Function* f, Value self = Value());
PyObject* wrap_type(jit::TypePtr t);
PyObject* wrap_class(jit::ClassDef* d);
PyObject* wrap_object(const Value& v);
PyObject* jit_new_data(PyObject*, PyObject* args);
PyObject* jit_data_of(PyObject*, PyObject* o);
PyObject* wrap_graph(std::shared_ptr<jit::Graph> g);
inline bool is_jit_function(PyObject* o) { return Py_TYPE(o) == &JitFunctionType; }
inline bool is_jit_type(PyObject* o) { return Py_TYPE(o) == &JitTypeType; }

// A value of a type; TypeError (as Error with the type) where it is none. `why`: null throws, else false.
bool jit_from_python(PyObject* o, jit::TypePtr t, Value* out);
PyObject* jit_to_python(const Value& v);
// A function of tessera.jit._host.
PyObject* jit_host(const char* name);
// The Python object behind what programs leave to the host. Borrowed.
PyObject* python_of_host(const jit::HostObject& host);
// What Python told about a name: (kind, ...).
bool sugar_from_python(PyObject* told, jit::Sugar* out);

// Held while something may be compiled: waits without Python's lock.
class CompileLock {
 public:
  CompileLock() {
    if (!jit::compile_lock().try_lock()) {
      GilRelease free;
      jit::compile_lock().lock();
    }
  }
  ~CompileLock() { jit::compile_lock().unlock(); }
};

// guarded() that knows the errors of programs.
void translate_jit_exception();
template <class F>
PyObject* jit_guarded(F&& f) noexcept {
  try {
    return f();
  } catch (...) {
    translate_jit_exception();
    return nullptr;
  }
}

std::vector<PyMethodDef> jit_functions();
std::vector<PyMethodDef> jit_archive_functions();
std::vector<PyMethodDef> jit_setting_functions();
jit::Unit& jit_script_unit();  // of all that Python scripts
void init_jit(PyObject* module);

}  // namespace tessera::python
