// The C++ front end: tensors, autograd, operators of one's own, and (where they are there) modules and optimizers.
#pragma once

#include "torch/all.h"
