// torch.ops and torch.library: operators by name, operators and kernels made in Python, dispatch modes.
#pragma once

#include "python/bindings/common.h"
#include "tensor/dispatch/registry.h"

namespace tessera::python {

// Any operator by its qualified name ("aten::add.Tensor"), built in or defined at run time; null if there is none.
const OpInfo* find_any_op(std::string_view qualified_name);
// A function of tessera._ops. PythonError if it cannot be imported.
Ref ops_function(const char* name);
// The OpOverload object of an operator (new reference).
PyObject* overload_object(const OpHeader& op);
// Boxed arguments as Python's: keyword-only ones go into the dictionary.
void arguments_to_python(const OpInfo& info, const Value* args, size_t num_args, Ref* positional, Ref* keywords);
// The same as a program would write the call: without what the schema says anyway (positional arguments at the end,
// keywords), and with Python numbers for those that reached the operator as tensors. `symbols` (null, or a dictionary):
// what stands at a position instead.
void call_as_written(const OpInfo& info, const Value* args, size_t num_args, Ref* positional, Ref* keywords,
                     PyObject* symbols = nullptr);
// What a Python kernel returned, by the schema. TypeError if it doesn't fit.
void results_from_python(const OpInfo& info, PyObject* result, Value* rets, size_t num_rets);

// The type has a __torch_dispatch__ of its own: its tensors carry the Python key.
bool overrides_torch_dispatch(PyTypeObject* type);

// The innermost __torch_dispatch__ mode of the thread of which the predicate is true (borrowed), or null.
PyObject* innermost_dispatch_mode(bool (*wanted)(PyObject*));

void init_library(PyObject* module);
void init_dispatch_modes(PyObject* module);

}  // namespace tessera::python
