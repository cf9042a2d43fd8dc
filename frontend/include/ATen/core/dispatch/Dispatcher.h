// Operators by name: lookups, and calls with C++ values or with IValues.
#pragma once

#include "ATen/core/dispatch/boxing.h"

namespace c10 {

template <class Sig>
class TypedOperatorHandle;

class OperatorHandle {
 public:
  explicit OperatorHandle(const tessera::OpInfo* info)
      : info_(info), schema_(std::make_shared<FunctionSchema>(tessera::parse_schema(info->schema()))) {}
  const FunctionSchema& schema() const { return *schema_; }
  bool hasSchema() const { return true; }
  OperatorName operator_name() const { return schema_->operator_name(); }
  template <class Sig>
  TypedOperatorHandle<Sig> typed() const {
    return TypedOperatorHandle<Sig>(*this);
  }
  bool hasKernelForDispatchKey(DispatchKey k) const { return tessera::has_kernel(*info_->op, to_key(k)); }
  bool hasKernelForAnyDispatchKey(DispatchKeySet keys) const {
    for (int k = 1; k < static_cast<int>(tessera::DispatchKey::kNumKeys); ++k)
      if (keys.raw_repr() >> k & 1 && tessera::has_kernel(*info_->op, static_cast<tessera::DispatchKey>(k)))
        return true;
    return false;
  }
  // The last elements of the stack are the arguments; the results take their place.
  void callBoxed(Stack* stack) const { call_stack(stack, nullptr); }
  void callBoxed(Stack& stack) const { call_stack(&stack, nullptr); }
  void redispatchBoxed(DispatchKeySet keys, Stack* stack) const {
    const tessera::DispatchKeySet k = keys;
    call_stack(stack, &k);
  }
  const tessera::OpInfo& info() const { return *info_; }
  friend bool operator==(const OperatorHandle& a, const OperatorHandle& b) { return a.info_ == b.info_; }

 private:
  void call_stack(Stack* stack, const tessera::DispatchKeySet* keys) const {
    const auto& s = schema_->plain();
    TORCH_CHECK(stack->size() >= s.arguments.size(), s.name, " takes ", s.arguments.size(),
                " arguments, the stack has ", stack->size());
    const size_t first = stack->size() - s.arguments.size();
    std::vector<tessera::Value> args, rets(std::max<size_t>(s.returns.size(), 1));
    for (size_t i = 0; i < s.arguments.size(); ++i)
      args.push_back(boxing::to_value((*stack)[first + i], s.arguments[i].type));
    info_->adapter->call(*info_->op, keys, args.data(), rets.data());
    stack->resize(first);
    for (size_t i = 0; i < s.returns.size(); ++i) stack->push_back(boxing::to_ivalue(rets[i]));
  }

  const tessera::OpInfo* info_;
  std::shared_ptr<FunctionSchema> schema_;
};

template <class R, class... A>
class TypedOperatorHandle<R(A...)> : public OperatorHandle {
 public:
  explicit TypedOperatorHandle(const OperatorHandle& h) : OperatorHandle(h) {
    TORCH_CHECK(schema().arguments().size() == sizeof...(A),
                "Tried to access or call an operator with a wrong signature: ", schema(), " was asked for with ",
                sizeof...(A), " arguments");
  }
  R call(A... args) const { return run(nullptr, args...); }
  R operator()(A... args) const { return run(nullptr, args...); }
  R redispatch(DispatchKeySet keys, A... args) const {
    const tessera::DispatchKeySet k = keys;
    return run(&k, args...);
  }

 private:
  R run(const tessera::DispatchKeySet* keys, A&... args) const {
    std::array<tessera::Value, sizeof...(A) + 1> values{boxing::box<std::remove_cvref_t<A>>(args)...};
    constexpr size_t room = [] {
      if constexpr (detail::is_tuple<R>)
        return std::tuple_size_v<R> + 1;
      else
        return size_t{1};
    }();
    tessera::Value rets[room];
    info().adapter->call(*info().op, keys, values.data(), rets);
    if constexpr (std::is_void_v<R>) {
      return;
    } else if constexpr (std::is_reference_v<R>) {
      return first_written(args...);
    } else if constexpr (detail::is_tuple<R>) {
      return [&]<size_t... I>(std::index_sequence<I...>) {
        return R(boxing::unbox<std::remove_cvref_t<std::tuple_element_t<I, R>>>(rets[I])...);
      }
      (std::make_index_sequence<std::tuple_size_v<R>>());
    } else {
      return boxing::unbox<R>(rets[0]);
    }
  }
  // What Tensor& as a result refers to: the argument that is written.
  static at::Tensor& first_written(A&... args) {
    at::Tensor* found = nullptr;
    auto look = [&]<class T, class X>(std::type_identity<T>, X& x) {
      if constexpr (std::is_same_v<T, at::Tensor&>)
        if (!found) found = &x;
    };
    (look(std::type_identity<A>(), args), ...);
    TORCH_CHECK(found, "an operator that returns Tensor& takes the tensor that it writes as Tensor&");
    return *found;
  }
};

class Dispatcher {
 public:
  static Dispatcher& singleton() {
    static Dispatcher dispatcher;
    return dispatcher;
  }
  OperatorHandle findSchemaOrThrow(const char* name, const char* overload) const {
    const auto found = findSchema({name, overload});
    TORCH_CHECK(found, "Could not find schema for ", OperatorName{name, overload}, '.');
    return *found;
  }
  std::optional<OperatorHandle> findSchema(const OperatorName& name) const {
    const tessera::OpInfo* info = tessera::find_registered_op(c10::str(name));
    return info ? std::optional<OperatorHandle>(OperatorHandle(info)) : std::nullopt;
  }
  std::optional<OperatorHandle> findOp(const OperatorName& name) const { return findSchema(name); }
  std::vector<OperatorName> getAllOpNames() const {
    std::vector<OperatorName> names;
    for (const auto* info : tessera::dynamic_ops()) names.push_back({info->op->name, info->op->overload});
    return names;
  }
};

}  // namespace c10
