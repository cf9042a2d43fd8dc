// The C++ API of the core operators: functions, Tensor methods, and C++'s own operators on tensors.
#pragma once

#include "tensor/ops/operators.h"
#include "tensor/ops/ops.h"
