// functionalize: functions that change tensors in place, run on operators that do not. At a level of kind kFunctional a
// tensor is a value and the memory that it stands for; a write makes a new value of that memory, which the tensors that
// share it take over when they are next asked.
#pragma once

#include <string_view>
#include <vector>

#include "func/levels.h"
#include "func/wrapper.h"
#include "tensor/dispatch/op.h"

namespace tessera::func {

// The arguments of a function as the level sees them: the same tensor given twice is one there.
std::vector<Tensor> functional_arguments(TensorList given, int64_t level);
// What a tensor of the level holds now, outside of it. While the level is the innermost one.
Tensor functional_value(const Tensor& t, int64_t level);
// Writes to the arguments what the function wrote to `seen`, the tensors that stood for them. After the level. Errors,
// before anything is written: another shape, memory that several arguments share.
void write_back(TensorList given, TensorList seen);

// The innermost level is one of functionalize and takes this call.
void run_functional(const OpHeader& op, const Value* args, size_t n, Value* rets, size_t num_rets);

}  // namespace tessera::func
