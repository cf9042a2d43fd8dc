// The elementwise ops that have block kernels. One constant each; it is the only thing that refers to the op's kernels,
// so a program that does not name it does not link them. The list, with what each op computes, is pointwise_ops.inc.
#pragma once

namespace tessera {
struct PointwiseOp;  // pointwise.h
}

namespace tessera::pw {

#define TESSERA_PW(name) extern const PointwiseOp name;
#include "tensor/cpu/pointwise/pointwise_ops.inc"
#undef TESSERA_PW

}  // namespace tessera::pw
