// Functions of lists of tensors (tensor/engine/steps.h).
#pragma once

#include "tensor/engine/steps.h"

namespace tessera::cuda {

ListCalls list_call;

}  // namespace tessera::cuda
