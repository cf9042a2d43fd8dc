// Modules are handled by reference: a ModuleHolder<LinearImpl> is what `Linear` is, a shared pointer that is called
// like a function and made like a value.
#pragma once

#include <memory>
#include <ostream>
#include <type_traits>
#include <utility>

#include <torch/arg.h>
#include <ATen/ATen.h>

namespace torch {
namespace detail {
struct ModuleHolderIndicator {};
template <class T>
using is_module_holder = std::is_base_of<ModuleHolderIndicator, std::decay_t<T>>;
template <class T>
inline constexpr bool is_module_holder_v = is_module_holder<T>::value;
}  // namespace detail

namespace nn {

template <class Contained>
class ModuleHolder : torch::detail::ModuleHolderIndicator {
 protected:
  std::shared_ptr<Contained> impl_;

 public:
  using ContainedType = Contained;

  // A module made without arguments.
  ModuleHolder() : impl_(std::make_shared<Contained>()) {}
  // None: to be assigned later.
  /* implicit */ ModuleHolder(std::nullptr_t) {}
  template <class Head, class... Tail>
  requires(sizeof...(Tail) > 0 ||
           !(std::is_base_of_v<ModuleHolder, std::decay_t<Head>> ||
             std::is_convertible_v<Head, std::shared_ptr<Contained>>)) explicit ModuleHolder(Head&& head,
                                                                                             Tail&&... tail)
      : impl_(std::make_shared<Contained>(std::forward<Head>(head), std::forward<Tail>(tail)...)) {}
  /* implicit */ ModuleHolder(std::shared_ptr<Contained> module) : impl_(std::move(module)) {}

  explicit operator bool() const noexcept { return !is_empty(); }
  Contained* operator->() { return get(); }
  const Contained* operator->() const { return get(); }
  Contained& operator*() { return *get(); }
  const Contained& operator*() const { return *get(); }
  const std::shared_ptr<Contained>& ptr() const {
    check();
    return impl_;
  }
  Contained* get() {
    check();
    return impl_.get();
  }
  const Contained* get() const {
    check();
    return impl_.get();
  }
  template <class... Args, class C = Contained>
  auto operator()(Args&&... args) -> decltype(std::declval<C&>().forward(std::forward<Args>(args)...)) {
    return get()->forward(std::forward<Args>(args)...);
  }
  template <class Arg>
  decltype(auto) operator[](Arg&& arg) {
    return (*get())[std::forward<Arg>(arg)];
  }
  bool is_empty() const noexcept { return impl_ == nullptr; }

 private:
  void check() const { TORCH_CHECK(impl_, "Accessing empty ModuleHolder"); }
};

template <class M>
std::ostream& operator<<(std::ostream& stream, const ModuleHolder<M>& module) {
  return stream << *module;
}

namespace detail {
template <class M>
struct ContainedOf {
  using type = M;
};
template <class M>
requires torch::detail::is_module_holder_v<M>
struct ContainedOf<M> {
  using type = typename M::ContainedType;
};
}  // namespace detail

}  // namespace nn
}  // namespace torch

#define TORCH_MODULE_IMPL(Name, ImplType)                              \
  class Name : public torch::nn::ModuleHolder<ImplType> { /* NOLINT */ \
   public:                                                             \
    using torch::nn::ModuleHolder<ImplType>::ModuleHolder;             \
    using Impl [[maybe_unused]] = ImplType;                            \
  }

// The holder `Name` of the class NameImpl.
#define TORCH_MODULE(Name) TORCH_MODULE_IMPL(Name, Name##Impl)
