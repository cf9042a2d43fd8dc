#include "python/bindings/pytree/nodes.h"

#include "python/bindings/operators.h"
#include "python/bindings/types.h"

namespace tessera::python::pytree {
namespace {

// Found when the module is made, and kept for ever.
PyObject* g_registered = nullptr;  // SUPPORTED_NODES
PyObject* g_namedtuple = nullptr;  // collections.namedtuple
PyTypeObject* g_defaultdict = nullptr;
PyTypeObject* g_deque = nullptr;
PyObject *g_fields, *g_maxlen, *g_default_factory, *g_match_args;  // names
PyObject* g_steps[3];                                              // classes of keys
enum Step { kMapping, kSequence, kAttribute };

PyObject* type_object(PyTypeObject* t) { return reinterpret_cast<PyObject*>(t); }

Kind built_in(PyTypeObject* t) {
  if (t == &PyTuple_Type) return Kind::kTuple;
  if (t == &PyList_Type) return Kind::kList;
  if (t == &PyDict_Type) return Kind::kDict;
  if (t == &PyODict_Type) return Kind::kOrderedDict;
  if (t == g_defaultdict) return Kind::kDefaultDict;
  if (t == g_deque) return Kind::kDeque;
  if (t == SizeType) return Kind::kSize;
  return Kind::kLeaf;
}

bool is_named_tuple(PyTypeObject* t) {
  if (!PyType_FastSubclass(t, Py_TPFLAGS_TUPLE_SUBCLASS)) return false;
  PyObject* fields = type_lookup(t, g_fields);
  return fields && PyTuple_Check(fields);
}

Ref fast(Ref sequence) {
  return Ref::steal(check(PySequence_Fast(sequence.get(), "the children of a node must be a sequence")));
}
Ref attribute(PyObject* o, PyObject* name) { return Ref::steal(check(PyObject_GetAttr(o, name))); }

Ref member(PyObject* def, Py_ssize_t i) {
  if (!PyTuple_Check(def) || PyTuple_GET_SIZE(def) <= i) {
    PyErr_Format(PyExc_TypeError, "SUPPORTED_NODES: expected a NodeDef, but got %R", def);
    throw ErrorAlreadySet();
  }
  return Ref::borrow(PyTuple_GET_ITEM(def, i));
}

// What a flatten function of Python gave: (sequence, context).
Parts custom_parts(PyObject* function, PyObject* tree) {
  Ref pair = Ref::steal(check(PyObject_CallOneArg(function, tree)));
  Ref two = Ref::steal(check(PySequence_Fast(pair.get(), "a flatten function must return (children, context)")));
  if (PySequence_Fast_GET_SIZE(two.get()) != 2) {
    PyErr_Format(PyExc_ValueError, "%R: expected (children, context), but got %zd values", function,
                 PySequence_Fast_GET_SIZE(two.get()));
    throw ErrorAlreadySet();
  }
  return {fast(Ref::borrow(PySequence_Fast_GET_ITEM(two.get(), 0))),
          Ref::borrow(PySequence_Fast_GET_ITEM(two.get(), 1)),
          {}};
}

Parts custom_parts_with_keys(const Node& node, PyObject* tree) {
  Ref function = member(node.def.get(), 3);
  if (function.get() == Py_None) {
    PyErr_Format(PyExc_ValueError,
                 "Did not find a flatten_with_keys_fn for type: %R. Please pass a flatten_with_keys_fn argument to "
                 "register_pytree_node.",
                 node.type);
    throw ErrorAlreadySet();
  }
  Parts parts = custom_parts(function.get(), tree);
  const Py_ssize_t n = PySequence_Fast_GET_SIZE(parts.children.get());
  Ref keys = Ref::steal(check(PyList_New(0))), children = Ref::steal(check(PyList_New(0)));
  for (Py_ssize_t i = 0; i < n && i < PySequence_Fast_GET_SIZE(parts.children.get()); ++i) {
    Ref pair = Ref::borrow(PySequence_Fast_GET_ITEM(parts.children.get(), i));
    Ref two = Ref::steal(check(PySequence_Tuple(pair.get())));
    if (PyTuple_GET_SIZE(two.get()) != 2)
      throw ValueError("flatten_with_keys_fn must return ([(key, child), ...], context)");
    check(PyList_Append(keys.get(), PyTuple_GET_ITEM(two.get(), 0)));
    check(PyList_Append(children.get(), PyTuple_GET_ITEM(two.get(), 1)));
  }
  parts.keys = std::move(keys);
  parts.children = std::move(children);
  return parts;
}

Ref step(Step kind, PyObject* at) {
  if (!g_steps[kind]) Ref::steal(check(PyImport_ImportModule("tessera.utils._pytree")));
  if (!g_steps[kind]) throw Error("tessera.utils._pytree is being imported");
  return Ref::steal(check(PyObject_CallOneArg(g_steps[kind], at)));
}

// One step for each child of a container that is not custom.
Ref steps_to(const Node& node, PyObject* tree, const Parts& parts) {
  const Py_ssize_t n = PySequence_Fast_GET_SIZE(parts.children.get());
  Ref steps = Ref::steal(check(PyList_New(0)));
  Ref names;
  Step kind = kSequence;
  if (is_dictionary(node.kind)) {
    names = Ref::borrow(context_keys(node.kind, parts.context.get()));
    kind = kMapping;
  } else if (node.kind == Kind::kNamedTuple || node.kind == Kind::kResult) {
    names = attribute(type_object(Py_TYPE(tree)), node.kind == Kind::kResult ? g_match_args : g_fields);
    kind = kAttribute;
  }
  for (Py_ssize_t i = 0; i < n; ++i) {
    Ref at = Ref::steal(check(names ? PySequence_GetItem(names.get(), i) : PyLong_FromSsize_t(i)));
    check(PyList_Append(steps.get(), step(kind, at.get()).get()));
  }
  return steps;
}

// The context of a tuple, a list ...: nothing.
Ref no_context() { return Ref::borrow(Py_None); }

[[noreturn]] void bad_context(PyObject* type, PyObject* context) {
  PyErr_Format(PyExc_ValueError, "TreeSpec of %s: %R does not fit its number of children", type_name(type), context);
  throw ErrorAlreadySet();
}

// Fills a new dictionary of any kind.
Ref fill(Ref dictionary, PyObject* type, PyObject* keys, PyObject* children) {
  Ref list = Ref::steal(check(PySequence_Fast(keys, "the context of a dictionary must be a list of its keys")));
  const Py_ssize_t n = PyList_GET_SIZE(children);
  if (PySequence_Fast_GET_SIZE(list.get()) != n) bad_context(type, keys);
  const bool plain = !PyODict_CheckExact(dictionary.get());
  for (Py_ssize_t i = 0; i < n; ++i) {
    if (PySequence_Fast_GET_SIZE(list.get()) <= i) bad_context(type, keys);  // a key's __hash__ changed it
    Ref key = Ref::borrow(PySequence_Fast_GET_ITEM(list.get(), i));
    PyObject* child = PyList_GET_ITEM(children, i);
    check(plain ? PyDict_SetItem(dictionary.get(), key.get(), child)
                : PyObject_SetItem(dictionary.get(), key.get(), child));
  }
  return dictionary;
}

Ref call(PyObject* function, PyObject* a, PyObject* b = nullptr) {
  PyObject* args[] = {a, b};
  return Ref::steal(check(PyObject_Vectorcall(function, args, b ? 2 : 1, nullptr)));
}

}  // namespace

Node node_of(PyObject* tree) {
  PyTypeObject* t = Py_TYPE(tree);
  if (const Kind kind = built_in(t); kind != Kind::kLeaf) return {kind, type_object(t), {}};
  if (PyObject* def = PyDict_GetItemWithError(g_registered, type_object(t)))
    return {Kind::kCustom, type_object(t), Ref::borrow(def)};
  if (PyErr_Occurred()) throw ErrorAlreadySet();
  if (is_result_type(t)) return {Kind::kResult, type_object(t), {}};
  if (is_named_tuple(t)) return {Kind::kNamedTuple, g_namedtuple, {}};
  return {};
}

Kind kind_of_type(PyObject* type) {
  if (type == Py_None) return Kind::kLeaf;
  if (type == g_namedtuple) return Kind::kNamedTuple;
  if (!PyType_Check(type)) return Kind::kCustom;
  auto* t = reinterpret_cast<PyTypeObject*>(type);
  if (const Kind kind = built_in(t); kind != Kind::kLeaf) return kind;
  return is_result_type(t) ? Kind::kResult : Kind::kCustom;
}

Ref node_def(PyObject* type) {
  PyObject* def = PyDict_GetItemWithError(g_registered, type);
  if (!def) {
    if (!PyErr_Occurred())
      PyErr_Format(PyExc_ValueError, "%R is no registered pytree node; register it with register_pytree_node", type);
    throw ErrorAlreadySet();
  }
  return Ref::borrow(def);
}

PyObject* context_keys(Kind kind, PyObject* context) {
  if (kind != Kind::kDefaultDict) return context;
  if (!(PyList_Check(context) || PyTuple_Check(context)) || PySequence_Fast_GET_SIZE(context) != 2) {
    PyErr_Format(PyExc_ValueError, "TreeSpec of defaultdict: expected the context [factory, keys], but got %R",
                 context);
    throw ErrorAlreadySet();
  }
  return PySequence_Fast_GET_ITEM(context, 1);
}

Parts take_apart(const Node& node, PyObject* tree, With with) {
  if (node.kind == Kind::kCustom)
    return with == With::kKeys ? custom_parts_with_keys(node, tree)
                               : custom_parts(member(node.def.get(), 1).get(), tree);
  Parts parts;
  switch (node.kind) {
    case Kind::kDict:
    case Kind::kDefaultDict:
      parts.children = Ref::steal(check(PyDict_Values(tree)));
      break;
    case Kind::kOrderedDict:
      parts.children = Ref::steal(check(PyMapping_Values(tree)));
      break;
    case Kind::kDeque:
      parts.children = Ref::steal(check(PySequence_List(tree)));
      break;
    default:
      parts.children = Ref::borrow(tree);
  }
  if (with == With::kChildren) return parts;
  switch (node.kind) {
    case Kind::kDict:
      parts.context = Ref::steal(check(PyDict_Keys(tree)));
      break;
    case Kind::kOrderedDict:
      parts.context = Ref::steal(check(PyMapping_Keys(tree)));
      break;
    case Kind::kDefaultDict: {
      Ref keys = Ref::steal(check(PyDict_Keys(tree)));
      Ref factory = attribute(tree, g_default_factory);
      parts.context = Ref::steal(check(PyList_New(2)));
      PyList_SET_ITEM(parts.context.get(), 0, factory.release());
      PyList_SET_ITEM(parts.context.get(), 1, keys.release());
      break;
    }
    case Kind::kDeque:
      parts.context = attribute(tree, g_maxlen);
      break;
    case Kind::kNamedTuple:
      parts.context = Ref::borrow(type_object(Py_TYPE(tree)));
      break;
    default:
      parts.context = no_context();
  }
  if (with == With::kKeys) parts.keys = steps_to(node, tree, parts);
  return parts;
}

Ref put_together(Kind kind, PyObject* type, PyObject* context, Ref children) {
  PyObject* list = children.get();
  switch (kind) {
    case Kind::kList:
      return children;
    case Kind::kTuple:
      return Ref::steal(check(PyList_AsTuple(list)));
    case Kind::kDict:
      return fill(Ref::steal(check(PyDict_New())), type, context, list);
    case Kind::kOrderedDict:
      return fill(Ref::steal(check(PyObject_CallNoArgs(type_object(&PyODict_Type)))), type, context, list);
    case Kind::kDefaultDict: {
      PyObject* keys = context_keys(kind, context);
      Ref factory = Ref::borrow(PySequence_Fast_GET_ITEM(context, 0));
      return fill(call(type_object(g_defaultdict), factory.get()), type, keys, list);
    }
    case Kind::kDeque:
      return call(type, list, context);
    case Kind::kNamedTuple: {
      if (!PyType_Check(context)) bad_context(type, context);
      Ref values = Ref::steal(check(PyList_AsTuple(list)));
      return Ref::steal(check(PyObject_Call(context, values.get(), nullptr)));
    }
    case Kind::kResult:
    case Kind::kSize:
      return call(type, list);
    default:
      return call(member(node_def(type).get(), 2).get(), list, context);
  }
}

void set_step_classes(PyObject* mapping, PyObject* sequence, PyObject* attribute) {
  PyObject* classes[] = {mapping, sequence, attribute};
  for (int i = 0; i < 3; ++i) Py_XSETREF(g_steps[i], Py_NewRef(classes[i]));
}

void init_nodes(PyObject* module) {
  Ref collections = Ref::steal(check(PyImport_ImportModule("collections")));
  auto find = [&](const char* name) { return check(PyObject_GetAttrString(collections.get(), name)); };
  g_namedtuple = find("namedtuple");
  g_defaultdict = reinterpret_cast<PyTypeObject*>(find("defaultdict"));
  g_deque = reinterpret_cast<PyTypeObject*>(find("deque"));
  g_fields = check(PyUnicode_InternFromString("_fields"));
  g_maxlen = check(PyUnicode_InternFromString("maxlen"));
  g_default_factory = check(PyUnicode_InternFromString("default_factory"));
  g_match_args = check(PyUnicode_InternFromString("__match_args__"));
  g_registered = check(PyDict_New());
  check(PyModule_AddObjectRef(module, "SUPPORTED_NODES", g_registered));
}

}  // namespace tessera::python::pytree
