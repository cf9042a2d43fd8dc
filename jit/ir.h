// The typed graph of a function: values, nodes and blocks in static single assignment; conditions and loops are nodes
// with blocks.
#pragma once

#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "jit/object.h"
#include "jit/type.h"

namespace tessera::jit {

struct Operator;
struct Function;
struct Block;
struct Graph;
struct Node;

enum class N : uint8_t {
  kOp,  // op
  kConstant,
  kIf,    // inputs: condition; blocks: two, whose returns are the outputs
  kLoop,  // inputs: most trips, first condition, carried values; block: parameters trip, carried; returns condition,
          // carried
  kList,
  kDict,  // inputs: key, value ...
  kTuple,
  kTupleUnpack,
  kListUnpack,
  kTupleIndex,  // inputs: tuple, index
  kTupleSlice,  // inputs: tuple; begin, end in ints
  kGetAttr,     // name
  kSetAttr,     // name
  kCallMethod,  // name; inputs: object ...; function: null for an interface
  kCallFunction,
  kCreate,  // an instance of the output's type
  kCast,    // of a value whose type is known better
  kUninitialized,
  kRaise,       // inputs: message, name of the class
  kIsInstance,  // types
  kFork,        // function
  kWait,
  kHostCall,  // a function of the host: host
  kEnumName,
  kEnumValue,
  kFormat,  // "{}".format(...)
  kPrint,
  kEnter,  // of a with statement's object, which is left where the program raises before kExit
  kExit,
  kForeign,  // that a host made: kind in name. Printed and copied, never run
};

// What a host noted at a node, by name: the letters that the documents use ("i", "fs", "ival"), its text, itself.
struct NodeAttribute {
  std::string name, letters, text;
  IntrusivePtr<RefCounted> value;
};

struct Val {
  TypePtr type;
  Node* node = nullptr;    // that gives it; null: a parameter of a block
  Block* block = nullptr;  // whose parameter it is
  std::string name;        // "x.1", or empty: the number stands for it
  int id = 0;
  int uses = 0;         // count_uses() fills it
  int reg = -1;         // of the code generator and other passes
  Val* same = nullptr;  // replaced by
};

struct Node {
  N kind;
  std::vector<Val*> in, out;
  std::vector<Block*> blocks;
  Block* owner = nullptr;
  const Operator* op = nullptr;
  Function* function = nullptr;
  Value constant;
  std::string name;
  std::vector<TypePtr> types;
  int64_t ints[2] = {0, 0};
  IntrusivePtr<HostObject> host;
  Range range;
  std::string scope;                      // of traced ones
  const Node* caller = nullptr;           // the call that it was inlined from
  const Function* function_of = nullptr;  // that it was written in
  std::vector<NodeAttribute> attributes;

  std::string kind_name() const;  // "aten::add", "prim::If"
};

struct Block {
  Graph* graph;
  Node* owner = nullptr;  // null: the graph's own
  std::vector<Val*> params, returns;
  std::vector<Node*> nodes;
};

struct Graph {
  Graph() { top = new_block(nullptr); }
  Graph(const Graph&) = delete;
  Block* top;
  Block* insert_block = nullptr;  // where a host puts nodes next: before insert_before, or at the end
  Node* insert_before = nullptr;
  Block* new_block(Node* owner) {
    blocks_.emplace_back();
    Block* b = &blocks_.back();
    b->graph = this, b->owner = owner;
    return b;
  }
  Val* new_val(TypePtr type) {
    vals_.emplace_back();
    Val* v = &vals_.back();
    v->type = type, v->id = next_id_++;
    return v;
  }
  Val* add_param(Block* b, TypePtr type, const std::string& name = {}) {
    Val* v = new_val(type);
    v->block = b;
    b->params.push_back(v);
    if (!name.empty()) set_name(v, name);
    return v;
  }
  Node* new_node(N kind, std::vector<Val*> in = {}) {
    nodes_.emplace_back();
    Node* n = &nodes_.back();
    n->kind = kind, n->in = std::move(in);
    return n;
  }
  Val* add_out(Node* n, TypePtr type) {
    Val* v = new_val(type);
    v->node = n;
    n->out.push_back(v);
    return v;
  }
  Node* append(Block* b, N kind, std::vector<Val*> in = {}) {
    Node* n = new_node(kind, std::move(in));
    n->owner = b;
    b->nodes.push_back(n);
    return n;
  }
  // "x", then "x.1", "x.3" ...
  void set_name(Val* v, const std::string& base);
  std::string str(bool locations = true) const;

 private:
  std::deque<Block> blocks_;
  std::deque<Node> nodes_;
  std::deque<Val> vals_;
  std::unordered_map<std::string, int> names_;
  int next_id_ = 0;
};

// Copies the inside of a block; `map` has the values that it uses from outside, and gets those that are made.
using ValMap = std::unordered_map<const Val*, Val*>;
void copy_block(const Block& from, Block* to, ValMap& map, const Node* caller = nullptr);
std::unique_ptr<Graph> copy_graph(const Graph& g);
// Follows Val::same everywhere.
void apply_replacements(Block* b);
void count_uses(Block* b);
std::string constant_text(const Value& v, TypePtr t);
// The kind that is printed so; kForeign: none.
N kind_named(std::string_view name);
// A node, unattached, of a kind by its name: an operator's overload that takes such inputs, one of the language, or a
// foreign one.
Node* create_node(Graph& g, const std::string& kind, std::vector<Val*> in);
// The graph that a text in the printed form describes; tensors in it are not. Error where it is none.
std::unique_ptr<Graph> parse_ir(const std::string& text);

}  // namespace tessera::jit
