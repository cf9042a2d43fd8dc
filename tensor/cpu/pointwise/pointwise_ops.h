// The elementwise ops that have block kernels. One constant each; it is the only thing that refers to the op's kernels,
// so a program that does not name it does not link them. The list, with what each op computes, is pointwise_ops.inc.
#pragma once

#include <cstdint>
#include <span>

#include "tensor/cpu/pointwise/pointwise.h"

namespace tessera::pw {

#define TESSERA_PW(name) extern const PointwiseOp name;
#include "tensor/cpu/pointwise/pointwise_ops.inc"
#undef TESSERA_PW

}  // namespace tessera::pw

namespace tessera::cpu {

// Throws Error("ZeroDivisionError") if an element of an integer divisor is 0. For div_trunc, div_floor, remainder and
// fmod, before they run.
void check_integer_divisor(std::span<const int64_t> shape, const Operand& divisor);

}  // namespace tessera::cpu
