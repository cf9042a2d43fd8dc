// Functions of lists of tensors (foreach/engine/engines.h).
#pragma once

#include "foreach/engine/engines.h"

namespace tessera::cuda {

using foreach::ListCall;
using foreach::ListOp;

foreach ::ListCalls list_call;

// Fills the table of DeviceType::kCUDA.
void connect(foreach::Engines& engines);

}  // namespace tessera::cuda
