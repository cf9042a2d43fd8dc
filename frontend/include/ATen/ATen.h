// Tensors and operators: namespace at.
#pragma once

#include "ATen/Context.h"
#include "ATen/Dispatch.h"
#include "ATen/NamedTensorUtils.h"
#include "ATen/Parallel.h"
#include "ATen/TensorIndexing.h"
#include "ATen/composed.h"
#include "ATen/core/Reduction.h"
#include "ATen/core/Formatting.h"
#include "ATen/core/Tensor.h"
#include "ATen/core/ivalue.h"
#include "ATen/DeviceGuard.h"
#include "c10/core/InferenceMode.h"
