#include "jit/type.h"

#include <algorithm>
#include <mutex>

#include "jit/classes/custom_class.h"
#include "jit/function.h"

namespace tessera::jit {
namespace {

struct SimpleName {
  K kind;
  const char *graph, *annotation;
};
constexpr SimpleName kSimple[] = {
    {K::kTensor, "Tensor", "Tensor"},
    {K::kInt, "int", "int"},
    {K::kFloat, "float", "float"},
    {K::kComplex, "complex", "complex"},
    {K::kNumber, "Scalar", "number"},
    {K::kBool, "bool", "bool"},
    {K::kStr, "str", "str"},
    {K::kNone, "NoneType", "NoneType"},
    {K::kDevice, "Device", "Device"},
    {K::kGenerator, "Generator", "Generator"},
    {K::kStorage, "Storage", "Storage"},
    {K::kStream, "Stream", "Stream"},
    {K::kAny, "Any", "Any"},
    {K::kPython, "PyObject", "PyObject"},
    {K::kFunction, "Function", "Function"},
};

std::string joined(const std::vector<TypePtr>& types, std::string (Type::*text)() const) {
  std::string s;
  for (TypePtr t : types) s += (s.empty() ? "" : ", ") + (t->*text)();
  return s;
}

TypePtr intern(Type t, std::string key) {
  for (TypePtr e : t.elems)
    if (e->unit) t.unit = e->unit;
  static auto* lock = new std::mutex;
  const std::lock_guard locked(*lock);
  auto& table = (t.unit ? *t.unit : common_unit()).types;
  auto& found = table[std::move(key)];
  if (!found) found = std::make_unique<Type>(std::move(t));
  return found.get();
}

}  // namespace

Unit& common_unit() {
  static auto* u = new Unit;
  return *u;
}

TypePtr simple_type(K kind) {
  static Type* const all = [] {
    auto* a = new Type[static_cast<size_t>(K::kEnum) + 1]{};
    for (size_t i = 0; i <= static_cast<size_t>(K::kEnum); ++i) a[i].kind = static_cast<K>(i);
    return a;
  }();
  return all + static_cast<size_t>(kind);
}
TypePtr inferred_tensor() {
  static Type* const t = new Type{K::kTensor, true, {}, {}, {}, nullptr, nullptr};
  return t;
}

bool Type::is_module() const { return kind == K::kClass && def->is_module; }

namespace {
// "Float(2, 3, strides=[3, 1], requires_grad=0, device=cpu)"
std::string facts_text(const TensorFacts& f) {
  std::string s = "Tensor", inside;
  if (f.dtype) s = type_name_of(*f.dtype);
  const auto numbers = [](const std::vector<int64_t>& v) {
    std::string t;
    for (int64_t x : v) t += (t.empty() ? "" : ", ") + std::to_string(x);
    return t;
  };
  const auto add = [&](const std::string& t) { inside += (inside.empty() ? "" : ", ") + t; };
  if (f.sizes && !f.sizes->empty()) add(numbers(*f.sizes));
  if (f.strides) add(str_cat("strides=[", numbers(*f.strides), "]"));
  if (f.requires_grad) add(str_cat("requires_grad=", *f.requires_grad ? 1 : 0));
  if (f.device) add(str_cat("device=", f.device->str()));
  return inside.empty() && !f.sizes ? s : str_cat(s, "(", inside, ")");
}
}  // namespace

TypePtr tensor_with(TensorFacts facts) {
  Type t{K::kTensor, false, {}, {}, {}, nullptr, nullptr};
  std::string key = facts_text(facts);
  if (key == "Tensor") return tensor_type();
  t.facts = std::make_shared<TensorFacts>(std::move(facts));
  return intern(std::move(t), "*" + key);
}
TypePtr tensor_like(const Tensor& t) {
  TensorFacts f;
  f.dtype = t.dtype(), f.device = t.device(), f.requires_grad = t.requires_grad();
  f.sizes.emplace(t.sizes().begin(), t.sizes().end());
  if (t.layout() == Layout::kStrided) f.strides.emplace(t.strides().begin(), t.strides().end());
  return tensor_with(std::move(f));
}

std::string Type::str() const {
  if (facts) return facts_text(*facts);
  for (const SimpleName& s : kSimple)
    if (s.kind == kind) return s.graph;
  switch (kind) {
    case K::kList:
      return elem()->str() + "[]";
    case K::kOptional:
      return elem()->str() + "?";
    case K::kDict:
      return str_cat("Dict(", joined(elems, &Type::str), ")");
    case K::kTuple:
      if (!name.empty()) {
        std::string s = "NamedTuple(";
        for (size_t i = 0; i < elems.size(); ++i) s += str_cat(i ? ", " : "", fields[i], " : ", elems[i]->str());
        return s + ")";
      }
      return str_cat("(", joined(elems, &Type::str), ")");
    case K::kUnion:
      return str_cat("Union(", joined(elems, &Type::str), ")");
    case K::kFuture:
      return str_cat("Future(", elem()->str(), ")");
    case K::kRRef:
      return str_cat("RRef(", elem()->str(), ")");
    case K::kAwait:
      return str_cat("Await(", elem()->str(), ")");
    case K::kEnum:
      return str_cat("Enum<", name, ">");
    default:
      return name;
  }
}

std::string Type::annotation() const {
  for (const SimpleName& s : kSimple)
    if (s.kind == kind) return s.annotation;
  switch (kind) {
    case K::kList:
      return str_cat("List[", elem()->annotation(), "]");
    case K::kOptional:
      return str_cat("Optional[", elem()->annotation(), "]");
    case K::kDict:
      return str_cat("Dict[", joined(elems, &Type::annotation), "]");
    case K::kTuple:
      if (!name.empty()) return name;
      return elems.empty() ? "Tuple[()]" : str_cat("Tuple[", joined(elems, &Type::annotation), "]");
    case K::kUnion:
      return str_cat("Union[", joined(elems, &Type::annotation), "]");
    case K::kFuture:
      return str_cat("Future[", elem()->annotation(), "]");
    case K::kRRef:
      return str_cat("RRef[", elem()->annotation(), "]");
    case K::kAwait:
      return str_cat("Await[", elem()->annotation(), "]");
    default:
      return name;
  }
}
std::string Type::described() const { return inferred ? "Tensor (inferred)" : annotation(); }

TypePtr make_type(K kind, std::vector<TypePtr> elems) {
  Type t{kind, false, std::move(elems), {}, {}, nullptr, nullptr};
  for (TypePtr& e : t.elems)
    if (e->inferred || e->facts) e = tensor_type();
  std::string key = t.annotation();
  return intern(std::move(t), std::move(key));
}
TypePtr optional_of(TypePtr t) {
  if (t->is(K::kOptional) || t->is(K::kNone) || t->is(K::kAny)) return t;
  if (t->is(K::kUnion)) {
    std::vector<TypePtr> all = t->elems;
    all.push_back(none_type());
    return union_of(std::move(all));
  }
  return make_type(K::kOptional, {t});
}
TypePtr union_of(std::vector<TypePtr> types) {
  std::vector<TypePtr> flat, kept;
  for (TypePtr t : types)
    for (TypePtr m : members(t)) flat.push_back(m);
  bool none = false;
  for (size_t i = 0; i < flat.size(); ++i) {
    if (flat[i]->is(K::kAny)) return any_type();
    none = none || flat[i]->is(K::kNone);
    bool contained = flat[i]->is(K::kNone);
    for (size_t j = 0; j < flat.size() && !contained; ++j)
      contained = j != i && is_subtype(flat[i], flat[j]) && (!is_subtype(flat[j], flat[i]) || j < i);
    if (!contained) kept.push_back(flat[i]);
  }
  if (kept.empty()) return none_type();
  if (kept.size() == 1) return none ? optional_of(kept[0]) : kept[0];
  std::sort(kept.begin(), kept.end(), [](TypePtr a, TypePtr b) { return a->annotation() < b->annotation(); });
  if (none) kept.push_back(none_type());
  return make_type(K::kUnion, std::move(kept));
}
TypePtr named_tuple(Unit& unit, const std::string& name, std::vector<std::string> fields, std::vector<TypePtr> types) {
  return intern(Type{K::kTuple, false, std::move(types), name, std::move(fields), nullptr, &unit}, name);
}

TypePtr from_schema(const SchemaType& t) {
  switch (t.kind) {
    case TypeKind::kTensor:
      return tensor_type();
    case TypeKind::kInt:
    case TypeKind::kSymInt:
    case TypeKind::kScalarType:
    case TypeKind::kLayout:
    case TypeKind::kMemoryFormat:
    case TypeKind::kQScheme:
      return int_type();
    case TypeKind::kFloat:
    case TypeKind::kSymFloat:
      return float_type();
    case TypeKind::kBool:
    case TypeKind::kSymBool:
      return bool_type();
    case TypeKind::kComplex:
      return simple_type(K::kComplex);
    case TypeKind::kScalar:
      return simple_type(K::kNumber);
    case TypeKind::kStr:
    case TypeKind::kDimname:
      return str_type();
    case TypeKind::kDevice:
      return simple_type(K::kDevice);
    case TypeKind::kGenerator:
      return simple_type(K::kGenerator);
    case TypeKind::kStorage:
      return simple_type(K::kStorage);
    case TypeKind::kStream:
      return simple_type(K::kStream);
    case TypeKind::kNone:
      return none_type();
    case TypeKind::kVariable: {
      Type v{K::kVariable, false, {}, t.name, {}, nullptr, nullptr};
      return intern(std::move(v), t.name);
    }
    case TypeKind::kOptional:
      return optional_of(from_schema(t.elements[0]));
    default:
      break;
  }
  std::vector<TypePtr> elems;
  for (const SchemaType& e : t.elements) elems.push_back(from_schema(e));
  switch (t.kind) {
    case TypeKind::kList:
      return make_type(K::kList, std::move(elems));
    case TypeKind::kDict:
      return make_type(K::kDict, std::move(elems));
    case TypeKind::kTuple:
      return make_type(K::kTuple, std::move(elems));
    case TypeKind::kFuture:
      return make_type(K::kFuture, std::move(elems));
    case TypeKind::kUnion:
      return union_of(std::move(elems));
    case TypeKind::kClass:
      if (const ClassDef* d = custom::find(t.name)) return d->type;
      return any_type();
    default:
      return any_type();
  }
}

bool same(TypePtr a, TypePtr b) {
  if (a == b) return true;
  if (a->kind != b->kind || a->elems.size() != b->elems.size() || a->name != b->name) return false;
  if (a->def != b->def) return false;
  for (size_t i = 0; i < a->elems.size(); ++i)
    if (!same(a->elems[i], b->elems[i])) return false;
  return true;
}

std::vector<TypePtr> members(TypePtr t) {
  if (t->is(K::kUnion)) return t->elems;
  if (t->is(K::kOptional)) return {t->elem(), none_type()};
  return {t};
}
bool accepts_none(TypePtr t) { return is_subtype(none_type(), t); }

namespace {
bool fits_interface(TypePtr a, TypePtr b, std::string* why) {
  for (const Function* wanted : b->def->methods) {
    const_cast<Function*>(wanted)->ensure_schema();
    const Function* m = a->def->method(wanted->name);
    std::string reason;
    if (!m) {
      reason = str_cat("Method '", wanted->name, "' is not there");
    } else if (const_cast<Function*>(m)->ensure_schema(); m->args.size() != wanted->args.size()) {
      reason = str_cat("Method '", wanted->name, "' has another number of arguments");
    } else {
      for (size_t i = 1; i < m->args.size() && reason.empty(); ++i)
        if (!is_subtype(wanted->args[i].type, m->args[i].type))
          reason = str_cat("Method '", wanted->name, "' takes another type for '", m->args[i].name, "'");
      if (reason.empty() && !is_subtype(m->ret, wanted->ret))
        reason = str_cat("Method '", wanted->name, "' returns ", m->ret->annotation());
    }
    if (reason.empty()) continue;
    if (why)
      *why =
          str_cat("Type '", a->annotation(), "' is not compatible with interface '", b->annotation(), "'\n  ", reason);
    return false;
  }
  return true;
}
}  // namespace

bool is_subtype(TypePtr a, TypePtr b, std::string* why) {
  if (same(a, b) || b->is(K::kAny)) return true;
  if (a->is(K::kUnion) || a->is(K::kOptional)) {
    for (TypePtr m : members(a))
      if (!is_subtype(m, b, why)) return false;
    return true;
  }
  switch (b->kind) {
    case K::kOptional:
    case K::kUnion:
      for (TypePtr m : members(b))
        if (is_subtype(a, m, why)) return true;
      return false;
    case K::kNumber:
      return a->is_number();
    case K::kInterface:
      return a->is(K::kClass) || a->is(K::kInterface) ? fits_interface(a, b, why) : false;
    case K::kTuple: {
      if (!a->is(K::kTuple) || a->elems.size() != b->elems.size()) return false;
      if (!b->name.empty() && a->name != b->name) return false;
      for (size_t i = 0; i < a->elems.size(); ++i)
        if (!is_subtype(a->elems[i], b->elems[i], why)) return false;
      return true;
    }
    case K::kFuture:
    case K::kRRef:
    case K::kAwait:
      return a->kind == b->kind && is_subtype(a->elem(), b->elem(), why);
    default:
      return false;
  }
}

TypePtr unify(TypePtr a, TypePtr b, bool to_union) {
  if (is_subtype(a, b)) return b->inferred ? tensor_type() : b;
  if (is_subtype(b, a)) return a->inferred ? tensor_type() : a;
  if (a->is(K::kNone)) return optional_of(b);
  if (b->is(K::kNone)) return optional_of(a);
  if (a->is(K::kOptional) || b->is(K::kOptional)) {
    TypePtr inner = unify(a->is(K::kOptional) ? a->elem() : a, b->is(K::kOptional) ? b->elem() : b);
    if (inner) return optional_of(inner);
  }
  if (a->is(K::kTuple) && b->is(K::kTuple) && a->elems.size() == b->elems.size()) {
    std::vector<TypePtr> elems;
    for (size_t i = 0; i < a->elems.size(); ++i) {
      TypePtr e = unify(a->elems[i], b->elems[i]);
      if (!e) break;
      elems.push_back(e);
    }
    if (elems.size() == a->elems.size()) return tuple_of(std::move(elems));
  }
  return to_union ? union_of({a, b}) : nullptr;
}

TypePtr narrowed(TypePtr t, const std::vector<TypePtr>& types, bool is_one) {
  const auto within = [&](TypePtr m) {
    for (TypePtr w : types)
      if (is_subtype(m, w)) return true;
    return false;
  };
  std::vector<TypePtr> kept;
  for (TypePtr m : members(t))
    if (within(m) == is_one) kept.push_back(m);
  if (!kept.empty()) return union_of(std::move(kept));
  if (!is_one) return nullptr;
  for (TypePtr w : types)  // wider than what is asked for: Any, an interface
    for (TypePtr m : members(t))
      if (is_subtype(w, m)) {
        kept.push_back(w);
        break;
      }
  return kept.empty() ? nullptr : union_of(std::move(kept));
}

bool has_variables(TypePtr t) {
  if (t->is(K::kVariable)) return true;
  return std::any_of(t->elems.begin(), t->elems.end(), has_variables);
}
bool match_variables(TypePtr formal, TypePtr actual, TypeVars& vars) {
  if (formal->is(K::kVariable)) {
    for (auto& [name, bound] : vars) {
      if (name != formal->name) continue;
      TypePtr both = unify(bound, actual);
      if (!both) return false;
      bound = both;
      return true;
    }
    vars.emplace_back(formal->name, actual->inferred ? tensor_type() : actual);
    return true;
  }
  if (!has_variables(formal)) return true;
  if (formal->is(K::kOptional)) {
    if (actual->is(K::kNone)) return true;
    return match_variables(formal->elem(), actual->is(K::kOptional) ? actual->elem() : actual, vars);
  }
  if (formal->kind != actual->kind || formal->elems.size() != actual->elems.size()) return false;
  for (size_t i = 0; i < formal->elems.size(); ++i)
    if (!match_variables(formal->elems[i], actual->elems[i], vars)) return false;
  return true;
}
TypePtr substitute(TypePtr t, const TypeVars& vars) {
  if (t->is(K::kVariable)) {
    for (const auto& [name, bound] : vars)
      if (name == t->name) return bound;
    return t;
  }
  if (t->elems.empty() || !has_variables(t)) return t;
  std::vector<TypePtr> elems;
  for (TypePtr e : t->elems) elems.push_back(substitute(e, vars));
  return t->is(K::kOptional) ? optional_of(elems[0]) : make_type(t->kind, std::move(elems));
}

// --- classes ---

template <class C>
static const typename C::value_type* find_named(const C& items, std::string_view name) {
  for (const auto& i : items)
    if (i.name == name) return &i;
  return nullptr;
}
int ClassDef::slot(std::string_view attribute) const {
  const Attribute* a = find_named(attributes, attribute);
  return a ? static_cast<int>(a - attributes.data()) : -1;
}
const Attribute* ClassDef::attribute(std::string_view name) const { return find_named(attributes, name); }
const ConstantAttribute* ClassDef::constant(std::string_view name) const { return find_named(constants, name); }
void ClassDef::add_property(const std::string& property, Function* getter) {
  properties.push_back({property, getter, nullptr});
  getter->name = str_cat("__", property, "_getter");
  getter->qualified = str_cat(name, ".", getter->name);
  methods.push_back(getter);
}
void ClassDef::add_setter(const std::string& property, Function* setter) {
  for (Property& p : properties)
    if (p.name == property) p.setter = setter;
  setter->name = str_cat("__", property, "_setter");
  setter->qualified = str_cat(name, ".", setter->name);
  methods.push_back(setter);
}
const Property* ClassDef::property(std::string_view name) const { return find_named(properties, name); }
Function* ClassDef::method(std::string_view name) const {
  for (Function* f : methods)
    if (f->name == name) return f;
  for (Function* f : statics)
    if (f->name == name) return f;
  return nullptr;
}

Unit::~Unit() = default;
ClassDef* Unit::new_class(K kind, const std::string& name) {
  auto def = std::make_unique<ClassDef>();
  def->name = name;
  def->unit = this;
  auto type = std::make_unique<Type>(Type{kind, false, {}, name, {}, def.get(), this});
  def->type = type.get();
  types["class " + name] = std::move(type);
  by_name_[name] = def.get();
  classes_.push_back(std::move(def));
  return classes_.back().get();
}
ClassDef* Unit::find_class(std::string_view name) const {
  const auto it = by_name_.find(std::string(name));
  return it == by_name_.end() ? nullptr : it->second;
}
Function* Unit::find_function(std::string_view name) const {
  const auto it = functions_by_name_.find(std::string(name));
  return it == functions_by_name_.end() ? nullptr : it->second;
}
Function* Unit::add_function(std::unique_ptr<Function> f) {
  f->unit = this;
  if (!f->owner) functions_by_name_[f->qualified] = f.get();
  functions_.push_back(std::move(f));
  return functions_.back().get();
}
Source& Unit::add_source(std::string text, std::string file, int line) {
  return *sources_.emplace_back(std::make_unique<Source>(std::move(text), std::move(file), line));
}
std::string Unit::unique_name(const std::string& wanted) {
  if (!by_name_.contains(wanted) && !functions_by_name_.contains(wanted) && !types.contains(wanted)) return wanted;
  const size_t dot = wanted.rfind('.');
  return str_cat(wanted.substr(0, dot), ".___torch_mangle_", mangled_++, wanted.substr(dot));
}

}  // namespace tessera::jit
