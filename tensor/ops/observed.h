// Whether operators are seen by modes of Python.
#pragma once

#include "tensor/core/dispatch_key.h"

namespace tessera::kernels {

// What such a mode records must not depend on the values of this one run: composite operators that look at numbers to
// be faster, or to check them, leave that to the operators they are made of.
inline bool is_observed() {
  return DispatchKeySet::from_bits(thread_state.included & ~thread_state.excluded).has(DispatchKey::kPython);
}

}  // namespace tessera::kernels
