#include "python/bindings/pytree/pytree.h"

#include <algorithm>

#include "python/bindings/calls.h"
#include "python/bindings/pytree/treespec.h"

namespace tessera::python::pytree {
namespace {

bool truth(Ref o) {
  const int t = PyObject_IsTrue(o.get());
  check(t);
  return t != 0;
}

// Children may be a list that belongs to somebody else, whom a callback lets change it.
Ref child_at(const Ref& children, Py_ssize_t i, Py_ssize_t n) {
  if (PySequence_Fast_GET_SIZE(children.get()) != n)
    throw Error("a container changed its size while it was being flattened");
  return Ref::borrow(PySequence_Fast_GET_ITEM(children.get(), i));
}

class Walk {
 public:
  explicit Walk(PyObject* is_leaf) : is_leaf_(is_leaf == Py_None ? nullptr : is_leaf) {}

  Node open(PyObject* tree) const {
    if (is_leaf_ && truth(Ref::steal(check(PyObject_CallOneArg(is_leaf_, tree))))) return {};
    return node_of(tree);
  }

  Ref flatten(PyObject* tree) {
    const Node node = open(tree);
    if (node.kind == Kind::kLeaf) {
      leaves.push_back(Ref::borrow(tree));
      return leaf_spec();
    }
    Deeper deeper;
    Parts parts = take_apart(node, tree, With::kContext);
    const Py_ssize_t n = PySequence_Fast_GET_SIZE(parts.children.get());
    Ref specs = Ref::steal(check(PyTuple_New(n)));
    for (Py_ssize_t i = 0; i < n; ++i)
      PyTuple_SET_ITEM(specs.get(), i, flatten(child_at(parts.children, i, n).get()).release());
    return make_spec(node.kind, node.type, std::move(parts.context), std::move(specs));
  }

  void collect(PyObject* tree) {
    const Node node = open(tree);
    if (node.kind == Kind::kLeaf) {
      leaves.push_back(Ref::borrow(tree));
      return;
    }
    Deeper deeper;
    const Parts parts = take_apart(node, tree, With::kChildren);
    const Py_ssize_t n = PySequence_Fast_GET_SIZE(parts.children.get());
    for (Py_ssize_t i = 0; i < n; ++i) collect(child_at(parts.children, i, n).get());
  }

  // `out`: a list of (path, leaf).
  void collect_paths(PyObject* tree, PyObject* out) {
    const Node node = open(tree);
    if (node.kind == Kind::kLeaf) {
      Ref path = Ref::steal(check(PyTuple_New(static_cast<Py_ssize_t>(path_.size()))));
      for (size_t i = 0; i < path_.size(); ++i)
        PyTuple_SET_ITEM(path.get(), static_cast<Py_ssize_t>(i), Py_NewRef(path_[i].get()));
      check(PyList_Append(out, Ref::steal(check(PyTuple_Pack(2, path.get(), tree))).get()));
      return;
    }
    Deeper deeper;
    const Parts parts = take_apart(node, tree, With::kKeys);
    const Py_ssize_t n = PySequence_Fast_GET_SIZE(parts.children.get());
    for (Py_ssize_t i = 0; i < n; ++i) {
      path_.push_back(Ref::borrow(PyList_GET_ITEM(parts.keys.get(), i)));
      collect_paths(child_at(parts.children, i, n).get(), out);
      path_.pop_back();
    }
  }

  bool broadcast(PyObject* tree, Spec* spec) {
    const Node node = open(tree);
    if (node.kind == Kind::kLeaf) {
      for (Py_ssize_t i = 0; i < spec->num_leaves; ++i) leaves.push_back(Ref::borrow(tree));
      return true;
    }
    if (node.type != spec->type) return false;
    Deeper deeper;
    const Parts parts = take_apart(node, tree, With::kContext);
    const Py_ssize_t n = PySequence_Fast_GET_SIZE(parts.children.get());
    if (n != spec->size()) return false;
    const int same = PyObject_RichCompareBool(parts.context.get(), spec->context, Py_EQ);
    check(same);
    if (!same) return false;
    for (Py_ssize_t i = 0; i < n; ++i)
      if (!broadcast(child_at(parts.children, i, n).get(), spec->child(i))) return false;
    return true;
  }

  std::vector<Ref> leaves;

 private:
  PyObject* is_leaf_;
  std::vector<Ref> path_;
};

// --- flatten_up_to ---

[[noreturn]] void mismatch(const char* format, PyObject* a, PyObject* b, PyObject* c = nullptr) {
  PyErr_Format(PyExc_ValueError, format, a, b, c);
  throw ErrorAlreadySet();
}

Ref difference(PyObject* a, PyObject* b) {
  Ref set = Ref::steal(check(PySet_New(a)));
  return Ref::steal(check(PyNumber_Subtract(set.get(), Ref::steal(check(PySet_New(b))).get())));
}

// The values of a dictionary in the order of the spec's keys.
Ref values_by_keys(Spec* spec, PyObject* tree) {
  Ref keys = Ref::steal(check(PySequence_Tuple(context_keys(spec->kind, spec->context))));
  const Py_ssize_t n = PyTuple_GET_SIZE(keys.get());
  Ref values = Ref::steal(check(PyList_New(0)));
  bool missing = n != PyDict_GET_SIZE(tree);
  for (Py_ssize_t i = 0; i < n && !missing; ++i) {
    PyObject* value = PyDict_GetItemWithError(tree, PyTuple_GET_ITEM(keys.get(), i));
    if (!value && PyErr_Occurred()) throw ErrorAlreadySet();
    if (value)
      check(PyList_Append(values.get(), value));
    else
      missing = true;
  }
  if (!missing) return values;
  Ref absent = difference(keys.get(), tree), extra = difference(tree, keys.get());
  std::string text = "Node keys mismatch";
  for (auto [what, set] : {std::pair("; missing key(s): ", absent.get()), std::pair("; extra key(s): ", extra.get())})
    if (PySet_GET_SIZE(set)) text += what + from_python_string(Ref::steal(check(PyObject_Repr(set))).get());
  throw ValueError(text + ".");
}

void up_to(Spec* spec, PyObject* tree, std::vector<Ref>* out) {
  if (spec->kind == Kind::kLeaf) {
    out->push_back(Ref::borrow(tree));
    return;
  }
  Deeper deeper;
  const Node node = node_of(tree);
  Parts parts;
  if (is_dictionary(spec->kind) && is_dictionary(node.kind)) {
    parts.children = values_by_keys(spec, tree);
  } else {
    if (node.kind == Kind::kLeaf || node.type != spec->type)
      mismatch("Node type mismatch; expected %R, but got %R.", spec->type,
               node.kind == Kind::kNamedTuple ? node.type : reinterpret_cast<PyObject*>(Py_TYPE(tree)));
    parts = take_apart(node, tree, With::kContext);
  }
  const Py_ssize_t n = PySequence_Fast_GET_SIZE(parts.children.get());
  if (n != spec->size()) {
    PyErr_Format(PyExc_ValueError, "Node arity mismatch; expected %zd, but got %zd.", spec->size(), n);
    throw ErrorAlreadySet();
  }
  if (parts.context && node.kind != Kind::kDeque) {
    const int same = PyObject_RichCompareBool(parts.context.get(), spec->context, Py_EQ);
    check(same);
    if (!same)
      mismatch("Node context mismatch for node type %R; expected %R, but got %R.", spec->type, spec->context,
               parts.context.get());
  }
  for (Py_ssize_t i = 0; i < n; ++i) up_to(spec->child(i), child_at(parts.children, i, n).get(), out);
}

Ref build(Spec* spec, const Ref** next) {
  if (spec->kind == Kind::kLeaf) return *(*next)++;
  Deeper deeper;
  const Py_ssize_t n = spec->size();
  Ref children = Ref::steal(check(PyList_New(n)));
  for (Py_ssize_t i = 0; i < n; ++i) PyList_SET_ITEM(children.get(), i, build(spec->child(i), next).release());
  return put_together(spec->kind, spec->type, spec->context, std::move(children));
}

// --- functions of Python ---

Ref as_list(std::vector<Ref>& refs) {
  Ref list = Ref::steal(check(PyList_New(static_cast<Py_ssize_t>(refs.size()))));
  for (size_t i = 0; i < refs.size(); ++i) PyList_SET_ITEM(list.get(), static_cast<Py_ssize_t>(i), refs[i].release());
  return list;
}

PyObject* py_flatten(PyObject*, CallArgs call) {
  PyObject* a[2];
  read_args({"tree_flatten", {"tree", "is_leaf"}, 2, 1}, call, a);
  Flat flat = flatten(a[0], a[1]);
  return check(PyTuple_Pack(2, as_list(flat.leaves).get(), flat.spec.get()));
}

PyObject* py_leaves(PyObject*, CallArgs call) {
  PyObject* a[2];
  read_args({"tree_leaves", {"tree", "is_leaf"}, 2, 1}, call, a);
  std::vector<Ref> leaves = leaves_of(a[0], a[1]);
  return as_list(leaves).release();
}

PyObject* py_structure(PyObject*, CallArgs call) {
  PyObject* a[2];
  read_args({"tree_structure", {"tree", "is_leaf"}, 2, 1}, call, a);
  return flatten(a[0], a[1]).spec.release();
}

PyObject* py_leaves_with_path(PyObject*, CallArgs call) {
  PyObject* a[2];
  read_args({"tree_leaves_with_path", {"tree", "is_leaf"}, 2, 1}, call, a);
  Ref out = Ref::steal(check(PyList_New(0)));
  Walk(a[1]).collect_paths(a[0], out.get());
  return out.release();
}

PyObject* py_is_leaf(PyObject*, CallArgs call) {
  PyObject* a[2];
  read_args({"tree_is_leaf", {"tree", "is_leaf"}, 2, 1}, call, a);
  return to_python(Walk(a[1]).open(a[0]).kind == Kind::kLeaf);
}

// The class that stands in SUPPORTED_NODES for an object, the object's own for a leaf.
PyObject* py_node_type(PyObject*, CallArgs call) {
  PyObject* a[1];
  read_args({"_get_node_type", {"tree"}, 1, 1}, call, a);
  const Node node = node_of(a[0]);
  return Py_NewRef(node.type ? node.type : reinterpret_cast<PyObject*>(Py_TYPE(a[0])));
}

void need_spec(PyObject* o) {
  if (is_spec(o)) return;
  PyErr_Format(PyExc_TypeError, "Expected `treespec` to be an instance of PyTreeSpec but got item of type %R.",
               reinterpret_cast<PyObject*>(Py_TYPE(o)));
  throw ErrorAlreadySet();
}

PyObject* py_unflatten(PyObject*, CallArgs call) {
  PyObject* a[2];
  read_args({"tree_unflatten", {"leaves", "treespec"}, 2, 2}, call, a);
  need_spec(a[1]);
  return check(PyObject_CallMethod(a[1], "unflatten", "(O)", a[0]));
}

PyObject* py_broadcast(PyObject*, CallArgs call) {
  PyObject* a[3];
  read_args({"_broadcast_to_and_flatten", {"tree", "treespec", "is_leaf"}, 3, 2}, call, a);
  need_spec(a[1]);
  auto leaves = broadcast(a[0], a[1], a[2]);
  return leaves ? as_list(*leaves).release() : none();
}

// What map functions are told: func, tree, *rests, is_leaf.
struct MapArgs {
  PyObject* func;
  PyObject* tree;
  PyObject* const* rests;
  Py_ssize_t num_rests;
  PyObject* is_leaf;
};

MapArgs read_map_args(const char* function, CallArgs call) {
  const Py_ssize_t positional = std::min<Py_ssize_t>(call.n, 2);
  // What follows the first two positional arguments are further trees; names may stand for the first two.
  std::vector<PyObject*> known(call.args, call.args + positional);
  if (call.kwnames) known.insert(known.end(), call.args + call.n, call.args + call.n + PyTuple_GET_SIZE(call.kwnames));
  PyObject* a[3];
  read_args({function, {"func", "tree", "is_leaf"}, 2, 2}, {known.data(), positional, call.kwnames}, a);
  return {a[0], a[1], call.args + positional, call.n - positional, a[2]};
}

std::vector<Ref> map_leaves(const MapArgs& args, Ref* spec) {
  Flat flat = flatten(args.tree, args.is_leaf);
  std::vector<std::vector<Ref>> columns;
  for (Py_ssize_t i = 0; i < args.num_rests; ++i) columns.push_back(flatten_up_to(flat.spec.get(), args.rests[i]));
  std::vector<PyObject*> row(columns.size() + 1);
  std::vector<Ref> results;
  results.reserve(flat.leaves.size());
  for (size_t i = 0; i < flat.leaves.size(); ++i) {
    row[0] = flat.leaves[i].get();
    for (size_t c = 0; c < columns.size(); ++c) row[c + 1] = columns[c][i].get();
    results.push_back(Ref::steal(check(PyObject_Vectorcall(args.func, row.data(), row.size(), nullptr))));
  }
  *spec = std::move(flat.spec);
  return results;
}

PyObject* py_map(PyObject*, CallArgs call) {
  Ref spec;
  const std::vector<Ref> results = map_leaves(read_map_args("tree_map", call), &spec);
  return unflatten(spec.get(), results).release();
}

PyObject* py_map_in_place(PyObject*, CallArgs call) {
  Ref spec;
  const MapArgs args = read_map_args("tree_map_", call);
  map_leaves(args, &spec);
  return Py_NewRef(args.tree);
}

// Classes (also in a tuple, also int | str), or a predicate.
bool chosen(PyObject* kind, bool classes, PyObject* leaf) {
  if (!classes) return truth(Ref::steal(check(PyObject_CallOneArg(kind, leaf))));
  if (PyType_Check(kind) && Py_TYPE(leaf) == reinterpret_cast<PyTypeObject*>(kind)) return true;
  const int is = PyObject_IsInstance(leaf, kind);
  check(is);
  return is != 0;
}

PyObject* map_only(const char* name, CallArgs call, bool in_place) {
  PyObject* a[4];
  read_args({name, {"type_or_types_or_pred", "func", "tree", "is_leaf"}, 4, 3}, call, a);
  const bool classes = PyType_Check(a[0]) || PyTuple_Check(a[0]) || !PyCallable_Check(a[0]);
  if (classes && !PyType_Check(a[0]) && PyObject_IsInstance(Py_None, a[0]) < 0) {
    if (!PyErr_ExceptionMatches(PyExc_TypeError)) throw ErrorAlreadySet();
    PyErr_Clear();
    throw TypeError("Argument must be a type, a tuple of types, or a callable.");
  }
  Flat flat = flatten(a[2], a[3]);
  for (Ref& leaf : flat.leaves)
    if (chosen(a[0], classes, leaf.get())) {
      Ref mapped = Ref::steal(check(PyObject_CallOneArg(a[1], leaf.get())));
      if (!in_place) leaf = std::move(mapped);
    }
  return in_place ? Py_NewRef(a[2]) : unflatten(flat.spec.get(), flat.leaves).release();
}
PyObject* py_map_only(PyObject*, CallArgs call) { return map_only("tree_map_only", call, false); }
PyObject* py_map_only_in_place(PyObject*, CallArgs call) { return map_only("tree_map_only_", call, true); }

PyObject* py_set_step_classes(PyObject*, CallArgs call) {
  PyObject* a[3];
  read_args({"set_step_classes", {"mapping", "sequence", "attribute"}, 3, 3}, call, a);
  set_step_classes(a[0], a[1], a[2]);
  return none();
}

// Containers of tensors are no arguments with a __torch_function__: unlike `function<...>` nothing is asked.
template <Implementation F>
PyObject* entry(PyObject* module, PyObject* const* args, Py_ssize_t n, PyObject* kwnames) {
  return guarded([&] { return F(module, {args, n, kwnames}); });
}
template <Implementation F>
PyMethodDef named(const char* name, const char* doc) {
  return {name, as_c_function(&entry<F>), METH_FASTCALL | METH_KEYWORDS, doc};
}

PyMethodDef g_functions[] = {
    named<py_flatten>("tree_flatten",
                      "tree_flatten(tree, is_leaf=None)\n--\n\n"
                      "(list of leaves, TreeSpec).\n\nArgs:\n"
                      "    is_leaf: container -> bool, True for those that are leaves as well."),
    named<py_leaves>("tree_leaves", "tree_leaves(tree, is_leaf=None)\n--\n\nThe list of leaves."),
    named<py_structure>("tree_structure", "tree_structure(tree, is_leaf=None)\n--\n\nThe TreeSpec."),
    named<py_leaves_with_path>("tree_leaves_with_path",
                               "tree_leaves_with_path(tree, is_leaf=None)\n--\n\n"
                               "List of (path, leaf); a path is a tuple of keys.\n\n"
                               "Raises: ValueError for a class that was registered without flatten_with_keys_fn."),
    named<py_is_leaf>("tree_is_leaf",
                      "tree_is_leaf(tree, is_leaf=None)\n--\n\n"
                      "True if `tree` is a leaf, by its type or by `is_leaf(tree)`."),
    named<py_node_type>("_get_node_type", "_get_node_type(tree)\n--\n\nThe key of `tree` in SUPPORTED_NODES."),
    named<py_unflatten>("tree_unflatten",
                        "tree_unflatten(leaves, treespec)\n--\n\n"
                        "The inverse of `tree_flatten`.\n\n"
                        "Raises: TypeError for another kind of spec, ValueError for a wrong number of leaves."),
    named<py_broadcast>("_broadcast_to_and_flatten",
                        "_broadcast_to_and_flatten(tree, treespec, is_leaf=None)\n--\n\n"
                        "The leaves of `tree`, repeated so that they match `treespec`; None where containers differ."),
    named<py_map>("tree_map",
                  "tree_map(func, tree, *rests, is_leaf=None)\n--\n\n"
                  "A tree of `func(leaf, ...)`; further trees must have at least the structure of the first.\n\n"
                  "Raises: ValueError where they have not."),
    named<py_map_in_place>("tree_map_",
                           "tree_map_(func, tree, *rests, is_leaf=None)\n--\n\n"
                           "Calls `func` on the leaves for its effect, gives back `tree`."),
    named<py_map_only>("tree_map_only",
                       "tree_map_only(type_or_types_or_pred, /, func, tree, is_leaf=None)\n--\n\n"
                       "`tree_map` over the leaves of these types, or for which the predicate holds; others stay.\n\n"
                       "Raises: TypeError if the first argument is neither."),
    named<py_map_only_in_place>("tree_map_only_",
                                "tree_map_only_(type_or_types_or_pred, /, func, tree, is_leaf=None)\n--\n\n"
                                "`tree_map_` over the leaves of these types, or for which the predicate holds."),
    named<py_set_step_classes>("set_step_classes", nullptr),
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

Flat flatten(PyObject* tree, PyObject* is_leaf) {
  Walk walk(is_leaf);
  Ref spec = walk.flatten(tree);
  return {std::move(walk.leaves), std::move(spec)};
}

std::vector<Ref> leaves_of(PyObject* tree, PyObject* is_leaf) {
  Walk walk(is_leaf);
  walk.collect(tree);
  return std::move(walk.leaves);
}

Ref unflatten(PyObject* spec, std::span<const Ref> leaves) {
  Spec* s = as_spec(spec);
  if (static_cast<size_t>(s->num_leaves) != leaves.size()) {
    PyErr_Format(PyExc_ValueError,
                 "treespec.unflatten(leaves): `leaves` has length %zu but the spec refers to a pytree that holds %zd "
                 "items (%R).",
                 leaves.size(), s->num_leaves, spec);
    throw ErrorAlreadySet();
  }
  const Ref* next = leaves.data();
  return build(s, &next);
}

std::vector<Ref> flatten_up_to(PyObject* spec, PyObject* tree) {
  std::vector<Ref> out;
  out.reserve(static_cast<size_t>(num_leaves(spec)));
  up_to(as_spec(spec), tree, &out);
  return out;
}

std::optional<std::vector<Ref>> broadcast(PyObject* tree, PyObject* spec, PyObject* is_leaf) {
  Walk walk(is_leaf);
  if (!walk.broadcast(tree, as_spec(spec))) return std::nullopt;
  return std::move(walk.leaves);
}

}  // namespace tessera::python::pytree

namespace tessera::python {

void init_pytree(PyObject* module) {
  Ref own = Ref::steal(check(PyModule_New("tessera._C._pytree")));
  pytree::init_nodes(own.get());
  pytree::init_spec(own.get());
  check(PyModule_AddFunctions(own.get(), pytree::g_functions));
  check(PyModule_AddObjectRef(module, "_pytree", own.get()));
}

}  // namespace tessera::python
