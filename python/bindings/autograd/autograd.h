// Autograd in Python: nodes as objects, grad modes, hooks, Function, backward.
#pragma once

#include "autograd/node.h"
#include "autograd/saved_variable.h"
#include "python/bindings/common.h"
#include "python/bindings/errors.h"

namespace tessera::python {

// The Python object of a node (new reference, the same one while it lives); None for a null one.
PyObject* wrap_node(const IntrusivePtr<autograd::Node>& node);
// The node behind a Python object: of a C++ node or of a custom function's context. TypeError for anything else, Error
// if the graph is gone.
IntrusivePtr<autograd::Node> node_of(PyObject* o);
bool is_node(PyObject* o);
// The context of a custom function as its node's object (new reference): it keeps the node from now on.
PyObject* share_context(void* ctx);
// (node, input number) of a GradientEdge, or of a tensor. A tensor without history gives an empty edge. TypeError for
// anything else.
autograd::Edge edge_of(PyObject* o);

// A Python object held by C++ that may let go of it on any thread.
struct PyHolder final : public RefCounted {
  explicit PyHolder(Ref o) : object(o.release()) {}
  ~PyHolder() override;
  PyObject* object;
};
// Drops a reference from a destructor: takes the GIL, does nothing once the interpreter has gone.
void drop_reference(PyObject* o);
// What Python code returned; an exception it raised goes on through C++ as PythonError.
inline Ref checked_call(PyObject* result) {
  if (!result) throw PythonError();
  return Ref::steal(result);
}

// pack and unpack as C++ hooks. TypeError unless both can be called.
IntrusivePtr<autograd::PackHooks> make_pack_hooks(PyObject* pack, PyObject* unpack);
// The unpack function of such hooks (new reference); None for others and for null.
PyObject* unpack_function(autograd::PackHooks* hooks);
// The Python object of one saved value (_raw_saved_...): keeps the node alive.
PyObject* wrap_saved(const IntrusivePtr<autograd::Node>& owner, const autograd::SavedVariable* saved);

// register_hook and register_prehook of nodes and contexts (autograd_hooks.cc).
PyObject* node_register_hook(PyObject* self, PyObject* hook);
PyObject* node_register_prehook(PyObject* self, PyObject* hook);
PyObject* node_register_hook_dict(PyObject* self, PyObject* hooks);

// Members that nodes and contexts share, ended by null entries.
extern PyGetSetDef g_node_getset[];
extern PyMethodDef g_node_methods[];

extern PyTypeObject FunctionBaseType;  // _C._FunctionBase

void init_autograd_nodes(PyObject* module);
void init_autograd_hooks(PyObject* module);
void init_autograd_function(PyObject* module);
void init_autograd_engine(PyObject* module);
void init_autograd_forward(PyObject* module);
void init_autograd(PyObject* module);

}  // namespace tessera::python
