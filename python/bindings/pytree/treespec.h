// The Python type TreeSpec.
#pragma once

#include "python/bindings/pytree/nodes.h"

namespace tessera::python::pytree {

// One node of the shape of a tree. Never changed once it is made, so that all leaves are the same object.
struct Spec {
  PyObject_HEAD PyObject* type;  // class, the function namedtuple, or None for a leaf
  PyObject* context;
  PyObject* children;  // tuple of Spec
  Py_ssize_t num_nodes;
  Py_ssize_t num_leaves;
  Kind kind;

  Py_ssize_t size() const { return PyTuple_GET_SIZE(children); }
  Spec* child(Py_ssize_t i) const { return reinterpret_cast<Spec*>(PyTuple_GET_ITEM(children, i)); }
};

extern PyTypeObject* SpecType;
inline Spec* as_spec(PyObject* o) { return reinterpret_cast<Spec*>(o); }

Ref leaf_spec();
Ref make_spec(Kind kind, PyObject* type, Ref context, Ref children);

void init_spec(PyObject* module);

}  // namespace tessera::python::pytree
