// Default values of list arguments in the declarations that opgen writes: a list that lives for ever.
#pragma once

#include <span>

#include "tensor/core/symint.h"

namespace tessera::internal {

template <int64_t... values>
inline constexpr int64_t kIntValues[] = {values...};
template <int64_t... values>
inline IntList int_list() {
  return IntList(kIntValues<values...>, sizeof...(values));
}
template <bool... values>
inline constexpr bool kBoolValues[] = {values...};
template <bool... values>
inline std::span<const bool> bool_list() {
  return kBoolValues<values...>;
}

}  // namespace tessera::internal
