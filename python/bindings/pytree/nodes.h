// One container: which kind it is, its children and its context, and how it is built again. No recursion here.
#pragma once

#include <cstdint>

#include "python/bindings/common.h"

namespace tessera::python::pytree {

enum class Kind : uint8_t {
  kLeaf,
  kTuple,
  kList,
  kDict,
  kOrderedDict,
  kDefaultDict,
  kDeque,
  kNamedTuple,
  kResult,  // of an operator: a structseq
  kSize,
  kCustom
};
inline bool is_dictionary(Kind k) { return k == Kind::kDict || k == Kind::kOrderedDict || k == Kind::kDefaultDict; }

struct Node {
  Kind kind = Kind::kLeaf;
  PyObject* type = nullptr;  // what a TreeSpec names (borrowed): the class, or the function namedtuple
  Ref def;                   // kCustom: its NodeDef
};
// By the type of the object alone.
Node node_of(PyObject* tree);
// The kind of a TreeSpec's type. A class that nobody registered counts as kCustom.
Kind kind_of_type(PyObject* type);
// The NodeDef of a registered class. ValueError if there is none (any more).
Ref node_def(PyObject* type);

enum class With { kChildren, kContext, kKeys };
struct Parts {
  Ref children;  // a list or a tuple
  Ref context;   // null with kChildren
  Ref keys;      // with kKeys: for each child the step that leads to it
};
Parts take_apart(const Node& node, PyObject* tree, With with);
// The keys of a dictionary's context, in order (borrowed; a list, or what the maker of the spec gave).
PyObject* context_keys(Kind kind, PyObject* context);

// `children`: a list, which the container may become.
Ref put_together(Kind kind, PyObject* type, PyObject* context, Ref children);

// {"SUPPORTED_NODES": ...} and the classes that node_of needs.
void init_nodes(PyObject* module);
// The classes of steps along a path: of a mapping, a sequence, an attribute.
void set_step_classes(PyObject* mapping, PyObject* sequence, PyObject* attribute);

inline const char* type_name(PyObject* type) {
  return PyType_Check(type) ? reinterpret_cast<PyTypeObject*>(type)->tp_name : "namedtuple";
}

// RecursionError for a depth that the stack might not hold.
class Deeper {
 public:
  Deeper() {
    if (Py_EnterRecursiveCall(" in a tree of containers")) throw ErrorAlreadySet();
  }
  ~Deeper() { Py_LeaveRecursiveCall(); }
  Deeper(const Deeper&) = delete;
};

}  // namespace tessera::python::pytree
