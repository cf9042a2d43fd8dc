// Optimizer steps over many parameters at once. The forms of optim/cpu/optim.h are those of one parameter.
#pragma once

#include "optim/engine/engines.h"

namespace tessera::cuda {

using optim::StepOptions;
using optim::StepTensors;

decltype(cpu::sgd_step) sgd_step;
decltype(cpu::adam_step) adam_step;
optim::SgdSteps sgd_steps;
optim::AdamSteps adam_steps;

// Fills the table of DeviceType::kCUDA.
void connect(optim::Engines& engines);

}  // namespace tessera::cuda
