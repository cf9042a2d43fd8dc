// In-place writes to inference tensors outside of their mode: an error that comes after the write, as programs see it
// where it is the count of versions that finds there is none.
#pragma once

#include "tensor/core/error.h"
#include "tensor/core/tensor.h"

namespace tessera {

// check_no_internal_overlap for who asks check_inference_write once it has written.
inline void check_overlap_before_write(const Tensor& t) {
  TESSERA_CHECK(internal_overlap(t) != Overlap::kYes,
                "unsupported operation: more than one element of the written-to tensor refers to a single memory "
                "location. Please clone() the "
                "tensor before performing the operation.");
}
inline void check_inference_write(const Tensor& written) {
  TESSERA_CHECK(!written.is_inference() || inference_mode_enabled(),
                "Inplace update to inference tensor outside InferenceMode is not allowed. You can make a clone to get "
                "a normal tensor before doing "
                "inplace update.");
}

}  // namespace tessera
