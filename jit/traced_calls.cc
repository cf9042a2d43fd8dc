// Calls of submodules in a recording: each becomes a method of the submodule's class, and the graph calls it.
#include <algorithm>
#include <unordered_set>

#include "jit/passes.h"
#include "jit/tracer.h"

namespace tessera::jit {

void Tracer::enter(const std::string& path, const std::vector<std::pair<std::string, Value>>& inputs) {
  Call c;
  c.path = path;
  for (const auto& [name, v] : inputs) {
    c.usable =
        c.usable && self_ &&
        (known_.contains(v.tensor().impl()) || paths_.contains(v.tensor().impl()) || !v.tensor().requires_grad());
    if (!c.usable) break;
    c.inputs.push_back({name, value_of(v)});
  }
  c.begin = graph_->top->nodes.size();
  open_.push_back(std::move(c));
}

void Tracer::leave(const Value& result) {
  if (open_.empty()) return;
  Call c = std::move(open_.back());
  open_.pop_back();
  const auto output = [&](const Value& v) {
    const auto it = v.is_tensor() && v.tensor().defined() ? known_.find(v.tensor().impl()) : known_.end();
    if (it == known_.end()) return false;
    c.outputs.push_back(it->second);
    return true;
  };
  if (result.is_tensor()) {
    c.usable = c.usable && output(result);
  } else if (const Object* o = result.tag() == Value::Tag::kObject ? object_of(result) : nullptr;
             o && o->kind == ObjectKind::kTuple) {
    c.tuple = true;
    for (const Value& v : as<Tuple>(result).items) c.usable = c.usable && output(v);
  } else {
    c.usable = false;
  }
  c.end = graph_->top->nodes.size();
  if (c.usable && c.end > c.begin && !c.outputs.empty()) calls_.push_back(std::move(c));
}

// Of an attribute of the root, the path from a submodule to the same thing. False: it is not below that.
bool Tracer::below(const Val* v, const std::string& path, std::string* rest) const {
  const auto at = val_paths_.find(v);
  if (at == val_paths_.end()) return false;
  std::vector<std::string> all = {at->second};
  if (const auto same = identities_.find(at->second); same != identities_.end())
    if (const auto more = all_paths_.find(same->second); more != all_paths_.end()) all = more->second;
  for (const std::string& p : all)
    if (p == path || p.starts_with(path + ".")) {
      *rest = p.substr(std::min(p.size(), path.size() + 1));
      return true;
    }
  return false;
}

// The nodes that read attribute `path` of an object.
Val* Tracer::read(Graph& g, Val* object, std::string_view path, std::vector<Node*>* made) {
  while (!path.empty() && object) {
    const size_t dot = path.find('.');
    const Attribute* a = object->type->def ? object->type->def->attribute(path.substr(0, dot)) : nullptr;
    if (!a) return nullptr;
    Node* n = g.new_node(N::kGetAttr, {object});
    n->name = a->name;
    made->push_back(n);
    object = g.add_out(n, a->type);
    path = dot == std::string_view::npos ? std::string_view() : path.substr(dot + 1);
  }
  return object;
}

// A call's nodes as the graph of a method, and the call of it in their place; how many nodes there are then. -1: what
// the call computes inside is used elsewhere, and it stays as it is.
int64_t Tracer::nest(const Call& c, std::vector<std::unique_ptr<Function>>* methods) {
  std::vector<Node*>& nodes = graph_->top->nodes;
  const auto begin = nodes.begin() + static_cast<int64_t>(c.begin), end = nodes.begin() + static_cast<int64_t>(c.end);
  const auto is_pure = [](const Node* n) { return n->kind == N::kGetAttr || n->kind == N::kConstant; };
  std::unordered_map<const Val*, int> used;
  std::unordered_set<const Val*> inside;
  bool needed = false;
  for (auto it = begin; it != end; ++it) {
    for (Val*& v : (*it)->in) {
      while (v->same) v = v->same;
      ++used[v];
    }
    if (is_pure(*it)) continue;
    needed = needed || has_effect(**it);
    for (const Val* v : (*it)->out) inside.insert(v);
  }
  for (const Val* v : c.outputs) needed = needed || v->uses > used[v];
  if (!needed) return -1;
  for (const Val* v : inside)
    if (v->uses > used[v] && std::ranges::find(c.outputs, v) == c.outputs.end()) return -1;
  // the method
  std::vector<Node*> outer;  // what stands in the place of the nodes
  Val* module = read(*graph_, self_, c.path, &outer);
  if (!module || !module->type->def) return -1;
  std::string at;
  for (const Node* n : outer) val_paths_[n->out[0]] = at = str_cat(at, at.empty() ? "" : ".", n->name);
  ClassDef& def = *module->type->def;
  auto g = std::make_unique<Graph>();
  Val* self = g->add_param(g->top, module->type, "self");
  ValMap map;
  std::vector<Val*> given = {module};
  const auto parameter = [&](Val* v, const std::string& name) {
    map.emplace(v, g->add_param(g->top, v->type, name));
    given.push_back(v);
  };
  for (const auto& [name, v] : c.inputs) parameter(v, name);
  const auto bring = [&](Val* v) {
    if (inside.contains(v) || map.contains(v)) return;
    std::string rest;
    if (below(v, c.path, &rest)) {
      std::vector<Node*> made;
      if (Val* own = read(*g, self, rest, &made)) {
        for (Node* n : made) n->owner = g->top, g->top->nodes.push_back(n);
        map[v] = own;
        return;
      }
    }
    if (v->node && v->node->kind == N::kConstant) {
      Block one;
      one.nodes = {v->node};
      return copy_block(one, g->top, map);
    }
    parameter(v, v->name.empty() ? "outer" : v->name);
  };
  Block part;
  for (auto it = begin; it != end; ++it) {
    if (is_pure(*it)) continue;
    for (Val* v : (*it)->in) bring(v);
    part.nodes.push_back(*it);
  }
  for (Val* v : c.outputs) bring(v);
  copy_block(part, g->top, map);
  std::vector<Val*> results;
  std::vector<TypePtr> types;
  for (const Val* v : c.outputs) results.push_back(map.at(v)), types.push_back(v->type);
  Val* result = results[0];
  if (c.tuple) result = g->add_out(g->append(g->top, N::kTuple, results), tuple_of(types));
  g->top->returns = {result};
  remove_dead_code(*g);
  auto f = std::make_unique<Function>();
  f->name = "forward";
  const auto taken = [&](const std::string& name) {
    return def.method(name) ||
           std::ranges::any_of(*methods, [&](const auto& m) { return m->owner == &def && m->name == name; });
  };
  for (int k = 1; taken(f->name); ++k) f->name = str_cat("forward", k);
  f->qualified = str_cat(def.name, ".", f->name);
  f->owner = &def;
  f->set_graph(std::move(g));
  // the call
  for (auto it = begin; it != end; ++it) {
    if (is_pure(*it))
      outer.push_back(*it);
    else
      for (Val* v : (*it)->in) --v->uses;
  }
  Node* call = graph_->new_node(N::kCallMethod, given);
  call->name = f->name, call->function = f.get();
  for (Val* v : given) ++v->uses;
  outer.push_back(call);
  Val* whole = graph_->add_out(call, c.tuple ? tuple_of(types) : types[0]);
  std::vector<Val*> made = {whole};
  if (c.tuple) {
    Node* unpack = graph_->new_node(N::kTupleUnpack, {whole});
    whole->uses = 1;
    outer.push_back(unpack);
    made.clear();
    for (TypePtr t : types) made.push_back(graph_->add_out(unpack, t));
  }
  for (Node* n : outer) n->owner = graph_->top;
  for (size_t k = 0; k < made.size(); ++k)
    if (Val* v = c.outputs[k]; inside.contains(v) && !v->same) {
      made[k]->uses = v->uses;
      v->same = made[k];
    }
  nodes.erase(begin, end);
  nodes.insert(nodes.begin() + static_cast<int64_t>(c.begin), outer.begin(), outer.end());
  methods->push_back(std::move(f));
  return static_cast<int64_t>(outer.size());
}

std::unique_ptr<Graph> Tracer::take_nested(std::vector<std::unique_ptr<Function>>* methods) {
  for (const auto& [path, v] : attributes_) val_paths_[v] = path;
  count_uses(graph_->top);
  for (size_t k = 0; k < calls_.size(); ++k) {
    const size_t end = calls_[k].end, before = end - calls_[k].begin;
    for (auto& [name, v] : calls_[k].inputs)
      while (v->same) v = v->same;
    for (Val*& v : calls_[k].outputs)
      while (v->same) v = v->same;
    const int64_t n = nest(calls_[k], methods);
    if (n < 0) continue;
    const size_t after = static_cast<size_t>(n);
    for (size_t i = k + 1; i < calls_.size(); ++i) {
      if (calls_[i].begin >= end) calls_[i].begin = calls_[i].begin - before + after;
      if (calls_[i].end >= end) calls_[i].end = calls_[i].end - before + after;
    }
  }
  apply_replacements(graph_->top);
  return take();
}

}  // namespace tessera::jit
