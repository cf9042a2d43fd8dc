#include "autograd/autograd.h"

#include <algorithm>

#include "autograd/engine.h"
#include "autograd/variable.h"
#include "tensor/ops/api.h"

namespace tessera::autograd {

void make_roots(TensorList tensors, TensorList grad_tensors, bool create_graph, std::vector<Edge>* edges,
                variable_list* gradients) {
  TESSERA_CHECK(grad_tensors.empty() || grad_tensors.size() == tensors.size(), "got ", tensors.size(), " tensors and ",
                grad_tensors.size(), " gradients");
  (void)create_graph;
  for (size_t i = 0; i < tensors.size(); ++i) {
    const Tensor& t = tensors[i];
    Edge e = gradient_edge(t);
    TESSERA_CHECK(e, "element ", i, " of tensors does not require grad and does not have a grad_fn");
    Tensor g = i < grad_tensors.size() ? grad_tensors[i] : Tensor();
    if (!g.defined()) {
      TESSERA_CHECK(t.numel() == 1, "grad can be implicitly created only for scalar outputs");
      TESSERA_CHECK(t.is_floating_point() || !t.is_complex(),
                    "grad can be implicitly created only for real scalar outputs but got ", name_of(t.dtype()));
      g = tessera::ones_like(t);
    } else {
      TESSERA_CHECK(std::ranges::equal(g.sizes(), t.sizes()), "Mismatch in shape: grad_output[", i,
                    "] has a shape of torch.Size(", shape_string(g.sizes()), ") and output[", i,
                    "] has a shape of torch.Size(", shape_string(t.sizes()), ").");
      TESSERA_CHECK(g.is_complex() == t.is_complex(),
                    "For complex Tensors, both grad_output and output are required to have the same dtype. Mismatch in "
                    "dtype: grad_output[",
                    i, "] has a dtype of ", name_of(g.dtype()), " and output[", i, "] has a dtype of ",
                    name_of(t.dtype()), ".");
    }
    edges->push_back(std::move(e));
    gradients->push_back(std::move(g));
  }
}

void backward(TensorList tensors, TensorList grad_tensors, std::optional<bool> retain_graph, bool create_graph,
              TensorList inputs) {
  std::vector<Edge> roots, targets;
  variable_list gradients;
  make_roots(tensors, grad_tensors, create_graph, &roots, &gradients);
  for (const Tensor& t : inputs) {
    TESSERA_CHECK(t.requires_grad(), "One of the differentiated Tensors does not require grad");
    TESSERA_CHECK(
        t.is_leaf() || retains_grad(t),
        "backward: one of the inputs is not a leaf tensor; call retain_grad() on it first, or use autograd.grad");
    targets.push_back(gradient_edge(t));
  }
  run_backward(roots, std::move(gradients), targets,
               {.retain_graph = retain_graph.value_or(create_graph), .create_graph = create_graph});
}

variable_list grad(TensorList outputs, TensorList inputs, TensorList grad_outputs, std::optional<bool> retain_graph,
                   bool create_graph, bool allow_unused) {
  std::vector<Edge> roots, targets;
  variable_list gradients;
  make_roots(outputs, grad_outputs, create_graph, &roots, &gradients);
  for (const Tensor& t : inputs) {
    TESSERA_CHECK(t.requires_grad(), "One of the differentiated Tensors does not require grad");
    targets.push_back(gradient_edge(t));
  }
  return run_backward(roots, std::move(gradients), targets,
                      {.retain_graph = retain_graph.value_or(create_graph),
                       .create_graph = create_graph,
                       .accumulate = false,
                       .allow_unused = allow_unused});
}

}  // namespace tessera::autograd

namespace tessera {
void Tensor::backward(const Tensor& gradient, std::optional<bool> retain_graph, bool create_graph) const {
  if (gradient.defined())
    autograd::backward({this, 1}, {&gradient, 1}, retain_graph, create_graph);
  else
    autograd::backward({this, 1}, {}, retain_graph, create_graph);
}
}  // namespace tessera
