#include "jit/ir.h"

#include <algorithm>

#include "jit/function.h"
#include "jit/operator.h"

namespace tessera::jit {
namespace {

constexpr const char* kPrimNames[] = {"",
                                      "Constant",
                                      "If",
                                      "Loop",
                                      "ListConstruct",
                                      "DictConstruct",
                                      "TupleConstruct",
                                      "TupleUnpack",
                                      "ListUnpack",
                                      "TupleIndex",
                                      "TupleSlice",
                                      "GetAttr",
                                      "SetAttr",
                                      "CallMethod",
                                      "CallFunction",
                                      "CreateObject",
                                      "unchecked_cast",
                                      "Uninitialized",
                                      "RaiseException",
                                      "isinstance",
                                      "fork",
                                      "",
                                      "PythonOp",
                                      "EnumName",
                                      "EnumValue",
                                      "format",
                                      "Print",
                                      "Enter",
                                      "Exit",
                                      ""};

class Printer {
 public:
  Printer(std::string& out, bool locations) : out_(out), locations_(locations) {}

  void graph(const Block& b) {
    out_ += "graph(";
    for (size_t i = 0; i < b.params.size(); ++i) out_ += str_cat(i ? ",\n      " : "", typed(b.params[i]));
    out_ += "):\n";
    for (const Node* n : b.nodes) node(*n, 2);
    out_ += str_cat("  return (", list(b.returns), ")\n");
  }

 private:
  static std::string name(const Val* v) { return v ? "%" + (v->name.empty() ? std::to_string(v->id) : v->name) : "%?"; }
  static std::string typed(const Val* v) { return str_cat(name(v), " : ", v->type->str()); }
  static std::string list(const std::vector<Val*>& all) {
    std::string s;
    for (const Val* v : all) s += (s.empty() ? "" : ", ") + name(v);
    return s;
  }
  std::string attributes(const Node& n) {
    switch (n.kind) {
      case N::kConstant:
        if (n.constant.is_none()) return "";
        return str_cat("[value=", constant_text(n.constant, n.out[0]->type), "]");
      case N::kGetAttr:
      case N::kSetAttr:
      case N::kCallMethod:
        return str_cat("[name=", quote(n.name), "]");
      case N::kTupleSlice:
        return str_cat("[beg=", n.ints[0], ", end=", n.ints[1], "]");
      case N::kIsInstance: {
        std::string s;
        for (TypePtr t : n.types) s += (s.empty() ? "" : ", ") + t->annotation();
        return str_cat("[types=[", s, "]]");
      }
      case N::kHostCall:
        return str_cat("[name=", quote(n.name), "]");
      default: {
        std::string s;
        for (const NodeAttribute& a : n.attributes) s += str_cat(s.empty() ? "" : ", ", a.name, "=", a.text);
        return s.empty() ? s : str_cat("[", s, "]");
      }
    }
  }
  void node(const Node& n, size_t indent) {
    out_.append(indent, ' ');
    for (size_t i = 0; i < n.out.size(); ++i) out_ += (i ? ", " : "") + typed(n.out[i]);
    if (n.kind == N::kHostCall)
      out_ += str_cat(" = ^", n.name, "(", list(n.in), ")");
    else if (n.kind == N::kCallFunction)
      out_ += str_cat(" = prim::CallFunction(%", n.function->name, n.in.empty() ? "" : ", ", list(n.in), ")");
    else
      out_ += str_cat(" = ", n.kind_name(), attributes(n), "(", list(n.in), ")");
    if (!n.scope.empty()) out_ += ", scope: " + n.scope;
    if (locations_ && n.range.source && n.kind != N::kGetAttr) {
      const Source& s = *n.range.source;
      const size_t line = s.text().rfind('\n', n.range.begin ? n.range.begin - 1 : 0);
      const size_t column = n.range.begin - (line == std::string::npos || n.range.begin == 0 ? 0 : line + 1);
      out_ += str_cat(" # ", s.file(), ":", s.line_of(n.range.begin), ":", column);
    }
    out_ += '\n';
    for (size_t i = 0; i < n.blocks.size(); ++i) {
      const Block& b = *n.blocks[i];
      out_.append(indent + 2, ' ');
      out_ += str_cat("block", i, "(");
      for (size_t k = 0; k < b.params.size(); ++k) out_ += (k ? ", " : "") + typed(b.params[k]);
      out_ += "):\n";
      for (const Node* inner : b.nodes) node(*inner, indent + 4);
      out_.append(indent + 4, ' ');
      out_ += str_cat("-> (", list(b.returns), ")\n");
    }
  }

  std::string& out_;
  bool locations_;
};

}  // namespace

std::string Node::kind_name() const {
  if (kind == N::kOp) return op->name;
  if (kind == N::kWait) return "aten::wait";
  if (kind == N::kFormat) return "aten::format";
  if (kind == N::kForeign) return name;
  return str_cat("prim::", kPrimNames[static_cast<size_t>(kind)]);
}

N kind_named(std::string_view name) {
  if (name == "aten::wait") return N::kWait;
  if (name == "aten::format") return N::kFormat;
  if (name.starts_with("prim::") && name.size() > 6)
    for (size_t i = 1; i < std::size(kPrimNames); ++i)
      if (name.substr(6) == kPrimNames[i]) return static_cast<N>(i);
  return N::kForeign;
}

Node* create_node(Graph& g, const std::string& kind, std::vector<Val*> in) {
  Node* n = g.new_node(kind_named(kind), std::move(in));
  if (n->kind != N::kForeign) return n;
  for (const Operator* o : operators_named(kind)) {
    bool fits = o->vararg ? o->args.size() <= n->in.size() : o->args.size() == n->in.size();
    TypeVars vars;
    for (size_t i = 0; fits && i < o->args.size(); ++i) {
      TypePtr t = o->args[i].type;
      if (has_variables(t)) fits = match_variables(t, n->in[i]->type, vars), t = fits ? substitute(t, vars) : t;
      fits = fits && is_subtype(n->in[i]->type, t);
    }
    if (!fits) continue;
    n->kind = N::kOp, n->op = o;
    return n;
  }
  n->name = kind;
  return n;
}

std::string constant_text(const Value& v, TypePtr t) {
  if (v.tag() == Value::Tag::kBool) return v.boolean() ? "1" : "0";
  if (v.tag() == Value::Tag::kDouble) {
    std::string s = number_text(v.number());
    return s.ends_with(".0") ? s.substr(0, s.size() - 1) : s;
  }
  if (v.tag() == Value::Tag::kString) return quote(v.string());
  if (v.tag() == Value::Tag::kDevice) return quote(v.device().str());
  if (v.is_tensor()) {
    const Tensor& x = v.tensor();
    if (x.numel() == 1 && x.dim() == 0) return str_cat("{", to_text(Value::of(x.item_scalar())), "}");
    return "<Tensor>";
  }
  if (v.tag() == Value::Tag::kObject && t->is(K::kClass)) return "<Object>";
  return to_text(v, true);
}

void Graph::set_name(Val* v, const std::string& base) {
  std::string stem = base;
  const size_t dot = stem.rfind('.');
  if (dot != std::string::npos && stem.find_first_not_of("0123456789", dot + 1) == std::string::npos) stem.resize(dot);
  if (stem.empty() || (stem[0] >= '0' && stem[0] <= '9')) return;
  int& n = names_[stem];
  v->name = stem + (n ? str_cat(".", n) : std::string());
  n += n ? 2 : 1;
}

std::string Graph::str(bool locations) const {
  std::string out;
  Printer(out, locations).graph(*top);
  return out;
}

void copy_block(const Block& from, Block* to, ValMap& map, const Node* caller) {
  Graph& g = *to->graph;
  const auto mapped = [&](const Val* v) {
    const auto it = map.find(v);
    return it == map.end() ? const_cast<Val*>(v) : it->second;
  };
  for (const Node* n : from.nodes) {
    Node* c = g.append(to, n->kind);
    c->op = n->op, c->function = n->function, c->constant = n->constant, c->name = n->name, c->types = n->types;
    c->ints[0] = n->ints[0], c->ints[1] = n->ints[1], c->host = n->host, c->range = n->range, c->scope = n->scope;
    c->caller = n->caller ? n->caller : caller, c->function_of = n->function_of;
    c->attributes = n->attributes;
    for (const Val* v : n->in) c->in.push_back(mapped(v));
    for (const Block* b : n->blocks) {
      Block* inner = g.new_block(c);
      c->blocks.push_back(inner);
      for (const Val* p : b->params) {
        Val* q = g.add_param(inner, p->type);
        if (!p->name.empty()) g.set_name(q, p->name);
        map[p] = q;
      }
      copy_block(*b, inner, map, caller);
      for (const Val* r : b->returns) inner->returns.push_back(map.contains(r) ? map[r] : const_cast<Val*>(r));
    }
    for (const Val* o : n->out) {
      Val* q = g.add_out(c, o->type);
      if (!o->name.empty()) g.set_name(q, o->name);
      map[o] = q;
    }
  }
}

std::unique_ptr<Graph> copy_graph(const Graph& from) {
  auto g = std::make_unique<Graph>();
  ValMap map;
  for (const Val* p : from.top->params) {
    Val* q = g->add_param(g->top, p->type, p->name);
    map[p] = q;
  }
  copy_block(*from.top, g->top, map);
  for (const Val* r : from.top->returns) g->top->returns.push_back(map.at(r));
  return g;
}

void apply_replacements(Block* b) {
  const auto follow = [](Val*& v) {
    while (v->same) v = v->same;
  };
  for (Node* n : b->nodes) {
    for (Val*& v : n->in) follow(v);
    for (Block* inner : n->blocks) apply_replacements(inner);
  }
  for (Val*& v : b->returns) follow(v);
}

namespace {
void reset_uses(Block* b) {
  for (Val* v : b->params) v->uses = 0;
  for (Node* n : b->nodes) {
    for (Val* v : n->out) v->uses = 0;
    for (Block* inner : n->blocks) reset_uses(inner);
  }
}
void add_uses(Block* b) {
  for (Node* n : b->nodes) {
    for (Val* v : n->in) ++v->uses;
    for (Block* inner : n->blocks) add_uses(inner);
  }
  for (Val* v : b->returns) ++v->uses;
}
}  // namespace
void count_uses(Block* b) {
  reset_uses(b);
  add_uses(b);
}

}  // namespace tessera::jit
