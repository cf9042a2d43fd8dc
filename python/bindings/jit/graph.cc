// Graphs and blocks as Python sees them: what is in them, and how they are changed.
#include <cstring>

#include "jit/operator.h"
#include "jit/passes.h"
#include "python/bindings/jit/methods.h"

namespace tessera::python {

using jit::Block;
using jit::Node;
using jit::Val;

PyObject* call_method(const Method& m, PyObject* self, Given args, Py_ssize_t n, PyObject* names) noexcept {
  return jit_guarded([&] {
    PyObject* given[6] = {};
    Py_ssize_t count = 0;
    const std::string_view params = m.params;
    const Py_ssize_t named = names ? PyTuple_GET_SIZE(names) : 0;
    Py_ssize_t found = 0;
    for (size_t at = 0; at < params.size(); ++count) {
      const size_t end = std::min(params.find(", ", at), params.size());
      const std::string_view one = params.substr(at, end - at), name = one.substr(0, one.find('='));
      if (count < n) given[count] = args[count];
      for (Py_ssize_t k = 0; k < named && count >= n; ++k)
        if (from_python_string(PyTuple_GET_ITEM(names, k)) == name) given[count] = args[n + k], ++found;
      if (!given[count] && one.size() == name.size())
        throw TypeError(str_cat(m.name, "() misses its argument '", name, "'; it takes (", params, ")"));
      at = end + 2;
    }
    if (n > count || found != named) throw TypeError(str_cat(m.name, "() takes (", params, ")"));
    return check(m.call(self, given));
  });
}
const char* method_doc(const Method& m) {
  const std::string s = str_cat(m.name, "($self", *m.params ? ", " : "", m.params, ")\n--\n\n", m.doc);
  return ::strdup(s.c_str());
}

PyObject* iterate(Ref list) { return check(PyObject_GetIter(list.get())); }
std::string text_arg(PyObject* o) { return from_python_string(o); }
int64_t int_arg(PyObject* o) {
  const int64_t i = PyLong_AsLongLong(o);
  if (i == -1 && PyErr_Occurred()) throw ErrorAlreadySet();
  return i;
}
jit::TypePtr type_arg(PyObject* o) {
  if (!is_jit_type(o)) throw TypeError(str_cat("expected a Type, got ", Py_TYPE(o)->tp_name));
  return boxed<jit::TypePtr>(o);
}
GraphPtr& graph_arg(PyObject* o) {
  if (Py_TYPE(o) != &JitGraphType) throw TypeError(str_cat("expected a Graph, got ", Py_TYPE(o)->tp_name));
  return boxed<GraphPtr>(o);
}
void collect_nodes(const Block* b, const std::string& kind, bool deep, std::vector<Node*>& out) {
  for (Node* n : b->nodes) {
    if (n->kind_name() == kind) out.push_back(n);
    if (deep)
      for (const Block* inner : n->blocks) collect_nodes(inner, kind, deep, out);
  }
}
Block* attach(Block* b, Node* n, Node* before) {
  TESSERA_CHECK(!n->owner, "the node ", n->kind_name(), " is in a block already");
  n->owner = b;
  b->nodes.insert(before ? std::find(b->nodes.begin(), b->nodes.end(), before) : b->nodes.end(), n);
  return b;
}

namespace {

const GraphPtr& graph(PyObject* o) { return boxed<GraphPtr>(o); }
bool truth(PyObject* o, bool otherwise) { return o ? PyObject_IsTrue(o) == 1 : otherwise; }
PyObject* string(const std::string& s) { return to_python_string(s).release(); }

bool g_ranges = true;
PyObject* graph_str(PyObject* self) {
  return jit_guarded([&] { return string(graph(self)->str(g_ranges)); });
}

// --- what graphs and blocks share ---

Block* block_of(PyObject* self) {
  return Py_TYPE(self) == &JitGraphType ? graph(self)->top : boxed<BlockRef>(self).block;
}
const GraphPtr& owner_of(PyObject* self) {
  return Py_TYPE(self) == &JitGraphType ? graph(self) : boxed<BlockRef>(self).graph;
}
PyObject* inputs(PyObject* self, Given) { return wrap_values(owner_of(self), block_of(self)->params); }
PyObject* outputs(PyObject* self, Given) { return wrap_values(owner_of(self), block_of(self)->returns); }
PyObject* nodes(PyObject* self, Given) { return wrap_nodes(owner_of(self), block_of(self)->nodes); }
PyObject* find_all(PyObject* self, Given a) {
  std::vector<Node*> found;
  collect_nodes(block_of(self), text_arg(a[0]), truth(a[1], true), found);
  Ref list = Ref::steal(check(PyList_New(0)));
  for (Node* n : found) check(PyList_Append(list.get(), Ref::steal(wrap_node({owner_of(self), n})).get()));
  return list.release();
}
PyObject* find(PyObject* self, Given a) {
  std::vector<Node*> found;
  collect_nodes(block_of(self), text_arg(a[0]), truth(a[1], true), found);
  return found.empty() ? none() : wrap_node({owner_of(self), found[0]});
}
PyObject* param_node(PyObject* self, Given) { return wrap_node({owner_of(self), nullptr, block_of(self), false}); }
PyObject* return_node(PyObject* self, Given) { return wrap_node({owner_of(self), nullptr, block_of(self), true}); }
PyObject* register_output(PyObject* self, Given a) {
  block_of(self)->returns.push_back(value_arg(a[0]));
  return PyLong_FromSize_t(block_of(self)->returns.size() - 1);
}
PyObject* add_input(PyObject* self, Given a) {
  const GraphPtr& g = owner_of(self);
  return wrap_value(g, g->add_param(block_of(self), jit::tensor_type(), a[0] ? text_arg(a[0]) : std::string()));
}
PyObject* block_add_input(PyObject* self, Given) {
  PyObject* no_name[1] = {};
  return add_input(self, no_name);
}
// A node of a kind over values, at the end of a block.
std::vector<Val*> values_arg(PyObject* o) {
  std::vector<Val*> in;
  Ref fast = Ref::steal(check(PySequence_Fast(o, "expected a list of Values")));
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(fast.get()); ++i)
    in.push_back(value_arg(PySequence_Fast_GET_ITEM(fast.get(), i)));
  return in;
}
void add_outputs(jit::Graph& g, Node* n, size_t count) {
  for (size_t i = 0; i < count; ++i)
    g.add_out(n, n->op && i < n->op->rets.size() && !jit::has_variables(n->op->rets[i]) ? n->op->rets[i]
                                                                                        : jit::tensor_type());
}
PyObject* block_add_node(PyObject* self, Given a) {
  const GraphPtr& g = owner_of(self);
  Node* n = jit::create_node(*g, text_arg(a[0]), values_arg(a[1]));
  add_outputs(*g, n, 1);
  attach(block_of(self), n, nullptr);
  return wrap_node({g, n});
}
PyObject* block_owner(PyObject* self, Given) {
  Node* n = block_of(self)->owner;
  return n ? wrap_node({owner_of(self), n}) : none();
}

// --- graphs ---

size_t index_arg(PyObject* o, size_t n) {
  const int64_t i = int_arg(o);
  if (i < 0 || static_cast<size_t>(i) >= n) throw IndexError(str_cat("there is no place ", i, " of ", n));
  return static_cast<size_t>(i);
}
PyObject* graph_copy(PyObject* self, Given) { return wrap_graph(GraphPtr(copy_graph(*graph(self)))); }
PyObject* graph_block(PyObject* self, Given) { return wrap_block(graph(self), graph(self)->top); }
size_t count_of(jit::Graph& g, const Val* v) {
  jit::count_uses(g.top);
  return static_cast<size_t>(v->uses);
}
PyObject* graph_erase_input(PyObject* self, Given a) {
  auto& all = graph(self)->top->params;
  const size_t at = index_arg(a[0], all.size());
  TESSERA_CHECK(!count_of(*graph(self), all[at]), "input ", at, " of the graph is used");
  all.erase(all.begin() + static_cast<int64_t>(at));
  return none();
}
PyObject* graph_erase_output(PyObject* self, Given a) {
  auto& all = graph(self)->top->returns;
  all.erase(all.begin() + static_cast<int64_t>(index_arg(a[0], all.size())));
  return none();
}
PyObject* graph_permute(PyObject* self, Given a) {
  auto& all = graph(self)->top->params;
  Ref fast = Ref::steal(check(PySequence_Fast(a[0], "expected a list of places")));
  std::vector<Val*> order;
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(fast.get()); ++i) {
    Val* v = all[index_arg(PySequence_Fast_GET_ITEM(fast.get(), i), all.size())];
    TESSERA_CHECK(std::find(order.begin(), order.end(), v) == order.end(), "a place is named twice");
    order.push_back(v);
  }
  TESSERA_CHECK(order.size() == all.size(), "expected ", all.size(), " places, got ", order.size());
  all = std::move(order);
  return none();
}
PyObject* graph_one_tuple(PyObject* self, Given) {
  Block* b = graph(self)->top;
  if (b->returns.size() < 2) return none();
  std::vector<jit::TypePtr> types;
  for (const Val* v : b->returns) types.push_back(v->type);
  Node* n = graph(self)->append(b, jit::N::kTuple, b->returns);
  b->returns = {graph(self)->add_out(n, jit::tuple_of(std::move(types)))};
  return none();
}
PyObject* graph_create(PyObject* self, Given a) {
  const GraphPtr& g = graph(self);
  std::vector<Val*> in;
  PyObject* count = a[2];
  if (a[1] && PyLong_Check(a[1]))
    count = a[1];
  else if (a[1])
    in = values_arg(a[1]);
  Node* n = jit::create_node(*g, text_arg(a[0]), std::move(in));
  add_outputs(*g, n, count ? static_cast<size_t>(int_arg(count)) : 1);
  return wrap_node({g, n});
}
// Copies a node of any graph; `map`: a function from its inputs to values of this one.
PyObject* graph_create_clone(PyObject* self, Given a) {
  const NodeRef& from = node_arg(a[0]);
  TESSERA_CHECK(from.node, "a block's ends cannot be cloned");
  const GraphPtr& g = graph(self);
  jit::ValMap map;
  for (Val* v : from.node->in) {
    Ref old = Ref::steal(wrap_value(from.graph, v));
    map[v] = value_arg(Ref::steal(check(PyObject_CallOneArg(a[1], old.get()))).get());
  }
  Block source, target;
  source.graph = from.graph.get(), source.nodes = {from.node};
  target.graph = g.get();
  copy_block(source, &target, map);
  target.nodes[0]->owner = nullptr, target.nodes[0]->caller = nullptr;
  return wrap_node({g, target.nodes[0]});
}
Node* attachable(PyObject* o) {
  Node* n = node_arg(o).node;
  TESSERA_CHECK(n, "a block's ends stay where they are");
  return n;
}
PyObject* graph_append(PyObject* self, Given a) {
  attach(graph(self)->top, attachable(a[0]), nullptr);
  return Py_NewRef(a[0]);
}
PyObject* graph_prepend(PyObject* self, Given a) {
  Block* b = graph(self)->top;
  attach(b, attachable(a[0]), b->nodes.empty() ? nullptr : b->nodes[0]);
  return Py_NewRef(a[0]);
}
void put(jit::Graph& g, Node* n) { attach(g.insert_block ? g.insert_block : g.top, n, g.insert_before); }
PyObject* graph_insert_node(PyObject* self, Given a) {
  put(*graph(self), attachable(a[0]));
  return Py_NewRef(a[0]);
}
PyObject* graph_insert_constant(PyObject* self, Given a) {
  Node* n = constant_node(*graph(self), a[0]);
  put(*graph(self), n);
  return wrap_value(graph(self), n->out[0]);
}
// A call of an operator at the insertion point: Values, or Python's values as constants; the rest are defaults.
PyObject* graph_insert(PyObject* self, Given a) {
  const GraphPtr& g = graph(self);
  const std::string kind = text_arg(a[0]);
  Ref fast = Ref::steal(check(PySequence_Fast(a[1], "expected a list of Values and constants")));
  const auto n = static_cast<size_t>(PySequence_Fast_GET_SIZE(fast.get()));
  for (const jit::Operator* o : jit::operators_named(kind)) {
    if (n > o->args.size()) continue;
    std::vector<Val*> in;
    std::vector<Node*> made;
    const auto constant = [&](Value v, jit::TypePtr t) {
      Node* c = g->new_node(jit::N::kConstant);
      t = v.is_none() ? jit::none_type() : t->is(jit::K::kOptional) ? t->elem() : t;
      c->constant = std::move(v);
      made.push_back(c);
      return g->add_out(c, t);
    };
    bool fits = true;
    for (size_t i = 0; i < o->args.size() && fits; ++i) {
      const jit::OpArg& p = o->args[i];
      PyObject* given = i < n ? PySequence_Fast_GET_ITEM(fast.get(), static_cast<Py_ssize_t>(i)) : nullptr;
      if (given && Py_TYPE(given) == &JitValueType) {
        in.push_back(value_arg(given));
        fits = jit::is_subtype(in.back()->type, p.type);
      } else if (given) {
        Value v;
        fits = !jit::has_variables(p.type) && jit_from_python(given, p.type, &v);
        if (fits) in.push_back(constant(p.type->is(jit::K::kNumber) ? v : std::move(v), p.type));
      } else {
        fits = p.has_default;
        if (fits) in.push_back(constant(p.default_value, p.type));
      }
    }
    if (!fits) continue;
    for (Node* c : made) put(*g, c);
    Node* call = g->new_node(jit::N::kOp, std::move(in));
    call->op = o;
    add_outputs(*g, call, o->rets.size());
    put(*g, call);
    TESSERA_CHECK(!call->out.empty(), kind, " has no result");
    return wrap_value(g, call->out[0]);
  }
  throw Error(str_cat("no overload of ", kind, " takes these ", n, " arguments"));
}
PyObject* graph_insert_graph(PyObject* self, Given a) {
  const GraphPtr &g = graph(self), &other = graph_arg(a[0]);
  const std::vector<Val*> in = values_arg(a[1]);
  TESSERA_CHECK(in.size() == other->top->params.size(), "the graph has ", other->top->params.size(), " inputs, got ",
                in.size());
  TESSERA_CHECK(g != other, "a graph cannot be put into itself");
  jit::ValMap map;
  for (size_t i = 0; i < in.size(); ++i) map[other->top->params[i]] = in[i];
  Block part;
  part.graph = g.get();
  copy_block(*other->top, &part, map);
  for (Node* n : part.nodes) n->owner = nullptr, put(*g, n);
  std::vector<Val*> out;
  for (Val* v : other->top->returns) out.push_back(map.at(v));
  Ref list = Ref::steal(check(PySequence_List(Ref::steal(wrap_values(g, out)).get())));
  return list.release();
}
PyObject* graph_insert_point(PyObject* self, Given) {
  const GraphPtr& g = graph(self);
  return g->insert_before ? wrap_node({g, g->insert_before})
                          : wrap_node({g, nullptr, g->insert_block ? g->insert_block : g->top, true});
}
PyObject* graph_set_insert_point(PyObject* self, Given a) {
  const GraphPtr& g = graph(self);
  if (Py_TYPE(a[0]) == &JitBlockType) {
    g->insert_block = boxed<BlockRef>(a[0]).block, g->insert_before = nullptr;
    return none();
  }
  const NodeRef& n = node_arg(a[0]);
  TESSERA_CHECK(n.node ? n.node->owner != nullptr : n.is_return, "nothing can be put before ",
                n.node ? "a node that is in no block" : "the parameters of a block");
  g->insert_block = n.node ? n.node->owner : n.block, g->insert_before = n.node;
  return none();
}
PyObject* graph_insert_guard(PyObject* self, Given a) {
  Ref f = Ref::steal(jit_host("InsertPoint"));
  return PyObject_CallFunctionObjArgs(f.get(), self, a[0], nullptr);
}
// Every value is computed before it is used.
void lint(const Block* b, std::unordered_map<const Val*, bool>& known) {
  for (const Val* v : b->params) known[v] = true;
  const auto use = [&](const Val* v, const std::string& by) {
    TESSERA_CHECK(known.contains(v), by, " uses %", v->name.empty() ? std::to_string(v->id) : v->name,
                  " before it is computed");
  };
  for (const Node* n : b->nodes) {
    TESSERA_CHECK(n->owner == b, n->kind_name(), " is in another block");
    for (const Val* v : n->in) use(v, n->kind_name());
    for (const Block* inner : n->blocks) {
      auto own = known;
      lint(inner, own);
    }
    for (const Val* v : n->out) known[v] = true;
  }
  for (const Val* v : b->returns) use(v, "the result");
}
PyObject* graph_lint(PyObject* self, Given) {
  std::unordered_map<const Val*, bool> known;
  lint(graph(self)->top, known);
  return none();
}
PyObject* graph_text(PyObject* self, Given a) { return string(graph(self)->str(truth(a[0], g_ranges))); }
PyObject* graph_set_ranges(PyObject*, Given a) {
  g_ranges = truth(a[0], true);
  return none();
}
PyObject* graph_ranges(PyObject*, void*) { return to_python(g_ranges); }
template <const char* const& kHost>
PyObject* by_host(PyObject* self, Given a) {
  Ref f = Ref::steal(jit_host(kHost));
  return PyObject_CallFunctionObjArgs(f.get(), self, a[0] || !a[1] ? a[0] : Py_False, a[1], nullptr);
}
constexpr const char *kAliasDb = "AliasDb", *kDumpAliases = "dump_aliases";
template <const char* const& kKind>
PyObject* graph_fusion_group(PyObject* self, Given) {
  const GraphPtr& g = graph(self);
  Node* n = jit::create_node(*g, kKind, {});
  Ref inner = Ref::steal(wrap_graph(std::make_shared<jit::Graph>()));
  Ref node = Ref::steal(wrap_node({g, n}));
  Ref done = Ref::steal(check(PyObject_CallMethod(node.get(), "g_", "sO", "Subgraph", inner.get())));
  return node.release();
}
constexpr const char *kFusion = "prim::FusionGroup", *kCudaFusion = "prim::CudaFusionGroup";

constexpr Method kGraphMethods[] = {
    {"inputs", inputs, "", "Iterator over the parameters."},
    {"outputs", outputs, "", "Iterator over the results."},
    {"nodes", nodes, "", "Iterator over the nodes, in order."},
    {"findNode", find, "kind, recurse=True", "The first node of a kind, or None."},
    {"findAllNodes", find_all, "kind, recurse=True", "List of the nodes of a kind."},
    {"copy", graph_copy, "", "A graph of its own that does the same."},
    {"block", graph_block, "", "The outermost block."},
    {"param_node", param_node, "", "The node whose outputs are the parameters."},
    {"return_node", return_node, "", "The node whose inputs are the results."},
    {"addInput", add_input, "name=''", "A new parameter, a tensor."},
    {"eraseInput", graph_erase_input, "arg0", "Removes a parameter that nobody uses."},
    {"registerOutput", register_output, "arg0", "A Value becomes the last result; gives its place."},
    {"eraseOutput", graph_erase_output, "arg0", "Removes a result."},
    {"permuteInputs", graph_permute, "arg0", "Orders the parameters by a list of places."},
    {"makeMultiOutputIntoTuple", graph_one_tuple, "", "Several results become one tuple."},
    {"create", graph_create, "arg0, arg1=None, arg2=1", "A node, in no block yet: (kind, inputs, number of outputs)."},
    {"createClone", graph_create_clone, "arg0, arg1", "A copy of a node, its inputs by a function of the old ones."},
    {"createFusionGroup", graph_fusion_group<kFusion>, "", "A node with a graph of its own, for others to fill."},
    {"createCudaFusionGroup", graph_fusion_group<kCudaFusion>, "", "The same, for a CUDA device."},
    {"appendNode", graph_append, "arg0", "Puts a node at the end."},
    {"prependNode", graph_prepend, "arg0", "Puts a node at the start."},
    {"insertNode", graph_insert_node, "arg0", "Puts a node at the insertion point."},
    {"insertConstant", graph_insert_constant, "arg0", "A constant at the insertion point; gives its Value."},
    {"insert", graph_insert, "arg0, arg1", "A call of an operator at the insertion point; gives its first result."},
    {"insertGraph", graph_insert_graph, "arg0, arg1, arg2=None", "A copy of a graph there; gives its results."},
    {"insertPoint", graph_insert_point, "", "The node before which nodes are inserted."},
    {"setInsertPoint", graph_set_insert_point, "arg0", "Inserts before a Node or at the end of a Block from now on."},
    {"insert_point_guard", graph_insert_guard, "arg0", "Context manager around setInsertPoint()."},
    {"lint", graph_lint, "", "Raises RuntimeError where a value is used before it is computed."},
    {"str", graph_text, "print_source_ranges=True", "The graph as text."},
    {"set_global_print_source_ranges", graph_set_ranges, "enabled=True", "Whether texts name places in sources."},
    {"alias_db", by_host<kAliasDb>, "isFrozen=False, descend_function_calls=False", "Which values share memory."},
    {"dump_alias_db", by_host<kDumpAliases>, "", "Prints which values share memory."}};
constexpr Method kBlockMethods[] = {
    {"inputs", inputs, "", "Iterator over the parameters."},
    {"outputs", outputs, "", "Iterator over the results."},
    {"nodes", nodes, "", "Iterator over the nodes, in order."},
    {"findNode", find, "kind, recurse=True", "The first node of a kind, or None."},
    {"findAllNodes", find_all, "kind, recurse=True", "List of the nodes of a kind."},
    {"paramNode", param_node, "", "The node whose outputs are the parameters."},
    {"returnNode", return_node, "", "The node whose inputs are the results."},
    {"owningNode", block_owner, "", "The node that the block belongs to; None for a graph's outermost."},
    {"addInputToBlock", block_add_input, "", "A new parameter, a tensor."},
    {"registerOutput", register_output, "arg0", "A Value becomes the last result; gives its place."},
    {"addNode", block_add_node, "arg0, arg1", "A node of a kind over Values, at the end."}};
PyGetSetDef g_graph_getters[] = {
    {"global_print_source_ranges", graph_ranges, nullptr, "Whether texts name places in sources.", nullptr},
    {nullptr, nullptr, nullptr, nullptr, nullptr}};

template <class T>
void dealloc(PyObject* self) {
  boxed<T>(self).~T();
  Py_TYPE(self)->tp_free(self);
}
PyObject* graph_new(PyTypeObject* type, PyObject* args, PyObject* names) {
  if (PyTuple_GET_SIZE(args) || (names && PyDict_GET_SIZE(names)))
    return PyErr_SetString(PyExc_TypeError, "Graph() takes no arguments"), nullptr;
  (void)type;
  return jit_guarded([] { return wrap_graph(std::make_shared<jit::Graph>()); });
}
PyObject* block_compare(PyObject* a, PyObject* b, int op) {
  if (Py_TYPE(b) != &JitBlockType || (op != Py_EQ && op != Py_NE)) Py_RETURN_NOTIMPLEMENTED;
  return to_python((boxed<BlockRef>(a).block == boxed<BlockRef>(b).block) == (op == Py_EQ));
}
Py_hash_t block_hash(PyObject* o) { return static_cast<Py_hash_t>(reinterpret_cast<size_t>(block_of(o)) >> 4); }

PyTypeObject make_type(const char* name, size_t size, destructor d) {
  PyTypeObject t = {PyVarObject_HEAD_INIT(nullptr, 0)};
  t.tp_name = name;
  t.tp_basicsize = static_cast<Py_ssize_t>(size);
  t.tp_dealloc = d;
  t.tp_flags = Py_TPFLAGS_DEFAULT;
  return t;
}

}  // namespace

PyTypeObject JitGraphType = make_type("tessera.Graph", sizeof(Boxed<GraphPtr>), dealloc<GraphPtr>);
PyTypeObject JitBlockType = make_type("tessera.Block", sizeof(Boxed<BlockRef>), dealloc<BlockRef>);

PyObject* wrap_graph(GraphPtr g) {
  PyObject* o = check(JitGraphType.tp_alloc(&JitGraphType, 0));
  new (&boxed<GraphPtr>(o)) GraphPtr(std::move(g));
  return o;
}
PyObject* wrap_block(const GraphPtr& g, Block* b) {
  PyObject* o = check(JitBlockType.tp_alloc(&JitBlockType, 0));
  new (&boxed<BlockRef>(o)) BlockRef{g, b};
  return o;
}

void init_jit_graph_types() {
  JitGraphType.tp_methods = method_defs<kGraphMethods>();
  JitGraphType.tp_str = JitGraphType.tp_repr = graph_str;
  JitGraphType.tp_new = graph_new;
  JitGraphType.tp_doc = "Graph()\n--\n\nA typed program: nodes over values, in blocks.";
  JitGraphType.tp_getset = g_graph_getters;
  JitBlockType.tp_methods = method_defs<kBlockMethods>();
  JitBlockType.tp_richcompare = block_compare;
  JitBlockType.tp_hash = block_hash;
  init_jit_node_types();
}

}  // namespace tessera::python
