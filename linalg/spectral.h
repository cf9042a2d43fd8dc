// What the op table of eigenvalues and singular values needs.
#pragma once

#include <tuple>

#include "tensor/core/tensor.h"

namespace tessera::linalg {

// Whether gradients or tangents may be asked for of values that are computed from A: they need the vectors.
bool vectors_are_wanted(const Tensor& A);

// torch.svd.
std::tuple<Tensor, Tensor, Tensor> old_svd(const Tensor& self, bool some, bool compute_uv);

}  // namespace tessera::linalg
