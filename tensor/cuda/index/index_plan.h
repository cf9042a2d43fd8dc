// The positions that several index tensors name together.
#pragma once

#include <span>

#include "tensor/cuda/support/index_elements.h"

namespace tessera::cuda {

// One index with its byte strides along the dimensions of `shape`; 0 where no index tensor varies. Several tensors are
// added up on the device first.
class IndexPlan {
 public:
  IndexPlan(std::span<const int64_t> shape, std::span<const Operand> indices, std::span<const int64_t> sizes,
            std::span<const int64_t> steps, std::span<const int64_t> dim_numbers);
  Index index = {};
  Strides strides;
  int64_t count = 1;  // combinations of positions

 private:
  Buffer offsets_;
};

}  // namespace tessera::cuda
