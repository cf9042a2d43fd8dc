// Between C++ values, tessera::Value (what the dispatcher carries) and IValue, in all directions; and how the C++ types
// of a function look in a schema.
#pragma once

#include <mutex>

#include "ATen/core/function_schema.h"
#include "ATen/core/ivalue_objects.h"
#include "tensor/dispatch/dynamic.h"

namespace c10 {

using Stack = std::vector<IValue>;
struct OperatorKernel : intrusive_ptr_target {};

namespace boxing {

using tessera::Value;
template <class T>
inline constexpr bool unsupported = false;
// Lists that the dispatcher carries as such. All others, tuples in lists and dicts are objects, as scripts have them.
template <class E>
inline constexpr bool plain_element =
    std::is_base_of_v<tessera::Tensor, E> || std::is_same_v<E, std::optional<at::Tensor>> || std::is_arithmetic_v<E> ||
    std::is_same_v<E, Scalar> || std::is_same_v<E, SymInt>;
template <class E>
inline constexpr bool is_whole = std::is_integral_v<E> || std::is_same_v<E, SymInt>;
template <class T>
inline constexpr bool is_view = false;
template <class E>
inline constexpr bool is_view<ArrayRef<E>> = true;
template <class T>
inline constexpr bool is_optional_list = false;
template <class E>
inline constexpr bool is_optional_list<OptionalArrayRef<E>> = true;
template <class T>
constexpr bool is_object() {
  if constexpr (detail::list_of<T>::value)
    return !plain_element<typename detail::list_of<T>::type>;
  else
    return detail::dict_of<T>::value || detail::is_tuple<T> || std::is_same_v<T, IValue>;
}

// What one argument of type T is made of. The value lives as long as the call.
template <class T>
decltype(auto) unbox(const Value& v) {
  using U = std::remove_cvref_t<T>;
  if constexpr (std::is_same_v<U, at::Tensor>) {
    // Tensor& and const Tensor& refer to the caller's.
    auto& t = const_cast<at::Tensor&>(static_cast<const at::Tensor&>(v.tensor()));
    if constexpr (std::is_reference_v<T>)
      return static_cast<at::Tensor&>(t);
    else
      return at::Tensor(t);
  } else if constexpr (detail::is_optional<U>) {
    using E = typename U::value_type;
    if constexpr (std::is_same_v<E, at::Tensor>)
      return v.is_none() || !v.tensor().defined() ? U() : U(at::Tensor(v.tensor()));
    else
      return v.is_none() ? U() : U(unbox<E>(v));
  } else if constexpr (is_optional_list<U>) {
    return v.is_none() ? U() : U(unbox<typename U::value_type>(v));
  } else if constexpr (std::is_same_v<U, bool>) {
    return v.boolean();
  } else if constexpr (std::is_same_v<U, ScalarType>) {
    return v.tag() == Value::Tag::kInt ? static_cast<ScalarType>(v.integer()) : to_scalar_type(v.dtype());
  } else if constexpr (std::is_same_v<U, Layout>) {
    return v.tag() == Value::Tag::kInt ? static_cast<Layout>(v.integer()) : from_layout(v.layout());
  } else if constexpr (std::is_same_v<U, MemoryFormat>) {
    return static_cast<MemoryFormat>(v.tag() == Value::Tag::kInt ? v.integer()
                                                                 : static_cast<int64_t>(v.memory_format()));
  } else if constexpr (is_whole<U>) {
    return static_cast<U>(v.integer());
  } else if constexpr (std::is_floating_point_v<U>) {
    return static_cast<U>(v.number());
  } else if constexpr (std::is_same_v<U, std::complex<double>>) {
    return v.scalar().to_complex();
  } else if constexpr (std::is_same_v<U, Scalar>) {
    return Scalar(v.scalar());
  } else if constexpr (std::is_same_v<U, std::string>) {
    return std::string(v.string());
  } else if constexpr (std::is_same_v<U, std::string_view>) {
    return v.string();
  } else if constexpr (std::is_same_v<U, Device>) {
    return Device(v.device());
  } else if constexpr (std::is_same_v<U, at::Generator>) {
    return at::Generator(v.generator());
  } else if constexpr (std::is_same_v<U, Storage>) {
    return Storage(v.storage());
  } else if constexpr (is_object<U>()) {
    static_assert(!is_view<U>, "a list of this type is made for the call: take it as std::vector or c10::List");
    return objects::from_object(v).template to<U>();
  } else if constexpr (detail::list_of<U>::value) {
    using E = typename detail::list_of<U>::type;
    constexpr bool view = std::is_same_v<U, ArrayRef<E>>;
    auto copy = [](const auto& l) {
      if constexpr (view)
        return U(l.data(), l.size());
      else if constexpr (std::is_same_v<U, std::vector<E>> || std::is_same_v<U, List<E>>)
        return U(std::vector<E>(l.begin(), l.end()));
      else {
        U a{};
        TORCH_CHECK(a.size() == l.size(), "expected a list of ", a.size(), " elements, got ", l.size());
        std::copy(l.begin(), l.end(), a.begin());
        return a;
      }
    };
    if constexpr (std::is_same_v<E, at::Tensor>) {
      const tessera::TensorList l = v.tensor_list();
      return copy(ArrayRef<at::Tensor>(static_cast<const at::Tensor*>(l.data()), l.size()));
    } else if constexpr (std::is_same_v<E, std::optional<at::Tensor>>) {
      std::vector<E> l;
      for (const tessera::Tensor& t : v.tensor_list()) l.push_back(t.defined() ? E(at::Tensor(t)) : E());
      return U(std::move(l));
    } else if constexpr (std::is_same_v<E, bool>) {
      return copy(v.bool_list());
    } else if constexpr (std::is_same_v<E, SymInt>) {
      return copy(SymIntArrayRef(v.int_list()));
    } else if constexpr (std::is_integral_v<E>) {
      return copy(v.int_list());
    } else if constexpr (std::is_floating_point_v<E>) {
      return copy(v.double_list());
    } else {
      static_assert(std::is_same_v<E, Scalar>, "no schema has lists of this type");
      const auto l = v.scalar_list();
      return copy(ArrayRef<Scalar>(static_cast<const Scalar*>(l.data()), l.size()));
    }
  } else if constexpr (requires { typename U::element_type; }) {
    using E = typename U::element_type;
    E* object = dynamic_cast<E*>(tessera::jit::custom::held(v.object()));
    TORCH_CHECK(object || v.is_none(), "expected an object of another class: of the C++ type ", typeid(E).name());
    return U(tessera::IntrusivePtr<E>::share(object));
  } else {
    static_assert(unsupported<T>, "no schema has an argument of this type");
  }
}

// Value owns no lists of bools: the (few) lists that there are stay for good.
inline Value bools(const std::vector<bool>& v) {
  static std::mutex mutex;
  static auto* all = new std::map<std::vector<bool>, std::unique_ptr<bool[]>>;
  const std::lock_guard lock(mutex);
  auto& kept = (*all)[v];
  if (!kept) {
    kept = std::make_unique<bool[]>(v.size());
    std::copy(v.begin(), v.end(), kept.get());
  }
  return Value::borrow(std::span<const bool>(kept.get(), v.size()));
}
// A value of its own for a result, or (which comes to the same) for an argument.
template <class T>
Value box(const T& x) {
  if constexpr (std::is_base_of_v<tessera::Tensor, T>)
    return Value::of(tessera::Tensor(x));
  else if constexpr (detail::is_optional<T>)
    return x ? box(*x) : Value::none();
  else if constexpr (is_optional_list<T>)
    return x ? box(*x) : Value::none();
  else if constexpr (std::is_same_v<T, bool>)
    return Value::of(x);
  else if constexpr (std::is_same_v<T, ScalarType>)
    return Value::of(to_dtype(x));
  else if constexpr (std::is_same_v<T, Layout>)
    return Value::of(to_layout(x));
  else if constexpr (std::is_same_v<T, MemoryFormat>)
    return Value::of(static_cast<tessera::MemoryFormat>(x));
  else if constexpr (is_whole<T>)
    return Value::of(static_cast<int64_t>(x));
  else if constexpr (std::is_floating_point_v<T>)
    return Value::of(static_cast<double>(x));
  else if constexpr (std::is_same_v<T, std::complex<double>>)
    return Value::of(x);
  else if constexpr (std::is_base_of_v<tessera::Scalar, T>)
    return Value::of(static_cast<const tessera::Scalar&>(x));
  else if constexpr (std::is_convertible_v<const T&, std::string_view>)
    return Value::of(std::string(std::string_view(x)));
  else if constexpr (std::is_base_of_v<tessera::Device, T>)
    return Value::of(static_cast<const tessera::Device&>(x));
  else if constexpr (std::is_base_of_v<tessera::Generator, T>)
    return Value::of(tessera::Generator(x));
  else if constexpr (std::is_same_v<T, Storage>)
    return Value::of(x.impl());
  else if constexpr (is_object<T>())
    return objects::to_object(x);
  else if constexpr (detail::list_of<T>::value) {
    using E = typename detail::list_of<T>::type;
    if constexpr (std::is_same_v<E, at::Tensor> || std::is_same_v<E, std::optional<at::Tensor>>) {
      std::vector<tessera::Tensor> l;
      for (const auto& e : x) {
        if constexpr (std::is_same_v<E, at::Tensor>)
          l.push_back(e);
        else
          l.push_back(at::fe::in(e));
      }
      return Value::of(std::move(l));
    } else if constexpr (std::is_same_v<E, bool>) {
      return bools({x.begin(), x.end()});
    } else if constexpr (is_whole<E>) {
      return Value::of(tessera::IntVector(x.begin(), x.end()));
    } else if constexpr (std::is_floating_point_v<E>) {
      return Value::doubles(std::vector<double>(x.begin(), x.end()));
    } else {
      return Value::scalars(std::vector<tessera::Scalar>(x.begin(), x.end()));
    }
  } else {
    return tessera::jit::custom::wrap(tessera::IntrusivePtr<tessera::RefCounted>(x), &typeid(typename T::element_type));
  }
}

inline IValue to_ivalue(const Value& v) {
  using T = Value::Tag;
  switch (v.tag()) {
    case T::kBool:
      return v.boolean();
    case T::kInt:
      return v.integer();
    case T::kDouble:
      return v.number();
    case T::kUInt:
    case T::kComplex:
      return Scalar(v.scalar());
    case T::kTensor:
      return at::Tensor(v.tensor());
    case T::kTensorList:
      return unbox<std::vector<at::Tensor>>(v);
    case T::kIntList:
      return unbox<std::vector<int64_t>>(v);
    case T::kDoubleList:
      return unbox<std::vector<double>>(v);
    case T::kBoolList:
      return unbox<std::vector<bool>>(v);
    case T::kScalarList:
      return unbox<std::vector<Scalar>>(v);
    case T::kString:
      return v.string();
    case T::kDType:
      return to_scalar_type(v.dtype());
    case T::kLayout:
      return from_layout(v.layout());
    case T::kMemoryFormat:
      return static_cast<MemoryFormat>(v.memory_format());
    case T::kDevice:
      return Device(v.device());
    case T::kGenerator:
      return at::Generator(v.generator());
    case T::kStorage:
      return Storage(v.storage());
    case T::kObject:
      return objects::from_object(v);
    default:
      return {};
  }
}
inline Value to_value(const IValue& v, const tessera::SchemaType& declared) {
  const tessera::SchemaType& type = declared.without_optional();
  using K = tessera::TypeKind;
  if (v.isNone()) return {};
  if (v.isTensor()) return box(v.toTensor());
  if (v.isInt()) {
    if (type.is(K::kScalarType)) return box(v.toScalarType());
    if (type.is(K::kLayout)) return box(v.toLayout());
    if (type.is(K::kMemoryFormat)) return box(v.toMemoryFormat());
    if (type.is(K::kFloat)) return box(static_cast<double>(v.toInt()));
    return box(v.toInt());
  }
  if (v.isScalar()) return box(v.toScalar());
  if (v.isString()) return box(v.toStringRef());
  if (v.isDevice()) return box(v.toDevice());
  if (v.isGenerator()) return box(v.toGenerator());
  if (v.isStorage()) return box(v.toStorage());
  const auto object = [&] { return tessera::jit::value_of(objects::to_datum(v), type.str_without_alias()); };
  if (v.isObject()) return tessera::jit::custom::wrap(v.toObject());
  if (v.isTuple() || v.isGenericDict()) return object();
  TORCH_CHECK(v.isList() && (type.is_list() || type.is(K::kAny)), "an argument of type ", declared.str(),
              " cannot be a ", v.tagKind());
  if (!type.is_list()) return object();
  switch (type.elements[0].without_optional().kind) {
    case K::kTensor:
      return box(v.toOptionalTensorVector());
    case K::kFloat:
      return box(v.toDoubleVector());
    case K::kScalar:
      return box(v.toVector<Scalar>());
    case K::kBool:
      return box(v.toVector<bool>());
    case K::kInt:
    case K::kSymInt:
      return box(v.toIntVector());
    default:
      return object();
  }
}

using objects::schema_name;

template <class F>
struct signature : signature<decltype(&F::operator())> {};
template <class R, class... A>
struct signature<R(A...)> {
  using type = R(A...);
};
template <class R, class... A>
struct signature<R (*)(A...)> : signature<R(A...)> {};
template <class C, class R, class... A>
struct signature<R (C::*)(A...)> : signature<R(A...)> {};
template <class C, class R, class... A>
struct signature<R (C::*)(A...) const> : signature<R(A...)> {};

template <class Sig>
struct Function;
template <class R, class... All>
struct Function<R(All...)> {
  static constexpr bool takes_keys = [] {
    if constexpr (sizeof...(All) == 0)
      return false;
    else
      return std::is_same_v<std::tuple_element_t<0, std::tuple<std::remove_cvref_t<All>...>>, DispatchKeySet>;
  }();

  static std::string inferred_schema(const std::string& name) {
    std::vector<std::string> types = {schema_name<All>()...};
    std::string text = name + "(";
    for (size_t i = takes_keys; i < types.size(); ++i)
      text += (i > takes_keys ? ", " : "") + types[i] + " _" + std::to_string(i - takes_keys);
    text += ") -> ";
    if constexpr (std::is_void_v<R>)
      return text + "()";
    else if constexpr (detail::is_tuple<R>) {
      return [&]<size_t... I>(std::index_sequence<I...>) {
        std::string list;
        ((list += (I ? ", " : "") + schema_name<std::tuple_element_t<I, R>>() + " _" + std::to_string(I)), ...);
        return text + "(" + list + ")";
      }
      (std::make_index_sequence<std::tuple_size_v<R>>());
    } else {
      return text + schema_name<R>();
    }
  }

  template <class F>
  static void call(F& f, DispatchKeySet keys, const Value* args, size_t num_args, Value* rets) {
    TORCH_CHECK(num_args == sizeof...(All) - takes_keys, "the kernel takes ", sizeof...(All) - takes_keys,
                " arguments, its schema has ", num_args);
    auto argument = [&]<class A>(std::type_identity<A>, size_t i) -> decltype(auto) {
      if constexpr (std::is_same_v<std::remove_cvref_t<A>, DispatchKeySet>)
        return DispatchKeySet(keys);
      else
        return unbox<A>(args[i - takes_keys]);
    };
    [&]<size_t... I>(std::index_sequence<I...>) {
      if constexpr (std::is_void_v<R>) {
        f(argument(std::type_identity<All>(), I)...);
      } else if constexpr (detail::is_tuple<R>) {
        R result = f(argument(std::type_identity<All>(), I)...);
        std::apply(
            [&](const auto&... e) {
              size_t k = 0;
              ((rets[k++] = box<std::remove_cvref_t<decltype(e)>>(e)), ...);
            },
            result);
      } else {
        rets[0] = box<std::remove_cvref_t<R>>(f(argument(std::type_identity<All>(), I)...));
      }
    }
    (std::index_sequence_for<All...>());
  }
};

}  // namespace boxing
}  // namespace c10

namespace torch::jit {
// The last elements of a stack.
using c10::IValue;
using Stack = std::vector<IValue>;
template <class... T>
void push(Stack& stack, T&&... values) {
  (stack.emplace_back(std::forward<T>(values)), ...);
}
template <class... T>
void push(Stack* stack, T&&... values) {
  push(*stack, std::forward<T>(values)...);
}
inline IValue pop(Stack& stack) {
  IValue v = std::move(stack.back());
  stack.pop_back();
  return v;
}
inline IValue pop(Stack* stack) { return pop(*stack); }
inline void drop(Stack& stack, size_t n) { stack.resize(stack.size() - n); }
inline void drop(Stack* stack, size_t n) { drop(*stack, n); }
inline IValue& peek(Stack& stack, size_t i, size_t n) { return *(stack.end() - static_cast<std::ptrdiff_t>(n - i)); }
inline IValue& peek(Stack* stack, size_t i, size_t n) { return peek(*stack, i, n); }
inline std::vector<IValue> pop(Stack& stack, size_t n) {
  std::vector<IValue> last(std::make_move_iterator(stack.end() - static_cast<std::ptrdiff_t>(n)),
                           std::make_move_iterator(stack.end()));
  drop(stack, n);
  return last;
}
inline std::vector<IValue> last(const Stack& stack, size_t n) {
  return {stack.end() - static_cast<std::ptrdiff_t>(n), stack.end()};
}
// The last elements, each into a variable.
template <class... T>
void pop(Stack& stack, T&... variables) {
  size_t i = 0;
  ((variables = peek(stack, i++, sizeof...(T)).template to<T>()), ...);
  drop(stack, sizeof...(T));
}
}  // namespace torch::jit
