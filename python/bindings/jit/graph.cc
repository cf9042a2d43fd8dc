// Graphs, nodes and values as Python sees them.
#include "jit/operator.h"
#include "jit/passes.h"
#include "python/bindings/jit/jit.h"

namespace tessera::python {
namespace {

using G = std::shared_ptr<jit::Graph>;
struct NodeRef {
  G graph;
  jit::Node* node;
};
struct ValRef {
  G graph;
  jit::Val* val;
};

template <class T>
void dealloc(PyObject* self) {
  boxed<T>(self).~T();
  Py_TYPE(self)->tp_free(self);
}
template <class T>
PyObject* box_new(PyTypeObject& type, T v) {
  PyObject* o = check(type.tp_alloc(&type, 0));
  new (&boxed<T>(o)) T(std::move(v));
  return o;
}
template <class L, class M>
PyObject* list_of(const L& all, M make) {
  Ref list = Ref::steal(check(PyList_New(0)));
  for (const auto& x : all) check(PyList_Append(list.get(), Ref::steal(make(x)).get()));
  return list.release();
}
PyObject* string(const std::string& s) { return to_python_string(s).release(); }
PyObject* values(const G& g, const std::vector<jit::Val*>& all) {
  return list_of(all, [&](jit::Val* v) { return box_new(JitValueType, ValRef{g, v}); });
}
PyObject* nodes(const G& g, const std::vector<jit::Node*>& all) {
  return list_of(all, [&](jit::Node* n) { return box_new(JitNodeType, NodeRef{g, n}); });
}

const G& graph(PyObject* o) { return boxed<G>(o); }
PyObject* graph_str(PyObject* self) {
  return jit_guarded([&] { return string(graph(self)->str()); });
}
PyObject* graph_inputs(PyObject* self, PyObject*) {
  return jit_guarded([&] { return values(graph(self), graph(self)->top->params); });
}
PyObject* graph_outputs(PyObject* self, PyObject*) {
  return jit_guarded([&] { return values(graph(self), graph(self)->top->returns); });
}
PyObject* graph_nodes(PyObject* self, PyObject*) {
  return jit_guarded([&] { return nodes(graph(self), graph(self)->top->nodes); });
}
void collect(const jit::Block* b, const std::string& kind, bool deep, std::vector<jit::Node*>& out) {
  for (jit::Node* n : b->nodes) {
    if (n->kind_name() == kind) out.push_back(n);
    if (deep)
      for (const jit::Block* inner : n->blocks) collect(inner, kind, deep, out);
  }
}
PyObject* graph_find_all(PyObject* self, PyObject* args, PyObject* keywords) {
  return jit_guarded([&] {
    const char* kind;
    int deep = 1;
    static const char* names[] = {"kind", "recurse", nullptr};
    if (!PyArg_ParseTupleAndKeywords(args, keywords, "s|p:findAllNodes", const_cast<char**>(names), &kind, &deep))
      throw ErrorAlreadySet();
    std::vector<jit::Node*> found;
    collect(graph(self)->top, kind, deep, found);
    return nodes(graph(self), found);
  });
}
PyObject* graph_find(PyObject* self, PyObject* args, PyObject* keywords) {
  return jit_guarded([&]() -> PyObject* {
    Ref all = Ref::steal(check(graph_find_all(self, args, keywords)));
    return PyList_GET_SIZE(all.get()) ? Py_NewRef(PyList_GET_ITEM(all.get(), 0)) : none();
  });
}
PyObject* graph_copy(PyObject* self, PyObject*) {
  return jit_guarded([&] { return wrap_graph(G(copy_graph(*graph(self)))); });
}
PyMethodDef g_graph_methods[] = {
    {"inputs", graph_inputs, METH_NOARGS, nullptr},
    {"outputs", graph_outputs, METH_NOARGS, nullptr},
    {"nodes", graph_nodes, METH_NOARGS, nullptr},
    {"findNode", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(graph_find)), METH_VARARGS | METH_KEYWORDS,
     nullptr},
    {"findAllNodes", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(graph_find_all)),
     METH_VARARGS | METH_KEYWORDS, nullptr},
    {"copy", graph_copy, METH_NOARGS, nullptr},
    {nullptr, nullptr, 0, nullptr}};

const NodeRef& node(PyObject* o) { return boxed<NodeRef>(o); }
PyObject* node_kind(PyObject* self, PyObject*) {
  return jit_guarded([&] { return string(node(self).node->kind_name()); });
}
PyObject* node_scope(PyObject* self, PyObject*) {
  return jit_guarded([&] { return string(node(self).node->scope); });
}
PyObject* node_schema(PyObject* self, PyObject*) {
  return jit_guarded([&] { return string(node(self).node->op ? node(self).node->op->schema : "(no schema)"); });
}
PyObject* node_inputs(PyObject* self, PyObject*) {
  return jit_guarded([&] { return values(node(self).graph, node(self).node->in); });
}
PyObject* node_outputs(PyObject* self, PyObject*) {
  return jit_guarded([&] { return values(node(self).graph, node(self).node->out); });
}
PyObject* node_output(PyObject* self, PyObject*) {
  return jit_guarded([&] {
    TESSERA_CHECK(node(self).node->out.size() == 1, "the node has ", node(self).node->out.size(), " outputs");
    return box_new(JitValueType, ValRef{node(self).graph, node(self).node->out[0]});
  });
}
PyObject* node_blocks(PyObject* self, PyObject*) {
  return jit_guarded([&] {
    return list_of(node(self).node->blocks, [&](jit::Block* b) { return nodes(node(self).graph, b->nodes); });
  });
}
PyObject* node_attributes(PyObject* self, PyObject*) {
  return jit_guarded([&] {
    const jit::Node& n = *node(self).node;
    std::vector<std::string> names;
    if (n.kind == jit::N::kConstant && !n.constant.is_none()) names.push_back("value");
    if (!n.name.empty()) names.push_back("name");
    return list_of(names, [](const std::string& s) { return string(s); });
  });
}
PyObject* node_attribute(PyObject* self, PyObject* name) {
  return jit_guarded([&]() -> PyObject* {
    const jit::Node& n = *node(self).node;
    const std::string key = from_python_string(name);
    if (key == "value" && n.kind == jit::N::kConstant) return jit_to_python(n.constant);
    if (key == "name" && !n.name.empty()) return string(n.name);
    throw Error(str_cat("required keyword attribute '", key, "' is undefined"));
  });
}
PyObject* node_has(PyObject* self, PyObject* name) {
  return jit_guarded([&] {
    const jit::Node& n = *node(self).node;
    const std::string key = from_python_string(name);
    return to_python((key == "value" && n.kind == jit::N::kConstant && !n.constant.is_none()) ||
                     (key == "name" && !n.name.empty()));
  });
}
PyObject* node_range(PyObject* self, PyObject*) {
  return jit_guarded([&] { return string(node(self).node->range.excerpt()); });
}
PyObject* node_str(PyObject* self) {
  return jit_guarded([&] { return string(node(self).node->kind_name()); });
}
PyMethodDef g_node_methods[] = {{"kind", node_kind, METH_NOARGS, nullptr},
                                {"scopeName", node_scope, METH_NOARGS, nullptr},
                                {"schema", node_schema, METH_NOARGS, nullptr},
                                {"inputs", node_inputs, METH_NOARGS, nullptr},
                                {"outputs", node_outputs, METH_NOARGS, nullptr},
                                {"output", node_output, METH_NOARGS, nullptr},
                                {"blocks", node_blocks, METH_NOARGS, nullptr},
                                {"attributeNames", node_attributes, METH_NOARGS, nullptr},
                                {"s", node_attribute, METH_O, nullptr},
                                {"i", node_attribute, METH_O, nullptr},
                                {"f", node_attribute, METH_O, nullptr},
                                {"t", node_attribute, METH_O, nullptr},
                                {"ival", node_attribute, METH_O, nullptr},
                                {"hasAttribute", node_has, METH_O, nullptr},
                                {"sourceRange", node_range, METH_NOARGS, nullptr},
                                {nullptr, nullptr, 0, nullptr}};

const ValRef& val(PyObject* o) { return boxed<ValRef>(o); }
PyObject* val_name(PyObject* self, PyObject*) {
  return jit_guarded(
      [&] { return string(val(self).val->name.empty() ? std::to_string(val(self).val->id) : val(self).val->name); });
}
PyObject* val_type(PyObject* self, PyObject*) {
  return jit_guarded([&] { return wrap_type(val(self).val->type); });
}
PyObject* val_node(PyObject* self, PyObject*) {
  return jit_guarded([&]() -> PyObject* {
    return val(self).val->node ? box_new(JitNodeType, NodeRef{val(self).graph, val(self).val->node}) : none();
  });
}
PyObject* val_constant(PyObject* self, PyObject*) {
  return jit_guarded([&]() -> PyObject* {
    const jit::Val* v = val(self).val;
    return v->node && v->node->kind == jit::N::kConstant ? jit_to_python(v->node->constant) : none();
  });
}
PyObject* val_str(PyObject* self) {
  return jit_guarded([&] {
    const jit::Val* v = val(self).val;
    return string(str_cat(v->name.empty() ? std::to_string(v->id) : v->name, " defined in (%",
                          v->name.empty() ? std::to_string(v->id) : v->name, " : ", v->type->str(), ")"));
  });
}
PyObject* val_unique(PyObject* self, PyObject*) { return PyLong_FromLong(val(self).val->id); }
PyMethodDef g_val_methods[] = {
    {"debugName", val_name, METH_NOARGS, nullptr}, {"type", val_type, METH_NOARGS, nullptr},
    {"node", val_node, METH_NOARGS, nullptr},      {"toIValue", val_constant, METH_NOARGS, nullptr},
    {"unique", val_unique, METH_NOARGS, nullptr},  {nullptr, nullptr, 0, nullptr}};

PyTypeObject make_type(const char* name, size_t size, destructor d, reprfunc text, PyMethodDef* methods) {
  PyTypeObject t = {PyVarObject_HEAD_INIT(nullptr, 0)};
  t.tp_name = name;
  t.tp_basicsize = static_cast<Py_ssize_t>(size);
  t.tp_dealloc = d;
  t.tp_flags = Py_TPFLAGS_DEFAULT;
  t.tp_str = t.tp_repr = text;
  t.tp_methods = methods;
  return t;
}

}  // namespace

PyTypeObject JitGraphType =
    make_type("tessera._C._jit.Graph", sizeof(Boxed<G>), dealloc<G>, graph_str, g_graph_methods);
PyTypeObject JitNodeType =
    make_type("tessera._C._jit.Node", sizeof(Boxed<NodeRef>), dealloc<NodeRef>, node_str, g_node_methods);
PyTypeObject JitValueType =
    make_type("tessera._C._jit.Value", sizeof(Boxed<ValRef>), dealloc<ValRef>, val_str, g_val_methods);

PyObject* wrap_graph(std::shared_ptr<jit::Graph> g) { return box_new(JitGraphType, std::move(g)); }

}  // namespace tessera::python
