// Methods of the extension's types from tables: one line for each, with its parameters as text.
#pragma once

#include <array>
#include <string>
#include <utility>

#include "python/bindings/jit/jit.h"

namespace tessera::python {

// What a method gets: as many places as it has parameters, null where nothing was given.
using Given = PyObject* const*;
struct Method {
  const char* name;
  PyObject* (*call)(PyObject* self, Given args);
  const char* params;  // "kind, recurse=True"
  const char* doc;
};
// Sorts arguments by the parameters, calls, and turns errors into Python's.
PyObject* call_method(const Method& m, PyObject* self, Given args, Py_ssize_t n, PyObject* names) noexcept;
const char* method_doc(const Method& m);  // "findNode($self, kind, recurse=True)\n--\n\n..."

template <const auto& kTable, size_t I>
PyObject* table_method(PyObject* self, Given args, Py_ssize_t n, PyObject* names) {
  return call_method(kTable[I], self, args, n, names);
}
template <const auto& kTable, size_t... I>
PyMethodDef* method_defs(std::index_sequence<I...>) {
  static PyMethodDef defs[] = {
      {kTable[I].name, reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(&table_method<kTable, I>)),
       METH_FASTCALL | METH_KEYWORDS, method_doc(kTable[I])}...,
      {nullptr, nullptr, 0, nullptr}};
  return defs;
}
template <const auto& kTable>
PyMethodDef* method_defs() {
  return method_defs<kTable>(std::make_index_sequence<std::size(kTable)>());
}

// --- handles of graphs and their parts: two of one thing are equal ---

using GraphPtr = std::shared_ptr<jit::Graph>;
// A node, or one that stands for a block's parameters (kind "prim::Param") or results ("prim::Return").
struct NodeRef {
  GraphPtr graph;
  jit::Node* node;
  jit::Block* block = nullptr;
  bool is_return = false;
};
struct ValueRef {
  GraphPtr graph;
  jit::Val* val;
};
struct BlockRef {
  GraphPtr graph;
  jit::Block* block;
};

PyObject* wrap_node(NodeRef n);
PyObject* wrap_value(const GraphPtr& g, jit::Val* v);
PyObject* wrap_block(const GraphPtr& g, jit::Block* b);
PyObject* wrap_values(const GraphPtr& g, const std::vector<jit::Val*>& all);  // iterators, as all of these are
PyObject* wrap_nodes(const GraphPtr& g, const std::vector<jit::Node*>& all);
PyObject* iterate(Ref list);
jit::Val* value_arg(PyObject* o);  // TypeError
NodeRef& node_arg(PyObject* o);
jit::TypePtr type_arg(PyObject* o);
std::string text_arg(PyObject* o);
int64_t int_arg(PyObject* o);
GraphPtr& graph_arg(PyObject* o);
// Nodes of a kind in a block; with `deep`, in the blocks of its nodes, too.
void collect_nodes(const jit::Block* b, const std::string& kind, bool deep, std::vector<jit::Node*>& out);
// A constant's node of a Python value, unattached.
jit::Node* constant_node(jit::Graph& g, PyObject* value);
jit::Block* attach(jit::Block* b, jit::Node* n, jit::Node* before);  // null: at the end
extern PyTypeObject JitBlockType;
void init_jit_graph_types();
void init_jit_node_types();
void init_jit_types();
PyObject* jit_make_type(PyObject*, PyObject* args);
PyObject* jit_type_of_tensor(PyObject*, PyObject* o);

}  // namespace tessera::python
