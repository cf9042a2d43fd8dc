#include <algorithm>
#include <cstdlib>
#include <optional>

#include "jit/source/emitter.h"

namespace tessera::jit {

// --- nodes ---

Node* Emitter::node(N kind, std::vector<Val*> in, const Range& where) {
  Node* n = graph_.append(block_, kind, std::move(in));
  n->range = where;
  n->function_of = &function_;
  return n;
}
Val* Emitter::node_value(N kind, std::vector<Val*> in, TypePtr type, const Range& where) {
  return graph_.add_out(node(kind, std::move(in), where), type);
}
Val* Emitter::constant(const Value& v, TypePtr t, const Range& where) {
  const Object* o = v.tag() == Value::Tag::kObject ? object_of(v) : nullptr;
  if (o && (o->kind == ObjectKind::kList || o->kind == ObjectKind::kTuple)) {
    const auto& items = o->kind == ObjectKind::kList ? as<List>(v).items : as<Tuple>(v).items;
    TypePtr own = type_of(v);
    if (t->is(K::kList) || t->is(K::kTuple))
      own = t;
    else if (t->is(K::kOptional) && !t->elem()->is(K::kAny))
      own = t->elem();
    std::vector<Val*> in;
    for (size_t i = 0; i < items.size(); ++i)
      in.push_back(constant(items[i], own->is(K::kTuple) ? own->elems[i] : own->elem(), where));
    if (own->is(K::kTuple)) return tuple(std::move(in), where, own);
    return node_value(N::kList, std::move(in), own, where);
  }
  if (o && o->kind == ObjectKind::kDict) {
    std::vector<Val*> in;
    for (const auto& [k, e] : as<Dict>(v).items) {
      in.push_back(constant(k, as<Dict>(v).key, where));
      in.push_back(constant(e, as<Dict>(v).value, where));
    }
    return node_value(N::kDict, std::move(in), type_of(v), where);
  }
  Val* c = node_value(N::kConstant, {},
                      o               ? type_of(v)
                      : v.is_none()   ? none_type()
                      : v.is_tensor() ? tensor_type()
                                      : type_of(v),
                      where);
  c->node->constant = v;
  return c;
}
Val* Emitter::uninitialized(TypePtr t, const Range& where) { return node_value(N::kUninitialized, {}, t, where); }
Val* Emitter::cast(Val* v, TypePtr t, const Range& where) {
  if (known(v) && known(v)->is_none() && accepts_none(t)) return v;
  return node_value(N::kCast, {v}, t, where);
}
Val* Emitter::tuple(std::vector<Val*> items, const Range& where, TypePtr type) {
  if (!type) {
    std::vector<TypePtr> t;
    for (const Val* v : items) t.push_back(v->type->inferred ? tensor_type() : v->type);
    type = tuple_of(std::move(t));
  }
  return node_value(N::kTuple, std::move(items), type, where);
}
Val* Emitter::tuple_item(Val* t, size_t i, const Range& where) {
  if (t->node && t->node->kind == N::kTuple) return t->node->in[i];
  Val* index = integer(static_cast<int64_t>(i), where);
  return node_value(N::kTupleIndex, {t, index}, t->type->elems[i], where);
}
std::vector<Val*> Emitter::unpacked(Val* v, size_t n, const Range& where, bool exact) {
  if (v->type->is(K::kTuple)) {
    if (v->node && v->node->kind == N::kTuple && v->type->name.empty()) return v->node->in;
    Node* u = node(N::kTupleUnpack, {v}, where);
    for (TypePtr t : v->type->elems) graph_.add_out(u, t);
    return u->out;
  }
  if (!exact) fail(where, "a starred target needs a tuple on the right");
  if (v->type->is(K::kTensor)) v = op("aten::unbind", {v, integer(0, where)}, where);
  if (!v->type->is(K::kList)) fail(where, str_cat(v->type->described(), " cannot be used as a tuple"));
  Node* u = node(N::kListUnpack, {v}, where);
  for (size_t i = 0; i < n; ++i) graph_.add_out(u, v->type->elem());
  return u->out;
}
Val* Emitter::value_of(const Sugar& s, const Range& where) {
  switch (s.kind) {
    case Sugar::kValue:
      return s.value;
    case Sugar::kConstant:
      return constant(s.constant, s.type, where);
    case Sugar::kItems: {
      std::vector<Val*> items;
      for (const Sugar& i : s.items) items.push_back(value_of(i, where));
      if (s.text == "dict") break;
      return tuple(std::move(items), where);
    }
    case Sugar::kIterable: {
      const Iteration it = iterate(s, where);
      if (it.is_unrolled) break;
      fail(where, str_cat(s.text, " cannot be used as a value"));
    }
    case Sugar::kMethod:
      fail(where, str_cat("'", s.value->type->described(), "' object has no attribute or method '", s.text, "'."));
    case Sugar::kError:
      throw CompileError("\n" + s.text);
    case Sugar::kHost: {
      const std::string what = s.host->describe();
      fail(where,
           str_cat("python value of type '", what,
                   "' cannot be used as a value. Perhaps it is a closed over global "
                   "variable? If so, please consider passing it in as an argument or use a local variable instead."));
    }
    case Sugar::kFunction:
      fail(where, str_cat("the function '", s.function->name, "' cannot be used as a value"));
    default:
      break;
  }
  fail(where,
       str_cat(s.text.empty() ? (s.type ? s.type->annotation() : "this") : s.text, " cannot be used as a value"));
}
Val* Emitter::cast_to(Val* v, TypePtr t, const Range& where, const char* what, int64_t size, bool allow) {
  if (is_subtype(v->type, t)) return v;
  static const std::string name;
  const Formal f{&name, t, false, false, nullptr, size, false};
  if (Val* c = convert(v, f, t, allow, where)) return c;
  fail(where,
       str_cat("Expected an expression of type ", t->annotation(), " for ", what, " but found ", v->type->described()));
}

// --- expressions ---

std::string Emitter::dotted(const Ast& e) {
  if (e.is(A::kName)) return e.text;
  if (!e.is(A::kAttr)) return {};
  const std::string base = dotted(e[0]);
  return base.empty() ? base : base + "." + e.text;
}

Val* Emitter::expr(const Ast& e, TypePtr hint) { return value_of(sugar(e, hint), e); }

Sugar Emitter::sugar(const Ast& e, TypePtr hint) {
  struct Deep {
    int& d;
    ~Deep() { --d; }
  } deep{++depth_};
  if (depth_ > 600) fail(e, "the expression is nested too deeply");
  switch (e.kind) {
    case A::kName:
      return lookup(e.text, e);
    case A::kInt:
      return integer(std::strtoll(e.text.c_str(), nullptr, 10), e);
    case A::kFloat:
      return constant(Value::of(e.number), float_type(), e);
    case A::kImaginary:
      return constant(Value::of(std::complex<double>(0, e.number)), simple_type(K::kComplex), e);
    case A::kString:
      return text(e.text, e);
    case A::kTrue:
    case A::kFalse:
      return truth(e.is(A::kTrue), e);
    case A::kNone:
      return none(e);
    case A::kAttr:
      return attribute(sugar(e[0]), e.text, e);
    case A::kCall:
      return call(e, hint);
    case A::kSubscript:
      return subscript(e, hint);
    case A::kTuple: {
      std::vector<Val*> items;
      TypePtr want = hint && hint->is(K::kOptional) ? hint->elem() : hint;
      for (size_t i = 0; i < e.kids.size(); ++i) {
        if (e[i].is(A::kStarred)) {
          Val* t = expr(e[i][0]);
          if (!t->type->is(K::kTuple)) fail(e[i], "only tuples can be starred here");
          for (Val* x : unpacked(t, 0, e[i])) items.push_back(x);
          continue;
        }
        items.push_back(expr(e[i], want && want->is(K::kTuple) && i < want->elems.size() ? want->elems[i] : nullptr));
      }
      return tuple(std::move(items), e);
    }
    case A::kList:
      return list_literal(e, hint);
    case A::kDict:
      return dict_literal(e, hint);
    case A::kComp:
    case A::kDictComp:
      return comprehension(e, hint);
    case A::kBinary:
      return binary(e);
    case A::kUnary: {
      Val* v = expr(e[0]);
      if (const Value* k = known(v); k && e.text != "~") {
        if (k->tag() == Value::Tag::kInt)
          return integer(e.text == "-" ? static_cast<int64_t>(-static_cast<uint64_t>(k->integer())) : k->integer(), e);
        if (k->tag() == Value::Tag::kDouble)
          return constant(Value::of(e.text == "-" ? -k->number() : k->number()), float_type(), e);
      }
      if (e.text == "+") return v;
      if (v->type->is(K::kClass)) return call_method(v, e.text == "-" ? "__neg__" : "__invert__", {}, e);
      return op(e.text == "-" ? "aten::neg" : "aten::bitwise_not", {v}, e);
    }
    case A::kNot:
    case A::kAnd:
    case A::kOr: {
      const Condition c = condition(e);
      return condition_value(c, e);
    }
    case A::kCompare: {  // of tensors a tensor: only what decides wants a bool
      const std::optional<Condition> c = identity_test(e);
      return c ? condition_value(*c, e) : compare(e);
    }
    case A::kIf:
      return ternary(e, hint);
    case A::kFormatted:
      return formatted(e);
    case A::kEllipsis:
      return Sugar(Sugar::kSpecial, "Ellipsis");
    case A::kStarred:
      fail(e, "a starred expression cannot stand here");
    default:
      fail(e, "this expression isn't supported");
  }
}

// --- conditions ---

Val* Emitter::to_bool(Val* v, const Range& where) {
  if (v->type->is(K::kBool)) return v;
  std::string why;
  if (v->type->is(K::kClass) && v->type->def->method("__bool__")) return call_method(v, "__bool__", {}, where);
  if (v->type->is(K::kList) || v->type->is(K::kDict) || v->type->is(K::kStr))
    return op("aten::gt", {op("aten::len", {v}, where), integer(0, where)}, where);
  if (Val* b = try_op("aten::Bool", {{where, "", v}}, where, &why)) return b;
  fail(where, str_cat("Could not cast value of type ", v->type->described(), " to bool"));
}
Val* Emitter::condition_value(const Condition& c, const Range& where) {
  return c.known ? truth(*c.known, where) : c.value;
}

Emitter::Condition Emitter::condition(const Ast& e) {
  if (e.is(A::kNot)) {
    Condition c = condition(e[0]);
    std::swap(c.if_true, c.if_false);
    if (c.known)
      c.known = !*c.known;
    else
      c.value = op("aten::__not__", {c.value}, e);
    return c;
  }
  if (e.is(A::kAnd) || e.is(A::kOr)) return and_or(e);
  if (e.is(A::kCompare)) {
    if (std::optional<Condition> c = identity_test(e)) return *c;
    Condition c;
    c.value = to_bool(compare(e), e);
    return c;
  }
  if (e.is(A::kCall)) {
    const std::string name = dotted(e[0]);
    const bool plain = name == "isinstance" || name.ends_with(".isinstance");
    if (plain && e.kids.size() == 3) {
      const Sugar callee = sugar(e[0]);
      if (callee.kind == Sugar::kSpecial && callee.text == "isinstance")
        return isinstance_test(e, types_of_argument(e[2]), e[1]);
    }
  }
  Condition c;
  Sugar s = sugar(e);
  if (s.kind == Sugar::kConstant && s.constant.tag() == Value::Tag::kBool) {
    c.known = s.constant.boolean();
    return c;
  }
  Val* v = value_of(s, e);
  if (const Value* k = known(v); k && v->type->is(K::kBool)) {
    c.known = k->boolean();
    return c;
  }
  if (e.is(A::kName) && (v->type->is(K::kOptional)) && !v->type->elem()->is(K::kBool))
    fail(e, str_cat("Could not cast value of type ", v->type->described(), " to bool"));
  c.value = to_bool(v, e);
  return c;
}

Emitter::Condition Emitter::and_or(const Ast& e) {
  const bool is_and = e.is(A::kAnd);
  Condition left = condition(e[0]);
  if (left.known) {
    if (*left.known != is_and) return left;  // the right side is never looked at
    Frame f;
    f.outer = frame_;
    Condition right = condition(e[1]);
    return right;
  }
  Node* n = node(N::kIf, {left.value}, e);
  n->blocks = {graph_.new_block(n), graph_.new_block(n)};
  Block* const block = block_;
  Frame* const outer = frame_;
  Frame f;
  f.outer = outer;
  frame_ = &f, block_ = n->blocks[is_and ? 0 : 1];
  refine(is_and ? left.if_true : left.if_false, e[0]);
  const Condition right = condition(e[1]);
  n->blocks[is_and ? 0 : 1]->returns = {condition_value(right, e[1])};
  block_ = n->blocks[is_and ? 1 : 0];
  n->blocks[is_and ? 1 : 0]->returns = {truth(!is_and, e)};
  frame_ = outer, block_ = block;
  Condition c;
  c.value = graph_.add_out(n, bool_type());
  if (right.known && *right.known != is_and) c.known = right.known;  // whatever the left side is
  std::vector<Refinement>& sure = is_and ? c.if_true : c.if_false;
  sure = is_and ? left.if_true : left.if_false;
  const std::vector<Refinement>& more = is_and ? right.if_true : right.if_false;
  sure.insert(sure.end(), more.begin(), more.end());
  return c;
}

// x is None and its like.
std::optional<Emitter::Condition> Emitter::identity_test(const Ast& e) {
  if (e.text != "is" && e.text != "is not") return std::nullopt;
  const bool is_not = e.text == "is not";
  const Ast* object = e[1].is(A::kNone) ? &e[0] : e[0].is(A::kNone) ? &e[1] : nullptr;
  Condition c;
  if (!object) {
    c.value = op(is_not ? "aten::__isnot__" : "aten::__is__", {expr(e[0]), expr(e[1])}, e);
    return c;
  }
  const Sugar s = sugar(*object);
  if (s.kind != Sugar::kValue && s.kind != Sugar::kConstant) {
    c.known = is_not;
    return c;
  }
  Val* v = value_of(s, *object);
  if (v->type->is(K::kNone)) {
    c.known = !is_not;
    return c;
  }
  if (!accepts_none(v->type)) {
    c.known = is_not;
    return c;
  }
  c.value = op(is_not ? "aten::__isnot__" : "aten::__is__", {v, none(e)}, e);
  if (object->is(A::kName)) {
    const Refinement is_none{object->text, {none_type()}, true}, is_something{object->text, {none_type()}, false};
    c.if_true = {is_not ? is_something : is_none};
    c.if_false = {is_not ? is_none : is_something};
  }
  return c;
}

Emitter::Condition Emitter::isinstance_test(const Ast& e, const std::vector<TypePtr>& asked, const Ast& object) {
  Condition c;
  Val* v = expr(object);
  std::vector<TypePtr> types;  // `list`, `dict` and `tuple` stand for those that the value may be
  for (TypePtr t : asked) {
    const bool is_word =
        t->is(K::kTuple) ? t->elems.empty() : (t->is(K::kList) || t->is(K::kDict)) && t->elem()->is(K::kAny);
    const size_t before = types.size();
    if (is_word)
      for (TypePtr m : members(v->type))
        if (m->kind == t->kind) types.push_back(m);
    if (types.size() == before) types.push_back(t);
  }
  bool always = true, never = true;
  for (TypePtr m : members(v->type)) {
    bool in = false, maybe = m->is(K::kAny) || m->is(K::kInterface) || m->is(K::kNumber);
    for (TypePtr t : types) {
      in = in || is_subtype(m, t) || (t->is(K::kList) && t->elem()->is(K::kAny) && m->is(K::kList)) ||
           (t->is(K::kDict) && m->is(K::kDict) && t->elem()->is(K::kAny)) ||
           (t->is(K::kTuple) && t->elems.empty() && m->is(K::kTuple));
      maybe = maybe || (m->is(K::kTuple) && t->is(K::kTuple) && m->elems.size() == t->elems.size());
    }
    always = always && in;
    never = never && !in && !maybe;
  }
  if (always || never) {
    c.known = always;
    return c;
  }
  Node* n = node(N::kIsInstance, {v}, e);
  n->types = types;
  c.value = graph_.add_out(n, bool_type());
  if (object.is(A::kName)) {
    c.if_true = {{object.text, types, true}};
    c.if_false = {{object.text, types, false}};
  }
  return c;
}

// --- operators ---

namespace {
struct BinaryName {
  const char *text, *op, *magic;
};
constexpr BinaryName kBinaryNames[] = {{"+", "aten::add", "__add__"},
                                       {"-", "aten::sub", "__sub__"},
                                       {"*", "aten::mul", "__mul__"},
                                       {"/", "aten::div", "__truediv__"},
                                       {"//", "aten::floordiv", "__floordiv__"},
                                       {"%", "aten::remainder", "__mod__"},
                                       {"**", "aten::pow", "__pow__"},
                                       {"@", "aten::matmul", "__matmul__"},
                                       {"&", "aten::__and__", "__and__"},
                                       {"|", "aten::__or__", "__or__"},
                                       {"^", "aten::__xor__", "__xor__"},
                                       {"<<", "aten::__lshift__", "__lshift__"},
                                       {">>", "aten::__rshift__", "__rshift__"},
                                       {"==", "aten::eq", "__eq__"},
                                       {"!=", "aten::ne", "__ne__"},
                                       {"<", "aten::lt", "__lt__"},
                                       {">", "aten::gt", "__gt__"},
                                       {"<=", "aten::le", "__le__"},
                                       {">=", "aten::ge", "__ge__"}};
}  // namespace

Val* Emitter::binary(const Ast& e) {
  Val* left = expr(e[0]);
  Val* right = expr(e[1]);
  return arithmetic(e.text, left, right, e);
}

Val* Emitter::arithmetic(const std::string& text, Val* left, Val* right, const Range& where) {
  const BinaryName* name = nullptr;
  for (const BinaryName& b : kBinaryNames)
    if (text == b.text) name = &b;
  if (!name) fail(where, str_cat("the operator ", text, " isn't supported"));
  if (left->type->is(K::kClass)) {
    if (!left->type->def->method(name->magic))
      fail(where, str_cat("Class ", left->type->annotation(), " does not have a ", name->magic, " method"));
    return call_method(left, name->magic, {{where, "", right}}, where);
  }
  if (left->type->is(K::kStr) && text == "%") {
    std::vector<Val*> in{left};
    Val* formatted = op("aten::percentFormat", {{where, "", left}, {where, "", right}}, where);
    return formatted;
  }
  if (left->type->is(K::kTuple) && right->type->is(K::kTuple) && text == "+") {
    std::vector<Val*> items = unpacked(left, 0, where);
    for (Val* v : unpacked(right, 0, where)) items.push_back(v);
    return tuple(std::move(items), where);
  }
  const bool tensor_right = right->type->is(K::kTensor) && (left->type->is_number() || left->type->is(K::kBool));
  if (tensor_right) {  // a number and a tensor
    if (text == "+" || text == "*" || text == "==" || text == "!=" || text == "&" || text == "|" || text == "^")
      return op(name->op, {right, left}, where);
    if (text == "-") return op("aten::add", {op("aten::neg", {right}, where), left}, where);
    if (text == "/") return op("aten::mul", {op("aten::reciprocal", {right}, where), left}, where);
    if (text == "//") return op("aten::floor_divide", {op("aten::scalar_tensor", {left}, where), right}, where);
    for (const auto& [from, to] :
         {std::pair{"<", "aten::gt"}, {">", "aten::lt"}, {"<=", "aten::ge"}, {">=", "aten::le"}})
      if (text == from) return op(to, {right, left}, where);
  }
  if (text == "//" && left->type->is(K::kTensor)) return op("aten::floor_divide", {left, right}, where);
  if ((text == "==" || text == "!=") && left->type->is(K::kEnum)) {
    if (!same(left->type, right->type)) return truth(text == "!=", where);
    return op(name->op, {left, right}, where);
  }
  return op(name->op, {left, right}, where);
}

bool Emitter::contains(const Ast& e, Val** out) {
  if (e.text != "in" && e.text != "not in") return false;
  Val* item = expr(e[0]);
  Sugar within = sugar(e[1]);
  Val* found;
  if (within.kind == Sugar::kItems && within.text == "dict") {  // a ModuleDict: known now
    const Value* k = known(item);
    if (!k || k->tag() != Value::Tag::kString) fail(e, "only a constant string can be looked for in a ModuleDict");
    found = truth(std::find(within.names.begin(), within.names.end(), k->string()) != within.names.end(), e);
  } else {
    Val* container = value_of(within, e[1]);
    const ClassDef* def = container->type->def;
    if (container->type->is_module() && def->module_kind != ModuleKind::kPlain &&
        !has_own(container, "__contains__", e)) {
      const Value* k = known(item);
      found = truth(false, e);
      for (const Attribute& a : def->attributes) {
        if (!(a.type->is_module() || a.type->is(K::kInterface) || a.is_parameter)) continue;
        if (k && k->tag() == Value::Tag::kString)
          found = k->string() == a.name ? truth(true, e) : found;
        else
          found = op("aten::__or__", {found, op("aten::eq", {item, text(a.name, e)}, e)}, e);
      }
    } else if (container->type->is(K::kClass)) {
      found = call_method(container, "__contains__", {{e, "", item}}, e);
    } else if (container->type->is(K::kTuple)) {
      std::vector<Val*> all = unpacked(container, 0, e);
      found = nullptr;
      for (Val* x : all) {
        Val* same_value = arithmetic("==", item, x, e);
        found = found ? op("aten::__or__", {found, to_bool(same_value, e)}, e) : to_bool(same_value, e);
      }
      if (!found) found = truth(false, e);
    } else {
      found = op("aten::__contains__", {container, item}, e);
    }
  }
  *out = e.text == "in" ? found : op("aten::__not__", {found}, e);
  return true;
}
Val* Emitter::compare(const Ast& e) {
  Val* v;
  if (contains(e, &v)) return v;
  Val* left = expr(e[0]);
  Val* right = expr(e[1]);
  if ((e.text == "==" || e.text == "!=") && left->type->is(K::kTuple) && right->type->is(K::kTuple)) {
    std::vector<Val*> a = unpacked(left, 0, e), b = unpacked(right, 0, e);
    Val* all = truth(a.size() == b.size(), e);
    for (size_t i = 0; i < a.size() && i < b.size(); ++i)
      all = op("aten::__and__", {all, to_bool(arithmetic("==", a[i], b[i], e), e)}, e);
    return e.text == "==" ? all : op("aten::__not__", {all}, e);
  }
  return arithmetic(e.text, left, right, e);
}

Val* Emitter::ternary(const Ast& e, TypePtr hint) {
  const Condition c = condition(e[0]);
  if (c.known) {
    Frame f;
    f.outer = frame_;
    Frame* const outer = frame_;
    frame_ = &f;
    refine(*c.known ? c.if_true : c.if_false, e[0]);
    Val* v = expr(*c.known ? e[1] : e[2], hint);
    frame_ = outer;
    return v;
  }
  Node* n = node(N::kIf, {c.value}, e);
  n->blocks = {graph_.new_block(n), graph_.new_block(n)};
  Block* const block = block_;
  Frame* const outer = frame_;
  Val* values[2];
  for (size_t i = 0; i < 2; ++i) {
    Frame f;
    f.outer = outer;
    frame_ = &f, block_ = n->blocks[i];
    refine(i ? c.if_false : c.if_true, e[0]);
    values[i] = expr(e[1 + i], hint);
    n->blocks[i]->returns = {values[i]};
    frame_ = outer, block_ = block;
  }
  TypePtr t = unify(values[0]->type, values[1]->type);
  if (hint && is_subtype(values[0]->type, hint) && is_subtype(values[1]->type, hint)) t = hint;
  if (!t)
    fail(e, str_cat("Type mismatch: the expression is of type ", values[0]->type->described(),
                    " if the condition is true and of type ", values[1]->type->described(), " if it is not"));
  return graph_.add_out(n, t);
}

// --- literals ---

namespace {
TypePtr list_hint(TypePtr hint, K kind) {
  if (!hint) return nullptr;
  for (TypePtr m : members(hint))
    if (m->is(kind)) return m;
  return nullptr;
}
}  // namespace

Val* Emitter::list_literal(const Ast& e, TypePtr hint) {
  TypePtr want = list_hint(hint, K::kList);
  std::vector<Val*> items;
  TypePtr t = nullptr;
  for (const Ast* k : e.kids) {
    Val* v = expr(*k, want ? want->elem() : nullptr);
    items.push_back(v);
    TypePtr both = t ? unify(t, v->type) : v->type;
    if (!both && !want) both = union_of({t, v->type});
    t = both;
  }
  if (want) {
    for (Val*& v : items)
      if (!is_subtype(v->type, want->elem())) v = cast_to(v, want->elem(), e, "an element of the list");
    t = want->elem();
  }
  if (!t) t = tensor_type();
  return node_value(N::kList, std::move(items), list_of(t), e);
}
Val* Emitter::dict_literal(const Ast& e, TypePtr hint) {
  TypePtr want = list_hint(hint, K::kDict);
  std::vector<Val*> items;
  TypePtr t[2] = {nullptr, nullptr};
  for (size_t i = 0; i < e.kids.size(); ++i) {
    Val* v = expr(e[i], want ? want->elems[i % 2] : nullptr);
    if (want && !is_subtype(v->type, want->elems[i % 2]))
      v = cast_to(v, want->elems[i % 2], e[i], "an entry of the dict");
    items.push_back(v);
    TypePtr& own = t[i % 2];
    TypePtr both = own ? unify(own, v->type) : v->type;
    if (!both && !want && i % 2 == 0)
      fail(e[i], str_cat("Dict keys must be of one type, but found ", own->described(), " and ", v->type->described()));
    if (!both && !want) both = union_of({own, v->type});
    own = both;
  }
  if (want) t[0] = want->elem(0), t[1] = want->elem(1);
  if (!t[0]) t[0] = str_type(), t[1] = tensor_type();
  constexpr K keys[] = {K::kStr, K::kInt, K::kFloat, K::kBool, K::kComplex, K::kTensor, K::kDevice, K::kEnum};
  if (std::find(std::begin(keys), std::end(keys), t[0]->kind) == std::end(keys))
    fail(e, str_cat("Cannot create dict for key type '", t[0]->annotation(),
                    "', only int, float, complex, Tensor, device and string keys are supported"));
  return node_value(N::kDict, std::move(items), dict_of(t[0], t[1]), e);
}

// [element for target in iterable if conditions], {key: value for ...}
Val* Emitter::comprehension(const Ast& e, TypePtr hint) {
  const bool is_dict = e.is(A::kDictComp);
  const size_t at = is_dict ? 2 : 1;
  const Iteration it = iterate_ast(e[at + 1]);
  Node* make = node(is_dict ? N::kDict : N::kList, {}, e);
  TypePtr want = list_hint(hint, is_dict ? K::kDict : K::kList);
  Val* result = graph_.add_out(make, want ? want : tensor_type());
  const auto add = [&] {
    Val* v = expr(e[is_dict ? 1 : 0], want ? want->elems.back() : nullptr);
    TypePtr vt = v->type->inferred ? tensor_type() : v->type;
    Val* k = is_dict ? expr(e[0]) : nullptr;
    if (!want && result->type == tensor_type()) result->type = is_dict ? dict_of(k->type, vt) : list_of(vt);
    if (!is_subtype(v->type, result->type->elems.back()))
      fail(e, str_cat("the elements of a comprehension must be of one type, but found ",
                      result->type->elems.back()->annotation(), " and ", v->type->described()));
    if (is_dict)
      op("aten::_set_item", {result, k, v}, e);
    else
      op("aten::append", {result, v}, e);
  };
  const auto body = [&](auto bind) {
    Frame f;
    f.outer = frame_;
    Frame* const outer = frame_;
    frame_ = &f;
    bind();
    Block* const block = block_;
    for (size_t i = at + 2; i < e.kids.size(); ++i) {
      const Condition c = condition(e[i]);
      Node* n = node(N::kIf, {condition_value(c, e[i])}, e[i]);
      n->blocks = {graph_.new_block(n), graph_.new_block(n)};
      block_ = n->blocks[0];
      refine(c.if_true, e[i]);
    }
    add();
    block_ = block;
    frame_ = outer;
  };
  if (it.is_unrolled) {
    for (const Sugar& s : it.unrolled) body([&] { assign(e[at], s, e[at]); });
    if (!want && it.unrolled.empty()) result->type = list_of(tensor_type());
    return result;
  }
  Val* go = truth(true, e);
  Node* n = node(N::kLoop, {it.trips, go}, e);
  Block* inner = graph_.new_block(n);
  n->blocks = {inner};
  Val* index = graph_.add_param(inner, int_type());
  Block* const block = block_;
  block_ = inner;
  body([&] { assign(e[at], element(it, index, e[at + 1]), e[at]); });
  inner->returns = {truth(true, e)};
  block_ = block;
  return result;
}

Val* Emitter::formatted(const Ast& e) {
  std::string format;
  std::vector<Argument> args(1);
  for (const Ast* k : e.kids) {
    if (k->is(A::kString)) {
      for (char c : k->text) {
        format += c;
        if (c == '{' || c == '}') format += c;
      }
      continue;
    }
    const bool has_form = k->is(A::kFormatted) && !k->text.empty();  // {value!r:>5}
    format += has_form ? str_cat("{", k->text, "}") : "{}";
    args.push_back({e, "", expr(has_form ? (*k)[0] : *k)});
  }
  args[0] = {e, "", text(format, e)};
  return op("aten::format", std::move(args), e);
}

// --- subscripts ---

Sugar Emitter::tuple_subscript(Val* base, const Ast& e) {
  const int64_t n = static_cast<int64_t>(base->type->elems.size());
  if (e[1].is(A::kSlice)) {
    int64_t bounds[3] = {0, n, 1};
    bool given[3] = {};
    for (size_t i = 0; i < 3; ++i) {
      if (e[1][i].is(A::kEmpty) || e[1][i].is(A::kNone)) continue;
      Val* v = expr(e[1][i]);
      const Value* k = known(v);
      if (!k || k->tag() != Value::Tag::kInt) fail(e, "tuple slice indices must be constant integers");
      bounds[i] = k->integer();
      given[i] = true;
    }
    const int64_t step = bounds[2];
    if (step == 0) fail(e, "slice step cannot be zero");
    const auto clip = [&](int64_t i) {
      if (i < 0) i += n;
      return step > 0 ? std::clamp<int64_t>(i, 0, n) : std::clamp<int64_t>(i, -1, n - 1);
    };
    const int64_t b = given[0]   ? clip(bounds[0])
                      : step > 0 ? 0
                                 : n - 1,
                  end = given[1]   ? clip(bounds[1])
                        : step > 0 ? n
                                   : -1;
    std::vector<Val*> items;
    for (int64_t i = b; step > 0 ? i < end : i > end; i += step)
      items.push_back(tuple_item(base, static_cast<size_t>(i), e));
    return tuple(std::move(items), e);
  }
  Val* index = expr(e[1]);
  const Value* k = known(index);
  if (k && k->tag() == Value::Tag::kInt) {
    const int64_t i = k->integer() < 0 ? k->integer() + n : k->integer();
    if (i < 0 || i >= n)
      fail(e, str_cat("Tuple index out of range. Tuple is length ", n, " and index is ", k->integer()));
    return tuple_item(base, static_cast<size_t>(i), e);
  }
  for (TypePtr t : base->type->elems)
    if (!same(t, base->type->elems[0]))
      fail(e, "Cannot index into a tuple with a non-integer literal because we cannot resolve the output type");
  if (!index->type->is(K::kInt)) fail(e, "tuple index must be an integer");
  return node_value(N::kTupleIndex, {base, index}, base->type->elems[0], e);
}

// Whether a class, or a container of modules, says itself what a method does.
bool Emitter::has_own(Val* object, const char* method, const Range& where) {
  const size_t mark = block_->nodes.size();
  try {
    value_attribute(object, method, where);
    return true;
  } catch (const CompileError&) {
    block_->nodes.resize(mark);
    return false;
  }
}

// One of several modules by an index or a name that is known when the program runs; all of them are of the annotated
// interface.
Val* Emitter::module_at(const Sugar& modules, Val* index, TypePtr type, const Range& where) {
  const std::vector<Sugar>& all = modules.items;
  const bool by_name = index->type->is(K::kStr);
  const auto n = static_cast<int64_t>(all.size());
  for (const Sugar& s : all)
    if (s.kind != Sugar::kValue || !is_subtype(s.value->type, type))
      fail(where, str_cat("an index that isn't constant needs modules of the type ", type->annotation()));
  Block* const block = block_;
  Val* result = nullptr;
  Node* outer = nullptr;
  for (int64_t i = 0; i < n; ++i) {
    Val* here;
    if (by_name) {
      here = op("aten::eq", {index, text(modules.names[static_cast<size_t>(i)], where)}, where);
    } else {
      Val* from_front = op("aten::eq", {index, integer(i, where)}, where);
      Val* from_back = op("aten::eq", {index, integer(i - n, where)}, where);
      here = op("aten::__or__", {from_front, from_back}, where);
    }
    Node* choice = node(N::kIf, {here}, where);
    choice->blocks = {graph_.new_block(choice), graph_.new_block(choice)};
    choice->blocks[0]->returns = {all[static_cast<size_t>(i)].value};
    Val* out = graph_.add_out(choice, type);
    if (outer)
      outer->blocks[1]->returns = {out};
    else
      result = out;
    outer = choice;
    block_ = choice->blocks[1];
  }
  emit_raise(where, by_name ? index : text("list index out of range", where), by_name ? "builtins.KeyError" : "");
  Val* nothing = uninitialized(type, where);
  if (outer)
    outer->blocks[1]->returns = {nothing};
  else
    result = nothing;
  block_ = block;
  return result;
}

Sugar Emitter::subscript(const Ast& given, TypePtr hint) {
  const Sugar s = sugar(given[0]);
  const Ast& e = with_slices(given);
  // What the slice e[1] takes of items that are known while compiling.
  const auto part_of = [&](const std::vector<Sugar>& items) {
    const auto n = static_cast<int64_t>(items.size());
    const auto bound = [&](size_t i) -> std::optional<int64_t> {
      if (e[1][i].is(A::kEmpty)) return {};
      const Value* v = known(expr(e[1][i]));
      if (!v || !(v->is_none() || v->tag() == Value::Tag::kInt))
        fail(e, "the indices of a slice of modules must be constant");
      if (v->is_none()) return {};
      return v->integer();
    };
    const auto from = bound(0), to = bound(1);
    const int64_t step = std::clamp<int64_t>(bound(2).value_or(1), -n - 1, n + 1);
    if (!step) fail(e, "the step of a slice cannot be zero");
    // The places that a slice may begin and end at lie one before the first item when it runs backwards.
    const int64_t least = step < 0 ? -1 : 0;
    const auto place = [&](std::optional<int64_t> at, int64_t otherwise) {
      return !at ? otherwise : std::clamp<int64_t>(*at < 0 ? *at + n : *at, least, n + least);
    };
    const int64_t end = place(to, step < 0 ? -1 : n);
    std::vector<Sugar> part;
    for (int64_t i = place(from, step < 0 ? n - 1 : 0); step < 0 ? i > end : i < end; i += step)
      part.push_back(items[static_cast<size_t>(i)]);
    return Sugar::of_items(std::move(part));
  };
  if (s.kind == Sugar::kItems) {
    if (e.kids.size() != 2) fail(e, "only one index is supported here");
    if (e[1].is(A::kSlice) && s.text != "dict") return part_of(s.items);
    Val* index = expr(e[1]);
    const Value* k = known(index);
    if (k && k->tag() == Value::Tag::kString)
      for (size_t i = 0; i < s.names.size(); ++i)
        if (s.names[i] == k->string())
          return s.items[i].kind == Sugar::kItems && s.text == "dict" ? s.items[i].items[1] : s.items[i];
    if (k && k->tag() == Value::Tag::kInt && s.text != "dict") {
      const int64_t n = static_cast<int64_t>(s.items.size()), i = k->integer() < 0 ? k->integer() + n : k->integer();
      if (i >= 0 && i < n) return s.items[static_cast<size_t>(i)];
      fail(e, str_cat("Index ", k->integer(), " out of range"));
    }
    if (!k)
      fail(e,
           "Unable to extract string literal index. ModuleDict indexing is only supported with string literals. "
           "Enumeration of "
           "ModuleList is supported, e.g. 'for index, v in enumerate(self.items): ...'");
    fail(e, str_cat("Key Error, ", to_text(*k)));
  }
  if (s.kind == Sugar::kType || (s.kind == Sugar::kSpecial && s.text != "Ellipsis")) {
    if (s.kind == Sugar::kType && s.type->is(K::kEnum)) {
      Val* key = expr(e[1]);
      if (const Value* k = known(key); k && k->tag() == Value::Tag::kString)
        return type_attribute(s.type, std::string(k->string()), e);
    }
    return Sugar::of_type(annotation(e));
  }
  Val* base = value_of(s, e[0]);
  if (base->type->is(K::kTensor)) return index_tensor(base, e);
  if (base->type->is(K::kOptional))
    fail(e, str_cat("'", base->type->annotation(), "' object is not subscriptable: check that it is not None first"));
  if (base->type->is_module()) {
    if (base->type->def->module_kind == ModuleKind::kPlain) {
      if (Sugar get = value_attribute(base, "__getitem__", e); get.kind == Sugar::kMethod)
        return call_method(base, "__getitem__", {{e, "", expr(e[1])}}, e);
    }
    const ClassDef& def = *base->type->def;
    Sugar all = Sugar::of_items({});
    const bool dict = def.module_kind == ModuleKind::kDict || def.module_kind == ModuleKind::kParameterDict;
    for (const Attribute& a : def.attributes) {
      if (!(a.type->is_module() || a.type->is(K::kInterface) || a.is_parameter)) continue;
      all.items.push_back(value_attribute(base, a.name, e));
      all.names.push_back(a.name);
    }
    if (e[1].is(A::kSlice)) return part_of(all.items);
    Val* index = expr(e[1]);
    const Value* k = known(index);
    if (dict && k && k->tag() == Value::Tag::kString)
      for (size_t i = 0; i < all.names.size(); ++i)
        if (all.names[i] == k->string()) return all.items[i];
    if (!dict && k && k->tag() == Value::Tag::kInt) {
      const int64_t n = static_cast<int64_t>(all.items.size()), i = k->integer() < 0 ? k->integer() + n : k->integer();
      if (i < 0 || i >= n) fail(e, str_cat("Index ", k->integer(), " out of range"));
      return all.items[static_cast<size_t>(i)];
    }
    if (!k && hint && hint->is(K::kInterface) && index->type->is(dict ? K::kStr : K::kInt))
      return module_at(all, index, hint, e);
    if (dict && !k)
      fail(e,
           "Unable to extract string literal index. ModuleDict indexing is only supported with string literals. For "
           "example, 'i = \"a\"; self.layers[i](x)' will fail because i is not a literal.");
    fail(e, k ? str_cat("Key Error, ", to_text(*k))
              : "Expected integer literal for index. ModuleList/Sequential indexing is only supported with integer "
                "literals. For example, 'i = 4; self.layers[i](x)' will fail because i is not a literal. Enumeration "
                "is supported, e.g. 'for index, v in enumerate(self): ...'");
  }
  if (base->type->is(K::kTuple)) return tuple_subscript(base, e);
  if (e.kids.size() != 2)
    fail(e, str_cat("Only one index is supported for a value of type ", base->type->annotation()));
  if (e[1].is(A::kSlice)) {
    std::vector<Val*> in{base};
    for (size_t i = 0; i < 3; ++i)
      in.push_back(!e[1][i].is(A::kEmpty) ? expr(e[1][i]) : i == 2 ? integer(1, e) : none(e));
    std::vector<Argument> args;
    for (Val* v : in) args.push_back({e, "", v});
    return op("aten::slice", std::move(args), e);
  }
  Val* index = expr(e[1]);
  if (base->type->is(K::kClass)) return call_method(base, "__getitem__", {{e, "", index}}, e);
  if (!base->type->is(K::kList) && !base->type->is(K::kDict) && !base->type->is(K::kStr))
    fail(e, str_cat("'", base->type->described(), "' object is not subscriptable"));
  return op("aten::__getitem__", {base, index}, e);
}

// The views that ints, slices, None and `...` make; tensors (with a place for each dim before them) are left in
// `indices`.
Val* Emitter::tensor_indices(Val* base, const Ast& given, std::vector<Val*>* indices) {
  const Ast& e = with_slices(given);
  std::vector<std::pair<const Ast*, Val*>> list;
  for (size_t i = 1; i < e.kids.size(); ++i) {
    if (e[i].is(A::kSlice) || e[i].is(A::kEllipsis)) {
      list.emplace_back(&e[i], nullptr);
      continue;
    }
    const Sugar s = sugar(e[i]);
    if (s.kind == Sugar::kSpecial && s.text == "Ellipsis") {
      list.emplace_back(&e[i], nullptr);
      continue;
    }
    Val* v = value_of(s, e[i]);
    if (v->type->is(K::kTuple))
      for (Val* x : unpacked(v, 0, e[i])) list.emplace_back(&e[i], x);
    else
      list.emplace_back(&e[i], v);
  }
  const auto is_ellipsis = [](const std::pair<const Ast*, Val*>& p) { return !p.second && !p.first->is(A::kSlice); };
  int64_t dim = 0;
  // dims behind an ellipsis count from the end
  int64_t behind = -1;
  for (size_t i = 0; i < list.size(); ++i) {
    if (is_ellipsis(list[i]))
      behind = 0;
    else if (behind >= 0 && !(list[i].second && list[i].second->type->is(K::kNone)))
      ++behind;
  }
  int64_t before_end = behind;
  bool after = false;
  Val* v = base;
  for (size_t i = 0; i < list.size(); ++i) {
    const auto [ast, value] = list[i];
    const Range where(*ast);
    if (is_ellipsis(list[i])) {
      after = true;
      dim = -before_end;
      continue;
    }
    Val* at = integer(dim, e);
    if (!value) {
      const auto part = [&](size_t k, Val* otherwise) { return (*ast)[k].is(A::kEmpty) ? otherwise : expr((*ast)[k]); };
      if (!((*ast)[0].is(A::kEmpty) && (*ast)[1].is(A::kEmpty) && (*ast)[2].is(A::kEmpty))) {
        Val* b = part(0, none(e));
        Val* end = part(1, none(e));
        Val* step = part(2, integer(1, e));
        v = op("aten::slice", {v, at, b, end, step}, e);
      }
      ++dim;
    } else if (value->type->is(K::kInt)) {
      v = op("aten::select", {v, at, value}, e);
      if (after) ++dim;
    } else if (value->type->is(K::kNone)) {
      // behind an ellipsis: the place from the end, counted with the new dim
      v = op("aten::unsqueeze", {v, after ? integer(dim - 1, e) : at}, e);
      if (!after) ++dim;
    } else if (value->type->is(K::kTensor) || value->type->is(K::kList) || value->type->is(K::kOptional) ||
               value->type->is(K::kBool)) {
      if (value->type->is(K::kList) || value->type->is(K::kBool)) list[i].second = op("aten::tensor", {value}, e);
      if (after) {
        // known only with the number of dims: move it by hand
        fail(where, "tensors behind an ellipsis in an index are not supported");
      }
      while (indices->size() < static_cast<size_t>(dim)) indices->push_back(none(e));
      indices->push_back(list[i].second);
      ++dim;
    } else {
      fail(where,
           str_cat("Unsupported operation: attempted to use indexing with a value of type ", value->type->described()));
    }
  }
  return v;
}
Val* Emitter::index_tensor(Val* base, const Ast& e) {
  std::vector<Val*> indices;
  Val* v = tensor_indices(base, e, &indices);
  if (indices.empty()) return v == base ? op("aten::slice", {v, integer(0, e), none(e), none(e), integer(1, e)}, e) : v;
  Val* list = node_value(N::kList, std::move(indices), list_of(optional_of(tensor_type())), e);
  return op("aten::index", {v, list}, e);
}

}  // namespace tessera::jit
