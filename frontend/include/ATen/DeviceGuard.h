// Guards of devices, and where tensors are.
#pragma once
#include "ATen/core/Tensor.h"
#include "c10/core/DeviceGuard.h"

namespace at {

// The device of a tensor; none of one that is not defined.
inline std::optional<Device> device_of(const Tensor& t) {
  return t.defined() ? std::optional(t.device()) : std::nullopt;
}
inline std::optional<Device> device_of(const std::optional<Tensor>& t) { return t ? device_of(*t) : std::nullopt; }
// That of the first of several.
inline std::optional<Device> device_of(TensorList list) {
  return list.empty() ? std::nullopt : device_of(list.front());
}

}  // namespace at
