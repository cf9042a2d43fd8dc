// Differentiation: variables, what made them, backward and grad.
#pragma once

#include <execinfo.h>

#include <algorithm>
#include <cstdlib>
#include <memory>

#include "ATen/ATen.h"
#include "autograd/engine.h"
#include "autograd/function.h"

namespace torch::autograd {

using Variable = at::Tensor;
using variable_list = std::vector<Variable>;
using tensor_list = std::vector<at::Tensor>;
struct Edge;
using edge_list = std::vector<Edge>;
class Node;
namespace detail {
class OwnNode;
}

class NodePtr {
 public:
  NodePtr() = default;
  NodePtr(std::nullptr_t) {}
  explicit NodePtr(tessera::IntrusivePtr<tessera::autograd::Node> node);
  template <class N>
  requires std::is_convertible_v<N*, Node*> NodePtr(std::shared_ptr<N> node) : node_(std::move(node)) {}
  Node* operator->() const { return node_.get(); }
  Node& operator*() const { return *node_; }
  Node* get() const { return node_.get(); }
  explicit operator bool() const { return node_ != nullptr; }
  operator std::shared_ptr<Node>() const { return node_; }
  friend bool operator==(const NodePtr& a, const NodePtr& b);
  friend bool operator==(const NodePtr& a, std::nullptr_t) { return !a.node_; }
  friend std::ostream& operator<<(std::ostream& out, const NodePtr& p);  // the address of the library's node

 private:
  std::shared_ptr<Node> node_;
};
struct Edge {
  Edge() = default;
  Edge(NodePtr f, uint32_t nr) : function(std::move(f)), input_nr(nr) {}
  bool is_valid() const { return static_cast<bool>(function); }
  friend bool operator==(const Edge& a, const Edge& b) { return a.function == b.function && a.input_nr == b.input_nr; }
  NodePtr function;
  uint32_t input_nr = 0;
};

// The derivative of one call: a handle of the library's, or a class of one's own with apply():
//
//   struct Triple : Node {
//     variable_list apply(variable_list&& grads) override { return {grads[0] * 3}; }
//   };
//   auto node = std::make_shared<Triple>();
//   node->set_next_edges(collect_next_edges(x));
//   create_gradient_edge(y, node);
class Node : public std::enable_shared_from_this<Node> {
 public:
  explicit Node(edge_list&& next_edges = {}) { set_next_edges(std::move(next_edges)); }
  explicit Node(uint64_t, edge_list&& next_edges = {}) : Node(std::move(next_edges)) {}
  explicit Node(tessera::IntrusivePtr<tessera::autograd::Node> node) : node_(std::move(node)) {}
  Node(const Node&) = delete;
  virtual ~Node() = default;

  variable_list operator()(variable_list&& grads) { return apply(std::move(grads)); }
  virtual std::string name() const { return node_ ? node_->name() : tessera::autograd::readable_name(typeid(*this)); }
  virtual void release_variables() {}
  std::shared_ptr<Node> getptr() { return shared_from_this(); }

  size_t num_inputs() const { return get() ? get()->outputs().size() : 0; }
  size_t num_outputs() const { return get() ? get()->edges().size() : own_edges_.size(); }
  uint64_t sequence_nr() const { return get() ? get()->sequence_nr() : 0; }
  edge_list next_edges() const;
  Edge next_edge(size_t i) const;
  void set_next_edges(edge_list&& edges);
  void add_next_edge(Edge edge) {
    edge_list all = next_edges();
    all.push_back(std::move(edge));
    set_next_edges(std::move(all));
  }
  bool should_compute_output(size_t i) const;
  bool task_should_compute_output(size_t i) const { return should_compute_output(i); }
  // A further gradient that apply gets, that of a tensor like this one. Returns its number.
  uint32_t add_input_metadata(const at::Tensor& like) { return graph()->add_output(like); }
  // The library's node; none for one of one's own that is in no graph.
  tessera::autograd::Node* get() const { return node_ ? node_.get() : in_graph_; }
  // The same, made where there is none.
  tessera::IntrusivePtr<tessera::autograd::Node> graph();

 protected:
  virtual variable_list apply(variable_list&& grads) {
    std::vector<tessera::Tensor> plain(std::make_move_iterator(grads.begin()), std::make_move_iterator(grads.end()));
    return at::fe::out(node_->apply(std::move(plain)));
  }

 private:
  friend class detail::OwnNode;
  tessera::IntrusivePtr<tessera::autograd::Node> node_;
  tessera::autograd::Node* in_graph_ = nullptr;  // which owns this
  edge_list own_edges_;
};
struct TraceableFunction : Node {
  using Node::Node;
};

namespace detail {
// A node of the user's in the library's graph, which keeps it alive.
class OwnNode final : public tessera::autograd::Node {
 public:
  explicit OwnNode(std::shared_ptr<torch::autograd::Node> node) : own(std::move(node)), name_(own->name()) {
    for (const Edge& e : own->own_edges_)
      add_edge(e.is_valid() ? tessera::autograd::Edge{e.function->graph(), e.input_nr} : tessera::autograd::Edge{});
    own->in_graph_ = this;
  }
  ~OwnNode() override { own->in_graph_ = nullptr; }
  tessera::autograd::variable_list apply(tessera::autograd::variable_list&& grads) override {
    variable_list results = (*own)(at::fe::out(std::move(grads)));
    return {std::make_move_iterator(results.begin()), std::make_move_iterator(results.end())};
  }
  const char* name() const override { return name_.c_str(); }
  void release_variables() override { own->release_variables(); }
  const std::shared_ptr<torch::autograd::Node> own;

 private:
  std::string name_;
};
}  // namespace detail

inline NodePtr::NodePtr(tessera::IntrusivePtr<tessera::autograd::Node> node) {
  if (const auto* own = dynamic_cast<detail::OwnNode*>(node.get()))
    node_ = own->own;
  else if (node)
    node_ = std::make_shared<Node>(std::move(node));
}
inline bool operator==(const NodePtr& a, const NodePtr& b) {
  return a.node_ == b.node_ || (a.node_ && b.node_ && a.node_->get() && a.node_->get() == b.node_->get());
}
inline std::ostream& operator<<(std::ostream& out, const NodePtr& p) {
  return out << (p ? static_cast<const void*>(p->get()) : nullptr);
}
inline tessera::IntrusivePtr<tessera::autograd::Node> Node::graph() {
  if (get()) return tessera::IntrusivePtr<tessera::autograd::Node>::share(get());
  return tessera::make_intrusive<detail::OwnNode>(shared_from_this());
}
inline Edge Node::next_edge(size_t i) const {
  if (!get()) return own_edges_.at(i);
  const auto& e = get()->edges().at(i);
  return {NodePtr(e.node), e.input_nr};
}
inline edge_list Node::next_edges() const {
  edge_list edges;
  for (size_t i = 0; i < num_outputs(); ++i) edges.push_back(next_edge(i));
  return edges;
}
inline void Node::set_next_edges(edge_list&& edges) {
  TORCH_CHECK(!get(), "the edges of a node that is in a graph cannot be changed");
  own_edges_ = std::move(edges);
}
inline bool Node::should_compute_output(size_t i) const {
  return get() ? get()->should_compute(i) : i < own_edges_.size() && own_edges_[i].is_valid();
}
// For std::shared_ptr<Node>(new N, deleteNode).
inline void deleteNode(Node* node) { delete node; }

namespace impl {
inline Edge gradient_edge(const Variable& v) {
  tessera::autograd::Edge e = tessera::autograd::gradient_edge(v);
  return {NodePtr(std::move(e.node)), e.input_nr};
}
inline void set_gradient_edge(const Variable& v, const Edge& e) {
  tessera::autograd::set_gradient_edge(v, {e.function->graph(), e.input_nr});
}
inline void bump_version(const Variable& v) { v.bump_version(); }
}  // namespace impl
using impl::gradient_edge;

// Where the gradients of some variables (or lists, or optional ones) flow to.
template <class... V>
edge_list collect_next_edges(const V&... variables) {
  edge_list edges;
  const auto one = [&](const Variable& v) { edges.push_back(v.defined() ? impl::gradient_edge(v) : Edge()); };
  const auto any = [&](const auto& v) {
    using T = std::remove_cvref_t<decltype(v)>;
    if constexpr (std::is_convertible_v<const T&, const at::Tensor&>)
      one(v);
    else if constexpr (std::is_same_v<T, std::optional<at::Tensor>>)
      one(v.value_or(Variable()));
    else
      for (const Variable& e : v) one(e);
  };
  (any(variables), ...);
  return edges;
}
// The node becomes what made a variable.
inline void create_gradient_edge(const Variable& v, const std::shared_ptr<Node>& node) {
  const auto in_graph = node->graph();
  tessera::autograd::set_gradient_edge(v, {in_graph, in_graph->add_output(v)});
}
inline void set_history(const Variable& v, const std::shared_ptr<Node>& node) {
  TORCH_CHECK(node != nullptr, "set_history: there is no node");
  if (!v.defined()) {
    node->graph()->add_output_without_history();
  } else {
    TORCH_CHECK(v.is_floating_point() || v.is_complex(), "Autograd not support dtype: ", v.scalar_type());
    create_gradient_edge(v, node);
  }
}
inline void set_history(const std::vector<Variable>& all, const std::shared_ptr<Node>& node) {
  for (const Variable& v : all) set_history(v, node);
}
template <class... V>
bool compute_requires_grad(const V&... variables) {
  return c10::GradMode::is_enabled() && (at::Tensor(variables).requires_grad() || ...);
}
// In-place writes that no operator made.
inline void increment_version(const Variable& v) { v.bump_version(); }
inline void increment_version(at::TensorList all) {
  for (const Variable& v : all) v.bump_version();
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
  return std::any_of(variables.begin(), variables.end(),
                     [](const Variable& v) { return v.defined() && v.requires_grad(); });
}
inline Variable make_variable(const at::Tensor& data, bool requires_grad = false) {
  return data.detach().requires_grad_(requires_grad);
}

namespace detail {
// Where the forward call of a node was made, and during which node's backward, for programs without Python.
struct Trace : tessera::RefCounted {
  std::string text() const {
    const std::unique_ptr<char*, decltype(&std::free)> names(::backtrace_symbols(frames, count), &std::free);
    std::string lines;
    for (int i = 0; names && i < count; ++i) lines += std::string("  ") + names.get()[i] + '\n';
    return lines;
  }
  void* frames[48];
  int count = ::backtrace(frames, 48);
  tessera::IntrusivePtr<tessera::autograd::Node> parent;
};
inline void record_trace(tessera::autograd::Node& node) {
  auto trace = tessera::make_intrusive<Trace>();
  if (tessera::autograd::Node* n = tessera::autograd::current_node())
    trace->parent = tessera::IntrusivePtr<tessera::autograd::Node>::share(n);
  node.metadata = std::move(trace);
}
inline void explain_error(const tessera::autograd::Node& node) {
  thread_local int64_t explained = -1;  // the pass that failed last: what is around it fails, too
  if (std::exchange(explained, tessera::autograd::current_task_id()) == tessera::autograd::current_task_id()) return;
  const auto trace_of = [](const tessera::autograd::Node& n) { return dynamic_cast<const Trace*>(n.metadata.get()); };
  const Trace* trace = trace_of(node);
  if (!trace) {
    TORCH_WARN("Error detected in ", node.name(), ". No forward pass information available. Enable detect anomaly ",
               "during forward pass for more information.");
    return;
  }
  TORCH_WARN("Error detected in ", node.name(), ". Traceback of forward call that caused the error:\n", trace->text());
  while (trace && trace->parent) {
    const tessera::autograd::Node& parent = *trace->parent;
    if ((trace = trace_of(parent)))
      TORCH_WARN("\n\nPrevious calculation was induced by ", parent.name(),
                 ". Traceback of forward call that induced the previous calculation:\n", trace->text());
  }
}
}  // namespace detail

struct AnomalyMode {
  static bool is_enabled() { return tessera::autograd::anomaly_mode().enabled; }
  static bool should_check_nan() { return tessera::autograd::anomaly_mode().check_nan; }
  static void set_enabled(bool on, bool check_nan = true) {
    auto& mode = tessera::autograd::anomaly_mode();
    if (!mode.on_record) {
      mode.on_record = detail::record_trace;
      mode.on_error = detail::explain_error;
    }
    mode.enabled = on;
    mode.check_nan = check_nan;
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
