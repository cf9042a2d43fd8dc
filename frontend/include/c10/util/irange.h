// for (const auto i : c10::irange(n)).
#pragma once

#include <ranges>
#include <type_traits>

namespace c10 {

template <class A, class B>
auto irange(A begin, B end) {
  return std::views::iota(static_cast<B>(begin), end < static_cast<B>(begin) ? static_cast<B>(begin) : end);
}
template <class B>
auto irange(B end) {
  return irange(B{0}, end);
}

}  // namespace c10
