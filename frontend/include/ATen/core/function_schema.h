// Schemas of operators as the documented classes.
#pragma once

#include <memory>

#include "ATen/core/ivalue.h"
#include "tensor/dispatch/schema.h"

namespace c10 {

struct OperatorName {
  std::string name;
  std::string overload_name;
  std::optional<std::string_view> getNamespace() const {
    const size_t at = name.find("::");
    return at == std::string::npos ? std::nullopt
                                   : std::optional<std::string_view>(std::string_view(name).substr(0, at));
  }
  friend bool operator==(const OperatorName&, const OperatorName&) = default;
  friend std::ostream& operator<<(std::ostream& out, const OperatorName& n) {
    return out << n.name << (n.overload_name.empty() ? "" : ".") << n.overload_name;
  }
};
inline std::string toString(const OperatorName& n) { return c10::str(n); }

class Type {
 public:
  explicit Type(tessera::SchemaType t) : type_(std::move(t)) {}
  // As schemas write it: "int[]", "Dict(str, Tensor)". Error for a text that is no type.
  static std::shared_ptr<Type> parse(const std::string& text) {
    return std::make_shared<Type>(tessera::parse_schema("f(" + text + " x) -> ()").arguments.at(0).type);
  }
  std::string str() const { return type_.str_without_alias(); }
  std::string repr_str() const { return annotation_str(); }
  // As programs write it: "List[int]" for "int[]".
  std::string annotation_str() const { return annotation_of(type_); }
  const tessera::SchemaType& schema_type() const { return type_; }
  friend bool operator==(const Type& a, const Type& b) { return a.str() == b.str(); }
  friend std::ostream& operator<<(std::ostream& out, const Type& t) { return out << t.str(); }

 private:
  static std::string annotation_of(const tessera::SchemaType& t) {
    using K = tessera::TypeKind;
    const char* outer = t.kind == K::kList       ? "List["
                        : t.kind == K::kOptional ? "Optional["
                        : t.kind == K::kDict     ? "Dict["
                        : t.kind == K::kTuple    ? "Tuple["
                                                 : nullptr;
    if (!outer) return t.str_without_alias();
    std::string text = outer;
    for (size_t i = 0; i < t.elements.size(); ++i) text += (i ? ", " : "") + annotation_of(t.elements[i]);
    return text + "]";
  }

  tessera::SchemaType type_;
};
using TypePtr = std::shared_ptr<Type>;
inline TypePtr IValue::type() const { return Type::parse(type_text()); }

// The types that have a name alone: IntType::get().
#define TESSERA_NAMED_TYPE(Name, text)                 \
  struct Name : Type {                                 \
    static TypePtr get() { return Type::parse(text); } \
  };
TESSERA_NAMED_TYPE(AnyType, "Any")
TESSERA_NAMED_TYPE(BoolType, "bool")
TESSERA_NAMED_TYPE(ComplexType, "complex")
TESSERA_NAMED_TYPE(DeviceObjType, "Device")
TESSERA_NAMED_TYPE(FloatType, "float")
TESSERA_NAMED_TYPE(GeneratorType, "Generator")
TESSERA_NAMED_TYPE(IntType, "int")
TESSERA_NAMED_TYPE(NoneType, "NoneType")
TESSERA_NAMED_TYPE(NumberType, "Scalar")
TESSERA_NAMED_TYPE(StringType, "str")
TESSERA_NAMED_TYPE(TensorType, "Tensor")
#undef TESSERA_NAMED_TYPE
// Those of others: ListType::create(IntType::get()).
struct ListType : Type {
  static TypePtr create(const TypePtr& element) { return Type::parse(element->str() + "[]"); }
  static TypePtr ofInts() { return Type::parse("int[]"); }
  static TypePtr ofFloats() { return Type::parse("float[]"); }
  static TypePtr ofBools() { return Type::parse("bool[]"); }
  static TypePtr ofStrings() { return Type::parse("str[]"); }
  static TypePtr ofTensors() { return Type::parse("Tensor[]"); }
};
struct OptionalType : Type {
  static TypePtr create(const TypePtr& inside) { return Type::parse(inside->str() + "?"); }
  static TypePtr ofTensor() { return Type::parse("Tensor?"); }
};
struct DictType : Type {
  static TypePtr create(const TypePtr& key, const TypePtr& value) {
    return Type::parse("Dict(" + key->str() + ", " + value->str() + ")");
  }
};
struct TupleType : Type {
  static TypePtr create(const std::vector<TypePtr>& elements) {
    std::string inside;
    for (const TypePtr& e : elements) inside += (inside.empty() ? "" : ", ") + e->str();
    return Type::parse("(" + inside + ")");
  }
};

namespace impl {
// Containers whose element types are known at run time alone; elements tell theirs.
struct GenericList : List<IValue> {
  explicit GenericList(const TypePtr&) {}
};
struct GenericDict : Dict<IValue, IValue> {
  GenericDict(const TypePtr&, const TypePtr&) {}
};
}  // namespace impl
namespace detail {
template <>
struct list_of<impl::GenericList> : list_of<List<IValue>> {};
template <>
struct dict_of<impl::GenericDict> : dict_of<Dict<IValue, IValue>> {};
}  // namespace detail

inline IValue from_schema_value(const tessera::SchemaValue& v) {
  using K = tessera::SchemaValue::Kind;
  switch (v.kind) {
    case K::kNone:
      return {};
    case K::kBool:
      return v.b;
    case K::kInt:
    case K::kEnum:
      return v.i;
    case K::kFloat:
      return v.f;
    case K::kComplex:
      return std::complex<double>(v.f, v.imag);
    case K::kString:
      return v.s;
    case K::kDevice:
      return Device(v.s);
    case K::kList:
      break;
  }
  using E = ivalue::Element;
  const auto kind = v.list.empty() ? K::kNone : v.list[0].kind;
  std::vector<IValue> items;
  for (const auto& e : v.list) items.push_back(from_schema_value(e));
  const E e = kind == K::kInt ? E::kInt : kind == K::kFloat ? E::kDouble : kind == K::kBool ? E::kBool : E::kAny;
  return IValue::list(std::move(items), e);
}

class AliasInfo {
 public:
  explicit AliasInfo(tessera::AliasInfo a) : info_(std::move(a)) {}
  bool isWrite() const { return info_.is_write; }

 private:
  tessera::AliasInfo info_;
};

class Argument {
 public:
  explicit Argument(const tessera::SchemaArgument& a) : argument_(a), type_(std::make_shared<Type>(a.type)) {
    if (a.default_value) default_ = from_schema_value(*a.default_value);
    if (const auto* info = a.type.alias_anywhere()) alias_ = std::make_unique<AliasInfo>(*info);
  }
  const std::string& name() const { return argument_.name; }
  const TypePtr& type() const { return type_; }
  std::optional<int32_t> N() const {
    return argument_.type.size >= 0 ? std::optional<int32_t>(static_cast<int32_t>(argument_.type.size)) : std::nullopt;
  }
  const std::optional<IValue>& default_value() const { return default_; }
  bool kwarg_only() const { return argument_.kwarg_only; }
  bool is_out() const { return argument_.kwarg_only && argument_.is_write(); }
  const AliasInfo* alias_info() const { return alias_.get(); }
  friend std::ostream& operator<<(std::ostream& out, const Argument& a) { return out << a.argument_.str(); }

 private:
  tessera::SchemaArgument argument_;
  TypePtr type_;
  std::optional<IValue> default_;
  std::shared_ptr<AliasInfo> alias_;
};

class FunctionSchema {
 public:
  FunctionSchema() = default;
  explicit FunctionSchema(tessera::FunctionSchema s)
      : schema_(std::move(s)),
        arguments_(schema_.arguments.begin(), schema_.arguments.end()),
        returns_(schema_.returns.begin(), schema_.returns.end()) {}
  const std::string& name() const { return schema_.name; }
  const std::string& overload_name() const { return schema_.overload; }
  OperatorName operator_name() const { return {schema_.name, schema_.overload}; }
  const std::vector<Argument>& arguments() const { return arguments_; }
  const std::vector<Argument>& returns() const { return returns_; }
  bool is_vararg() const { return schema_.is_vararg; }
  bool is_varret() const { return schema_.is_varret; }
  bool is_mutable() const { return schema_.is_mutable(); }
  bool is_mutable(size_t i) const { return schema_.arguments.at(i).is_write(); }
  std::optional<int> argumentIndexWithName(std::string_view name) const {
    const int i = schema_.find_argument(name);
    return i < 0 ? std::nullopt : std::optional<int>(i);
  }
  std::optional<std::string_view> getNamespace() const {
    const std::string_view n = schema_.name_space();
    return n.empty() ? std::nullopt : std::optional<std::string_view>(n);
  }
  const tessera::FunctionSchema& plain() const { return schema_; }
  friend bool operator==(const FunctionSchema& a, const FunctionSchema& b) { return a.schema_ == b.schema_; }
  friend std::ostream& operator<<(std::ostream& out, const FunctionSchema& s) { return out << s.schema_.str(); }

 private:
  tessera::FunctionSchema schema_;
  std::vector<Argument> arguments_, returns_;
};
inline std::string toString(const FunctionSchema& s) { return c10::str(s); }

}  // namespace c10

namespace torch::jit {
using c10::AnyType;
using c10::BoolType;
using c10::ComplexType;
using c10::DeviceObjType;
using c10::DictType;
using c10::FloatType;
using c10::FunctionSchema;
using c10::IntType;
using c10::ListType;
using c10::NoneType;
using c10::NumberType;
using c10::OptionalType;
using c10::StringType;
using c10::TensorType;
using c10::TupleType;
using c10::Type;
using c10::TypePtr;
inline FunctionSchema parseSchema(const std::string& text) { return FunctionSchema(tessera::parse_schema(text)); }
inline c10::OperatorName parseName(const std::string& text) {
  const tessera::OperatorName n = tessera::parse_operator_name(text);
  return {n.name, n.overload};
}
}  // namespace torch::jit
