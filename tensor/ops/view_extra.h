// What the expressions of view.textproto call besides operators.
#pragma once

#include <vector>

#include "tensor/core/tensor.h"

namespace tessera::kernels {

Tensor numpy_t(const Tensor& self);   // all dimensions reversed
Tensor m_t(const Tensor& self);       // the last two exchanged; Error below two dimensions
Tensor matrix_h(const Tensor& self);  // conjugate transpose of a matrix; Error otherwise
SymInt narrow_start(const Tensor& start);
std::vector<Tensor> even_split(const Tensor& self, int64_t sections, char kind);  // kind: h, v or d
std::vector<Tensor> even_split(const Tensor& self, IntList indices, char kind);
Tensor atleast_one(const Tensor& self, int64_t rank);
std::vector<Tensor> atleast(TensorList tensors, int64_t rank);
std::vector<Tensor> own_pieces(std::vector<Tensor> pieces);  // copies of them

}  // namespace tessera::kernels
