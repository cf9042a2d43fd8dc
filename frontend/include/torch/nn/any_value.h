// AnyValue: a value of any type.
#pragma once

#include <cxxabi.h>

#include <any>
#include <cstdlib>
#include <string>
#include <type_traits>
#include <typeinfo>
#include <utility>
#include <vector>

#include <ATen/ATen.h>

namespace torch::nn {

namespace detail {
// "torch::nn::LinearImpl"
inline std::string type_name(const std::type_info& type) {
  int failed = 0;
  char* text = abi::__cxa_demangle(type.name(), nullptr, nullptr, &failed);
  std::string name = failed ? type.name() : text;
  std::free(text);
  return name;
}
}  // namespace detail

class AnyValue {
 public:
  template <class T>
  requires(!std::is_same_v<std::decay_t<T>, AnyValue>) explicit AnyValue(T&& value) {
    if constexpr (std::is_same_v<std::decay_t<T>, tessera::Tensor>)
      value_ = at::Tensor(std::forward<T>(value));
    else
      value_ = std::forward<T>(value);
  }
  // The value, or null if it is of another type.
  template <class T>
  T* try_get() {
    return std::any_cast<T>(&value_);
  }
  template <class T>
  T get() {
    T* found = try_get<T>();
    TORCH_CHECK(found, "Attempted to cast AnyValue to ", detail::type_name(typeid(T)), ", but its actual type is ",
                detail::type_name(type_info()));
    return std::move(*found);
  }
  const std::type_info& type_info() const noexcept { return value_.type(); }

 private:
  std::any value_;
};

}  // namespace torch::nn

// In a module, says which arguments of its forward have defaults, for calls through AnyModule and Sequential:
// FORWARD_HAS_DEFAULT_ARGS({1, torch::nn::AnyValue(2.0)}).
#define FORWARD_HAS_DEFAULT_ARGS(...)                                                                   \
  std::vector<std::pair<unsigned int, torch::nn::AnyValue>> _forward_defaults() override { /* NOLINT */ \
    return {__VA_ARGS__};                                                                               \
  }
