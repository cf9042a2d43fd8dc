// Differentiation: variables, what made them, backward and grad.
#pragma once

#include <algorithm>

#include "ATen/ATen.h"
#include "autograd/engine.h"

namespace torch::autograd {

using Variable = at::Tensor;
using variable_list = std::vector<Variable>;
using tensor_list = std::vector<at::Tensor>;
struct Edge;

// The derivative of one call.
class Node {
 public:
  explicit Node(tessera::IntrusivePtr<tessera::autograd::Node> node) : node_(std::move(node)) {}
  std::string name() const { return node_->name(); }
  size_t num_inputs() const { return node_->outputs().size(); }
  size_t num_outputs() const { return node_->edges().size(); }
  uint64_t sequence_nr() const { return node_->sequence_nr(); }
  std::vector<Edge> next_edges() const;
  Edge next_edge(size_t i) const;
  bool should_compute_output(size_t i) const { return node_->should_compute(i); }
  const tessera::IntrusivePtr<tessera::autograd::Node>& get() const { return node_; }

 private:
  tessera::IntrusivePtr<tessera::autograd::Node> node_;
};
class NodePtr {
 public:
  NodePtr() = default;
  NodePtr(std::nullptr_t) {}
  explicit NodePtr(tessera::IntrusivePtr<tessera::autograd::Node> node)
      : node_(node ? std::make_shared<Node>(std::move(node)) : nullptr) {}
  Node* operator->() const { return node_.get(); }
  Node& operator*() const { return *node_; }
  Node* get() const { return node_.get(); }
  explicit operator bool() const { return node_ != nullptr; }
  operator std::shared_ptr<Node>() const { return node_; }
  friend bool operator==(const NodePtr& a, const NodePtr& b) {
    return a.node_ && b.node_ ? a.node_->get() == b.node_->get() : a.node_ == b.node_;
  }
  friend bool operator==(const NodePtr& a, std::nullptr_t) { return !a.node_; }

 private:
  std::shared_ptr<Node> node_;
};
struct Edge {
  NodePtr function;
  uint32_t input_nr = 0;
  bool is_valid() const { return static_cast<bool>(function); }
};
inline Edge Node::next_edge(size_t i) const {
  const auto& e = node_->edges().at(i);
  return {NodePtr(e.node), e.input_nr};
}
inline std::vector<Edge> Node::next_edges() const {
  std::vector<Edge> edges;
  for (size_t i = 0; i < num_outputs(); ++i) edges.push_back(next_edge(i));
  return edges;
}

// Adds to the gradients of all leaves (or of `inputs`) that of sum(tensor * grad_tensor).
inline void backward(const variable_list& tensors, const variable_list& grad_tensors = {},
                     std::optional<bool> retain_graph = std::nullopt, bool create_graph = false,
                     const variable_list& inputs = {}) {
  tessera::autograd::backward(at::fe::in(at::TensorList(tensors)), at::fe::in(at::TensorList(grad_tensors)),
                              retain_graph, create_graph, at::fe::in(at::TensorList(inputs)));
}
// The gradients of outputs with respect to inputs.
inline variable_list grad(const variable_list& outputs, const variable_list& inputs,
                          const variable_list& grad_outputs = {}, std::optional<bool> retain_graph = std::nullopt,
                          bool create_graph = false, bool allow_unused = false) {
  return at::fe::out(tessera::autograd::grad(at::fe::in(at::TensorList(outputs)), at::fe::in(at::TensorList(inputs)),
                                             at::fe::in(at::TensorList(grad_outputs)), retain_graph, create_graph,
                                             allow_unused));
}

inline bool any_variable_requires_grad(const variable_list& variables) {
  return std::any_of(variables.begin(), variables.end(), [](const Variable& v) { return v.requires_grad(); });
}
inline Variable make_variable(const at::Tensor& data, bool requires_grad = false) {
  return data.detach().requires_grad_(requires_grad);
}

struct AnomalyMode {
  static bool is_enabled() { return tessera::autograd::anomaly_mode().enabled; }
  static bool should_check_nan() { return tessera::autograd::anomaly_mode().check_nan; }
  static void set_enabled(bool on, bool check_nan = true) {
    tessera::autograd::anomaly_mode().enabled = on;
    tessera::autograd::anomaly_mode().check_nan = check_nan;
  }
};
class DetectAnomalyGuard {
 public:
  explicit DetectAnomalyGuard(bool check_nan = true)
      : enabled_(AnomalyMode::is_enabled()), check_nan_(AnomalyMode::should_check_nan()) {
    AnomalyMode::set_enabled(true, check_nan);
  }
  ~DetectAnomalyGuard() { AnomalyMode::set_enabled(enabled_, check_nan_); }

 private:
  bool enabled_, check_nan_;
};
using c10::AutoGradMode;
using c10::GradMode;
using c10::NoGradGuard;

}  // namespace torch::autograd

inline torch::autograd::NodePtr at::Tensor::grad_fn() const {
  return torch::autograd::NodePtr(defined() ? tessera::autograd::grad_fn(*this) : nullptr);
}
namespace torch {
using torch::autograd::Variable;
}
