// One visitor from several functions: std::visit(c10::overloaded(f, g), variant).
#pragma once

namespace c10 {

template <class... F>
struct overloaded : F... {
  explicit overloaded(F... f) : F(f)... {}
  using F::operator()...;
};

}  // namespace c10
