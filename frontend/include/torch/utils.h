// Small things of namespace torch.
#pragma once

#include "c10/util/OrderedDict.h"
#include "torch/types.h"

namespace torch {

using c10::AutoGradMode;
using c10::GradMode;
using c10::NoGradGuard;
inline int get_num_threads() { return at::get_num_threads(); }
inline void set_num_threads(int n) { at::set_num_threads(n); }

}  // namespace torch
