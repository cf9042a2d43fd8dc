// Nodes that are plain: the same values, an error in backward, no gradient.
#pragma once

#include "torch/csrc/autograd/variable.h"

namespace torch::autograd {
namespace detail {
// The values of inputs, made by a node.
template <class N, class... A>
variable_list made_by(const variable_list& inputs, A&&... args) {
  variable_list outputs;
  for (const Variable& v : inputs) outputs.push_back(v.defined() ? v.detach() : v);
  if (!c10::GradMode::is_enabled() || !any_variable_requires_grad(inputs)) return outputs;
  const auto node = std::make_shared<N>(std::forward<A>(args)...);
  node->set_next_edges(collect_next_edges(inputs));
  set_history(outputs, node);
  return outputs;
}
}  // namespace detail

struct Error : Node {
  explicit Error(std::string text, edge_list&& edges = {}) : Node(std::move(edges)), msg(std::move(text)) {}
  variable_list apply(variable_list&&) override { throw std::runtime_error(msg); }
  std::string msg;
};
struct NotImplemented : Error {
  explicit NotImplemented(const std::string& forward, edge_list&& edges = {})
      : Error("derivative for " + forward + " is not implemented", std::move(edges)) {}
};
struct Identity : Node {
  using Node::Node;
  variable_list apply(variable_list&& grads) override { return std::move(grads); }
};
struct GraphRoot : Node {
  GraphRoot(edge_list functions, variable_list inputs) : Node(std::move(functions)), outputs(std::move(inputs)) {}
  variable_list apply(variable_list&&) override { return outputs; }
  variable_list outputs;
};
struct UndefinedGradBackward : Node {
  using Node::Node;
  variable_list apply(variable_list&& grads) override { return variable_list(grads.size()); }
};
// Functions of variables: their inputs, of which backward comes to a node above.
struct DelayedError : Node {
  DelayedError(std::string text, int64_t /*num_inputs*/) : msg(std::move(text)) {}
  variable_list apply(variable_list&& inputs) override { return detail::made_by<Error>(inputs, msg); }
  std::string msg;
};
struct UndefinedGrad : Node {
  variable_list apply(variable_list&& inputs) override { return detail::made_by<UndefinedGradBackward>(inputs); }
};

}  // namespace torch::autograd
