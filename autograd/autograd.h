// Public C++ API of reverse-mode differentiation.
#pragma once

#include <optional>

#include "autograd/node.h"
#include "tensor/core/tensor.h"

namespace tessera::autograd {

// Adds to the grad of every leaf that `tensors` depend on (or of `inputs` alone) the gradient of sum(tensor *
// grad_tensor). A one-element tensor needs no grad_tensor. retain_graph: default create_graph. Errors (RuntimeError):
// no history, wrong shapes, a graph that was freed.
void backward(TensorList tensors, TensorList grad_tensors = {}, std::optional<bool> retain_graph = std::nullopt,
              bool create_graph = false, TensorList inputs = {});
// The gradients of `outputs` with respect to `inputs`, without touching any grad. Unused inputs: Error, or undefined
// with allow_unused.
variable_list grad(TensorList outputs, TensorList inputs, TensorList grad_outputs = {},
                   std::optional<bool> retain_graph = std::nullopt, bool create_graph = false,
                   bool allow_unused = false);

// Pairs (root edge, gradient) as backward wants them; makes ones for one-element roots and checks shapes.
void make_roots(TensorList tensors, TensorList grad_tensors, bool create_graph, std::vector<Edge>* edges,
                variable_list* gradients);

}  // namespace tessera::autograd
