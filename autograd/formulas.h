// Helpers for the derivative formulas of the op tables. They call operators, so gradients of gradients follow. One file
// per family of operators. The engine sums over broadcast dimensions and takes the real part for real tensors: formulas
// need not.
#pragma once

#include "autograd/formulas_composed.h"
#include "autograd/formulas_index.h"
#include "autograd/formulas_pointwise.h"
#include "autograd/formulas_reduce.h"
#include "autograd/formulas_view.h"
#include "tensor/ops/api.h"
