#include "python/bindings/pytree/treespec.h"

#include <string>

#include "python/bindings/calls.h"
#include "python/bindings/pytree/pytree.h"
#include "python/bindings/types.h"

namespace tessera::python::pytree {

PyTypeObject* SpecType = nullptr;

namespace {

PyTypeObject* g_leaf_type = nullptr;
PyObject* g_leaf = nullptr;

// --- life ---

Ref allocate(PyTypeObject* type) {
  Ref made = Ref::steal(check(type->tp_alloc(type, 0)));
  Spec* s = as_spec(made.get());
  s->type = Py_NewRef(Py_None);
  s->context = Py_NewRef(Py_None);
  s->children = check(PyTuple_New(0));
  s->num_nodes = s->num_leaves = 1;
  s->kind = Kind::kLeaf;
  return made;
}

void set(Spec* s, Kind kind, PyObject* type, Ref context, Ref children) {
  s->kind = kind;
  Py_XSETREF(s->type, Py_NewRef(type));
  Py_XSETREF(s->context, context.release());
  Py_XSETREF(s->children, children.release());
  s->num_nodes = 1;
  s->num_leaves = kind == Kind::kLeaf ? 1 : 0;
  for (Py_ssize_t i = 0; i < s->size(); ++i) {
    s->num_nodes += s->child(i)->num_nodes;
    s->num_leaves += s->child(i)->num_leaves;
  }
}

Ref checked_children(PyObject* type, PyObject* given) {
  Ref children = given ? Ref::steal(check(PySequence_Tuple(given))) : Ref::steal(check(PyTuple_New(0)));
  const Py_ssize_t n = PyTuple_GET_SIZE(children.get());
  for (Py_ssize_t i = 0; i < n; ++i)
    if (!is_spec(PyTuple_GET_ITEM(children.get(), i))) {
      PyErr_Format(PyExc_TypeError, "TreeSpec(): expected children_specs to be a list of TreeSpec, but item %zd is %R",
                   i, PyTuple_GET_ITEM(children.get(), i));
      throw ErrorAlreadySet();
    }
  if (type == Py_None && n) throw ValueError("TreeSpec(): a leaf (type None) has no children_specs");
  return children;
}

// TreeSpec(type, context=None, children_specs=()); without arguments a leaf, which __setstate__ may fill.
PyObject* spec_new(PyTypeObject* cls, PyObject* args, PyObject* kwargs) {
  return guarded([&] {
    PyObject *type = Py_None, *context = Py_None, *children = nullptr;
    static const char* names[] = {"type", "context", "children_specs", nullptr};
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|OOO:TreeSpec", const_cast<char**>(names), &type, &context,
                                     &children))
      throw ErrorAlreadySet();
    Ref checked = checked_children(type, children);
    Ref made = allocate(cls);
    set(as_spec(made.get()), kind_of_type(type), type, Ref::borrow(context), std::move(checked));
    return made.release();
  });
}

PyObject* leaf_new(PyTypeObject* cls, PyObject* args, PyObject* kwargs) {
  return guarded([&] {
    if (PyTuple_GET_SIZE(args) || (kwargs && PyDict_GET_SIZE(kwargs))) throw TypeError("LeafSpec() takes no arguments");
    return cls == g_leaf_type ? Py_NewRef(g_leaf) : allocate(cls).release();
  });
}

int spec_traverse(PyObject* self, visitproc visit, void* arg) {
  Spec* s = as_spec(self);
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(s->type);
  Py_VISIT(s->context);
  Py_VISIT(s->children);
  return 0;
}

// The fields stay what they are while others may read them: a cycle goes through the context, or through children.
int spec_clear(PyObject* self) {
  Spec* s = as_spec(self);
  Py_XSETREF(s->context, Py_NewRef(Py_None));
  return 0;
}

void spec_dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  Spec* s = as_spec(self);
  Py_XDECREF(s->type);
  Py_XDECREF(s->context);
  Py_XDECREF(s->children);  // a tuple, which limits the depth of this recursion
  type->tp_free(self);
  Py_DECREF(type);
}

// --- comparison, text ---

bool same(Spec* a, Spec* b) {
  if (a == b) return true;
  if (a->type != b->type || a->num_nodes != b->num_nodes || a->num_leaves != b->num_leaves || a->size() != b->size())
    return false;
  Deeper deeper;
  const int contexts = PyObject_RichCompareBool(a->context, b->context, Py_EQ);
  check(contexts);
  if (!contexts) return false;
  for (Py_ssize_t i = 0; i < a->size(); ++i)
    if (!same(a->child(i), b->child(i))) return false;
  return true;
}

PyObject* spec_compare(PyObject* self, PyObject* other, int op) {
  if ((op != Py_EQ && op != Py_NE) || !is_spec(other)) Py_RETURN_NOTIMPLEMENTED;
  return guarded([&] { return PyBool_FromLong(same(as_spec(self), as_spec(other)) == (op == Py_EQ)); });
}

size_t mix(size_t seed, size_t value) { return (seed ^ value) * 0x9E3779B97F4A7C15u + (seed >> 29); }

// Contexts that have no hash add nothing; keys, which have one, are in lists.
size_t hash_context(PyObject* context) {
  if (PyList_CheckExact(context)) {
    size_t h = 17;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(context); ++i)
      h = mix(h, hash_context(Ref::borrow(PyList_GET_ITEM(context, i)).get()));
    return h;
  }
  const Py_hash_t h = PyObject_Hash(context);
  if (h != -1) return static_cast<size_t>(h);
  if (!PyErr_ExceptionMatches(PyExc_TypeError)) throw ErrorAlreadySet();
  PyErr_Clear();
  return 0;
}

size_t hash_of(Spec* s) {
  if (s->kind == Kind::kLeaf) return 1;
  Deeper deeper;
  size_t h = mix(static_cast<size_t>(hash_of_address(s->type)), hash_context(s->context));
  for (Py_ssize_t i = 0; i < s->size(); ++i) h = mix(h, hash_of(s->child(i)));
  return h;
}

Py_hash_t spec_hash(PyObject* self) {
  Py_hash_t h = -1;
  guarded_int([&] {
    h = static_cast<Py_hash_t>(hash_of(as_spec(self)));
    if (h == -1) h = -2;
  });
  return h;
}

void write(Spec* s, size_t indent, std::string* out) {
  if (s->kind == Kind::kLeaf) {
    *out += '*';
    return;
  }
  Deeper deeper;
  Ref name = Ref::steal(check(PyObject_GetAttrString(s->type, "__name__")));
  Ref context = Ref::steal(check(PyObject_Repr(s->context)));
  *out += "TreeSpec(" + from_python_string(name.get()) + ", " + from_python_string(context.get()) + ", [";
  for (Py_ssize_t i = 0; i < s->size(); ++i) {
    if (i) *out += ",\n" + std::string(indent + 2, ' ');
    write(s->child(i), indent + 2, out);
  }
  *out += "])";
}

PyObject* spec_repr(PyObject* self) {
  return guarded([&] {
    std::string text;
    write(as_spec(self), 0, &text);
    return to_python_string(text).release();
  });
}

// --- attributes ---

PyObject* get_children_list(PyObject* self, void*) { return PySequence_List(as_spec(self)->children); }
PyObject* get_type(PyObject* self, void*) { return Py_NewRef(as_spec(self)->type); }
PyObject* get_context(PyObject* self, void*) { return Py_NewRef(as_spec(self)->context); }
PyObject* get_num_nodes(PyObject* self, void*) { return PyLong_FromSsize_t(as_spec(self)->num_nodes); }
PyObject* get_num_leaves(PyObject* self, void*) { return PyLong_FromSsize_t(as_spec(self)->num_leaves); }
PyObject* get_num_children(PyObject* self, void*) { return PyLong_FromSsize_t(as_spec(self)->size()); }

PyGetSetDef g_getset[] = {
    {"type", get_type, nullptr, "The class of the container; None for a leaf.", nullptr},
    {"context", get_context, nullptr, "What the container is built from besides its children.", nullptr},
    {"_context", get_context, nullptr, nullptr, nullptr},
    {"children_specs", get_children_list, nullptr, "A list of the children's specs.", nullptr},
    {"_children", get_children_list, nullptr, nullptr, nullptr},
    {"num_nodes", get_num_nodes, nullptr, "Containers and leaves.", nullptr},
    {"num_leaves", get_num_leaves, nullptr, nullptr, nullptr},
    {"num_children", get_num_children, nullptr, nullptr, nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

PyObject* spec_children(PyObject* self, PyObject*) { return PySequence_List(as_spec(self)->children); }
PyObject* spec_child(PyObject* self, PyObject* index) { return PyObject_GetItem(as_spec(self)->children, index); }
PyObject* spec_is_leaf(PyObject* self, PyObject*) { return PyBool_FromLong(as_spec(self)->kind == Kind::kLeaf); }
PyObject* spec_entries(PyObject* self, PyObject*) {
  Spec* s = as_spec(self);
  if (is_dictionary(s->kind)) return guarded([&] { return check(PySequence_List(context_keys(s->kind, s->context))); });
  return guarded([&] {
    Ref out = Ref::steal(check(PyList_New(s->size())));
    for (Py_ssize_t i = 0; i < s->size(); ++i) PyList_SET_ITEM(out.get(), i, check(PyLong_FromSsize_t(i)));
    return out.release();
  });
}

PyObject* spec_unflatten(PyObject* self, PyObject* leaves) {
  return guarded([&] {
    Ref list = Ref::steal(check(PySequence_Tuple(leaves)));
    std::vector<Ref> refs;
    refs.reserve(static_cast<size_t>(PyTuple_GET_SIZE(list.get())));
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(list.get()); ++i)
      refs.push_back(Ref::borrow(PyTuple_GET_ITEM(list.get(), i)));
    return unflatten(self, refs).release();
  });
}

PyObject* spec_flatten_up_to(PyObject* self, PyObject* tree) {
  return guarded([&] {
    std::vector<Ref> subtrees = flatten_up_to(self, tree);
    Ref out = Ref::steal(check(PyList_New(static_cast<Py_ssize_t>(subtrees.size()))));
    for (size_t i = 0; i < subtrees.size(); ++i)
      PyList_SET_ITEM(out.get(), static_cast<Py_ssize_t>(i), subtrees[i].release());
    return out.release();
  });
}

PyObject* spec_reduce(PyObject* self, PyObject*) {
  Spec* s = as_spec(self);
  PyObject* cls = reinterpret_cast<PyObject*>(Py_TYPE(self));
  if (s->kind == Kind::kLeaf) return Py_BuildValue("O()", cls);
  return guarded([&] {
    Ref children = Ref::steal(check(PySequence_List(s->children)));
    return check(Py_BuildValue("O(OOO)", cls, s->type, s->context, children.get()));
  });
}

// What other writers of pickles give: [type, context, children, ...]. Once, for an object that is still an empty leaf.
PyObject* spec_setstate(PyObject* self, PyObject* state) {
  return guarded([&] {
    Spec* s = as_spec(self);
    Ref list = Ref::steal(check(PySequence_Tuple(state)));
    if (PyTuple_GET_SIZE(list.get()) < 3) throw ValueError("TreeSpec: expected the state [type, context, children]");
    if (s->kind != Kind::kLeaf || self == g_leaf) throw Error("TreeSpec: a spec can not be changed");
    PyObject* type = PyTuple_GET_ITEM(list.get(), 0);
    Ref children = checked_children(type, PyTuple_GET_ITEM(list.get(), 2));
    set(s, kind_of_type(type), type, Ref::borrow(PyTuple_GET_ITEM(list.get(), 1)), std::move(children));
    return none();
  });
}

PyMethodDef g_methods[] = {
    {"children", spec_children, METH_NOARGS, "children() -> list of TreeSpec"},
    {"child", spec_child, METH_O, "child(index) -> TreeSpec"},
    {"entries", spec_entries, METH_NOARGS, "entries() -> list: the keys of a dictionary, else the indices."},
    {"is_leaf", spec_is_leaf, METH_NOARGS, "is_leaf() -> bool"},
    {"unflatten", spec_unflatten, METH_O,
     "unflatten(leaves): the tree with these leaves. ValueError for a wrong number of them."},
    {"flatten_up_to", spec_flatten_up_to, METH_O,
     "flatten_up_to(tree) -> list: the subtrees where this spec has leaves. ValueError where the containers differ."},
    {"__reduce__", spec_reduce, METH_NOARGS, nullptr},
    {"__setstate__", spec_setstate, METH_O, nullptr},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

bool is_spec(PyObject* o) { return PyObject_TypeCheck(o, SpecType); }
Py_ssize_t num_leaves(PyObject* spec) { return as_spec(spec)->num_leaves; }
Ref leaf_spec() { return Ref::borrow(g_leaf); }

Ref make_spec(Kind kind, PyObject* type, Ref context, Ref children) {
  Ref made = Ref::steal(check(SpecType->tp_alloc(SpecType, 0)));
  set(as_spec(made.get()), kind, type, std::move(context), std::move(children));
  return made;
}

void init_spec(PyObject* module) {
  static PyType_Slot slots[] = {
      {Py_tp_new, reinterpret_cast<void*>(spec_new)},
      {Py_tp_dealloc, reinterpret_cast<void*>(spec_dealloc)},
      {Py_tp_traverse, reinterpret_cast<void*>(spec_traverse)},
      {Py_tp_clear, reinterpret_cast<void*>(spec_clear)},
      {Py_tp_repr, reinterpret_cast<void*>(spec_repr)},
      {Py_tp_hash, reinterpret_cast<void*>(spec_hash)},
      {Py_tp_richcompare, reinterpret_cast<void*>(spec_compare)},
      {Py_tp_methods, g_methods},
      {Py_tp_getset, g_getset},
      {Py_tp_doc,
       const_cast<char*>("TreeSpec(type, context=None, children_specs=())\n--\n\n"
                         "The shape of a tree: class of the container, its context, specs of the children.")},
      {0, nullptr}};
  static PyType_Slot leaf_slots[] = {{Py_tp_new, reinterpret_cast<void*>(leaf_new)},
                                     {Py_tp_dealloc, reinterpret_cast<void*>(spec_dealloc)},
                                     {Py_tp_traverse, reinterpret_cast<void*>(spec_traverse)},
                                     {Py_tp_clear, reinterpret_cast<void*>(spec_clear)},
                                     {Py_tp_doc, const_cast<char*>("LeafSpec()\n--\n\nThe spec of a leaf.")},
                                     {0, nullptr}};
  constexpr unsigned kFlags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC;
  static PyType_Spec spec = {"tessera.utils._pytree.TreeSpec", sizeof(Spec), 0, kFlags, slots};
  static PyType_Spec leaf = {"tessera.utils._pytree.LeafSpec", sizeof(Spec), 0, kFlags, leaf_slots};
  SpecType = reinterpret_cast<PyTypeObject*>(check(PyType_FromSpec(&spec)));
  Ref bases = Ref::steal(check(PyTuple_Pack(1, SpecType)));
  g_leaf_type = reinterpret_cast<PyTypeObject*>(check(PyType_FromSpecWithBases(&leaf, bases.get())));
  g_leaf = allocate(g_leaf_type).release();
  for (auto [type, name] : {std::pair(SpecType, "TreeSpec"), std::pair(g_leaf_type, "LeafSpec")}) {
    check(PyModule_AddObjectRef(module, name, reinterpret_cast<PyObject*>(type)));
    name_type(reinterpret_cast<PyObject*>(type), str_cat("utils._pytree.", name).c_str());
  }
}

}  // namespace tessera::python::pytree
