// Whether forward mode may look at a tensor (inside of a transform its value may have a tangent): then its value must
// go through operators, not around them.
#pragma once

#include "tensor/core/transforms.h"

namespace tessera {

template <class... T>
bool any_dual(const T&... tensors) {
  return (... || (tensors.defined() && (tensors.keys().has(DispatchKey::kForward) || is_transformed(tensors))));
}

}  // namespace tessera
