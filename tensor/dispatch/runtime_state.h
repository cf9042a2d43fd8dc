// What dispatch needs of the run-time registrations. A program that registers nothing links none of it: the functions
// are weak here and defined in runtime.cc.
#pragma once

#include "tensor/dispatch/runtime.h"

namespace tessera::internal {

// The newest run-time kernel of op at key, or null.
const RuntimeKernel* extension_kernel(const OpHeader& op, DispatchKey key);
// The global fallback at key, or null.
const RuntimeKernel* fallback_kernel(DispatchKey key);
// A function with the op's kernel signature: the typed kernel, or the trampoline that boxes.
AnyKernel kernel_function(const OpHeader& op, const RuntimeKernel& k);

}  // namespace tessera::internal
