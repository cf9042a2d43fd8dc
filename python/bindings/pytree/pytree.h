// Trees of Python containers: flattened to their leaves and a TreeSpec, and built again. What transforms, exporters and
// checkpoints do with arguments of any shape.
//
// Containers are tuple, list, dict, OrderedDict, defaultdict, deque, named tuples, the results of operators, Size, and
// the classes in the dictionary SUPPORTED_NODES (class -> NodeDef); subclasses of them are not. All else, None
// included, is a leaf. Dictionaries keep their order.
//
// Every function needs the interpreter's lock and throws ErrorAlreadySet where a function of Python raised.
#pragma once

#include <optional>
#include <span>
#include <vector>

#include "python/bindings/common.h"

namespace tessera::python::pytree {

struct Flat {
  std::vector<Ref> leaves;
  Ref spec;
};

// `is_leaf`: a callable that says which containers are leaves as well; null or None for none.
Flat flatten(PyObject* tree, PyObject* is_leaf = nullptr);
std::vector<Ref> leaves_of(PyObject* tree, PyObject* is_leaf = nullptr);
// The inverse: as many leaves as the spec has, ValueError otherwise.
Ref unflatten(PyObject* spec, std::span<const Ref> leaves);
// The subtrees of `tree` where the spec has leaves. ValueError where a container is another one than the spec's; the
// three kinds of dictionaries stand for one another, in the order of the spec.
std::vector<Ref> flatten_up_to(PyObject* spec, PyObject* tree);
// The leaves of `tree`, each as often as the spec has leaves in its place: how one value stands for a whole subtree
// (in_dims of vmap). Nothing where the containers differ.
std::optional<std::vector<Ref>> broadcast(PyObject* tree, PyObject* spec, PyObject* is_leaf = nullptr);

bool is_spec(PyObject* o);
Py_ssize_t num_leaves(PyObject* spec);  // of a TreeSpec

}  // namespace tessera::python::pytree

namespace tessera::python {
void init_pytree(PyObject* module);  // the module _C._pytree
}  // namespace tessera::python
