// Nodes, values and their uses as Python sees them.
#include <algorithm>

#include "jit/operator.h"
#include "jit/passes.h"
#include "python/bindings/args.h"
#include "python/bindings/jit/methods.h"
#include "python/bindings/tensor_type.h"

namespace tessera::python {

using jit::Block;
using jit::K;
using jit::N;
using jit::Node;
using jit::Val;

NodeRef& node_arg(PyObject* o) {
  if (Py_TYPE(o) != &JitNodeType) throw TypeError(str_cat("expected a Node, got ", Py_TYPE(o)->tp_name));
  return boxed<NodeRef>(o);
}
Val* value_arg(PyObject* o) {
  if (Py_TYPE(o) != &JitValueType) throw TypeError(str_cat("expected a Value, got ", Py_TYPE(o)->tp_name));
  return boxed<ValueRef>(o).val;
}

namespace {

using Vals = std::vector<Val*>;
PyObject* string(const std::string& s) { return to_python_string(s).release(); }
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
// A Python object that something in C++ holds.
struct Held final : RefCounted {
  PyObject* object;
  explicit Held(PyObject* o) : object(Py_NewRef(o)) {}
  ~Held() override {
    with_python([this] { Py_DECREF(object); });
  }
};

const NodeRef& node(PyObject* o) { return boxed<NodeRef>(o); }
// A node that is one: no block's end.
Node& inner(PyObject* o) {
  Node* n = node(o).node;
  TESSERA_CHECK(n, "the ends of a block cannot do this");
  return *n;
}
const Vals kNothing;
const Vals& ins(const NodeRef& n) { return n.node ? n.node->in : n.is_return ? n.block->returns : kNothing; }
const Vals& outs(const NodeRef& n) { return n.node ? n.node->out : n.is_return ? kNothing : n.block->params; }
Block* block_of(const NodeRef& n) { return n.node ? n.node->owner : n.block; }
std::string kind_of(const NodeRef& n) {
  return n.node ? n.node->kind_name() : n.is_return ? "prim::Return" : "prim::Param";
}
size_t place(PyObject* o, const Vals& all) {
  const int64_t i = int_arg(o);
  if (i < 0 || static_cast<size_t>(i) >= all.size()) throw IndexError(str_cat("no place ", i, " of ", all.size()));
  return static_cast<size_t>(i);
}
Val* only(const Vals& all, const char* what) {
  TESSERA_CHECK(all.size() == 1, "the node has ", all.size(), " ", what);
  return all[0];
}
const char* name_text(const Val* v, std::string& room) {
  room = v->name.empty() ? std::to_string(v->id) : v->name;
  return room.c_str();
}

// --- uses: found by looking, in the order of the program ---

struct UseAt {
  NodeRef user;
  size_t offset;
};
void uses_in(const GraphPtr& g, Block* b, const Val* v, std::vector<UseAt>& out) {
  for (Node* n : b->nodes) {
    for (size_t i = 0; i < n->in.size(); ++i)
      if (n->in[i] == v) out.push_back({{g, n}, i});
    for (Block* inside : n->blocks) uses_in(g, inside, v, out);
  }
  for (size_t i = 0; i < b->returns.size(); ++i)
    if (b->returns[i] == v) out.push_back({{g, nullptr, b, true}, i});
}
std::vector<UseAt> uses_of(const GraphPtr& g, const Val* v) {
  std::vector<UseAt> out;
  uses_in(g, g->top, v, out);
  return out;
}
void replace_uses(const GraphPtr& g, const Val* v, Val* with) {
  for (const UseAt& u : uses_of(g, v)) (u.user.node ? u.user.node->in : u.user.block->returns)[u.offset] = with;
}

// Where a node is: places in blocks, from the outermost.
std::vector<int64_t> position(const NodeRef& n) {
  std::vector<int64_t> p;
  Block* b = block_of(n);
  const Node* at = n.node;
  if (!at) p.push_back(n.is_return ? INT32_MAX : -1);
  while (b) {
    if (at) {
      const auto it = std::find(b->nodes.begin(), b->nodes.end(), at);
      p.push_back(it - b->nodes.begin());
    }
    at = b->owner;
    if (at) {  // which of its blocks
      const auto it = std::find(at->blocks.begin(), at->blocks.end(), b);
      p.push_back(it - at->blocks.begin());
    }
    b = at ? at->owner : nullptr;
  }
  std::reverse(p.begin(), p.end());
  return p;
}

// --- nodes ---

PyObject* node_kind(PyObject* self, Given) { return string(kind_of(node(self))); }
PyObject* node_scope(PyObject* self, Given) { return string(node(self).node ? node(self).node->scope : ""); }
PyObject* node_schema(PyObject* self, Given) {
  const Node* n = node(self).node;
  return string(n && n->op ? n->op->schema : "(no schema)");
}
PyObject* node_inputs(PyObject* self, Given) { return wrap_values(node(self).graph, ins(node(self))); }
PyObject* node_outputs(PyObject* self, Given) { return wrap_values(node(self).graph, outs(node(self))); }
PyObject* node_input(PyObject* self, Given) { return wrap_value(node(self).graph, only(ins(node(self)), "inputs")); }
PyObject* node_output(PyObject* self, Given) { return wrap_value(node(self).graph, only(outs(node(self)), "outputs")); }
PyObject* node_input_at(PyObject* self, Given a) {
  return wrap_value(node(self).graph, ins(node(self))[place(a[0], ins(node(self)))]);
}
PyObject* node_output_at(PyObject* self, Given a) {
  return wrap_value(node(self).graph, outs(node(self))[place(a[0], outs(node(self)))]);
}
PyObject* node_input_size(PyObject* self, Given) { return PyLong_FromSize_t(ins(node(self)).size()); }
PyObject* node_output_size(PyObject* self, Given) { return PyLong_FromSize_t(outs(node(self)).size()); }
PyObject* node_several(PyObject* self, Given) { return to_python(outs(node(self)).size() > 1); }
PyObject* node_named_input(PyObject* self, Given a) {
  const Node& n = inner(self);
  const std::string name = text_arg(a[0]);
  for (size_t i = 0; n.op && i < n.op->args.size() && i < n.in.size(); ++i)
    if (n.op->args[i].name == name) return wrap_value(node(self).graph, n.in[i]);
  throw Error(str_cat(n.kind_name(), " has no input '", name, "'"));
}
PyObject* node_blocks(PyObject* self, Given) {
  Ref list = Ref::steal(check(PyList_New(0)));
  if (node(self).node)
    for (Block* b : node(self).node->blocks)
      check(PyList_Append(list.get(), Ref::steal(wrap_block(node(self).graph, b)).get()));
  return iterate(std::move(list));
}
PyObject* node_add_block(PyObject* self, Given) {
  Node& n = inner(self);
  n.blocks.push_back(node(self).graph->new_block(&n));
  return wrap_block(node(self).graph, n.blocks.back());
}
PyObject* node_add_input(PyObject* self, Given a) {
  inner(self).in.push_back(value_arg(a[0]));
  return Py_NewRef(a[0]);
}
PyObject* node_add_output(PyObject* self, Given) {
  return wrap_value(node(self).graph, node(self).graph->add_out(&inner(self), jit::tensor_type()));
}
PyObject* node_remove_input(PyObject* self, Given a) {
  Vals& in = inner(self).in;
  in.erase(in.begin() + static_cast<int64_t>(place(a[0], in)));
  return none();
}
PyObject* node_remove_inputs(PyObject* self, Given) {
  inner(self).in.clear();
  return none();
}
PyObject* node_replace_input(PyObject* self, Given a) {
  const NodeRef& n = node(self);
  Vals& in = n.node ? n.node->in : n.block->returns;
  Val*& at = in[place(a[0], ins(n))];
  Val* old = at;
  at = value_arg(a[1]);
  return wrap_value(n.graph, old);
}
PyObject* node_replace_with(PyObject* self, Given a) {
  Val *from = value_arg(a[0]), *to = value_arg(a[1]);
  for (Val*& v : inner(self).in)
    if (v == from) v = to;
  return none();
}
PyObject* node_erase_output(PyObject* self, Given a) {
  Vals& out = inner(self).out;
  const size_t at = place(a[0], out);
  TESSERA_CHECK(uses_of(node(self).graph, out[at]).empty(), "output ", at, " is used");
  out.erase(out.begin() + static_cast<int64_t>(at));
  return none();
}
PyObject* node_has_uses(PyObject* self, Given) {
  for (const Val* v : outs(node(self)))
    if (!uses_of(node(self).graph, v).empty()) return to_python(true);
  return to_python(false);
}
PyObject* node_replace_all(PyObject* self, Given a) {
  const Vals &from = outs(node(self)), &to = outs(node_arg(a[0]));
  TESSERA_CHECK(from.size() == to.size(), "the nodes have ", from.size(), " and ", to.size(), " outputs");
  for (size_t i = 0; i < from.size(); ++i) replace_uses(node(self).graph, from[i], to[i]);
  return none();
}
void detach(Node& n) {
  if (n.owner) std::erase(n.owner->nodes, &n);
  n.owner = nullptr;
}
PyObject* node_destroy(PyObject* self, Given) {
  Node& n = inner(self);
  for (const Val* v : n.out)
    TESSERA_CHECK(uses_of(node(self).graph, v).empty(), "a result of ", n.kind_name(), " is used");
  jit::Graph& g = *node(self).graph;
  if (g.insert_before == &n) g.insert_before = nullptr;
  detach(n);
  return none();
}
// Puts a node before or after another.
PyObject* put_beside(PyObject* self, PyObject* other, bool after) {
  Node& n = inner(self);
  const NodeRef& o = node_arg(other);
  Block* b = block_of(o);
  TESSERA_CHECK(b, "the other node is in no block");
  TESSERA_CHECK(o.node || o.is_return != after, "nothing stands there");
  detach(n);
  Node* before = o.node;
  if (after) {
    const auto it = o.node ? std::find(b->nodes.begin(), b->nodes.end(), o.node) + 1 : b->nodes.begin();
    before = it == b->nodes.end() ? nullptr : *it;
  }
  attach(b, &n, before);
  return Py_NewRef(self);
}
PyObject* node_put_before(PyObject* self, Given a) { return put_beside(self, a[0], false); }
PyObject* node_put_after(PyObject* self, Given a) { return put_beside(self, a[0], true); }
PyObject* node_is_before(PyObject* self, Given a) { return to_python(position(node(self)) < position(node_arg(a[0]))); }
PyObject* node_is_after(PyObject* self, Given a) { return to_python(position(node_arg(a[0])) < position(node(self))); }
PyObject* node_prev(PyObject* self, Given) {
  const NodeRef& n = node(self);
  Block* b = block_of(n);
  TESSERA_CHECK(b && (n.node || n.is_return), "there is nothing before");
  const auto it = n.node ? std::find(b->nodes.begin(), b->nodes.end(), n.node) : b->nodes.end();
  return it == b->nodes.begin() ? wrap_node({n.graph, nullptr, b, false}) : wrap_node({n.graph, *(it - 1)});
}
PyObject* node_owner(PyObject* self, Given) {
  TESSERA_CHECK(block_of(node(self)), "the node is in no block");
  return wrap_block(node(self).graph, block_of(node(self)));
}
PyObject* node_find_all(PyObject* self, Given a) {
  std::vector<Node*> found;
  for (const Block* b : inner(self).blocks) collect_nodes(b, text_arg(a[0]), !a[1] || a[1] == Py_True, found);
  Ref list = Ref::steal(check(PyList_New(0)));
  for (Node* n : found) check(PyList_Append(list.get(), Ref::steal(wrap_node({node(self).graph, n})).get()));
  return list.release();
}
PyObject* node_find(PyObject* self, Given a) {
  Ref all = Ref::steal(node_find_all(self, a));
  return PyList_GET_SIZE(all.get()) ? Py_NewRef(PyList_GET_ITEM(all.get(), 0)) : none();
}
PyObject* node_matches(PyObject* self, Given a) {
  const Node* n = node(self).node;
  std::string s = n && n->op ? n->op->schema : std::string(), asked = text_arg(a[0]);
  std::erase(s, ' '), std::erase(asked, ' ');
  return to_python(!s.empty() && s == asked);
}
PyObject* node_random(PyObject* self, Given) {
  const Node* n = node(self).node;
  return to_python(n && n->op && n->op->info &&
                   std::string_view(n->op->info->tags()).find("nondeterministic_seeded") != std::string_view::npos);
}
PyObject* node_must_be_none(PyObject* self, Given) {
  const Node* n = node(self).node;
  return to_python(n && n->kind == N::kConstant && n->constant.is_none());
}
PyObject* node_copy_metadata(PyObject* self, Given a) {
  const Node* from = node_arg(a[0]).node;
  Node& n = inner(self);
  if (from) n.range = from->range, n.scope = from->scope, n.caller = from->caller, n.function_of = from->function_of;
  return Py_NewRef(self);
}
PyObject* node_range(PyObject* self, Given) { return string(node(self).node ? node(self).node->range.excerpt() : ""); }
PyObject* node_hierarchy(PyObject* self, Given) {
  std::string s;
  const Node* n = node(self).node;
  std::vector<const Node*> chain;
  for (const Node* c = n ? n->caller : nullptr; c; c = c->caller) chain.push_back(c);
  for (size_t i = chain.size(); i-- > 0;) s += (s.empty() ? "" : ".") + chain[i]->name;
  return string(s.empty() && n ? n->scope : s);
}
// Calls that stay with Python.
const Node& host_node(PyObject* self) {
  const Node& n = inner(self);
  TESSERA_CHECK(n.kind == N::kHostCall, n.kind_name(), " is no call of a Python function");
  return n;
}
PyObject* node_pyobj(PyObject* self, Given) { return Py_NewRef(python_of_host(*host_node(self).host)); }
PyObject* node_pyname(PyObject* self, Given) { return string(host_node(self).name); }
PyObject* node_cconv(PyObject* self, Given) { return string(std::string(host_node(self).in.size(), 'd')); }
PyObject* node_scalar_args(PyObject* self, Given) { return host_node(self), PyList_New(0); }

// --- attributes: those of the language's own nodes, and notes of the host ---

jit::NodeAttribute* note(Node& n, const std::string& key) {
  for (jit::NodeAttribute& a : n.attributes)
    if (a.name == key) return &a;
  return nullptr;
}
// (letters, value) of what a node of the language has under a name; false: nothing.
bool own_attribute(const Node& n, const std::string& key, std::string* letters, Ref* value) {
  using Tag = Value::Tag;
  if (n.kind == N::kConstant && key == "value" && !n.constant.is_none()) {
    const Tag t = n.constant.tag();
    *letters = t == Tag::kInt || t == Tag::kBool        ? "i"
               : t == Tag::kDouble                      ? "f"
               : t == Tag::kString || t == Tag::kDevice ? "s"
               : t == Tag::kComplex                     ? "c"
               : n.constant.is_tensor()                 ? "t"
                                                        : "ival";
    *value = Ref::steal(jit_to_python(n.constant));
    return true;
  }
  if (key == "name" && !n.name.empty() && n.kind != N::kForeign)
    return *letters = "s", *value = to_python_string(n.name), true;
  if (n.kind == N::kTupleSlice && (key == "beg" || key == "end"))
    return *letters = "i", *value = Ref::steal(PyLong_FromLongLong(n.ints[key == "end"])), true;
  if (n.kind == N::kIsInstance && key == "types") {
    *letters = "tys", *value = Ref::steal(check(PyList_New(0)));
    for (jit::TypePtr t : n.types) check(PyList_Append(value->get(), Ref::steal(wrap_type(t)).get()));
    return true;
  }
  return false;
}
std::vector<std::string> attribute_names(const Node& n) {
  std::vector<std::string> names;
  std::string letters;
  Ref value;
  for (const char* key : {"value", "name", "beg", "end", "types"})
    if (own_attribute(n, key, &letters, &value)) names.emplace_back(key);
  for (const jit::NodeAttribute& a : n.attributes) names.push_back(a.name);
  return names;
}
PyObject* node_attributes(PyObject* self, Given) {
  Ref list = Ref::steal(check(PyList_New(0)));
  if (node(self).node)
    for (const std::string& s : attribute_names(*node(self).node))
      check(PyList_Append(list.get(), to_python_string(s).get()));
  return list.release();
}
PyObject* node_has_any(PyObject* self, Given) {
  return to_python(node(self).node && !attribute_names(*node(self).node).empty());
}
// (letters, value), or an error.
std::string find_attribute(PyObject* self, PyObject* name, Ref* value) {
  Node& n = inner(self);
  const std::string key = text_arg(name);
  std::string letters;
  if (own_attribute(n, key, &letters, value)) return letters;
  if (jit::NodeAttribute* a = note(n, key)) {
    *value = Ref::borrow(static_cast<Held&>(*a->value).object);
    return a->letters;
  }
  throw Error(str_cat("required keyword attribute '", key, "' is undefined"));
}
PyObject* node_has(PyObject* self, Given a) {
  Node* n = node(self).node;
  std::string letters;
  Ref value;
  const std::string key = text_arg(a[0]);
  return to_python(n && (own_attribute(*n, key, &letters, &value) || note(*n, key)));
}
PyObject* node_kind_of(PyObject* self, Given a) {
  Ref value;
  return string(find_attribute(self, a[0], &value));
}
PyObject* node_remove_attribute(PyObject* self, Given a) {
  Node& n = inner(self);
  const std::string key = text_arg(a[0]);
  TESSERA_CHECK(note(n, key), "required keyword attribute '", key, "' is undefined");
  std::erase_if(n.attributes, [&](const jit::NodeAttribute& x) { return x.name == key; });
  return Py_NewRef(self);
}
PyObject* node_copy_attributes(PyObject* self, Given a) {
  const Node* from = node_arg(a[0]).node;
  if (!from) return Py_NewRef(self);
  Node& n = inner(self);
  n.attributes = from->attributes;
  if (n.kind == from->kind)
    n.constant = from->constant, n.types = from->types, n.ints[0] = from->ints[0], n.ints[1] = from->ints[1];
  if (n.kind == from->kind && n.kind != N::kOp) n.name = from->name;
  return Py_NewRef(self);
}
PyObject* get_as(PyObject* self, PyObject* name, const char* letters) {
  Ref value;
  const std::string found = find_attribute(self, name, &value);
  TESSERA_CHECK(found == letters || std::string_view(letters) == "ival" || found == "ival", "attribute '",
                text_arg(name), "' is of the kind '", found, "', not '", letters, "'");
  if (PyBool_Check(value.get()) && std::string_view(letters) == "i") return PyLong_FromLong(value.get() == Py_True);
  return value.release();
}
PyObject* set_as(PyObject* self, Given a, const char* letters) {
  Node& n = inner(self);
  const std::string key = text_arg(a[0]);
  Ref f = Ref::steal(jit_host("attribute_value"));
  Ref told = Ref::steal(check(PyObject_CallFunction(f.get(), "sO", letters, a[1])));  // (value, text)
  PyObject* value = PyTuple_GET_ITEM(told.get(), 0);
  if (n.kind == N::kConstant && key == "value") {
    Node* c = constant_node(*node(self).graph, value);
    n.constant = c->constant;
    if (!n.out.empty()) n.out[0]->type = c->out[0]->type;
    return Py_NewRef(self);
  }
  if ((n.kind == N::kGetAttr || n.kind == N::kSetAttr || n.kind == N::kCallMethod) && key == "name")
    return n.name = text_arg(value), Py_NewRef(self);
  jit::NodeAttribute* at = note(n, key);
  if (!at) n.attributes.push_back({key, {}, {}, {}}), at = &n.attributes.back();
  at->letters = letters, at->text = text_arg(PyTuple_GET_ITEM(told.get(), 1));
  at->value = make_intrusive<Held>(value);
  return Py_NewRef(self);
}
constexpr const char* kLetters[] = {"c",  "f", "fs", "g",  "gs",  "i", "is", "s",
                                    "ss", "t", "ts", "ty", "tys", "z", "zs", "ival"};
template <size_t I>
PyObject* get(PyObject* self, Given a) {
  return get_as(self, a[0], kLetters[I]);
}
template <size_t I>
PyObject* set(PyObject* self, Given a) {
  return set_as(self, a, kLetters[I]);
}
#define TESSERA_LETTERS(text, i) \
  {text, get<i>, "arg0", "An attribute of this kind."}, { text "_", set<i>, "arg0, arg1", "Sets an attribute." }

constexpr Method kNodeMethods[] = {
    {"kind", node_kind, "", "Its operator: \"aten::add\", \"prim::If\"."},
    {"scopeName", node_scope, "", "The module of a traced node."},
    {"schema", node_schema, "", "The operator's schema, or \"(no schema)\"."},
    {"inputs", node_inputs, "", "Iterator over the Values that it reads."},
    {"outputs", node_outputs, "", "Iterator over the Values that it computes."},
    {"input", node_input, "", "The only input."},
    {"output", node_output, "", "The only output."},
    {"inputsAt", node_input_at, "arg0", "The input at a place."},
    {"outputsAt", node_output_at, "arg0", "The output at a place."},
    {"inputsSize", node_input_size, "", "Number of inputs."},
    {"outputsSize", node_output_size, "", "Number of outputs."},
    {"hasMultipleOutputs", node_several, "", "Whether there are two or more."},
    {"namedInput", node_named_input, "arg0", "The input for a parameter of the schema."},
    {"blocks", node_blocks, "", "Iterator over its blocks."},
    {"addBlock", node_add_block, "", "A new block."},
    {"addInput", node_add_input, "arg0", "Reads one more Value."},
    {"addOutput", node_add_output, "", "Computes one more Value, a tensor."},
    {"removeInput", node_remove_input, "arg0", "Removes the input at a place."},
    {"removeAllInputs", node_remove_inputs, "", "Removes all inputs."},
    {"replaceInput", node_replace_input, "arg0, arg1", "Puts a Value at a place; gives the old one."},
    {"replaceInputWith", node_replace_with, "arg0, arg1", "Reads the second Value where it read the first."},
    {"eraseOutput", node_erase_output, "arg0", "Removes an output that nobody reads."},
    {"hasUses", node_has_uses, "", "Whether an output is read."},
    {"replaceAllUsesWith", node_replace_all, "arg0", "Who reads its outputs reads those of another node."},
    {"destroy", node_destroy, "", "Takes it out of the graph; nobody may read its outputs."},
    {"insertBefore", node_put_before, "arg0", "Puts it before another node."},
    {"insertAfter", node_put_after, "arg0", "Puts it after another node."},
    {"moveBefore", node_put_before, "arg0", "Puts it before another node."},
    {"moveAfter", node_put_after, "arg0", "Puts it after another node."},
    {"isBefore", node_is_before, "arg0", "Whether it comes before another node."},
    {"isAfter", node_is_after, "arg0", "Whether it comes after another node."},
    {"prev", node_prev, "", "The node before it."},
    {"owningBlock", node_owner, "", "The block that it is in."},
    {"findNode", node_find, "kind, recurse=True", "The first node of a kind in its blocks, or None."},
    {"findAllNodes", node_find_all, "kind, recurse=True", "List of the nodes of a kind in its blocks."},
    {"matches", node_matches, "arg0", "Whether it calls the overload with this schema."},
    {"isNondeterministic", node_random, "", "Whether the operator draws random numbers."},
    {"mustBeNone", node_must_be_none, "", "Whether it is the constant None."},
    {"copyMetadata", node_copy_metadata, "arg0", "Takes over another's place in the source."},
    {"sourceRange", node_range, "", "The lines of the source that it comes from."},
    {"getModuleHierarchy", node_hierarchy, "", "The calls that it was inlined from."},
    {"pyobj", node_pyobj, "", "The Python function that it calls."},
    {"pyname", node_pyname, "", "The name of that function."},
    {"cconv", node_cconv, "", "A letter for each of its arguments."},
    {"scalar_args", node_scalar_args, "", "Its arguments that are no Values."},
    {"attributeNames", node_attributes, "", "List of the attributes' names."},
    {"hasAttributes", node_has_any, "", "Whether there are any."},
    {"hasAttribute", node_has, "arg0", "Whether there is one of a name."},
    {"kindOf", node_kind_of, "arg0", "The kind of an attribute: \"i\", \"fs\", \"t\"."},
    {"removeAttribute", node_remove_attribute, "arg0", "Removes an attribute."},
    {"copyAttributes", node_copy_attributes, "arg0", "Takes over another's attributes."},
    TESSERA_LETTERS("c", 0),
    TESSERA_LETTERS("f", 1),
    TESSERA_LETTERS("fs", 2),
    TESSERA_LETTERS("g", 3),
    TESSERA_LETTERS("gs", 4),
    TESSERA_LETTERS("i", 5),
    TESSERA_LETTERS("is", 6),
    TESSERA_LETTERS("s", 7),
    TESSERA_LETTERS("ss", 8),
    TESSERA_LETTERS("t", 9),
    TESSERA_LETTERS("ts", 10),
    TESSERA_LETTERS("ty", 11),
    TESSERA_LETTERS("tys", 12),
    TESSERA_LETTERS("z", 13),
    TESSERA_LETTERS("zs", 14),
    TESSERA_LETTERS("ival", 15)};

// --- values ---

const ValueRef& value(PyObject* o) { return boxed<ValueRef>(o); }
Val& val(PyObject* o) { return *boxed<ValueRef>(o).val; }
PyObject* val_name(PyObject* self, Given) {
  std::string s;
  return PyUnicode_FromString(name_text(&val(self), s));
}
PyObject* val_set_name(PyObject* self, Given a) {
  const std::string name = text_arg(a[0]);
  TESSERA_CHECK(name.empty() || name.find_first_not_of("0123456789") != std::string::npos,
                "a Value's name is no number, got '", name, "'");
  val(self).name.clear();
  value(self).graph->set_name(&val(self), name);
  return Py_NewRef(self);
}
PyObject* val_type(PyObject* self, Given) { return wrap_type(val(self).type); }
PyObject* val_set_type(PyObject* self, Given a) {
  val(self).type = type_arg(a[0]);
  return Py_NewRef(self);
}
PyObject* val_set_type_as(PyObject* self, Given a) {
  val(self).type = value_arg(a[0])->type;
  return Py_NewRef(self);
}
PyObject* val_infer(PyObject* self, Given a) {
  if (!is_tensor(a[0])) throw TypeError(str_cat("inferTypeFrom() takes a Tensor, got ", Py_TYPE(a[0])->tp_name));
  val(self).type = jit::tensor_like(unwrap(a[0]));
  return none();
}
PyObject* val_node(PyObject* self, Given) {
  const Val& v = val(self);
  return v.node ? wrap_node({value(self).graph, v.node}) : wrap_node({value(self).graph, nullptr, v.block, false});
}
PyObject* val_constant(PyObject* self, Given) {
  const Val& v = val(self);
  return v.node && v.node->kind == N::kConstant ? jit_to_python(v.node->constant) : none();
}
PyObject* val_unique(PyObject* self, Given) { return PyLong_FromLong(val(self).id); }
PyObject* val_offset(PyObject* self, Given) {
  const Val& v = val(self);
  const Vals& all = v.node ? v.node->out : v.block->params;
  return PyLong_FromSsize_t(std::find(all.begin(), all.end(), &v) - all.begin());
}
PyObject* val_uses(PyObject* self, Given) {
  Ref list = Ref::steal(check(PyList_New(0)));
  Ref make = Ref::steal(jit_host("Use"));
  for (const UseAt& u : uses_of(value(self).graph, &val(self))) {
    Ref user = Ref::steal(wrap_node(u.user)), at = Ref::steal(PyLong_FromSize_t(u.offset));
    check(PyList_Append(
        list.get(), Ref::steal(check(PyObject_CallFunctionObjArgs(make.get(), user.get(), at.get(), nullptr))).get()));
  }
  return list.release();
}
const jit::TensorFacts* facts(PyObject* self) { return val(self).type->facts.get(); }
PyObject* val_complete(PyObject* self, Given) {
  const jit::TensorFacts* f = facts(self);
  return to_python(f && f->dtype && f->device && f->sizes && f->strides);
}
PyObject* val_requires_grad(PyObject* self, Given) {
  const jit::TensorFacts* f = facts(self);
  return to_python(val(self).type->is(K::kTensor) && (!f || !f->requires_grad || *f->requires_grad));
}
PyObject* val_replace(PyObject* self, Given a) {
  replace_uses(value(self).graph, &val(self), value_arg(a[0]));
  return none();
}
PyObject* val_replace_after(PyObject* self, Given a) {
  const std::vector<int64_t> from = position(node_arg(a[0]));
  Val* with = value_arg(a[1]);
  for (const UseAt& u : uses_of(value(self).graph, &val(self)))
    if (from < position(u.user)) (u.user.node ? u.user.node->in : u.user.block->returns)[u.offset] = with;
  return none();
}
PyObject* val_copy_metadata(PyObject* self, Given a) {
  const Val* from = value_arg(a[0]);
  val(self).type = from->type;
  if (!from->name.empty()) val(self).name.clear(), value(self).graph->set_name(&val(self), from->name);
  return Py_NewRef(self);
}
constexpr Method kValueMethods[] = {
    {"debugName", val_name, "", "Its name in texts, without the %."},
    {"setDebugName", val_set_name, "arg0", "Names it; a number is added where the name is taken."},
    {"type", val_type, "", "Its Type."},
    {"setType", val_set_type, "arg0", "Gives it a Type."},
    {"setTypeAs", val_set_type_as, "arg0", "Gives it the Type of another."},
    {"inferTypeFrom", val_infer, "arg0", "Gives it the Type of a tensor, with dtype, sizes, strides and device."},
    {"node", val_node, "", "The node that computes it."},
    {"toIValue", val_constant, "", "The value of a constant; None for others."},
    {"unique", val_unique, "", "Its number in the graph."},
    {"offset", val_offset, "", "Its place among the outputs of its node."},
    {"uses", val_uses, "", "List of its uses: (user, offset)."},
    {"isCompleteTensor", val_complete, "", "Whether its Type says dtype, device, sizes and strides."},
    {"requiresGrad", val_requires_grad, "", "Whether it may require grad."},
    {"requires_grad", val_requires_grad, "", "Whether it may require grad."},
    {"replaceAllUsesWith", val_replace, "arg0", "Who reads it reads another Value."},
    {"replaceAllUsesAfterNodeWith", val_replace_after, "arg0, arg1", "Who reads it behind a node reads another."},
    {"copyMetadata", val_copy_metadata, "arg0", "Takes over another's name and Type."}};

PyObject* val_str(PyObject* self) {
  return jit_guarded([&] {
    std::string s;
    const Val& v = val(self);
    name_text(&v, s);
    return string(
        str_cat(s, " defined in (%", s, " : ", v.type->str(), v.node ? " = " + v.node->kind_name() : "", ")"));
  });
}
PyObject* node_str(PyObject* self) {
  return jit_guarded([&] {
    const NodeRef& n = node(self);
    std::string out, in, s;
    for (const Val* v : outs(n)) out += str_cat(out.empty() ? "%" : ", %", name_text(v, s), " : ", v->type->str());
    for (const Val* v : ins(n)) in += str_cat(in.empty() ? "%" : ", %", name_text(v, s));
    return string(str_cat(out, out.empty() ? "" : " = ", kind_of(n), "(", in, ")"));
  });
}
const void* identity(PyObject* o) {
  if (Py_TYPE(o) == &JitValueType) return &val(o);
  const NodeRef& n = node(o);
  return n.node ? static_cast<const void*>(n.node) : reinterpret_cast<const char*>(n.block) + n.is_return;
}
PyObject* compare(PyObject* a, PyObject* b, int op) {
  if (Py_TYPE(a) != Py_TYPE(b) || (op != Py_EQ && op != Py_NE)) Py_RETURN_NOTIMPLEMENTED;
  return to_python((identity(a) == identity(b)) == (op == Py_EQ));
}
Py_hash_t hash(PyObject* o) { return static_cast<Py_hash_t>(reinterpret_cast<size_t>(identity(o)) >> 1); }

PyTypeObject make_type(const char* name, size_t size, destructor d, reprfunc text) {
  PyTypeObject t = {PyVarObject_HEAD_INIT(nullptr, 0)};
  t.tp_name = name;
  t.tp_basicsize = static_cast<Py_ssize_t>(size);
  t.tp_dealloc = d;
  t.tp_flags = Py_TPFLAGS_DEFAULT;
  t.tp_str = t.tp_repr = text;
  t.tp_richcompare = compare;
  t.tp_hash = hash;
  return t;
}

}  // namespace

PyTypeObject JitNodeType = make_type("tessera.Node", sizeof(Boxed<NodeRef>), dealloc<NodeRef>, node_str);
PyTypeObject JitValueType = make_type("tessera.Value", sizeof(Boxed<ValueRef>), dealloc<ValueRef>, val_str);

PyObject* wrap_node(NodeRef n) { return box_new(JitNodeType, std::move(n)); }
PyObject* wrap_value(const GraphPtr& g, Val* v) { return box_new(JitValueType, ValueRef{g, v}); }
PyObject* wrap_values(const GraphPtr& g, const Vals& all) {
  Ref list = Ref::steal(check(PyList_New(0)));
  for (Val* v : all) check(PyList_Append(list.get(), Ref::steal(wrap_value(g, v)).get()));
  return iterate(std::move(list));
}
PyObject* wrap_nodes(const GraphPtr& g, const std::vector<Node*>& all) {
  Ref list = Ref::steal(check(PyList_New(0)));
  for (Node* n : all) check(PyList_Append(list.get(), Ref::steal(wrap_node({g, n})).get()));
  return iterate(std::move(list));
}
Node* constant_node(jit::Graph& g, PyObject* given) {
  Ref f = Ref::steal(jit_host("type_of_value"));
  Ref type = Ref::steal(check(PyObject_CallOneArg(f.get(), given)));
  Node* n = g.new_node(N::kConstant);
  jit::TypePtr t = type_arg(type.get());
  TESSERA_CHECK(jit_from_python(given, t, &n->constant), "a ", Py_TYPE(given)->tp_name, " cannot be a constant");
  g.add_out(n, t);
  return n;
}

void init_jit_node_types() {
  JitNodeType.tp_methods = method_defs<kNodeMethods>();
  JitValueType.tp_methods = method_defs<kValueMethods>();
}

}  // namespace tessera::python
