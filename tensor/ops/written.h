// What surrounds a write of operators that count it themselves. Where inference tensors are written outside of their
// mode, the error comes when the write is counted, so that it finds them written, as PyTorch's does; other kernels ask
// check_no_internal_overlap (promotion.h), which refuses them before.
#pragma once

#include "tensor/core/tensor.h"

namespace tessera {

// Error if two elements of t share memory (an expanded tensor).
void check_elements_apart(const Tensor& t);
// Counts a write. Error for an inference tensor outside of inference mode.
void finish_write(const Tensor& t);

}  // namespace tessera
