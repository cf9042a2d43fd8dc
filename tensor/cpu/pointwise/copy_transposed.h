// Copies between memory that is contiguous along different dimensions.
#pragma once

#include <cstdint>

#include "tensor/cpu/pointwise/pointwise_plan.h"

namespace tessera::cpu {

// Copies operand 1, contiguous along dimension j, to operand 0, contiguous along dimension 0: elements of `size` bytes.
void copy_transposed(const Plan& p, int j, char* dst, const char* src, int64_t size);

}  // namespace tessera::cpu
