// What generated kernels call around an operator: edges before, history after, the rules of in-place writes.
#include <algorithm>

#include "autograd/codegen_api.h"
#include "autograd/engine.h"
#include "autograd/variable.h"
#include "autograd/view.h"
#include "tensor/ops/api.h"

namespace tessera::autograd {

void collect_next_edges(Node& node, std::initializer_list<const Tensor*> inputs) {
  for (const Tensor* t : inputs) node.add_edge(gradient_edge(*t));
  if (anomaly_mode().enabled && anomaly_mode().on_record) anomaly_mode().on_record(node);
}
void collect_next_edges(Node& node, TensorList inputs) {
  for (const Tensor& t : inputs) node.add_edge(gradient_edge(t));
}
void collect_next_edges(Node& node, const std::optional<TensorList>& inputs) {
  if (inputs) collect_next_edges(node, *inputs);
}
bool should_compute_any(const Node& node, size_t first, size_t count) {
  for (size_t i = first; i < first + count; ++i)
    if (node.should_compute(i)) return true;
  return false;
}

namespace {
void check_view_inplace(const Tensor& self) {
  const Tensor base = self.view_base();
  switch (self.impl()->view_creation()) {
    case ViewCreation::kDefault:
      break;
    case ViewCreation::kMultiOutput:
      throw Error(str_cat(
          self.is_leaf() ? std::string("This tensor")
                         : str_cat("Output ", self.output_nr(), " of ", grad_fn(self)->name()),
          " is a view and is being modified inplace. This view is the output of a function that returns multiple "
          "views. Such functions do not allow the output views to be modified inplace. You should replace the inplace "
          "operation by an out-of-place one."));
    case ViewCreation::kNoGrad:
      throw Error(
          "A view was created in no_grad mode and is being modified inplace with grad mode enabled. Given that this "
          "use case is ambiguous and error-prone, it is forbidden. You can clarify "
          "your code by moving both the view and the inplace either both inside the no_grad block (if you don't want "
          "the inplace to be tracked) or both outside (if you want the inplace "
          "to be tracked).");
    case ViewCreation::kInferenceMode:
      throw Error(
          "A view was created in inference mode and is being modified inplace with grad mode enabled. Given that this "
          "use case is ambiguous and error-prone, it is forbidden.");
    case ViewCreation::kInCustomFunction:
      throw Error(
          "A view was created inside a custom Function (or because an input was returned as-is) and the autograd logic "
          "to handle view+inplace would override the custom backward associated with "
          "the custom Function, leading to incorrect gradients. This behavior is forbidden. You can fix this by "
          "cloning the output of the custom Function.");
  }
  // where the base doesn't require grad, a view between the two is the leaf, or this one
  TESSERA_CHECK(base.requires_grad() ? !base.is_leaf() : !self.requires_grad(),
                "a view of a leaf Variable that requires grad is being used in an in-place operation.");
}
}  // namespace

void check_inplace(const Tensor& self) {
  if (!self.defined() || !thread_state.grad_enabled) return;
  if (self.is_inference() && !thread_state.inference_mode)
    throw Error(
        "Inplace update to inference tensor outside InferenceMode is not allowed. You can make a clone to get a normal "
        "tensor before doing inplace update.");
  if (self.is_view()) {
    check_view_inplace(self);
    return;
  }
  TESSERA_CHECK(!(self.requires_grad() && self.is_leaf()),
                "a leaf Variable that requires grad is being used in an in-place operation.");
}
void check_inplace(TensorList self) {
  for (const Tensor& t : self) check_inplace(t);
}

Tensor clone_original(const Tensor& self) {
  AutogradGuard guard;
  const Tensor copy = tessera::clone(detached(self));
  // In the place of what it copies: a second derivative goes on to what made that.
  if (self.requires_grad()) set_gradient_edge(copy, gradient_edge(self));
  return copy;
}

void throw_out_requires_grad(const char* name) {
  throw Error(str_cat(name,
                      "(): functions with out=... arguments don't support automatic differentiation, but one of the "
                      "arguments requires grad."));
}

std::vector<SavedVariable> save_list(TensorList l) {
  std::vector<SavedVariable> r;
  r.reserve(l.size());
  for (const Tensor& t : l) r.emplace_back(t, false);
  return r;
}
std::vector<SavedVariable> save_list(const std::optional<TensorList>& l) {
  return l ? save_list(*l) : std::vector<SavedVariable>();
}
std::vector<Tensor> unpack_list(const std::vector<SavedVariable>& l, Node* owner) {
  std::vector<Tensor> r;
  r.reserve(l.size());
  for (const SavedVariable& v : l) r.push_back(v.unpack(owner));
  return r;
}

namespace {
// A result that is a view of what its operator made on the way, and nobody else holds, is a tensor of its own: a write
// to it would become history of a base that has none, and the operator's would be lost.
void forget_private_base(const Tensor& output) {
  TensorImpl& impl = *output.impl();
  if (impl.view_base() && impl.view_base()->use_count() == 1) impl.set_view_base({}, ViewCreation::kDefault);
}
}  // namespace

void set_history(const Tensor& output, const IntrusivePtr<Node>& node) {
  if (!output.defined() || !(output.is_floating_point() || output.is_complex())) {
    node->add_output_without_history();
    return;
  }
  forget_private_base(output);
  const uint32_t nr = node->add_output(output);
  set_gradient_edge(output, {node, nr});
}
void set_history(const std::vector<Tensor>& outputs, const IntrusivePtr<Node>& node) {
  for (const Tensor& t : outputs) set_history(t, node);
}
void skip_history(Node& node) { node.add_output_without_history(); }

void move_retain_hooks(const Tensor& self, Node* old, const IntrusivePtr<Node>& fresh, uint32_t old_nr,
                       uint32_t new_nr) {
  AutogradMeta* m = self.impl()->autograd_meta();
  if (!m || !m->retains_grad || !old || !old->hooks_or_null()) return;
  auto& from = old->hooks().retain_grad.entries;
  for (auto& e : from)
    if (e.output_nr == old_nr) fresh->hooks().retain_grad.entries.push_back({e.id, new_nr, e.hook});
  std::erase_if(from, [&](const auto& e) { return e.output_nr == old_nr; });
}

namespace {
// The history of a view, made from its base's as it is now.
void view_anew(const Tensor& self) {
  AutogradMeta& m = self.impl()->materialize_autograd_meta();
  m.view_version.store(self.version() - 1, std::memory_order_relaxed);
  grad_fn(self);
}
}  // namespace

void rebase_history(const Tensor& self, const IntrusivePtr<Node>& node) {
  if (!self.is_view()) {
    const IntrusivePtr<Node> old = grad_fn(self);
    const uint32_t old_nr = self.output_nr();
    const uint32_t nr = node->add_output(self);
    set_gradient_edge(self, {node, nr});
    move_retain_hooks(self, old.get(), node, old_nr, nr);
    return;
  }
  const Tensor base = self.view_base();
  node->add_output(self);
  auto slices = make_intrusive<CopySlices>(base, self, node);
  const uint32_t nr = slices->add_output(base);
  set_gradient_edge(base, {slices, nr});
  // The views' own histories follow from the base's when they are next asked for.
  view_anew(self);
}
void reshape_history(const Tensor& self, const IntrusivePtr<Node>& node) {
  if (self.is_view() && self.view_base().requires_grad())
    view_anew(self);
  else
    rebase_history(self, node);
}
void rebase_history(TensorList self, const IntrusivePtr<Node>& node) {
  for (const Tensor& t : self) rebase_history(t, node);
}

namespace {
class ZeroBackward final : public Node {
 public:
  explicit ZeroBackward(const char* name) : name_(name) { frees_nothing(); }
  variable_list apply(variable_list&& grads) override {
    variable_list r(1);
    if (!grads.empty() && grads[0].defined()) r[0] = tessera::zeros_like(grads[0]);
    return r;
  }
  const char* name() const override { return name_; }

 private:
  const char* name_;
};
}  // namespace

void rebase_history_zero(const Tensor& self, const char* node_name) {
  if (!self.defined() || !self.requires_grad()) return;
  auto node = make_intrusive<ZeroBackward>(node_name);
  node->add_edge(gradient_edge(self));
  rebase_history(self, node);
}
void rebase_history_zero(TensorList self, const char* node_name) {
  for (const Tensor& t : self) rebase_history_zero(t, node_name);
}

bool any_defined(const variable_list& grads) {
  return std::any_of(grads.begin(), grads.end(), [](const Tensor& t) { return t.defined(); });
}
void check_not_released(const Node& node) {
  TESSERA_CHECK(!node.released(),
                "Trying to backward through the graph a second time (or directly access saved tensors after they have "
                "already been freed). Saved intermediate values of the graph are "
                "freed when you call .backward() or autograd.grad(). Specify retain_graph=True if you need to backward "
                "through the graph a second time or if you need to access saved tensors after "
                "calling backward.");
}
void put_list(variable_list& out, size_t first, std::vector<Tensor>&& values) {
  for (size_t i = 0; i < values.size() && first + i < out.size(); ++i) out[first + i] = std::move(values[i]);
}

}  // namespace tessera::autograd
