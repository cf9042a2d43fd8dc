// The distributions' functions that have block kernels (see tensor/cpu/pointwise/pointwise_ops.h). The list is ops.inc.
#pragma once

#include "tensor/cpu/pointwise/pointwise.h"

namespace tessera {
namespace pw {

#define TESSERA_PW(name) extern const PointwiseOp name;
#include "distributions/cpu/ops.inc"
#undef TESSERA_PW

}  // namespace pw
}  // namespace tessera
