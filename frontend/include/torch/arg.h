// An option of a builder: TORCH_ARG(bool, bias) = true; gives options.bias() and options.bias(false), which returns the
// options.
#pragma once

#include <utility>

#define TORCH_ARG(T, name)                                                     \
 public:                                                                       \
  inline auto name(T new_##name)->decltype(*this) { /* NOLINT */               \
    this->name##_ = std::move(new_##name);                                     \
    return *this;                                                              \
  }                                                                            \
  inline const T& name() const noexcept { return this->name##_; } /* NOLINT */ \
  inline T& name() noexcept { return this->name##_; }             /* NOLINT */ \
                                                                               \
 private:                                                                      \
  T name##_ /* NOLINT */
