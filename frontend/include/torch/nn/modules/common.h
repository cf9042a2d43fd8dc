// How modules are written down: most are their options and a function.
#pragma once

#include <iomanip>
#include <memory>

#include "nn/modules/init.h"

#include <torch/nn/cloneable.h>
#include <torch/nn/functional.h>
#include <torch/nn/options.h>

namespace torch::nn {

namespace detail {

// A module made from the arguments that make its options.
template <class Derived, class O>
class WithOptions : public Cloneable<Derived> {
 public:
  template <class... A>
  requires std::is_constructible_v<O, A...>
  explicit WithOptions(A&&... arguments) : options(std::forward<A>(arguments)...) {}
  void reset() override {}
  O options;
};

// What a layer that may work in place prints of it, if it does.
struct inplace {
  template <class O>
  explicit inplace(const O& options, const char* before = ", ") : on(options.inplace()), before(before) {}
  friend std::ostream& operator<<(std::ostream& s, const inplace& i) {
    return i.on ? s << i.before << "inplace=" << std::boolalpha << true : s;
  }
  bool on;
  const char* before;
};

// Uninitialised values, of the default dtype.
inline Tensor made(at::IntArrayRef sizes) { return at::empty(sizes); }

}  // namespace detail

// The constructors of a module that has reset() to call.
#define TESSERA_MADE(Impl, Options)               \
  template <class... A>                           \
  requires std::is_constructible_v<Options, A...> \
  explicit Impl(A&&... a) : WithOptions<Impl, Options>(std::forward<A>(a)...) { reset(); }
#define TESSERA_PRINTS(Name, ...) \
  void pretty_print(std::ostream& s) const override { s << "torch::nn::" #Name "(" __VA_ARGS__ << ")"; }
// A layer that is a function of one tensor and its options; the rest says what it prints.
#define TESSERA_LAYER(Name, fn, ...)                                               \
  class Name##Impl : public detail::WithOptions<Name##Impl, Name##Options> {       \
   public:                                                                         \
    using detail::WithOptions<Name##Impl, Name##Options>::WithOptions;             \
    Tensor forward(const Tensor& input) { return functional::fn(input, options); } \
    TESSERA_PRINTS(Name, __VA_ARGS__)                                              \
  };                                                                               \
  TORCH_MODULE(Name)
#define TESSERA_PLAIN_LAYER(Name, expression, printed)                                      \
  class Name##Impl : public Cloneable<Name##Impl> {                                         \
   public:                                                                                  \
    void reset() override {}                                                                \
    Tensor forward(const Tensor& input) { return expression; }                              \
    void pretty_print(std::ostream& s) const override { s << "torch::nn::" #Name printed; } \
  };                                                                                        \
  TORCH_MODULE(Name)

}  // namespace torch::nn
