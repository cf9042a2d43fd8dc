// __torch_function__: subclasses and modes that take over public calls.
#pragma once

#include "python/bindings/common.h"

namespace tessera::python {

struct FunctionState {
  bool subclass_disabled = false;
  bool all_disabled = false;
  int num_modes = 0;
};
extern thread_local constinit FunctionState function_state;

extern PyObject* g_disabled_torch_function;  // _C._disabled_torch_function_impl
extern PyObject* g_str_torch_function;       // "__torch_function__"

// The object's type has a __torch_function__ of its own.
bool overrides_torch_function(PyObject* o);
// Any argument does (tuples and lists are looked into), or a mode is on.
bool needs_torch_function(PyObject* const* args, Py_ssize_t n);
// Hands the call over. args as in vectorcall.
PyObject* call_torch_function(PyObject* func, PyObject* const* args, Py_ssize_t num_positional, PyObject* kwnames);

// What an override makes of TensorType's slot of this name for a tensor, or null where there is none.
Ref overridden_slot(PyObject*& cache, const char* name, PyObject* self);

void init_torch_function(PyObject* module);

}  // namespace tessera::python
