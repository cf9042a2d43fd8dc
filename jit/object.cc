#include "jit/object.h"

#include <charconv>
#include <cmath>
#include <cstring>

#include "jit/interpreter.h"
#include "tensor/ops/api.h"

namespace tessera::jit {

using Tag = Value::Tag;

// --- dicts ---

size_t hash_of(const Value& v) {
  switch (v.tag()) {
    case Tag::kString:
      return std::hash<std::string_view>()(v.string());
    case Tag::kDouble:
      if (v.number() == std::floor(v.number())) return std::hash<int64_t>()(static_cast<int64_t>(v.number()));
      return std::hash<double>()(v.number());
    case Tag::kInt:
    case Tag::kBool:
      return std::hash<int64_t>()(v.integer());
    case Tag::kDevice:
      return std::hash<std::string>()(v.device().str());
    case Tag::kTensor:
      return std::hash<const void*>()(v.tensor().impl());
    case Tag::kObject:
      if (const Object* o = object_of(v); o && o->kind == ObjectKind::kEnumItem)
        return static_cast<const EnumItem*>(o)->index;
      else if (o && o->kind == ObjectKind::kTuple) {
        size_t h = 17;
        for (const Value& e : static_cast<const Tuple*>(o)->items) h = h * 31 + hash_of(e);
        return h;
      }
      throw TypeError(str_cat("unhashable type: '", type_of(v)->annotation(), "'"));
    default:
      return static_cast<size_t>(v.tag());
  }
}
constexpr size_t kFew = 8;
size_t Dict::place(const Value& k) const {
  if (items.size() <= kFew) {
    for (size_t i = 0; i < items.size(); ++i)
      if (equal(items[i].first, k)) return i;
    return items.size();
  }
  const auto [b, e] = index_.equal_range(hash_of(k));
  for (auto it = b; it != e; ++it)
    if (equal(items[it->second].first, k)) return it->second;
  return items.size();
}
void Dict::reindex() {
  index_.clear();
  if (items.size() > kFew)
    for (size_t i = 0; i < items.size(); ++i) index_.emplace(hash_of(items[i].first), i);
}
const Value* Dict::find(const Value& k) const {
  const size_t i = place(k);
  return i < items.size() ? &items[i].second : nullptr;
}
void Dict::set(const Value& k, Value v) {
  const size_t i = place(k);
  if (i < items.size()) {
    items[i].second = std::move(v);
    return;
  }
  items.emplace_back(k, std::move(v));
  if (items.size() == kFew + 1)
    reindex();
  else if (items.size() > kFew)
    index_.emplace(hash_of(k), items.size() - 1);
}
bool Dict::erase(const Value& k) {
  const size_t i = place(k);
  if (i == items.size()) return false;
  items.erase(items.begin() + static_cast<int64_t>(i));
  reindex();
  return true;
}
void Dict::clear() {
  items.clear();
  index_.clear();
}

// --- instances ---

Instance::Instance(ClassDef* d)
    : Object(ObjectKind::kInstance), def(d), unit(IntrusivePtr<Unit>::share(d->unit)), slots(d->attributes.size()) {}
Value& Instance::at(std::string_view name) {
  const int i = def->slot(name);
  TESSERA_CHECK(i >= 0, "'", def->name, "' object has no attribute '", name, "'");
  if (slots.size() < def->attributes.size()) slots.resize(def->attributes.size());
  return slots[static_cast<size_t>(i)];
}

// --- values as such ---

bool equal(const Value& a, const Value& b) {
  const auto number = [](Tag t) { return t == Tag::kInt || t == Tag::kBool || t == Tag::kDouble; };
  if (number(a.tag()) && number(b.tag())) {
    if (a.tag() != Tag::kDouble && b.tag() != Tag::kDouble) return a.integer() == b.integer();
    return a.number() == b.number();
  }
  if (a.tag() != b.tag()) return false;
  switch (a.tag()) {
    case Tag::kNone:
      return true;
    case Tag::kComplex:
      return a.scalar().to_complex() == b.scalar().to_complex();
    case Tag::kString:
      return a.string() == b.string();
    case Tag::kDevice:
      return a.device() == b.device();
    case Tag::kTensor: {
      if (a.tensor().is_same(b.tensor())) return true;
      const Tensor same = a.tensor().eq(b.tensor());
      TESSERA_CHECK(same.numel() == 1, "Boolean value of Tensor with more than one value is ambiguous");
      return same.item_scalar().to_bool();
    }
    case Tag::kObject:
      break;
    default:
      return false;
  }
  const Object *x = object_of(a), *y = object_of(b);
  if (x == y) return true;
  if (!x || !y || x->kind != y->kind) return false;
  const auto all = [](const std::vector<Value>& p, const std::vector<Value>& q) {
    if (p.size() != q.size()) return false;
    for (size_t i = 0; i < p.size(); ++i)
      if (!equal(p[i], q[i])) return false;
    return true;
  };
  switch (x->kind) {
    case ObjectKind::kList:
      return all(static_cast<const List*>(x)->items, static_cast<const List*>(y)->items);
    case ObjectKind::kTuple:
      return all(static_cast<const Tuple*>(x)->items, static_cast<const Tuple*>(y)->items);
    case ObjectKind::kDict: {
      const auto &p = static_cast<const Dict&>(*x), &q = static_cast<const Dict&>(*y);
      if (p.items.size() != q.items.size()) return false;
      for (const auto& [k, v] : p.items) {
        const Value* other = q.find(k);
        if (!other || !equal(v, *other)) return false;
      }
      return true;
    }
    case ObjectKind::kEnumItem:
      return static_cast<const EnumItem*>(x)->def == static_cast<const EnumItem*>(y)->def &&
             static_cast<const EnumItem*>(x)->index == static_cast<const EnumItem*>(y)->index;
    default:
      return false;
  }
}

std::string number_text(double d) {
  if (std::isnan(d)) return "nan";
  if (std::isinf(d)) return d < 0 ? "-inf" : "inf";
  char buffer[40];
  const double size = std::fabs(d);
  const bool plain = size == 0 || (size >= 1e-4 && size < 1e16);
  const auto [end, error] = std::to_chars(buffer, buffer + sizeof buffer, d,
                                          plain ? std::chars_format::fixed : std::chars_format::scientific);
  std::string s(buffer, end);
  if (plain && s.find('.') == std::string::npos) s += ".0";
  return s;
}

std::string quote(std::string_view s) {
  std::string out = "\"";
  for (const char c : s) {
    constexpr std::string_view special = "\n\t\r\\\"", letter = "ntr\\\"";
    if (const size_t k = special.find(c); k != std::string_view::npos) {
      out += '\\';
      out += letter[k];
    } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      constexpr char digits[] = "01234567";
      const unsigned char u = static_cast<unsigned char>(c);
      out += '\\';
      out += digits[u >> 6], out += digits[u >> 3 & 7], out += digits[u & 7];
    } else {
      out += c;
    }
  }
  return out + '"';
}

std::string to_text(const Value& v, bool quoted) {
  switch (v.tag()) {
    case Tag::kNone:
      return "None";
    case Tag::kBool:
      return v.boolean() ? "True" : "False";
    case Tag::kInt:
      return std::to_string(v.integer());
    case Tag::kDouble:
      return number_text(v.number());
    case Tag::kComplex: {
      const std::complex<double> c = v.scalar().to_complex();
      const auto part = [](double d) {
        std::string s = number_text(d);
        return s.ends_with(".0") ? s.substr(0, s.size() - 2) : s;
      };
      if (c.real() == 0) return part(c.imag()) + "j";
      return str_cat("(", part(c.real()), std::signbit(c.imag()) ? "" : "+", part(c.imag()), "j)");
    }
    case Tag::kString:
      if (!quoted) return std::string(v.string());
      return v.string().find('\'') == std::string_view::npos ? str_cat("'", v.string(), "'") : quote(v.string());
    case Tag::kDevice:
      return quoted ? str_cat("device(type='", v.device().str(), "')") : v.device().str();
    case Tag::kTensor: {
      const Tensor& t = v.tensor();
      if (!t.defined()) return "None";
      std::string s = "[ ";
      s += t.is_cpu() ? "CPU" : "CUDA";
      s += type_name_of(t.dtype());
      s += "Type{";
      for (int64_t i = 0; i < t.dim(); ++i) s += str_cat(i ? "," : "", t.size(i));
      return s + "} ]";
    }
    case Tag::kObject:
      break;
    default:
      return "<value>";
  }
  const Object* o = object_of(v);
  if (!o) return "<object>";
  std::string s;
  switch (o->kind) {
    case ObjectKind::kList:
      for (const Value& e : static_cast<const List*>(o)->items) s += (s.empty() ? "" : ", ") + to_text(e, true);
      return "[" + s + "]";
    case ObjectKind::kTuple: {
      const auto& items = static_cast<const Tuple*>(o)->items;
      for (const Value& e : items) s += (s.empty() ? "" : ", ") + to_text(e, true);
      return "(" + s + (items.size() == 1 ? ",)" : ")");
    }
    case ObjectKind::kDict:
      for (const auto& [k, e] : static_cast<const Dict*>(o)->items)
        s += (s.empty() ? "" : ", ") + to_text(k, true) + ": " + to_text(e, true);
      return "{" + s + "}";
    case ObjectKind::kEnumItem: {
      const auto* e = static_cast<const EnumItem*>(o);
      return str_cat(e->def->name.substr(e->def->name.rfind('.') + 1), ".", e->item().name);
    }
    case ObjectKind::kInstance:
      return str_cat("<", static_cast<const Instance*>(o)->def->name, " object>");
    default:
      return "<object>";
  }
}

TypePtr type_of(const Value& v) {
  switch (v.tag()) {
    case Tag::kBool:
      return bool_type();
    case Tag::kInt:
      return int_type();
    case Tag::kDouble:
      return float_type();
    case Tag::kComplex:
      return simple_type(K::kComplex);
    case Tag::kString:
      return str_type();
    case Tag::kTensor:
      return tensor_type();
    case Tag::kDevice:
      return simple_type(K::kDevice);
    case Tag::kGenerator:
      return simple_type(K::kGenerator);
    case Tag::kStorage:
      return simple_type(K::kStorage);
    case Tag::kObject:
      break;
    case Tag::kNone:
      return none_type();
    default:
      return any_type();
  }
  const Object* o = object_of(v);
  if (!o) return simple_type(K::kPython);
  switch (o->kind) {
    case ObjectKind::kList:
      return list_of(static_cast<const List*>(o)->elem);
    case ObjectKind::kTuple: {
      const auto* t = static_cast<const Tuple*>(o);
      if (t->type) return t->type;
      std::vector<TypePtr> elems;
      for (const Value& e : t->items) elems.push_back(type_of(e));
      return tuple_of(std::move(elems));
    }
    case ObjectKind::kDict:
      return dict_of(static_cast<const Dict*>(o)->key, static_cast<const Dict*>(o)->value);
    case ObjectKind::kInstance:
      return static_cast<const Instance*>(o)->def->type;
    case ObjectKind::kEnumItem:
      return static_cast<const EnumItem*>(o)->def->type;
    case ObjectKind::kFuture:
      return make_type(K::kFuture, {static_cast<const FutureObject*>(o)->elem});
    default:
      return simple_type(K::kPython);
  }
}

bool is_instance(const Value& v, TypePtr t) {
  if (t->is(K::kAny)) return true;
  const TypePtr own = type_of(v);
  if (t->is(K::kOptional) || t->is(K::kUnion)) {
    for (TypePtr m : members(t))
      if (is_instance(v, m)) return true;
    return false;
  }
  if (t->is(K::kTuple) && own->is(K::kTuple) && t->name.empty()) {
    const auto& items = as<Tuple>(v).items;
    if (items.size() != t->elems.size()) return false;
    for (size_t i = 0; i < items.size(); ++i)
      if (!is_instance(items[i], t->elems[i])) return false;
    return true;
  }
  return is_subtype(own, t);
}

namespace {
// By its state: what C++ holds has no copy of itself.
Value copy_of_native(const Value& v, const ClassDef& def) {
  Function *get = def.method("__getstate__"), *set = def.method("__setstate__");
  TESSERA_CHECK(get && set, "Cannot copy an object of ", def.name, ": the class was registered without def_pickle");
  Value args[] = {make_value<Instance>(def.type->def), deep_copy(run(*get, &v, 1))};
  run(*set, args, 2);
  return args[0];
}
}  // namespace

Value deep_copy(const Value& v) {
  const Object* o = v.tag() == Tag::kObject ? object_of(v) : nullptr;
  if (v.is_tensor() && v.tensor().defined()) return Value::of(v.tensor().clone());
  if (!o) return v;
  const auto copies = [](const std::vector<Value>& items) {
    std::vector<Value> out;
    for (const Value& i : items) out.push_back(deep_copy(i));
    return out;
  };
  switch (o->kind) {
    case ObjectKind::kList:
      return make_value<List>(static_cast<const List*>(o)->elem, copies(static_cast<const List*>(o)->items));
    case ObjectKind::kTuple:
      return make_value<Tuple>(static_cast<const Tuple*>(o)->type, copies(static_cast<const Tuple*>(o)->items));
    case ObjectKind::kDict: {
      const auto* d = static_cast<const Dict*>(o);
      auto copy = make_intrusive<Dict>(d->key, d->value);
      for (const auto& [k, e] : d->items) copy->set(k, deep_copy(e));
      return wrap(copy);
    }
    case ObjectKind::kInstance: {
      const auto* i = static_cast<const Instance*>(o);
      if (i->def->is_native) return copy_of_native(v, *i->def);
      auto copy = make_intrusive<Instance>(i->def);
      copy->slots = copies(i->slots);
      return wrap(copy);
    }
    default:
      return v;
  }
}

int64_t dtype_number(DType t) {
  if (const auto n = schema_enum_value(TypeKind::kScalarType, name_of(t))) return *n;
  throw Error(str_cat("the dtype ", name_of(t), " has no number in TorchScript"));
}
DType dtype_of_number(int64_t n) {
  static const auto table = [] {
    std::array<int8_t, 64> all;
    all.fill(-1);
    for (int k = 0; k < kNumDTypes; ++k)
      if (const auto v = schema_enum_value(TypeKind::kScalarType, name_of(static_cast<DType>(k))))
        all[static_cast<size_t>(*v)] = static_cast<int8_t>(k);
    return all;
  }();
  TESSERA_CHECK(n >= 0 && n < 64 && table[static_cast<size_t>(n)] >= 0, n, " is not the number of a dtype");
  return static_cast<DType>(table[static_cast<size_t>(n)]);
}

}  // namespace tessera::jit
