// A value of any kind: what operators and their arguments are made of when nobody knows their C++ types.
#pragma once

#include <map>
#include <unordered_map>
#include <unordered_set>  // sources of others take it for granted
#include <variant>

#include "ATen/core/Formatting.h"
#include "ATen/core/List.h"

namespace torch::jit {
class Module;  // torch/script.h
}

namespace c10 {

using at::Generator;
using at::Tensor;
class IValue;
class Type;  // ATen/core/function_schema.h

namespace ivalue {
struct Tuple;
struct ConstantString;
// What a list holds, as far as it was said.
enum class Element : uint8_t { kAny, kInt, kDouble, kBool, kComplex, kTensor, kString, kOptionalTensor };
struct ListData;
struct DictData;
}  // namespace ivalue

namespace detail {
template <class T>
struct list_of : std::false_type {};
template <class T>
struct list_of<std::vector<T>> : std::true_type {
  using type = T;
};
template <class T>
struct list_of<ArrayRef<T>> : std::true_type {
  using type = T;
};
template <class T>
struct list_of<List<T>> : std::true_type {
  using type = T;
};
template <class T, size_t N>
struct list_of<std::array<T, N>> : std::true_type {
  using type = T;
};
template <class T>
struct dict_of : std::false_type {};
template <class K, class V>
struct dict_of<Dict<K, V>> : std::true_type {
  using key = K;
  using mapped = V;
};
template <class K, class V>
struct dict_of<std::unordered_map<K, V>> : std::true_type {
  using key = K;
  using mapped = V;
};
template <class K, class V>
struct dict_of<std::map<K, V>> : std::true_type {
  using key = K;
  using mapped = V;
};
template <class T>
inline constexpr bool is_optional = false;
template <class T>
inline constexpr bool is_optional<std::optional<T>> = true;
template <class T>
inline constexpr bool is_tuple = false;
template <class... T>
inline constexpr bool is_tuple<std::tuple<T...>> = true;
template <class T>
constexpr ivalue::Element element_of() {
  using E = ivalue::Element;
  if constexpr (std::is_same_v<T, bool>)
    return E::kBool;
  else if constexpr (std::is_integral_v<T> || std::is_enum_v<T> || std::is_same_v<T, SymInt>)
    return E::kInt;
  else if constexpr (std::is_floating_point_v<T>)
    return E::kDouble;
  else if constexpr (std::is_same_v<T, std::complex<double>>)
    return E::kComplex;
  else if constexpr (std::is_base_of_v<tessera::Tensor, T>)
    return E::kTensor;
  else if constexpr (std::is_same_v<T, std::string>)
    return E::kString;
  else if constexpr (std::is_same_v<T, std::optional<Tensor>>)
    return E::kOptionalTensor;
  else
    return E::kAny;
}
}  // namespace detail

class IValue {
 public:
  IValue() = default;
  IValue(std::nullopt_t) {}
  IValue(Tensor t) : v_(std::move(t)) {}
  IValue(const tessera::Tensor& t) : v_(Tensor(t)) {}
  template <class T>
  requires(std::is_arithmetic_v<T>) IValue(T v) {
    if constexpr (std::is_same_v<T, bool>)
      v_ = v;
    else if constexpr (std::is_integral_v<T>)
      v_ = static_cast<int64_t>(v);
    else
      v_ = static_cast<double>(v);
  }
  IValue(SymInt v) : v_(int64_t{v}) {}
  IValue(std::complex<double> v) : v_(v) {}
  IValue(ScalarType t) : v_(static_cast<int64_t>(t)) {}
  IValue(Layout l) : v_(static_cast<int64_t>(l)) {}
  IValue(MemoryFormat f) : v_(static_cast<int64_t>(f)) {}
  IValue(Device d) : v_(d) {}
  IValue(Generator g) : v_(std::move(g)) {}
  IValue(Storage s) : v_(std::move(s)) {}
  IValue(std::string s) : v_(std::make_shared<const std::string>(std::move(s))) {}
  IValue(const char* s) : IValue(std::string(s)) {}
  IValue(std::string_view s) : IValue(std::string(s)) {}
  IValue(const Scalar& s) {
    if (s.isComplex())
      v_ = s.toComplexDouble();
    else if (s.isFloatingPoint())
      v_ = s.toDouble();
    else if (s.isBoolean())
      v_ = s.toBool();
    else
      v_ = s.to_int();
  }
  IValue(tessera::IntrusivePtr<tessera::RefCounted> object) : v_(std::move(object)) {}
  template <class T>
  requires std::is_base_of_v<tessera::RefCounted, T> IValue(const intrusive_ptr<T>& object)
      : v_(tessera::IntrusivePtr<tessera::RefCounted>(object)) {}
  IValue(std::shared_ptr<ivalue::Tuple> t) : v_(std::move(t)) {}
  template <class T>
  IValue(const std::optional<T>& v) {
    if (v) *this = IValue(*v);
  }
  IValue(const OptionalArrayRef<int64_t>& v) {
    if (v) *this = IValue(*v);
  }
  template <class C>
  requires detail::list_of<C>::value IValue(const C& items);
  template <class C>
  requires detail::dict_of<C>::value IValue(const C& items);
  template <class... T>
  IValue(const std::tuple<T...>& t);
  template <class A, class B>
  IValue(const std::pair<A, B>& t) : IValue(std::tuple<A, B>(t)) {}

  static IValue list(std::vector<IValue> items, ivalue::Element kind);

  bool isNone() const { return is<std::monostate>(); }
  bool isTensor() const { return is<Tensor>(); }
  bool isInt() const { return is<int64_t>(); }
  bool isDouble() const { return is<double>(); }
  bool isBool() const { return is<bool>(); }
  bool isComplexDouble() const { return is<std::complex<double>>(); }
  bool isScalar() const { return isInt() || isDouble() || isBool() || isComplexDouble(); }
  bool isString() const { return is<Text>(); }
  bool isDevice() const { return is<Device>(); }
  bool isGenerator() const { return is<Generator>(); }
  bool isStorage() const { return is<Storage>(); }
  bool isTuple() const { return is<std::shared_ptr<ivalue::Tuple>>(); }
  bool isList() const { return is<std::shared_ptr<ivalue::ListData>>(); }
  bool isGenericDict() const { return is<std::shared_ptr<ivalue::DictData>>(); }
  bool isObject() const { return is<Object>(); }
  bool isCapsule() const { return isObject(); }
  bool isCustomClass() const { return isObject(); }
  bool isPtrType() const { return isTensor() || isString() || isTuple() || isList() || isGenericDict() || isObject(); }
  bool isIntList() const { return holds(ivalue::Element::kInt); }
  bool isDoubleList() const { return holds(ivalue::Element::kDouble); }
  bool isBoolList() const { return holds(ivalue::Element::kBool); }
  bool isComplexDoubleList() const { return holds(ivalue::Element::kComplex); }
  bool isTensorList() const { return holds(ivalue::Element::kTensor); }
  bool isOptionalTensorList() const { return holds(ivalue::Element::kOptionalTensor); }
  std::string tagKind() const {
    static constexpr const char* kNames[] = {"None",   "Tensor", "Double",      "ComplexDouble", "Int",
                                             "Bool",   "String", "Device",      "Generator",     "Storage",
                                             "Object", "Tuple",  "GenericList", "GenericDict"};
    return kNames[v_.index()];
  }

  const Tensor& toTensor() const { return get<Tensor>("Tensor"); }
  Tensor& toTensor() { return const_cast<Tensor&>(get<Tensor>("Tensor")); }
  int64_t toInt() const { return get<int64_t>("Int"); }
  SymInt toSymInt() const { return toInt(); }
  bool isSymInt() const { return false; }  // a size is an Int
  double toDouble() const { return get<double>("Double"); }
  bool toBool() const { return get<bool>("Bool"); }
  std::complex<double> toComplexDouble() const { return get<std::complex<double>>("ComplexDouble"); }
  Scalar toScalar() const {
    if (isDouble()) return toDouble();
    if (isBool()) return toBool();
    if (isComplexDouble()) return toComplexDouble();
    return toInt();
  }
  const std::string& toStringRef() const { return *get<Text>("String"); }
  std::string_view toStringView() const { return toStringRef(); }
  std::shared_ptr<ivalue::ConstantString> toString() const;
  std::optional<std::reference_wrapper<const std::string>> toOptionalStringRef() const {
    if (isNone()) return std::nullopt;
    return std::cref(toStringRef());
  }
  Device toDevice() const { return get<Device>("Device"); }
  const Generator& toGenerator() const { return get<Generator>("Generator"); }
  const Storage& toStorage() const { return get<Storage>("Storage"); }
  ScalarType toScalarType() const { return static_cast<ScalarType>(toInt()); }
  Layout toLayout() const { return static_cast<Layout>(toInt()); }
  MemoryFormat toMemoryFormat() const { return static_cast<MemoryFormat>(toInt()); }
  void toNone() const { get<std::monostate>("None"); }
  const tessera::IntrusivePtr<tessera::RefCounted>& toObject() const { return get<Object>("Object"); }
  torch::jit::Module toModule() const;
  template <class T>
  intrusive_ptr<T> toCustomClass() const {
    T* p = dynamic_cast<T*>(toObject().get());
    TORCH_CHECK(p, "Tried to convert an IValue of another class to a custom class");
    return tessera::IntrusivePtr<T>::share(p);
  }
  const ivalue::Tuple& toTupleRef() const { return *get<std::shared_ptr<ivalue::Tuple>>("Tuple"); }
  std::shared_ptr<ivalue::Tuple> toTuple() const { return get<std::shared_ptr<ivalue::Tuple>>("Tuple"); }
  ArrayRef<IValue> toListRef() const;
  List<IValue> toList() const;
  Dict<IValue, IValue> toGenericDict() const;
  template <class T>
  std::vector<T> toVector() const;
  std::vector<int64_t> toIntVector() const { return toVector<int64_t>(); }
  std::vector<double> toDoubleVector() const { return toVector<double>(); }
  std::vector<Tensor> toTensorVector() const { return toVector<Tensor>(); }
  std::vector<std::optional<Tensor>> toOptionalTensorVector() const { return toVector<std::optional<Tensor>>(); }
  List<int64_t> toIntList() const { return List<int64_t>(toIntVector()); }
  List<double> toDoubleList() const { return List<double>(toDoubleVector()); }
  List<bool> toBoolList() const { return List<bool>(toVector<bool>()); }
  List<Tensor> toTensorList() const { return List<Tensor>(toTensorVector()); }
  List<std::optional<Tensor>> toOptionalTensorList() const {
    return List<std::optional<Tensor>>(toOptionalTensorVector());
  }
  template <class T>
  T to() const;
  template <class T>
  std::optional<T> toOptional() const {
    if (isNone()) return std::nullopt;
    return to<T>();
  }
  bool is(const IValue& o) const;
  // The type as far as the value shows it: that of a list or dict without elements is of Any.
  std::shared_ptr<Type> type() const;
  // The same in a schema: "int[]", "Dict(str, Tensor)".
  std::string type_text() const;
  // New containers and tensors; what is held twice is copied once. Objects of classes: torch/script.h's modules only.
  IValue deepcopy() const {
    std::vector<std::pair<IValue, IValue>> made;
    return deepcopy(made);
  }
  // Of numbers, strings, devices and tuples of them by value, of tensors by identity; NotImplementedError for others.
  static size_t hash(const IValue& v);
  bool isAliasOf(const IValue& o) const {
    return isTensor() && o.isTensor() ? toTensor().is_alias_of(o.toTensor()) : is(o);
  }
  friend bool operator==(const IValue& a, const IValue& b);
  friend std::ostream& operator<<(std::ostream& out, const IValue& v);

 private:
  using Text = std::shared_ptr<const std::string>;
  using Object = tessera::IntrusivePtr<tessera::RefCounted>;
  template <class T>
  bool is() const {
    return std::holds_alternative<T>(v_);
  }
  bool holds(ivalue::Element e) const;
  IValue deepcopy(std::vector<std::pair<IValue, IValue>>& made) const;
  template <class T>
  const T& get(const char* wanted) const {
    const T* p = std::get_if<T>(&v_);
    TORCH_CHECK(p, "Expected ", wanted, " but got ", tagKind());
    return *p;
  }

  std::variant<std::monostate, Tensor, double, std::complex<double>, int64_t, bool, Text, Device, Generator, Storage,
               Object, std::shared_ptr<ivalue::Tuple>, std::shared_ptr<ivalue::ListData>,
               std::shared_ptr<ivalue::DictData>>
      v_;
};

namespace ivalue {
struct Tuple {
  static std::shared_ptr<Tuple> create(std::vector<IValue> e) { return std::make_shared<Tuple>(Tuple{std::move(e)}); }
  const std::vector<IValue>& elements() const { return items; }
  size_t size() const { return items.size(); }
  std::vector<IValue> items;
};
struct ConstantString {
  const std::string& string() const { return text; }
  std::string text;
};
struct ListData {
  std::vector<IValue> items;
  Element kind = Element::kAny;
};
struct DictData {
  std::vector<std::pair<IValue, IValue>> items;
};
}  // namespace ivalue

inline IValue IValue::list(std::vector<IValue> items, ivalue::Element kind) {
  IValue v;
  v.v_ = std::make_shared<ivalue::ListData>(ivalue::ListData{std::move(items), kind});
  return v;
}
template <class C>
requires detail::list_of<C>::value IValue::IValue(const C& items) {
  auto data = std::make_shared<ivalue::ListData>();
  data->kind = detail::element_of<typename detail::list_of<C>::type>();
  for (const auto& x : items) data->items.push_back(IValue(static_cast<typename detail::list_of<C>::type>(x)));
  v_ = std::move(data);
}
template <class C>
requires detail::dict_of<C>::value IValue::IValue(const C& items) {
  auto data = std::make_shared<ivalue::DictData>();
  for (const auto& e : items) {
    if constexpr (requires { e.first; })
      data->items.emplace_back(IValue(e.first), IValue(e.second));
    else
      data->items.emplace_back(IValue(e.key()), IValue(e.value()));
  }
  v_ = std::move(data);
}
template <class... T>
IValue::IValue(const std::tuple<T...>& t)
    : v_(std::apply([](const auto&... e) { return ivalue::Tuple::create({IValue(e)...}); }, t)) {}

inline std::shared_ptr<ivalue::ConstantString> IValue::toString() const {
  return std::make_shared<ivalue::ConstantString>(ivalue::ConstantString{toStringRef()});
}
inline bool IValue::holds(ivalue::Element e) const {
  return isList() && std::get<std::shared_ptr<ivalue::ListData>>(v_)->kind == e;
}
inline ArrayRef<IValue> IValue::toListRef() const {
  return get<std::shared_ptr<ivalue::ListData>>("GenericList")->items;
}
inline List<IValue> IValue::toList() const { return List<IValue>(toListRef()); }
inline Dict<IValue, IValue> IValue::toGenericDict() const {
  Dict<IValue, IValue> d;
  for (const auto& [key, value] : get<std::shared_ptr<ivalue::DictData>>("GenericDict")->items) d.insert(key, value);
  return d;
}
template <class T>
std::vector<T> IValue::toVector() const {
  std::vector<T> r;
  for (const IValue& e : toListRef()) r.push_back(e.to<T>());
  return r;
}
template <class T>
T IValue::to() const {
  if constexpr (std::is_same_v<T, IValue>) {
    return *this;
  } else if constexpr (std::is_base_of_v<tessera::Tensor, T>) {
    return toTensor();
  } else if constexpr (std::is_same_v<T, bool>) {
    return toBool();
  } else if constexpr (std::is_integral_v<T> || std::is_enum_v<T> || std::is_same_v<T, SymInt>) {
    return static_cast<T>(toInt());
  } else if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(toDouble());
  } else if constexpr (std::is_same_v<T, std::complex<double>>) {
    return toComplexDouble();
  } else if constexpr (std::is_same_v<T, Scalar>) {
    return toScalar();
  } else if constexpr (std::is_same_v<T, std::string>) {
    return toStringRef();
  } else if constexpr (std::is_same_v<T, std::string_view>) {
    return toStringView();
  } else if constexpr (std::is_same_v<T, Device>) {
    return toDevice();
  } else if constexpr (std::is_same_v<T, Generator>) {
    return toGenerator();
  } else if constexpr (std::is_same_v<T, Storage>) {
    return toStorage();
  } else if constexpr (detail::is_optional<T>) {
    return toOptional<typename T::value_type>();
  } else if constexpr (detail::list_of<T>::value) {
    return T(toVector<typename detail::list_of<T>::type>());
  } else if constexpr (detail::dict_of<T>::value) {
    T d;
    for (const auto& e : toGenericDict()) {
      using Key = typename detail::dict_of<T>::key;
      using V = typename detail::dict_of<T>::mapped;
      if constexpr (requires { d.emplace(e.key().template to<Key>(), e.value().template to<V>()); })
        d.emplace(e.key().template to<Key>(), e.value().template to<V>());
      else
        d.insert(e.key().template to<Key>(), e.value().template to<V>());
    }
    return d;
  } else if constexpr (detail::is_tuple<T>) {
    const auto& e = toTupleRef().elements();
    TORCH_CHECK(e.size() == std::tuple_size_v<T>, "expected a tuple of ", std::tuple_size_v<T>, " elements, got ",
                e.size());
    return [&]<size_t... I>(std::index_sequence<I...>) { return T(e[I].template to<std::tuple_element_t<I, T>>()...); }
    (std::make_index_sequence<std::tuple_size_v<T>>());
  } else {
    return toCustomClass<typename T::element_type>();
  }
}
inline bool IValue::is(const IValue& o) const {
  if (v_.index() != o.v_.index()) return false;
  if (isTensor()) return toTensor().is_same(o.toTensor());
  return std::visit(
      [&](const auto& x) -> bool {
        using T = std::decay_t<decltype(x)>;
        if constexpr (std::is_same_v<T, Tensor> || std::is_same_v<T, Storage>)
          return false;
        else
          return x == std::get<T>(o.v_);
      },
      v_);
}
inline std::string IValue::type_text() const {
  static constexpr const char* kElements[] = {"Any", "int", "float", "bool", "complex", "Tensor", "str", "Tensor?"};
  const auto common = [](const auto& items, auto text_of) {
    std::string all;
    for (const auto& item : items) {
      const std::string text = text_of(item);
      if (!all.empty() && text != all) return std::string("Any");
      all = text;
    }
    return all.empty() ? std::string("Any") : all;
  };
  if (isTuple()) {
    std::string inside;
    for (const IValue& e : toTupleRef().items) inside += (inside.empty() ? "" : ", ") + e.type_text();
    return "(" + inside + ")";
  }
  if (isList()) {
    const ivalue::Element kind = std::get<std::shared_ptr<ivalue::ListData>>(v_)->kind;
    if (kind != ivalue::Element::kAny) return std::string(kElements[static_cast<int>(kind)]) + "[]";
    return common(toListRef(), [](const IValue& e) { return e.type_text(); }) + "[]";
  }
  if (isGenericDict()) {
    const auto& items = std::get<std::shared_ptr<ivalue::DictData>>(v_)->items;
    return "Dict(" + common(items, [](const auto& e) { return e.first.type_text(); }) + ", " +
           common(items, [](const auto& e) { return e.second.type_text(); }) + ")";
  }
  static constexpr const char* kNames[] = {"NoneType", "Tensor", "float",     "complex", "int", "bool",
                                           "str",      "Device", "Generator", "Storage", "Any"};
  return kNames[v_.index()];
}
inline IValue IValue::deepcopy(std::vector<std::pair<IValue, IValue>>& made) const {
  if (isNone() || isScalar() || isString() || isDevice() || isGenerator()) return *this;
  for (const auto& [from, to] : made)
    if (from.is(*this)) return to;
  IValue copy;
  if (isTensor()) {
    copy = toTensor().defined() ? IValue(toTensor().detach().clone()) : *this;
  } else if (isTuple()) {
    std::vector<IValue> items;
    for (const IValue& e : toTupleRef().items) items.push_back(e.deepcopy(made));
    copy = ivalue::Tuple::create(std::move(items));
  } else if (isList()) {
    copy = list({}, std::get<std::shared_ptr<ivalue::ListData>>(v_)->kind);
    made.emplace_back(*this, copy);
    for (const IValue& e : toListRef())
      std::get<std::shared_ptr<ivalue::ListData>>(copy.v_)->items.push_back(e.deepcopy(made));
    return copy;
  } else if (isGenericDict()) {
    copy.v_ = std::make_shared<ivalue::DictData>();
    made.emplace_back(*this, copy);
    for (const auto& [key, value] : std::get<std::shared_ptr<ivalue::DictData>>(v_)->items)
      std::get<std::shared_ptr<ivalue::DictData>>(copy.v_)->items.emplace_back(key.deepcopy(made),
                                                                               value.deepcopy(made));
    return copy;
  } else {
    TORCH_CHECK_NOT_IMPLEMENTED(false, "a deep copy of a value of kind ", tagKind());
  }
  made.emplace_back(*this, copy);
  return copy;
}
inline size_t IValue::hash(const IValue& v) {
  if (v.isTensor()) return std::hash<const void*>()(v.toTensor().unsafeGetTensorImpl());
  if (v.isInt()) return std::hash<int64_t>()(v.toInt());
  if (v.isBool()) return std::hash<bool>()(v.toBool());
  if (v.isDouble()) return std::hash<double>()(v.toDouble());
  if (v.isString()) return std::hash<std::string>()(v.toStringRef());
  if (v.isDevice()) return std::hash<std::string>()(c10::str(v.toDevice()));
  if (v.isNone()) return 0;
  TORCH_CHECK_NOT_IMPLEMENTED(v.isTuple(), "unhashable value of kind ", v.tagKind());
  size_t seed = v.toTupleRef().size();
  for (const IValue& e : v.toTupleRef().items) seed = seed * 1000003 ^ hash(e);
  return seed;
}
inline bool operator==(const IValue& a, const IValue& b) {
  if (a.isTensor() && b.isTensor()) return a.toTensor().is_same(b.toTensor()) || at::equal(a.toTensor(), b.toTensor());
  if (a.isString() && b.isString()) return a.toStringRef() == b.toStringRef();
  if (a.isList() && b.isList()) return a.toListRef() == b.toListRef();
  if (a.isTuple() && b.isTuple()) return a.toTupleRef().items == b.toTupleRef().items;
  if (a.isGenericDict() && b.isGenericDict()) {
    const auto x = a.toGenericDict(), y = b.toGenericDict();
    if (x.size() != y.size()) return false;
    for (const auto& e : x)
      if (!y.contains(e.key()) || !(y.at(e.key()) == e.value())) return false;
    return true;
  }
  return a.is(b);
}
inline std::ostream& operator<<(std::ostream& out, const IValue& v) {
  auto items = [&](char open, const std::vector<IValue>& l, char close) {
    out << open;
    for (size_t i = 0; i < l.size(); ++i) out << (i ? ", " : "") << l[i];
    if (open == '(' && l.size() == 1) out << ',';
    out << close;
  };
  if (v.isNone()) return out << "None";
  if (v.isTensor()) return out << v.toTensor();
  if (v.isDouble()) {
    const double d = v.toDouble();
    const at::detail::KeepFormat keep(out);
    out << std::defaultfloat << std::setprecision(17) << d;
    if (std::isfinite(d) && d == std::trunc(d) && std::abs(d) < 1e15) out << '.';
    return out;
  }
  if (v.isInt()) return out << v.toInt();
  if (v.isBool()) return out << (v.toBool() ? "True" : "False");
  if (v.isComplexDouble()) {
    const std::complex<double> z = v.toComplexDouble();
    return out << IValue(z.real()) << (std::signbit(z.imag()) ? "" : "+") << IValue(z.imag()) << 'j';
  }
  if (v.isString()) return out << v.toStringRef();
  if (v.isDevice()) return out << v.toDevice();
  if (v.isTuple())
    items('(', v.toTupleRef().items, ')');
  else if (v.isList())
    items('[', v.toListRef().vec(), ']');
  else if (v.isGenericDict()) {
    out << '{';
    bool first = true;
    for (const auto& e : v.toGenericDict()) {
      out << (first ? "" : ", ") << e.key() << ": " << e.value();
      first = false;
    }
    out << '}';
  } else {
    out << '<' << v.tagKind() << '>';
  }
  return out;
}

}  // namespace c10

namespace at {
using c10::IValue;
}
namespace torch {
using c10::IValue;
namespace jit {
using c10::IValue;
using Stack = std::vector<c10::IValue>;
}  // namespace jit
}  // namespace torch
