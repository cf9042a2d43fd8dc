// Optimizer steps over many parameters at once. The forms of tensor/cpu/nn.h are those of one parameter.
#pragma once

#include "tensor/engine/steps.h"

namespace tessera::cuda {

SgdSteps sgd_steps;
AdamSteps adam_steps;

}  // namespace tessera::cuda
