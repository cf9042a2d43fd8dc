// The elementwise ops of neural networks that have block kernels (see tensor/cpu/pointwise/pointwise_ops.h). The list,
// with what each op computes, is ops.inc.
#pragma once

namespace tessera {
struct PointwiseOp;  // tensor/cpu/pointwise/pointwise.h
}

namespace tessera::pw {

#define TESSERA_PW(name) extern const PointwiseOp name;
#include "nn/cpu/ops.inc"
#undef TESSERA_PW

}  // namespace tessera::pw
