// The C++ front end: tensors, autograd, operators of one's own, and (where they are there) modules and optimizers.
#pragma once

#include "torch/all.h"
// What cpp_extension compiles has the conversions for pybind11 as well.
#if defined(TORCH_API_INCLUDE_EXTENSION_H) && __has_include(<pybind11/pybind11.h>)
#include "torch/extension.h"
#endif
