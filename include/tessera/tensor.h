// Tensors and their operators.
#pragma once

#include "tensor/ops/api.h"
