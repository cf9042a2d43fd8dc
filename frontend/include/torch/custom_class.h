// Classes of one's own for scripts, operators and Python: torch::class_.
//
//   struct Stack : torch::CustomClassHolder { ... };
//   TORCH_LIBRARY(shop, m) {
//     m.class_<Stack>("Stack").def(torch::init<int64_t>()).def("push", &Stack::push);
//   }
//
// Python sees it as torch.classes.shop.Stack, a schema as __torch__.torch.classes.shop.Stack. Arguments and results
// are what operators have, besides lists, dicts and tuples of them and other registered classes; they are copies.
#pragma once

#include "ATen/core/function_schema.h"
#include "ATen/core/ivalue_objects.h"

namespace torch {

struct CustomClassHolder : c10::intrusive_ptr_target {};
namespace jit {
using ::torch::CustomClassHolder;
}

// The name of an argument, with a default if one is assigned: torch::arg("n") = 3.
struct arg {
  explicit arg(std::string name) : name_(std::move(name)) {}
  arg& operator=(const c10::IValue& value) {
    value_ = value;
    return *this;
  }
  static c10::IValue none() { return {}; }

  std::string name_;
  std::optional<c10::IValue> value_;
};

namespace detail {

template <class... T>
struct types {};
template <class F>
struct Factory {
  F make;
};

// What an argument is kept in while a method runs: views need something that they are views of.
template <class A>
struct kept {
  using type = A;
};
template <class E>
struct kept<c10::ArrayRef<E>> {
  using type = std::vector<E>;
};
template <>
struct kept<std::string_view> {
  using type = std::string;
};
template <class A>
using kept_t = typename kept<std::remove_cvref_t<A>>::type;

// A method as a function of a pointer to its object.
template <class T, class R, class C, class... A>
auto with_self(R (C::*f)(A...)) {
  return [f](const c10::intrusive_ptr<T>& self, A... a) -> R { return ((*self).*f)(std::forward<A>(a)...); };
}
template <class T, class R, class C, class... A>
auto with_self(R (C::*f)(A...) const) {
  return [f](const c10::intrusive_ptr<T>& self, A... a) -> R { return ((*self).*f)(std::forward<A>(a)...); };
}
template <class T, class R, class C, class... A>
auto with_self(R (C::*f)(A...) noexcept) {
  return with_self<T>(static_cast<R (C::*)(A...)>(f));
}
template <class T, class R, class C, class... A>
auto with_self(R (C::*f)(A...) const noexcept) {
  return with_self<T>(static_cast<R (C::*)(A...) const>(f));
}
template <class T, class F>
requires(!std::is_member_function_pointer_v<std::decay_t<F>>) std::decay_t<F> with_self(F&& f) {
  return std::forward<F>(f);
}

template <class F>
struct Signature : Signature<decltype(&F::operator())> {};
template <class R, class... A>
struct Signature<R(A...)> {
  using result = R;
  using arguments = types<A...>;
};
template <class R, class... A>
struct Signature<R (*)(A...)> : Signature<R(A...)> {};
template <class C, class R, class... A>
struct Signature<R (C::*)(A...)> : Signature<R(A...)> {};
template <class C, class R, class... A>
struct Signature<R (C::*)(A...) const> : Signature<R(A...)> {};
template <class C, class R, class... A>
struct Signature<R (C::*)(A...) const noexcept> : Signature<R(A...)> {};

// Calls f with what scripts pass.
template <class F, class... A>
decltype(auto) apply_values(F& f, const tessera::Value* args, types<A...>) {
  return [&]<size_t... I>(std::index_sequence<I...>)->decltype(auto) {
    std::tuple<kept_t<A>...> kept{c10::objects::from_object(args[I]).template to<kept_t<A>>()...};
    return f(static_cast<A>(std::get<I>(kept))...);
  }
  (std::index_sequence_for<A...>());
}

}  // namespace detail

// What a class is constructed from: the types of a constructor's arguments, or a function that makes an object.
template <class... T>
detail::types<void, T...> init() {
  return {};
}
template <class F>
detail::Factory<std::decay_t<F>> init(F&& make) {
  return {std::forward<F>(make)};
}

template <class T>
class class_ {
  static_assert(std::is_base_of_v<CustomClassHolder, T>,
                "torch::class_<T> requires T to be derived from torch::CustomClassHolder");
  using Self = c10::intrusive_ptr<T>;
  using Values = const tessera::Value*;
  using Kind = tessera::jit::custom::MethodKind;
  using Args = std::initializer_list<arg>;

 public:
  // Error: the class is registered already, or a name is no identifier.
  explicit class_(const std::string& ns, const std::string& name, std::string doc = "")
      : def_(&tessera::jit::custom::define(ns, name, typeid(T), std::move(doc))) {}

  // The constructor: .def(torch::init<int64_t, std::string>()), .def(torch::init([](int64_t n) { ... })).
  template <class... A>
  class_& def(detail::types<void, A...>, std::string doc = "", Args default_args = {}) {
    return construct([](A... a) { return c10::make_intrusive<T>(std::forward<A>(a)...); }, std::move(doc),
                     default_args);
  }
  template <class F>
  class_& def(detail::Factory<F> factory, std::string doc = "", Args default_args = {}) {
    return construct(std::move(factory.make), std::move(doc), default_args);
  }
  // A method: a member function, or a function whose first argument is a pointer to the object.
  template <class F>
  class_& def(std::string name, F&& f, std::string doc = "", Args default_args = {}) {
    add(std::move(name), Kind::kMethod, detail::with_self<T>(std::forward<F>(f)), std::move(doc), default_args);
    return *this;
  }
  template <class F>
  class_& def_static(std::string name, F&& f, std::string doc = "") {
    add(std::move(name), Kind::kStatic, std::decay_t<F>(std::forward<F>(f)), std::move(doc), {});
    return *this;
  }
  template <class Get, class Set>
  requires(!std::is_convertible_v<Set, std::string>) class_& def_property(const std::string& name, Get&& get, Set&& set,
                                                                          std::string doc = "") {
    def_property(name, std::forward<Get>(get), std::move(doc));
    add(name, Kind::kSetter, detail::with_self<T>(std::forward<Set>(set)), "", {});
    return *this;
  }
  template <class Get>
  class_& def_property(const std::string& name, Get&& get, std::string doc = "") {
    add(name, Kind::kGetter, detail::with_self<T>(std::forward<Get>(get)), std::move(doc), {});
    return *this;
  }
  template <class M>
  class_& def_readwrite(const std::string& name, M T::*member) {
    return def_property(
        name, [member](const Self& self) { return (*self).*member; },
        [member](const Self& self, M value) { (*self).*member = std::move(value); });
  }
  template <class M>
  class_& def_readonly(const std::string& name, M T::*member) {
    return def_property(name, [member](const Self& self) { return (*self).*member; });
  }
  // How objects are written into archives and copied: get() gives a state, set(state) an object.
  template <class Get, class Set>
  class_& def_pickle(Get&& get, Set&& set) {
    using State = typename detail::Signature<std::decay_t<Get>>::result;
    add("__getstate__", Kind::kMethod, std::decay_t<Get>(std::forward<Get>(get)), "", {});
    auto restore = std::decay_t<Set>(std::forward<Set>(set));
    using Taken = typename detail::Signature<decltype(restore)>::arguments;
    static_assert(std::is_invocable_r_v<Self, decltype(restore), State>,
                  "def_pickle: the second function takes what the first one gives and returns an object");
    return initialise("__setstate__", std::move(restore), Taken(), {}, "");
  }
  // A method that takes its arguments, the object first, from a stack and leaves its result there.
  class_& _def_unboxed(std::string name, std::function<void(jit::Stack&)> f, const c10::FunctionSchema& schema,
                       std::string doc = "") {
    tessera::jit::custom::Method m;
    m.name = std::move(name);
    m.doc = std::move(doc);
    for (const tessera::SchemaArgument& a : schema.plain().arguments)
      m.params.push_back({a.name, a.type.str_without_alias(), false, {}});
    const auto& results = schema.plain().returns;
    TORCH_CHECK(results.size() <= 1, "_def_unboxed: a method has one result, ", m.name, " has ", results.size());
    m.result = results.empty() ? "NoneType" : results[0].type.str_without_alias();
    m.call = [f = std::move(f), result = m.result](Values args, size_t n) {
      jit::Stack stack;
      for (size_t i = 0; i < n; ++i) stack.push_back(c10::objects::from_object(args[i]));
      f(stack);
      if (result == "NoneType" || stack.empty()) return tessera::Value();
      return tessera::jit::value_of(c10::objects::to_datum(stack.back()), result);
    };
    tessera::jit::custom::add(*def_, std::move(m));
    return *this;
  }

 private:
  // The arguments' types, names and defaults; `skip` is the object, which has a type and no default.
  template <class... A>
  static std::vector<tessera::jit::custom::Parameter> parameters(detail::types<A...>, size_t skip, Args names) {
    const std::vector<std::string> all = {c10::objects::schema_name<detail::kept_t<A>>()...};
    TORCH_CHECK(names.size() == 0 || names.size() == all.size() - skip,
                "Default values must be specified for none or all arguments: the method has ", all.size() - skip,
                " arguments besides the object, got ", names.size(), " of torch::arg");
    std::vector<tessera::jit::custom::Parameter> params;
    for (size_t i = 0; i < all.size(); ++i) {
      tessera::jit::custom::Parameter p{"_" + std::to_string(i), all[i], false, {}};
      if (i >= skip && names.size()) {
        const arg& named = names.begin()[i - skip];
        p.name = named.name_;
        if ((p.has_default = named.value_.has_value()))
          p.default_value = tessera::jit::value_of(c10::objects::to_datum(*named.value_), p.type);
      }
      params.push_back(std::move(p));
    }
    return params;
  }
  template <class F>
  void add(std::string name, Kind kind, F f, std::string doc, Args default_args) {
    using Result = std::remove_cvref_t<typename detail::Signature<F>::result>;
    using Arguments = typename detail::Signature<F>::arguments;
    tessera::jit::custom::Method m;
    m.name = std::move(name);
    m.kind = kind;
    m.doc = std::move(doc);
    m.params = parameters(Arguments(), kind == Kind::kStatic ? 0 : 1, default_args);
    m.result = c10::objects::schema_name<Result>();
    m.call = [f = std::move(f)](Values args, size_t) mutable {
      if constexpr (std::is_void_v<Result>) {
        detail::apply_values(f, args, Arguments());
        return tessera::Value();
      } else {
        return c10::objects::to_object<Result>(detail::apply_values(f, args, Arguments()));
      }
    };
    tessera::jit::custom::add(*def_, std::move(m));
  }
  template <class F>
  class_& construct(F make, std::string doc, Args default_args) {
    using Arguments = typename detail::Signature<F>::arguments;
    return initialise("__init__", std::move(make), Arguments(), default_args, std::move(doc));
  }
  // A method that gives an instance the object that `make` makes.
  template <class F, class... A>
  class_& initialise(const char* name, F make, detail::types<A...>, Args default_args, std::string doc) {
    tessera::jit::custom::Method m;
    m.name = name;
    m.doc = std::move(doc);
    m.params = parameters(detail::types<Self, A...>(), 1, default_args);
    m.result = "NoneType";
    m.call = [make = std::move(make)](Values args, size_t) mutable {
      tessera::jit::custom::hold(args[0], Self(detail::apply_values(make, args + 1, detail::types<A...>())));
      return tessera::Value();
    };
    tessera::jit::custom::add(*def_, std::move(m));
    return *this;
  }

  tessera::jit::ClassDef* def_;
};

// An object of a registered class as a value. Error: the class is not registered.
template <class T, class... A>
c10::IValue make_custom_class(A&&... a) {
  tessera::jit::custom::name_of(typeid(T));
  return c10::IValue(c10::make_intrusive<T>(std::forward<A>(a)...));
}
// The type of "__torch__.torch.classes.ns.Name", or null.
inline c10::TypePtr getCustomClass(const std::string& name) {
  if (!tessera::jit::custom::find(name)) return nullptr;
  return std::make_shared<c10::Type>(tessera::parse_schema_type(name));
}
inline bool isCustomClass(const c10::IValue& v) { return v.isObject(); }

}  // namespace torch

namespace c10 {
template <class T>
TypePtr getCustomClassType() {
  using Class = typename T::element_type;
  return std::make_shared<Type>(tessera::parse_schema_type(tessera::jit::custom::name_of(typeid(Class))));
}
}  // namespace c10
