// Graphs as the text of programs: what `.code` shows and archives hold.
#include "jit/source/source_printer.h"

#include <algorithm>
#include <utility>

#include "jit/operator.h"

namespace tessera::jit {
namespace {

constexpr std::string_view kReserved[] = {
    "False",      "None",     "True",    "and",    "as",      "assert",   "async",  "await",         "break",
    "class",      "continue", "def",     "del",    "elif",    "else",     "except", "finally",       "for",
    "from",       "global",   "if",      "import", "in",      "is",       "lambda", "nonlocal",      "not",
    "or",         "pass",     "raise",   "return", "try",     "while",    "with",   "yield",         "torch",
    "ops",        "fork",     "getattr", "inf",    "nan",     "infj",     "nanj",   "uninitialized", "annotate",
    "int",        "float",    "bool",    "str",    "complex", "range",    "print",  "CONSTANTS",     "unchecked_cast",
    "isinstance", "self",     "len",     "list",   "sorted",  "__torch__"};

bool identifier(std::string_view s) {
  if (s.empty() || (s[0] >= '0' && s[0] <= '9')) return false;
  for (const char c : s)
    if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_')) return false;
  return std::find(std::begin(kReserved), std::end(kReserved), s) == std::end(kReserved) || s == "self";
}

class Writer {
 public:
  Writer(std::string& out, SourceUses& uses) : out_(out), uses_(uses) {}

  void function(const Function& f, const Graph& g, size_t indent, bool with_self_type) {
    indent_ = indent;
    const bool method = f.owner && !f.is_static;
    line(str_cat("def ", f.name, "(") + parameters(f, g, method, with_self_type) + str_cat(") -> ", type(f.ret), ":"));
    indent_ += 2;
    count_uses(const_cast<Block*>(g.top));
    block(*g.top);
    use(g.top->returns);
    now("return " + value(g.top->returns[0]));
    indent_ -= 2;
  }

 private:
  std::string parameters(const Function& f, const Graph& g, bool method, bool with_self_type) {
    std::string s;
    for (size_t i = 0; i < g.top->params.size(); ++i) {
      const Val* v = g.top->params[i];
      const std::string name = fresh(i < f.args.size() && identifier(f.args[i].name) ? f.args[i].name : v->name);
      names_[v] = name;
      if (i) s += ",\n" + std::string(indent_ + 4, ' ');
      s += name;
      if (!(i == 0 && method && !with_self_type)) s += ": " + type(v->type);
      if (i < f.args.size() && f.args[i].has_default) s += "=" + constant(f.args[i].default_value, v->type);
    }
    return s;
  }
  std::string type(TypePtr t) {
    note(t);
    return t->annotation();
  }
  void note(TypePtr t) {
    if (t->is(K::kClass) || t->is(K::kInterface) || t->is(K::kEnum) || (t->is(K::kTuple) && !t->name.empty()))
      uses_.add(t);
    for (TypePtr e : t->elems) note(e);
  }
  void line(const std::string& s) {
    out_.append(indent_, ' ');
    out_ += s;
    out_ += '\n';
  }
  std::string fresh(const std::string& wanted) {
    std::string base = wanted.substr(0, wanted.find('.'));
    if (!identifier(base) && base != "self") base = "";
    if (base.empty() || (base[0] == '_' && base.find_first_not_of("0123456789", 1) == std::string::npos)) {
      while (true) {
        std::string s = str_cat("_", next_++);
        if (taken_.insert(s).second) return s;
      }
    }
    if (taken_.insert(base).second) return base;
    for (int k = 0;; ++k)
      if (std::string s = str_cat(base, k); identifier(s) && taken_.insert(s).second) return s;
  }

  std::string number(double d) {
    if (d != d) return "nan";
    if (d > 1.7976931348623157e308) return "inf";
    if (d < -1.7976931348623157e308) return "-inf";
    std::string s = number_text(d);
    if (s.ends_with(".0")) s.pop_back();
    return s;
  }
  std::string constant(const Value& v, TypePtr t) {
    using Tag = Value::Tag;
    switch (v.tag()) {
      case Tag::kNone:
        return "None";
      case Tag::kDouble:
        return number(v.number());
      case Tag::kComplex: {
        const std::complex<double> c = v.scalar().to_complex();
        return str_cat("complex(", number(c.real()), ", ", number(c.imag()), ")");
      }
      case Tag::kString:
        return quote(v.string());
      case Tag::kDevice:
        return str_cat("torch.device(", quote(v.device().str()), ")");
      case Tag::kTensor:
        return str_cat("CONSTANTS.c", uses_.add_constant(v));
      case Tag::kObject:
        break;
      default:
        return to_text(v);
    }
    const Object* o = object_of(v);
    if (o && o->kind == ObjectKind::kEnumItem) {
      const auto* e = static_cast<const EnumItem*>(o);
      uses_.add(e->def->type);
      return str_cat(e->def->name, ".", e->item().name);
    }
    if (o && (o->kind == ObjectKind::kList || o->kind == ObjectKind::kTuple)) {
      std::string s;
      const auto& items = o->kind == ObjectKind::kList ? as<List>(v).items : as<Tuple>(v).items;
      TypePtr own = type_of(v);
      for (size_t i = 0; i < items.size(); ++i)
        s += (i ? ", " : "") + constant(items[i], own->is(K::kTuple) ? own->elems[i] : own->elem());
      if (o->kind == ObjectKind::kTuple) return str_cat("(", s, items.size() == 1 ? ",)" : ")");
      return items.empty() ? str_cat("annotate(", type(own), ", [])") : str_cat("[", s, "]");
    }
    throw Error(str_cat("a constant of type ", t->annotation(), " cannot be written as text"));
  }
  std::string value(const Val* v) {
    if (const auto it = names_.find(v); it != names_.end()) return it->second;
    if (v->node && v->node->kind == N::kConstant) return constant(v->node->constant, v->type);
    throw Error(str_cat("the graph uses %", v->name, " before it is computed"));
  }
  std::string list(const std::vector<Val*>& all, size_t from = 0) {
    std::string s;
    for (size_t i = from; i < all.size(); ++i) s += (i > from ? ", " : "") + value(all[i]);
    return s;
  }
  std::string attribute(const Val* object, const std::string& name) {
    return identifier(name) ? str_cat(value(object), ".", name)
                            : str_cat("getattr(", value(object), ", ", quote(name), ")");
  }

  // --- expressions in expressions ---
  //
  // Short expressions without a name that are used once stand where they are used. `waiting_` has those that have not
  // been used yet, in the order in which they are computed; a line before which they must be computed writes them
  // first.
  static constexpr size_t kLongestInside = 40;
  static bool may_wait(const Node& n) {
    if (n.out.size() != 1 || n.out[0]->uses != 1 || !n.out[0]->name.empty()) return false;
    return n.kind == N::kOp || n.kind == N::kList || n.kind == N::kTuple || n.kind == N::kTupleIndex ||
           n.kind == N::kGetAttr || n.kind == N::kCallMethod || n.kind == N::kCallFunction;
  }
  void write_waiting() {
    for (const Val* v : std::exchange(waiting_, {})) {
      const std::string text = std::exchange(names_[v], fresh(""));
      line(str_cat(names_[v], " = ", text));
    }
  }
  // What comes next evaluates these from left to right: those that wait go into it if they are the last ones, in this
  // order.
  void use(const std::vector<Val*>& values) {
    std::vector<const Val*> given;
    for (const Val* v : values)
      if (std::ranges::find(waiting_, v) != waiting_.end()) given.push_back(v);
    if (given.size() > waiting_.size() || !std::equal(given.rbegin(), given.rend(), waiting_.rbegin()))
      return write_waiting();
    waiting_.resize(waiting_.size() - given.size());
  }
  // The line of a node whose operands use() has seen.
  void now(const std::string& s) {
    write_waiting();
    line(s);
  }

  bool is_default(const OpArg& a, const Val* v) {
    if (!a.has_default) return false;
    if (v->node && v->node->kind == N::kConstant) {
      if (a.default_value.is_none() || v->node->constant.is_none())
        return a.default_value.is_none() && v->node->constant.is_none();
      return a.default_value.tag() == v->node->constant.tag() && equal(a.default_value, v->node->constant);
    }
    if (v->node && v->node->kind == N::kList && object_of(a.default_value) &&
        object_of(a.default_value)->kind == ObjectKind::kList) {
      const auto& items = as<List>(a.default_value).items;
      if (items.size() != v->node->in.size()) return false;
      for (size_t i = 0; i < items.size(); ++i) {
        const Node* n = v->node->in[i]->node;
        if (!n || n->kind != N::kConstant || n->constant.tag() != items[i].tag() || !equal(n->constant, items[i]))
          return false;
      }
      return true;
    }
    return false;
  }
  std::string op(const Node& n) {
    const Operator& o = *n.op;
    constexpr const char* casts[][2] = {{"aten::Bool", "bool"},
                                        {"aten::Int", "int"},
                                        {"aten::Float", "float"},
                                        {"aten::Complex", "complex"},
                                        {"aten::str", "str"}};
    for (const auto& c : casts)
      if (o.name == c[0] && n.in.size() == 1) return str_cat(c[1], "(", value(n.in[0]), ")");
    if (o.name == "prim::tolist") return str_cat("annotate(", type(n.out[0]->type), ", ", value(n.in[0]), ".tolist())");
    if (o.name.ends_with("Implicit")) return str_cat("annotate(", type(n.out[0]->type), ", ", value(n.in[0]), ")");
    if (o.name == "aten::__getitem__") return str_cat(parenthesised(n.in[0]), "[", value(n.in[1]), "]");
    const size_t colon = o.name.find("::");
    const std::string space = o.name.substr(0, colon), base = o.name.substr(colon + 2);
    if (space == "aten")
      if (Function* f = library_function(kPortable + base)) {
        uses_.add(f);
        return str_cat(f->qualified, "(", list(n.in), ", )");
      }
    const bool of_enums = !n.in.empty() && n.in[0]->type->is(K::kEnum);
    std::string s = (space == "aten" ? "torch." : "ops." + space + ".") +
                    (of_enums && base == "__is__"      ? "eq"
                     : of_enums && base == "__isnot__" ? "ne"
                                                       : base) +
                    "(";
    size_t positional = 0;
    for (size_t i = 0; i < o.args.size(); ++i)
      if (!o.args[i].keyword_only) positional = i + 1;
    size_t last = std::min(positional, n.in.size());
    while (last > 0 && last - 1 < o.args.size() && is_default(o.args[last - 1], n.in[last - 1])) --last;
    bool first = true;
    const auto add = [&](const std::string& x) {
      s += (first ? "" : ", ") + x;
      first = false;
    };
    for (size_t i = 0; i < last; ++i) add(value(n.in[i]));
    for (size_t i = positional; i < n.in.size(); ++i) {
      if (i >= o.args.size())
        add(value(n.in[i]));
      else if (!is_default(o.args[i], n.in[i]))
        add(str_cat(o.args[i].name, "=", value(n.in[i])));
    }
    return s + ")";
  }
  std::string parenthesised(const Val* v) {
    const std::string s = value(v);
    return identifier(s) ? s : "(" + s + ")";
  }

  std::string expression(const Node& n) {
    switch (n.kind) {
      case N::kOp:
        return op(n);
      case N::kUninitialized:
        return str_cat("uninitialized(", type(n.out[0]->type), ")");
      case N::kCast:
        return str_cat("unchecked_cast(", type(n.out[0]->type), ", ", value(n.in[0]), ")");
      case N::kList: {
        TypePtr t = n.out[0]->type;
        bool exact = !n.in.empty();
        for (const Val* v : n.in) exact = exact && same(v->type, t->elem());
        // the reader takes the type from the elements
        const std::string s = str_cat("[", list(n.in), "]");
        return exact ? s : str_cat("annotate(", type(t), ", ", s, ")");
      }
      case N::kDict: {
        std::string s;
        for (size_t i = 0; i + 1 < n.in.size(); i += 2)
          s += str_cat(i ? ", " : "", value(n.in[i]), ": ", value(n.in[i + 1]));
        return str_cat("annotate(", type(n.out[0]->type), ", {", s, "})");
      }
      case N::kTuple: {
        TypePtr t = n.out[0]->type;
        if (!t->name.empty()) return str_cat(type(t), "(", list(n.in), ")");
        return str_cat("(", list(n.in), n.in.size() == 1 ? ",)" : ")");
      }
      case N::kTupleIndex:
        return str_cat("(", value(n.in[0]), ")[", value(n.in[1]), "]");
      case N::kTupleSlice:
        return str_cat("(", value(n.in[0]), ")[", n.ints[0], ":", n.ints[1], "]");
      case N::kGetAttr:
        return attribute(n.in[0], n.name);
      case N::kCallMethod:
        if (n.function) uses_.add(n.in[0]->type);
        return str_cat("(", value(n.in[0]), ").", n.name, "(", list(n.in, 1), n.in.size() > 1 ? ", )" : ")");
      case N::kCallFunction:
        if (n.function->qualified.starts_with("aten::"))
          return str_cat("torch.", n.function->name.substr(0, n.function->name.find("__data")), "(", list(n.in), ")");
        uses_.add(n.function);
        return str_cat(n.function->qualified, "(", list(n.in), n.in.empty() ? ")" : ", )");
      case N::kCreate:
        return str_cat(type(n.out[0]->type), ".__new__(", n.out[0]->type->name, ")");
      case N::kIsInstance: {
        std::string s;
        for (TypePtr t : n.types) s += (s.empty() ? "" : ", ") + type(t);
        return str_cat("isinstance(", value(n.in[0]), ", ", n.types.size() == 1 ? s : "(" + s + ")", ")");
      }
      case N::kFork:
        if (!n.function) break;
        if (n.function->owner)
          return str_cat("fork((", value(n.in[0]), ").", n.function->name, n.in.size() > 1 ? ", " : "", list(n.in, 1),
                         ")");
        uses_.add(n.function);
        return str_cat("fork(", n.function->qualified, n.in.empty() ? "" : ", ", list(n.in), ")");
      case N::kWait:
        return str_cat("torch.wait(", value(n.in[0]), ")");
      case N::kEnumName:
        return value(n.in[0]) + ".name";
      case N::kEnumValue:
        return value(n.in[0]) + ".value";
      case N::kPrint:
        return str_cat("print(", list(n.in), ")");
      case N::kRaise:
        return str_cat("ops.prim.RaiseException(", value(n.in[0]),
                       n.in[1]->type->is(K::kNone) ? "" : ", " + value(n.in[1]), ")");
      case N::kHostCall:
        if (uses_.readable) return str_cat("^", n.name, "(", list(n.in), ")");
        throw Error(str_cat(
            "\nCould not export Python function call '", n.name,
            "'. Remove calls to Python functions before export. Did you forget to add @script or @script_method "
            "annotation? If this is a nn.ModuleList, add it to __constants__:\n",
            n.range.excerpt()));
      default:
        break;
    }
    throw Error(str_cat("a node ", n.kind_name(), " cannot be written as text"));
  }

  void node(const Node& n) {
    if (n.kind == N::kConstant || n.kind == N::kEnter || n.kind == N::kExit) return;
    n.kind == N::kLoop ? write_waiting() : use(n.in);
    switch (n.kind) {
      case N::kIf:
        return condition(n);
      case N::kLoop:
        return loop(n);
      case N::kSetAttr:
        return now(str_cat(attribute_target(n), " = ", value(n.in[1])));
      case N::kTupleUnpack:
      case N::kListUnpack: {
        std::string names, s = value(n.in[0]);
        write_waiting();
        for (const Val* v : n.out) names += (names_[v] = fresh(v->name)) + ", ";
        return line(str_cat(names.empty() ? "_ = " : names, names.empty() ? "" : "= ", s));
      }
      default:
        break;
    }
    const std::string s = expression(n);
    if (may_wait(n) && s.size() <= kLongestInside) {
      names_[n.out[0]] = s;
      waiting_.push_back(n.out[0]);
      return;
    }
    write_waiting();
    if (n.out.empty()) return line(s);
    if (n.out.size() > 1) {
      std::string names;
      for (const Val* v : n.out) names += (names_[v] = fresh(v->name)) + ", ";
      return line(str_cat(names, "= ", s));
    }
    if (n.out[0]->uses == 0 && (n.kind == N::kOp || n.kind == N::kCallFunction || n.kind == N::kCallMethod))
      return line(str_cat(names_[n.out[0]] = fresh(""), " = ", s));
    const auto own = targets_.find(n.out[0]);
    line(str_cat(names_[n.out[0]] = own == targets_.end() ? fresh(n.out[0]->name) : own->second, " = ", s));
  }
  std::string attribute_target(const Node& n) { return str_cat(value(n.in[0]), ".", n.name); }

  void block(const Block& b) {
    for (const Node* n : b.nodes) node(*n);
  }
  std::string as_type(const Val* v, TypePtr t) {
    const std::string s = value(v);
    return same(v->type, t) || t->is(K::kTensor) ? s : str_cat("annotate(", type(t), ", ", s, ")");
  }
  void condition(const Node& n) {
    const std::string test = value(n.in[0]);
    write_waiting();
    std::vector<std::string> names;
    for (const Val* v : n.out) {
      const auto own = targets_.find(v);
      names.push_back(own == targets_.end() ? fresh(v->name) : own->second);
    }
    for (size_t i = 0; i < 2; ++i) {
      line(i ? "else:" : str_cat("if ", test, ":"));
      indent_ += 2;
      const size_t before = out_.size();
      const Block& b = *n.blocks[i];
      // what the branch computes for an output has the output's name at once
      for (size_t k = 0; k < names.size(); ++k)
        if (const Val* v = b.returns[k]; v->node && v->node->owner == &b && v->uses == 1 && v->node->out.size() == 1 &&
                                         v->node->kind != N::kConstant && v->node->kind != N::kLoop &&
                                         same(v->type, n.out[k]->type))
          targets_[v] = names[k];
      block(b);
      use(b.returns);
      write_waiting();
      for (size_t k = 0; k < names.size(); ++k)
        if (const std::string s = as_type(b.returns[k], n.out[k]->type); s != names[k])
          line(str_cat(names[k], " = ", s));
      if (out_.size() == before) line("pass");
      indent_ -= 2;
    }
    for (size_t k = 0; k < names.size(); ++k) names_[n.out[k]] = names[k];
  }
  static const Value* known(const Val* v) {
    return v->node && v->node->kind == N::kConstant ? &v->node->constant : nullptr;
  }
  void loop(const Node& n) {
    const Block& b = *n.blocks[0];
    const Value *start = known(n.in[1]), *next = known(b.returns[0]), *trips = known(n.in[0]);
    const bool plain = start && start->boolean() && next && next->boolean();
    const bool endless = trips && trips->integer() == INT64_MAX;
    std::vector<std::string> carried;
    for (size_t i = 1; i < b.params.size(); ++i) {
      const std::string name = fresh(b.params[i]->name);
      line(str_cat(name, " = ", as_type(n.in[1 + i], b.params[i]->type)));
      carried.push_back(name);
      names_[b.params[i]] = name;
    }
    std::string targets, sources;
    const auto also = [&](const std::string& target, const std::string& source) {
      targets += (targets.empty() ? "" : ", ") + target;
      sources += (sources.empty() ? "" : ", ") + source;
    };
    const std::string index = fresh(b.params[0]->name);
    names_[b.params[0]] = index;
    std::string go, count;
    if (plain) {
      line(str_cat("for ", index, " in range(", value(n.in[0]), "):"));
    } else {
      go = fresh("");
      if (!endless) count = value(n.in[0]);
      if (!endless || b.params[0]->uses) line(str_cat(index, " = 0"));
      line(str_cat(go, " = ",
                   endless ? value(n.in[1])
                           : str_cat("torch.__and__(torch.lt(", index, ", ", count, "), ", value(n.in[1]), ")")));
      line(str_cat("while ", go, ":"));
    }
    indent_ += 2;
    const size_t before = out_.size();
    block(b);
    write_waiting();
    if (!plain) {
      if (!endless || b.params[0]->uses) {
        const std::string following = fresh("");
        line(str_cat(following, " = torch.add(", index, ", 1)"));
        also(index, following);
        also(go, endless ? value(b.returns[0])
                         : str_cat("torch.__and__(torch.lt(", following, ", ", count, "), ", value(b.returns[0]), ")"));
      } else {
        also(go, value(b.returns[0]));
      }
    }
    for (size_t i = 0; i < carried.size(); ++i) also(carried[i], as_type(b.returns[1 + i], b.params[1 + i]->type));
    if (!targets.empty()) line(str_cat(targets, " = ", sources));
    if (out_.size() == before) line("pass");
    indent_ -= 2;
    for (size_t i = 0; i < carried.size(); ++i) names_[n.out[i]] = carried[i];
  }

  std::string& out_;
  SourceUses& uses_;
  size_t indent_ = 0;
  int next_ = 0;
  std::unordered_map<const Val*, std::string> names_;    // or expressions
  std::unordered_map<const Val*, std::string> targets_;  // names that are given already
  std::vector<const Val*> waiting_;
  std::set<std::string> taken_;
};

}  // namespace

void SourceUses::add(TypePtr t) {
  if (t->def && t->def->is_native) return;
  if (std::find(types.begin(), types.end(), t) == types.end()) types.push_back(t);
}
void SourceUses::add(Function* f) {
  if (f->is_native) return;
  if (std::find(functions.begin(), functions.end(), f) == functions.end()) functions.push_back(f);
}
size_t SourceUses::add_constant(const Value& v) {
  for (size_t i = 0; i < constants.size(); ++i)
    if (constants[i].is_tensor() && v.is_tensor() && constants[i].tensor().is_same(v.tensor())) return i;
  constants.push_back(v);
  return constants.size() - 1;
}

void print_source(Function& f, size_t indent, bool with_self_type, SourceUses& uses, std::string* out) {
  const std::unique_ptr<Graph> g = copy_graph(f.ensure_graph());
  Writer(*out, uses).function(f, *g, indent, with_self_type);
}

void print_class(TypePtr t, SourceUses& uses, std::string* out) {
  const std::string name = t->name.substr(t->name.rfind('.') + 1);
  const auto note = [&](auto& self, TypePtr x) -> void {
    if (x->is(K::kClass) || x->is(K::kInterface) || x->is(K::kEnum) || (x->is(K::kTuple) && !x->name.empty()))
      uses.add(x);
    for (TypePtr e : x->elems) self(self, e);
  };
  if (t->is(K::kTuple)) {
    *out += str_cat("class ", name, "(NamedTuple):\n");
    for (size_t i = 0; i < t->fields.size(); ++i) {
      note(note, t->elems[i]);
      *out += str_cat("  ", t->fields[i], " : ", t->elems[i]->annotation(), "\n");
    }
    return;
  }
  ClassDef& d = *t->def;
  if (t->is(K::kEnum)) {
    *out += str_cat("class ", name, "(Enum):\n");
    for (const ConstantAttribute& c : d.items)
      *out += str_cat("  ", c.name, " = ",
                      c.value.tag() == Value::Tag::kString ? quote(c.value.string()) : to_text(c.value), "\n");
    return;
  }
  if (t->is(K::kInterface)) {
    *out += str_cat("class ", name, "(ModuleInterface):\n");
    for (Function* f : d.methods) {
      f->ensure_schema();
      *out += str_cat("  def ", f->name, "(self");
      for (size_t i = 1; i < f->args.size(); ++i) {
        note(note, f->args[i].type);
        *out += str_cat(",\n    ", f->args[i].name, ": ", f->args[i].type->annotation());
      }
      note(note, f->ret);
      *out += str_cat(") -> ", f->ret->annotation(), ":\n    pass\n");
    }
    return;
  }
  *out += str_cat("class ", name, d.is_module ? "(Module):\n" : ":\n");
  if (d.is_module) {
    const auto names = [&](bool Attribute::*which) {
      std::string s;
      for (const Attribute& a : d.attributes)
        if (a.*which) s += quote(a.name) + ", ";
      return s;
    };
    *out += str_cat("  __parameters__ = [", names(&Attribute::is_parameter), "]\n  __buffers__ = [",
                    names(&Attribute::is_buffer), "]\n");
    for (const auto& [list, word] : {std::pair(&d.pre_hooks, "pre_hooks"), std::pair(&d.hooks, "hooks")}) {
      std::string s;
      for (const Function* f : *list) s += quote(f->name) + ", ";
      if (!s.empty()) *out += str_cat("  __forward_", word, "__ = [", s, "]\n");
    }
  }
  if (std::any_of(d.attributes.begin(), d.attributes.end(), [](const Attribute& a) { return !identifier(a.name); }))
    *out += "  __annotations__ = []\n";
  for (const Attribute& a : d.attributes) {
    note(note, a.type);
    *out += identifier(a.name) ? str_cat("  ", a.name, " : ", a.type->annotation(), "\n")
                               : str_cat("  __annotations__[", quote(a.name), "] = ", a.type->annotation(), "\n");
  }
  for (const ConstantAttribute& c : d.constants) {
    std::string text;
    const auto write = [&](auto& self, const Value& v) -> bool {
      const Object* o = v.tag() == Value::Tag::kObject ? object_of(v) : nullptr;
      if (!o) {
        if (v.tag() == Value::Tag::kString)
          text += quote(v.string());
        else if (v.tag() <= Value::Tag::kDouble)
          text += to_text(v);
        else
          return false;
        if (v.tag() == Value::Tag::kDouble && !(v.number() - v.number() == 0)) return false;
        return true;
      }
      if (o->kind != ObjectKind::kList && o->kind != ObjectKind::kTuple) return false;
      const bool l = o->kind == ObjectKind::kList;
      const auto& items = l ? as<List>(v).items : as<Tuple>(v).items;
      text += l ? "[" : "(";
      for (const Value& e : items) {
        if (!self(self, e)) return false;
        text += items.size() == 1 && !l ? "," : ", ";
      }
      text += l ? "]" : ")";
      return true;
    };
    if (identifier(c.name) && write(write, c.value))
      *out += str_cat("  ", c.name, " : Final[", c.type->annotation(), "] = ", text, "\n");
  }
  const auto method = [&](Function* f) {
    if (!f->refused.empty() || f->host) return;
    print_source(*f, 2, true, uses, out);
  };
  for (Function* f : d.methods) method(f);
  for (const auto* list : {&d.hooks, &d.pre_hooks})
    for (Function* f : *list)
      if (d.method(f->name) != f) method(f);
  for (Function* f : d.statics) {
    *out += "  @staticmethod\n";
    method(f);
  }
}

}  // namespace tessera::jit
