#include "jit/passes.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "jit/function.h"
#include "jit/interpreter.h"
#include "jit/operator.h"

namespace tessera::jit {

bool has_effect(const Node& n) {
  switch (n.kind) {
    case N::kOp: {
      if (n.op->writes) return true;
      if (n.op->info || n.op->pure) return false;
      const std::string& name = n.op->name;
      return !(name == "aten::tensor" || name == "aten::as_tensor" || name == "prim::data" ||
               name == "aten::is_grad_enabled");
    }
    case N::kSetAttr:
    case N::kCallMethod:
    case N::kCallFunction:
    case N::kRaise:
    case N::kFork:
    case N::kWait:
    case N::kHostCall:
    case N::kPrint:
    case N::kEnter:
    case N::kExit:
    case N::kCreate:
      return true;
    default:
      for (const Block* b : n.blocks)
        for (const Node* inner : b->nodes)
          if (has_effect(*inner)) return true;
      return false;
  }
}

namespace {

// Marks what is needed, from the end.
class Dead {
 public:
  void run(Graph& g) {
    for (Val* v : g.top->returns) need(v);
    effects(g.top);
    while (!work_.empty()) {
      Node* n = work_.back();
      work_.pop_back();
      for (Val* v : n->in) need(v);
      for (Block* b : n->blocks) block(n, b);
    }
    sweep(g.top);
  }

 private:
  void keep(Node* n) {
    if (kept_.insert(n).second) work_.push_back(n);
  }
  void need(Val* v) {
    if (!needed_.insert(v).second) return;
    if (v->node) {
      keep(v->node);
      // the values of branches and rounds that become this output
      Node* n = v->node;
      const size_t at = static_cast<size_t>(std::find(n->out.begin(), n->out.end(), v) - n->out.begin());
      if (n->kind == N::kIf)
        for (Block* b : n->blocks) need(b->returns[at]);
      if (n->kind == N::kLoop) {
        need(n->blocks[0]->returns[1 + at]);
        need(n->blocks[0]->params[1 + at]);
      }
    } else if (v->block && v->block->owner) {
      Node* n = v->block->owner;
      keep(n);
      if (n->kind == N::kLoop) {
        const size_t at = static_cast<size_t>(std::find(v->block->params.begin(), v->block->params.end(), v) -
                                              v->block->params.begin());
        if (at) {
          need(n->out[at - 1]);
          need(n->in[1 + at]);
          need(v->block->returns[at]);
        }
      }
    }
  }
  // Of a kept condition or loop: what has effects, and a loop's condition.
  void block(Node* n, Block* b) {
    if (n->kind == N::kLoop) need(b->returns[0]);
    for (Node* inner : b->nodes)
      if (has_effect(*inner)) keep(inner);
  }
  void effects(Block* b) {
    for (Node* n : b->nodes)
      if (has_effect(*n)) keep(n);
  }
  void sweep(Block* b) {
    std::erase_if(b->nodes, [&](Node* n) { return !kept_.contains(n); });
    for (Node* n : b->nodes) {
      if (n->kind == N::kIf || n->kind == N::kLoop) {
        const size_t shift = n->kind == N::kLoop;
        for (size_t i = n->out.size(); i-- > 0;) {
          if (needed_.contains(n->out[i])) continue;
          if (shift && needed_.contains(n->blocks[0]->params[1 + i])) continue;
          n->out.erase(n->out.begin() + static_cast<int64_t>(i));
          for (Block* inner : n->blocks) inner->returns.erase(inner->returns.begin() + static_cast<int64_t>(i + shift));
          if (shift) {
            n->in.erase(n->in.begin() + static_cast<int64_t>(2 + i));
            n->blocks[0]->params.erase(n->blocks[0]->params.begin() + static_cast<int64_t>(1 + i));
          }
        }
      }
      for (Block* inner : n->blocks) sweep(inner);
    }
  }
  std::unordered_set<Node*> kept_;
  std::unordered_set<Val*> needed_;
  std::vector<Node*> work_;
};

bool is_straight(Function& f) {
  const std::vector<Node*>& nodes = f.ensure_graph().top->nodes;
  return nodes.size() <= 64 && std::ranges::all_of(nodes, [](const Node* n) { return n->blocks.empty(); });
}
void inline_block(Block* b, int depth, bool library) {
  std::vector<Node*> old = std::move(b->nodes);
  b->nodes.clear();
  for (Node* n : old) {
    for (Block* inner : n->blocks) inline_block(inner, depth, library);
    const bool call = (n->kind == N::kCallFunction || n->kind == N::kCallMethod) && n->function && depth < 64 &&
                      !n->function->is_native &&
                      (!n->function->qualified.starts_with("aten::") || (library && is_straight(*n->function)));
    if (!call) {
      b->nodes.push_back(n);
      continue;
    }
    Graph& g = n->function->ensure_graph();
    ValMap map;
    for (size_t i = 0; i < g.top->params.size(); ++i) {
      Val* given = n->in[i];
      map[g.top->params[i]] = given;
    }
    Block part;
    part.graph = b->graph;
    part.owner = b->owner;
    copy_block(*g.top, &part, map, n);
    for (Node* c : part.nodes) c->owner = b;
    inline_block(&part, depth + 1, library);
    for (Node* c : part.nodes) {
      c->owner = b;
      b->nodes.push_back(c);
    }
    Val* result = g.top->returns[0];
    n->out[0]->same = map.contains(result) ? map[result] : result;
  }
}

const Value* constant_of(const Val* v) {
  return v->node && v->node->kind == N::kConstant ? &v->node->constant : nullptr;
}
bool plain(const Value& v) {
  using Tag = Value::Tag;
  return v.tag() == Tag::kNone || v.tag() == Tag::kBool || v.tag() == Tag::kInt || v.tag() == Tag::kDouble ||
         v.tag() == Tag::kString || v.tag() == Tag::kDevice || v.tag() == Tag::kComplex;
}

void fold_block(Graph& g, Block* b) {
  std::vector<Node*> kept;
  for (size_t i = 0; i < b->nodes.size(); ++i) {
    Node* n = b->nodes[i];
    for (Val*& v : n->in)
      while (v->same) v = v->same;
    if (n->kind == N::kOp && n->op->builtin && n->op->pure && n->out.size() == 1) {
      bool all = true;
      std::vector<Value> in;
      for (const Val* v : n->in) {
        const Value* c = constant_of(v);
        all = all && c && plain(*c);
        if (all) in.push_back(*c);
      }
      if (all) {
        try {
          Value r;
          n->op->builtin(in.data(), in.size(), &r, *n->op);
          if (plain(r)) {
            n->kind = N::kConstant, n->constant = std::move(r), n->in.clear(), n->op = nullptr;
            if (!n->constant.is_none()) n->out[0]->type = type_of(n->constant);
          }
        } catch (const Error&) {}
      }
    }
    if (n->kind == N::kTupleIndex && n->in[0]->node && n->in[0]->node->kind == N::kTuple)
      if (const Value* c = constant_of(n->in[1])) {
        const auto& items = n->in[0]->node->in;
        const int64_t k = c->integer() < 0 ? c->integer() + static_cast<int64_t>(items.size()) : c->integer();
        if (k >= 0 && k < static_cast<int64_t>(items.size())) {
          n->out[0]->same = items[static_cast<size_t>(k)];
          continue;
        }
      }
    if (n->kind == N::kTupleUnpack && n->in[0]->node && n->in[0]->node->kind == N::kTuple) {
      for (size_t k = 0; k < n->out.size(); ++k) n->out[k]->same = n->in[0]->node->in[k];
      continue;
    }
    if (n->kind == N::kCast && same(n->in[0]->type, n->out[0]->type)) {
      n->out[0]->same = n->in[0];
      continue;
    }
    if (n->kind == N::kOp && (n->op->name == "aten::__is__" || n->op->name == "aten::__isnot__") && n->in.size() == 2)
      if (const Value* c = constant_of(n->in[1]); c && c->is_none() && !accepts_none(n->in[0]->type)) {
        n->constant = Value::of(n->op->name == "aten::__isnot__");
        n->kind = N::kConstant, n->in.clear(), n->op = nullptr;
      }
    if (n->kind == N::kIf)
      if (const Value* c = constant_of(n->in[0])) {
        Block* taken = n->blocks[c->boolean() ? 0 : 1];
        for (Node* inner : taken->nodes) inner->owner = b;
        for (size_t k = 0; k < n->out.size(); ++k) n->out[k]->same = taken->returns[k];
        std::vector<Node*> rest(taken->nodes);
        b->nodes.erase(b->nodes.begin() + static_cast<int64_t>(i));
        b->nodes.insert(b->nodes.begin() + static_cast<int64_t>(i), rest.begin(), rest.end());
        --i;
        continue;
      }
    for (Block* inner : n->blocks) fold_block(g, inner);
    kept.push_back(n);
  }
  b->nodes = std::move(kept);
  for (Val*& v : b->returns)
    while (v->same) v = v->same;
}

// A condition with a tuple for a result has its items for results; what makes the tuple stands behind it. It goes where
// the tuple is taken apart again.
void lower_tuples(Graph& g, Block* b) {
  const auto items_of = [](const Val* v, size_t n) {
    return v->node && ((v->node->kind == N::kTuple && v->node->in.size() == n) || v->node->kind == N::kUninitialized);
  };
  std::vector<Node*> all;
  for (Node* n : b->nodes) {
    all.push_back(n);
    for (Block* inner : n->blocks) lower_tuples(g, inner);
    if (n->kind != N::kIf) continue;
    const size_t behind = all.size();
    for (size_t k = 0; k < n->out.size(); ++k) {
      Val* whole = n->out[k];
      if (!whole->type->is(K::kTuple) || !whole->type->name.empty()) continue;
      const std::vector<TypePtr>& types = whole->type->elems;
      Val *first = n->blocks[0]->returns[k], *second = n->blocks[1]->returns[k];
      if (types.empty() || !items_of(first, types.size()) || !items_of(second, types.size())) continue;
      Node* made = g.new_node(N::kTuple);
      made->owner = b, made->range = n->range, made->caller = n->caller, made->function_of = n->function_of;
      for (size_t i = 0; i < types.size(); ++i) {
        made->in.push_back(g.add_out(n, types[i]));
        for (Block* inner : n->blocks) {
          const Val* from = inner->returns[k];
          if (from->node->kind == N::kTuple) {
            inner->returns.push_back(from->node->in[i]);
          } else {
            Node* nothing = g.append(inner, N::kUninitialized);
            inner->returns.push_back(g.add_out(nothing, types[i]));
          }
        }
      }
      n->out.erase(n->out.begin() + static_cast<int64_t>(k));
      for (Block* inner : n->blocks) inner->returns.erase(inner->returns.begin() + static_cast<int64_t>(k));
      --k;
      whole->node = made;
      made->out.push_back(whole);
      all.insert(all.begin() + static_cast<int64_t>(behind), made);  // a tuple in a tuple is made first
    }
  }
  b->nodes = std::move(all);
}

// Lists that are made of given items and only read: nobody can change them.
bool reads_items(const Node& n) {
  return n.kind == N::kListUnpack ||
         (n.kind == N::kOp && (n.op->name == "aten::__getitem__" || n.op->name == "aten::len"));
}
void find_read_lists(const Block* b, std::unordered_map<const Val*, bool>& read) {
  for (const Node* n : b->nodes) {
    if (n->kind == N::kList) read.try_emplace(n->out[0], true);
    if (!reads_items(*n))
      for (const Val* v : n->in)
        if (const auto it = read.find(v); it != read.end()) it->second = false;
    for (const Block* inner : n->blocks) find_read_lists(inner, read);
  }
  for (const Val* v : b->returns)
    if (const auto it = read.find(v); it != read.end()) it->second = false;
}
void lower_lists(Block* b, const std::unordered_map<const Val*, bool>& read) {
  std::erase_if(b->nodes, [&](Node* n) {
    for (Block* inner : n->blocks) lower_lists(inner, read);
    const auto it = n->in.empty() ? read.end() : read.find(n->in[0]);
    if (it == read.end() || !it->second || n->kind != N::kOp || n->op->name != "aten::__getitem__") return false;
    const std::vector<Val*>& items = n->in[0]->node->in;
    const Value* k = constant_of(n->in[1]);
    const int64_t at = !k ? -1 : k->integer() < 0 ? k->integer() + static_cast<int64_t>(items.size()) : k->integer();
    if (at < 0 || at >= static_cast<int64_t>(items.size())) return false;
    n->out[0]->same = items[static_cast<size_t>(at)];
    return true;
  });
}

// Whether anything in here may change a list, dict or attribute that others see.
struct Share {
  std::vector<Node*> scope;
  bool shareable(const Node& n) {
    if (n.kind == N::kConstant) return plain(n.constant);
    if (n.kind != N::kOp || !n.op->builtin || !n.op->pure) return false;
    for (const Val* v : n.in)  // only of what cannot change
      if (!(v->type->is_number() || v->type->is(K::kBool) || v->type->is(K::kStr) || v->type->is(K::kDevice) ||
            v->type->is(K::kNone)))
        return false;
    return true;
  }
  static bool same_node(const Node& a, const Node& b) {
    if (a.kind != b.kind || a.op != b.op || a.in != b.in) return false;
    return a.kind != N::kConstant || (a.constant.tag() == b.constant.tag() && equal(a.constant, b.constant) &&
                                      same(a.out[0]->type, b.out[0]->type));
  }
  size_t key(const Node& n) {
    size_t h = static_cast<size_t>(n.kind) * 131 + reinterpret_cast<size_t>(n.op);
    for (const Val* v : n.in) h = h * 31 + reinterpret_cast<size_t>(v);
    return n.kind == N::kConstant ? h + hash_of(n.constant) + static_cast<size_t>(n.constant.tag()) * 7 : h;
  }
  std::unordered_multimap<size_t, Node*> known;
  void run(Block* b) {
    std::vector<Node*> added, kept;
    for (Node* n : b->nodes) {
      for (Val*& v : n->in)
        while (v->same) v = v->same;
      if (shareable(*n)) {
        const size_t h = key(*n);
        const auto [from, to] = known.equal_range(h);
        Node* found = nullptr;
        for (auto it = from; it != to; ++it)
          if (same_node(*it->second, *n)) found = it->second;
        if (found) {
          for (size_t k = 0; k < n->out.size(); ++k) n->out[k]->same = found->out[k];
          continue;
        }
        known.emplace(h, n);
        added.push_back(n);
      }
      for (Block* inner : n->blocks) run(inner);
      kept.push_back(n);
    }
    b->nodes = std::move(kept);
    for (Val*& v : b->returns)
      while (v->same) v = v->same;
    for (Node* n : added) {
      const auto [from, to] = known.equal_range(key(*n));
      for (auto it = from; it != to; ++it)
        if (it->second == n) {
          known.erase(it);
          break;
        }
    }
  }
};

}  // namespace

void remove_dead_code(Graph& g) { Dead().run(g); }
void inline_calls(Graph& g, bool library) {
  inline_block(g.top, 0, library);
  apply_replacements(g.top);
}
void fold_constants(Graph& g) {
  fold_block(g, g.top);
  apply_replacements(g.top);
}
void share_common(Graph& g) {
  Share().run(g.top);
  apply_replacements(g.top);
}
void lower_containers(Graph& g) {
  lower_tuples(g, g.top);
  std::unordered_map<const Val*, bool> read;
  find_read_lists(g.top, read);
  lower_lists(g.top, read);
  apply_replacements(g.top);
}
void optimize(Graph& g) {
  inline_calls(g, true);
  fold_constants(g);
  lower_containers(g);
  fold_constants(g);
  share_common(g);
  remove_dead_code(g);
}

}  // namespace tessera::jit
