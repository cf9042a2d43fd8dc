// When a composite may take an operator of one device instead of what it is composed of.
#pragma once

#include <initializer_list>

#include "tensor/core/tensor.h"
#include "tensor/core/transforms.h"

namespace tessera {

// Nothing but the memory and autograd sees what is done with t: no layout with members, no lazy bit, no subclass, no
// tangent.
inline bool is_plain(const Tensor& t) {
  constexpr DispatchKeySet kSeen = kBackendKeys | kAutogradKeys | DispatchKeySet(DispatchKey::kADInplaceOrView);
  return t.defined() && (t.keys() - kSeen).empty();
}

// Whether all defined tensors are plain memory of one device that is not the CPU, and no mode of the thread looks at
// operators: no layer then misses the operators that a composite is made of. (Autocast and the profiler may be at work:
// the one has chosen dtypes before, the other records what it is shown.)
inline bool plain_on_device(std::initializer_list<const Tensor*> tensors) {
  constexpr uint64_t kUnconcerned =
      (DispatchKeySet(DispatchKey::kAutocastCPU) | DispatchKeySet(DispatchKey::kAutocastCUDA) |
       DispatchKeySet(DispatchKey::kProfiler))
          .bits();
  if (thread_state.included & ~thread_state.excluded & ~kUnconcerned) return false;
  const Device device = (*tensors.begin())->device();
  if (device.is_cpu() || device.is_meta()) return false;
  for (const Tensor* t : tensors)
    if (t->defined() && (!is_plain(*t) || t->device() != device || is_transformed(*t))) return false;
  return true;
}

}  // namespace tessera
