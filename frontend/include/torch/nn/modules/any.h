// AnyModule: any module with a forward, called with values whose types are checked when it is called.
#pragma once

#include <any>
#include <typeinfo>

#include <torch/nn/any_value.h>
#include <torch/nn/cloneable.h>

namespace torch::nn {

struct AnyModuleBase {
  virtual ~AnyModuleBase() = default;
  virtual AnyValue forward(std::vector<AnyValue>&& arguments) = 0;
  virtual std::shared_ptr<Module> ptr() const = 0;
  virtual AnyModule clone(const std::optional<at::Device>& device) const = 0;
  virtual const std::type_info& type() const = 0;
};
template <class M, class R, class... A>
struct AnyModuleHolder;

class AnyModule {
 public:
  AnyModule() = default;
  template <class M>
  explicit AnyModule(std::shared_ptr<M> module) : held_(hold(std::move(module), &M::forward)) {}
  template <class M>
  requires std::is_base_of_v<Module, std::remove_cvref_t<M>>
  explicit AnyModule(M&& module) : AnyModule(std::make_shared<std::remove_cvref_t<M>>(std::forward<M>(module))) {}
  template <class M>
  explicit AnyModule(const ModuleHolder<M>& holder) : AnyModule(holder.ptr()) {}
  template <class M>
  AnyModule& operator=(std::shared_ptr<M> module) {
    return *this = AnyModule(std::move(module));
  }

  AnyModule clone(const std::optional<at::Device>& device = std::nullopt) const {
    return held_ ? held_->clone(device) : AnyModule();
  }
  // The module's result. Error if the arguments are not of the types that its forward takes, or the result is none.
  template <class... A>
  AnyValue any_forward(A&&... arguments) {
    TORCH_CHECK(held_, "Cannot call forward() on an empty AnyModule");
    std::vector<AnyValue> values;
    values.reserve(sizeof...(A));
    (values.push_back(AnyValue(std::forward<A>(arguments))), ...);
    return held_->forward(std::move(values));
  }
  template <class R = Tensor, class... A>
  R forward(A&&... arguments) {
    return any_forward(std::forward<A>(arguments)...).template get<R>();
  }

  // The module as an object of its class or as its holder: get<Linear>(). Error if it is another one.
  template <class M>
  decltype(auto) get() const {
    using Class = typename detail::ContainedOf<M>::type;
    TORCH_CHECK(held_, "Cannot call get() on an empty AnyModule");
    TORCH_CHECK(typeid(Class) == type_info(), "Attempted to cast module of type ", detail::type_name(type_info()),
                " to type ", detail::type_name(typeid(Class)));
    if constexpr (torch::detail::is_module_holder_v<M>)
      return M(std::static_pointer_cast<Class>(held_->ptr()));
    else
      return static_cast<Class&>(*held_->ptr());
  }
  std::shared_ptr<Module> ptr() const {
    TORCH_CHECK(held_, "Cannot call ptr() on an empty AnyModule");
    return held_->ptr();
  }
  template <class M>
  std::shared_ptr<M> ptr() const {
    TORCH_CHECK(held_, "Cannot call ptr() on an empty AnyModule");
    get<M>();
    return std::static_pointer_cast<M>(held_->ptr());
  }
  const std::type_info& type_info() const {
    TORCH_CHECK(held_, "Cannot call type_info() on an empty AnyModule");
    return held_->type();
  }
  bool is_empty() const noexcept { return !held_; }

 private:
  template <class M, class R, class C, class... A>
  static std::shared_ptr<AnyModuleBase> hold(std::shared_ptr<M> module, R (C::*)(A...)) {
    return std::make_shared<AnyModuleHolder<M, R, A...>>(std::move(module));
  }
  template <class M, class R, class C, class... A>
  static std::shared_ptr<AnyModuleBase> hold(std::shared_ptr<M> module, R (C::*)(A...) const) {
    return std::make_shared<AnyModuleHolder<M, R, A...>>(std::move(module));
  }

  std::shared_ptr<AnyModuleBase> held_;
};

template <class M, class R, class... A>
struct AnyModuleHolder : AnyModuleBase {
  explicit AnyModuleHolder(std::shared_ptr<M> m) : module(std::move(m)) {}
  AnyValue forward(std::vector<AnyValue>&& arguments) override {
    constexpr size_t n = sizeof...(A);
    const auto defaults = static_cast<Module&>(*module)._forward_defaults();
    const size_t given = arguments.size();
    for (const auto& [place, value] : defaults)
      if (place == arguments.size()) arguments.push_back(value);
    TORCH_CHECK(defaults.empty() || arguments.size() == n, module->name(), "'s forward() method expects at least ",
                n - defaults.size(), " argument(s) and at most ", n, " argument(s), but received ", given, ".");
    TORCH_CHECK(arguments.size() == n, module->name(), "'s forward() method expects ", n, " argument(s), but received ",
                arguments.size(), ". If ", module->name(),
                "'s forward() method has default arguments, please make "
                "sure the forward() method is declared with a corresponding `FORWARD_HAS_DEFAULT_ARGS` macro.");
    return call(arguments, std::index_sequence_for<A...>());
  }
  template <size_t... I>
  AnyValue call(std::vector<AnyValue>& arguments, std::index_sequence<I...>) {
    return AnyValue(module->forward(std::forward<A>(argument<std::decay_t<A>>(arguments[I], I))...));
  }
  template <class T>
  static T& argument(AnyValue& value, size_t i) {
    T* found = value.try_get<T>();
    TORCH_CHECK(found, "Expected argument #", i, " to be of type ", detail::type_name(typeid(T)),
                ", but received value of type ", detail::type_name(value.type_info()));
    return *found;
  }
  std::shared_ptr<Module> ptr() const override { return module; }
  AnyModule clone(const std::optional<at::Device>& device) const override {
    return AnyModule(std::dynamic_pointer_cast<M>(module->clone(device)));
  }
  const std::type_info& type() const override { return typeid(M); }
  std::shared_ptr<M> module;
};

}  // namespace torch::nn
