// Whether forward mode looks at a tensor: then its value must go through operators, not around them.
#pragma once

#include "tensor/core/tensor.h"

namespace tessera {

template <class... T>
bool any_dual(const T&... tensors) {
  return (... || (tensors.defined() && tensors.keys().has(DispatchKey::kForward)));
}

}  // namespace tessera
