// How operators reach the levels: kernels for all operators at the keys of the function transforms.
#pragma once

#include "tensor/core/tensor.h"
#include "tensor/dispatch/op.h"
#include "tensor/dispatch/value.h"

namespace tessera::func {

// At the first level of the process. What is not used costs nothing: without a level nobody has these keys.
void register_kernels();

// Wrapper `view` is what view operator `op` made of wrapper `of` (its first argument): autograd above is told so.
void mark_view(const Tensor& view, const Tensor& of, const OpHeader& op, const Value* args, size_t n, size_t output,
               bool is_list, size_t num_rets);
// The same of a view that has become another one in place, by what `op` makes views of (t.transpose_()).
void extend_view(const Tensor& t, const OpHeader& op, const Value* args, size_t n);

}  // namespace tessera::func
