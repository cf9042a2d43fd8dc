// When a composite may take an operator of one device instead of what it is composed of, or look at numbers.
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

// Whether modes of Python see operators. What such a mode records must not depend on the values of this one run:
// composites that look at numbers to be faster, or to check them, leave that to the operators they are made of.
inline bool is_observed() {
  return DispatchKeySet::from_bits(thread_state.included & ~thread_state.excluded).has(DispatchKey::kPython);
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
