#pragma once

#include "ATen/Dispatch_v2.h"
#include "ATen/OpMathType.h"
#include "ATen/TensorUtils.h"
#include "c10/util/Logging.h"
#include "c10/util/SmallVector.h"
#include "c10/util/accumulate.h"
#include "c10/util/irange.h"
#include "torch/autograd.h"
#include "torch/cuda.h"
#include "torch/types.h"
#include "torch/utils.h"
#include "torch/version.h"
#if __has_include("torch/nn.h")
#include "torch/nn.h"
#endif
#if __has_include("torch/data.h")
#include "torch/data.h"
#endif
#if __has_include("torch/optim.h")
#include "torch/optim.h"
#endif
#if __has_include("torch/serialize.h")
#include "torch/serialize.h"
#endif
#if __has_include("ATen/core/op_registration/op_registration.h")
#include "ATen/core/op_registration/op_registration.h"
#endif
