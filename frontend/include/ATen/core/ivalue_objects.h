// Values in the front end's form and in that of scripts and archives, whose lists, dicts and tuples are objects, and
// where an object of a registered class is held by an instance.
#pragma once

#include "ATen/core/ivalue.h"
#include "jit/classes/custom_class.h"
#include "jit/data.h"

namespace c10::objects {

namespace tj = tessera::jit;

inline tj::Datum to_datum(const IValue& v) {
  using tessera::Value;
  tj::Datum d;
  const auto each = [&](tj::Datum::Kind kind, const auto& items) {
    d.kind = kind;
    for (const IValue& item : items) d.items.push_back(to_datum(item));
  };
  if (v.isTensor())
    d.value = Value::of(static_cast<const tessera::Tensor&>(v.toTensor()));
  else if (v.isBool())
    d.value = Value::of(v.toBool());
  else if (v.isInt())
    d.value = Value::of(v.toInt());
  else if (v.isDouble())
    d.value = Value::of(v.toDouble());
  else if (v.isComplexDouble())
    d.value = Value::of(v.toComplexDouble());
  else if (v.isString())
    d.value = Value::of(v.toStringRef());
  else if (v.isDevice())
    d.value = Value::of(static_cast<tessera::Device>(v.toDevice()));
  else if (v.isTuple())
    each(tj::Datum::Kind::kTuple, v.toTupleRef().elements());
  else if (v.isObject())
    d.value = tessera::jit::custom::wrap(v.toObject());
  else if (v.isGenericDict()) {
    d.kind = tj::Datum::Kind::kDict;
    for (const auto& e : v.toGenericDict()) {
      d.items.push_back(to_datum(e.key()));
      d.items.push_back(to_datum(e.value()));
    }
  } else if (v.isList()) {
    each(tj::Datum::Kind::kList, v.toListRef());
    d.type = v.isIntList()             ? "List[int]"
             : v.isDoubleList()        ? "List[float]"
             : v.isBoolList()          ? "List[bool]"
             : v.isTensorList()        ? "List[Tensor]"
             : v.isComplexDoubleList() ? "List[complex]"
                                       : "";
  } else {
    TORCH_CHECK_NOT_IMPLEMENTED(v.isNone(), "a value of kind ", v.tagKind(), " in an archive");
  }
  return d;
}
inline IValue to_ivalue(const tj::Datum& d) {
  using Tag = tessera::Value::Tag;
  if (d.kind == tj::Datum::Kind::kScalar) {
    switch (d.value.tag()) {
      case Tag::kBool:
        return d.value.boolean();
      case Tag::kInt:
        return d.value.integer();
      case Tag::kDouble:
        return d.value.number();
      case Tag::kComplex:
        return d.value.scalar().to_complex();
      case Tag::kString:
        return std::string(d.value.string());
      case Tag::kDevice:
        return Device(d.value.device());
      case Tag::kTensor:
        return Tensor(d.value.tensor());
      case Tag::kObject:
        return tessera::IntrusivePtr<tessera::RefCounted>::share(tessera::jit::custom::held(d.value.object()));
      case Tag::kNone:
        return {};
      default:
        TORCH_CHECK_NOT_IMPLEMENTED(false, "a value of an archive that the front end does not have");
    }
  }
  std::vector<IValue> items;
  for (const tj::Datum& item : d.items) items.push_back(to_ivalue(item));
  if (d.kind == tj::Datum::Kind::kTuple) return c10::ivalue::Tuple::create(std::move(items));
  if (d.kind == tj::Datum::Kind::kDict) {
    c10::Dict<IValue, IValue> dict;
    for (size_t i = 0; i < items.size(); i += 2) dict.insert(items[i], items[i + 1]);
    return IValue(dict);
  }
  const IValue list(items);
  if (d.type == "List[int]") return list.toIntVector();
  if (d.type == "List[float]") return list.toDoubleVector();
  if (d.type == "List[bool]") return list.toBoolList();
  if (d.type == "List[Tensor]") return list.toTensorVector();
  return list;
}

// The type of a C++ type in a schema: "Tensor", "int?", "Dict(str, Tensor)", "__torch__.torch.classes.ns.Name".
// Error for a class that is not registered.
template <class T>
std::string schema_name();
template <class Tuple>
std::string element_names() {
  return [&]<size_t... I>(std::index_sequence<I...>) {
    std::string list;
    ((list += (I ? ", " : "") + schema_name<std::tuple_element_t<I, Tuple>>()), ...);
    return list;
  }
  (std::make_index_sequence<std::tuple_size_v<Tuple>>());
}
template <class T>
std::string schema_name() {
  using U = std::remove_cvref_t<T>;
  if constexpr (std::is_base_of_v<tessera::Tensor, U>)
    return "Tensor";
  else if constexpr (std::is_void_v<U>)
    return "NoneType";
  else if constexpr (detail::is_optional<U>)
    return schema_name<typename U::value_type>() + "?";
  else if constexpr (std::is_same_v<U, OptionalIntArrayRef> || std::is_same_v<U, OptionalSymIntArrayRef>)
    return schema_name<typename U::value_type>() + "?";
  else if constexpr (std::is_same_v<U, SymInt>)
    return "SymInt";
  else if constexpr (std::is_same_v<U, bool>)
    return "bool";
  else if constexpr (std::is_same_v<U, ScalarType>)
    return "ScalarType";
  else if constexpr (std::is_same_v<U, Layout>)
    return "Layout";
  else if constexpr (std::is_same_v<U, MemoryFormat>)
    return "MemoryFormat";
  else if constexpr (std::is_integral_v<U>)
    return "int";
  else if constexpr (std::is_floating_point_v<U>)
    return "float";
  else if constexpr (std::is_same_v<U, std::complex<double>>)
    return "complex";
  else if constexpr (std::is_same_v<U, Scalar>)
    return "Scalar";
  else if constexpr (std::is_convertible_v<const U&, std::string_view>)
    return "str";
  else if constexpr (std::is_same_v<U, Device>)
    return "Device";
  else if constexpr (std::is_same_v<U, at::Generator>)
    return "Generator";
  else if constexpr (std::is_same_v<U, Storage>)
    return "Storage";
  else if constexpr (detail::list_of<U>::value)
    return schema_name<typename detail::list_of<U>::type>() + "[]";
  else if constexpr (detail::dict_of<U>::value)
    return "Dict(" + schema_name<typename detail::dict_of<U>::key>() + ", " +
           schema_name<typename detail::dict_of<U>::mapped>() + ")";
  else if constexpr (detail::is_tuple<U>)
    return "(" + element_names<U>() + ")";
  else if constexpr (requires { typename U::element_type; })
    return tj::custom::name_of(typeid(typename U::element_type));
  else
    return "Any";
}

// A C++ value as scripts have it, and back.
template <class T>
tessera::Value to_object(const T& x) {
  return tj::value_of(to_datum(IValue(x)), schema_name<T>());
}
inline IValue from_object(const tessera::Value& v) { return to_ivalue(tj::datum_of(v)); }

}  // namespace c10::objects
