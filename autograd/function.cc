#include "autograd/function.h"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>

#include "autograd/codegen_api.h"
#include "autograd/engine.h"
#include "autograd/variable.h"
#include "tensor/core/transforms.h"
#include "tensor/core/warning.h"
#include "tensor/ops/api.h"

namespace tessera::autograd {
namespace {
bool contains(const std::vector<TensorImpl*>& l, const Tensor& t) {
  return std::find(l.begin(), l.end(), t.impl()) != l.end();
}
Tensor alias_of(const Tensor& t) {
  NoGradGuard no_grad;
  return tessera::alias(t);
}
bool is_batched(const Tensor& t) { return is_transformed(t) && t.keys().has(DispatchKey::kFuncTorchBatched); }
// A level outside of a vmap differentiates an argument of a call inside.
bool has_history_outside(const Tensor& t) {
  if (!is_batched(t)) return t.defined() && t.requires_grad();
  return &internal::value_in_transform && internal::value_in_transform(t).requires_grad();
}
}  // namespace

OutputForm form_of(const Tensor& t) {
  return {true, IntVector(t.sizes().begin(), t.sizes().end()), t.dtype(), t.device()};
}

OutputConnector::OutputConnector(IntrusivePtr<Node> node, std::vector<TensorImpl*> inputs,
                                 std::vector<TensorImpl*> dirty, std::vector<TensorImpl*> constant)
    : node_(std::move(node)), inputs_(std::move(inputs)), dirty_(std::move(dirty)), constant_(std::move(constant)) {}

void OutputConnector::check_dirty(TensorList outputs) const {
  for (TensorImpl* d : dirty_) {
    const bool returned = std::ranges::any_of(outputs, [&](const Tensor& t) { return t.impl() == d; });
    TESSERA_CHECK(returned,
                  "Some elements marked as dirty during the forward method were not returned as output. The inputs "
                  "that are modified inplace must all be outputs of the Function.");
  }
}

Tensor OutputConnector::connect(Tensor t, size_t num_outputs) {
  const bool is_input = contains(inputs_, t), is_dirty = contains(dirty_, t);
  if (is_dirty && is_input) t.bump_version();  // it may have been written by other means than operators
  const bool differentiable = node_ && !contains(constant_, t) && (t.is_floating_point() || t.is_complex());
  if (!differentiable) {
    if (node_) node_->add_output_without_history();
    if (!t.requires_grad()) return is_input && !is_dirty ? alias_of(t) : t;
    if (is_input) return detached(t);
    if (!t.is_view()) autograd::detach_(t);
    return t;
  }
  if (is_dirty) {
    TESSERA_CHECK(!(t.is_leaf() && t.requires_grad()),
                  "a leaf Variable that requires grad has been used in an in-place operation.");
    TESSERA_CHECK(!t.is_view() || num_outputs == 1,
                  "If your Function modifies inplace an input that is a view of another Tensor, your Function cannot "
                  "return more than one Tensor. This is not supported by the "
                  "current autograd engine. You should either make sure the input is not a view (using .clone() for "
                  "example) or make your Function only return one Tensor (potentially splitting it into two "
                  "Functions: one doing the inplace that returns a single Tensor and a second one that does the "
                  "other operations).");
    if (!is_input)
      warn(
          "Only input Tensors should be given to ctx.mark_dirty(). If a Tensor is not an input, there is no need to "
          "pass it to mark_dirty().");
    rebase_history(t, node_);
    ++num_differentiable_;
    return t;
  }
  if (is_input) t = alias_of(t);  // a tensor of its own for the new history
  set_gradient_edge(t, {node_, node_->add_output(t)});
  ++num_differentiable_;
  if (t.is_view()) {
    t.impl()->set_view_creation(ViewCreation::kInCustomFunction);
    views_.push_back(t);
  }
  return t;
}

void OutputConnector::finish() {
  // Which output a write to one of several views would belong to can't be told.
  if (num_differentiable_ > 1)
    for (const Tensor& v : views_) v.impl()->set_view_creation(ViewCreation::kMultiOutput);
}

void FunctionTangents::add_input(const Tensor& t) {
  const size_t i = num_inputs_++;
  if (!t.defined() || !thread_state.forward_grad_enabled || inference_mode_enabled()) return;
  Tensor tangent = tangent_of(t);
  if (!tangent.defined()) return;
  if (!level_) level_ = tangent_level(t);
  tangents_.resize(i + 1);
  tangents_[i] = std::move(tangent);
}

void FunctionTangents::begin() {
  if (!level_) return;
  tangents_.resize(num_inputs_);
  off_.emplace(DispatchKey::kForward);
}

Tensor FunctionTangents::input(size_t i, const Tensor& value, bool materialize) const {
  if (tangents_[i].defined() || !materialize || !value.defined()) return tangents_[i];
  if (!value.is_floating_point() && !value.is_complex()) return Tensor();
  return tessera::zeros(to_vector(value.sizes()), value.dtype(), std::nullopt, value.device());
}

void FunctionTangents::put(const Tensor& output, const Tensor& tangent, size_t i, const char* name, bool dirty) const {
  if (!tangent.defined()) {
    if (dirty) write_tangent(output, Tensor(), level_);
    return;
  }
  TESSERA_CHECK(std::ranges::equal(tangent.sizes(), output.sizes()), name, ".jvp returned a tangent of size ",
                shape_string(tangent.sizes()), " at position ", i, ", but that output has size ",
                shape_string(output.sizes()), ": they must be the same");
  TESSERA_CHECK(tangent.dtype() == output.dtype(), name, ".jvp returned a tangent of dtype ", name_of(tangent.dtype()),
                " at position ", i, ", but that output has dtype ", name_of(output.dtype()), ": they must be the same");
  const bool shared =
      std::ranges::any_of(tangents_, [&](const Tensor& of) { return of.defined() && same_memory(of, tangent); });
  if (dirty)
    write_tangent(output, tangent, level_);
  else if (!output.is_view() && shared)  // a write to the input would be one to the output's
    set_tangent(output, tessera::clone(tangent), level_, false);
  else
    set_tangent(output, tangent, level_, output.is_view() && std::ranges::equal(tangent.strides(), output.strides()));
}

variable_list AutogradContext::get_saved_variables() const {
  if (in_jvp_) return saved_for_forward_;
  check_not_released(*node_);
  return unpack_list(node_->saved_, node_);
}
void AutogradContext::mark_dirty(const variable_list& tensors) {
  for (const Tensor& t : tensors) dirty_.push_back(t.impl());
}
void AutogradContext::mark_non_differentiable(const variable_list& outputs) {
  for (const Tensor& t : outputs) constant_.push_back(t.impl());
}
bool AutogradContext::needs_input_grad(size_t i) const {
  TESSERA_CHECK_INDEX(i < node_->edge_of_input_.size(), "needs_input_grad(", i, ") of ", node_->name(), ", which has ",
                      node_->edge_of_input_.size(), " arguments");
  const int edge = node_->edge_of_input_[i];
  return edge >= 0 && node_->should_compute(static_cast<size_t>(edge));
}

void CustomNode::add_input(const Tensor& t) {
  edge_of_input_.push_back(static_cast<int>(inputs_.size()));
  inputs_.push_back(t);
  tangents_->add_input(t);
}
void CustomNode::add_input_without_gradient() {
  edge_of_input_.push_back(-1);
  tangents_->add_input(Tensor());
}

void CustomNode::begin() {
  TESSERA_CHECK_NOT_IMPLEMENTED(
      std::ranges::none_of(inputs_, is_batched) || std::ranges::none_of(inputs_, has_history_outside), name_,
      ": a C++ Function inside of vmap has no derivative ",
      "outside of it, and an argument wants one. Differentiate inside (vmap of grad), or give it without gradients.");
  recorded_ = grad_mode_enabled() && !inference_mode_enabled() && needs_grad(TensorList(inputs_));
  for (const Tensor& t : inputs_) add_edge(recorded_ ? gradient_edge(t) : Edge());
  if (recorded_ && anomaly_mode().enabled && anomaly_mode().on_record) anomaly_mode().on_record(*this);
  tangents_->begin();
  TESSERA_CHECK_NOT_IMPLEMENTED(!tangents_->any() || jvp_, "You must implement the jvp function for custom ",
                                "autograd.Function to use it with forward mode AD: ", name_, " has none.");
}

void CustomNode::run_jvp(const variable_list& outputs, const std::vector<TensorImpl*>& dirty,
                         const std::vector<TensorImpl*>& constant) {
  variable_list given;
  for (size_t i = 0; i < edge_of_input_.size(); ++i) {
    const int edge = edge_of_input_[i];
    given.push_back(
        tangents_->input(i, edge < 0 ? Tensor() : inputs_[static_cast<size_t>(edge)], context_.materialize_grads_));
  }
  context_.in_jvp_ = true;
  const variable_list found = jvp_(&context_, std::move(given));
  context_.in_jvp_ = false;
  TESSERA_CHECK(found.size() == outputs.size(), name_, ".jvp returned ", found.size(), " tangents, but forward has ",
                outputs.size(), " outputs: one is expected for each (undefined where there is none)");
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Tensor& t = outputs[i];
    if (!t.defined() || !(t.is_floating_point() || t.is_complex()) || contains(constant, t)) continue;
    tangents_->put(t, found[i], i, name_.c_str(), contains(dirty, t));
    for (const SavedVariable& v : saved_) v.give_tangent(t, tangent_of(t), tangent_level(t));
  }
}

variable_list CustomNode::finish(variable_list&& outputs) {
  std::vector<TensorImpl*> inputs;
  for (const Tensor& t : inputs_) inputs.push_back(t.impl());
  const std::vector<TensorImpl*> dirty = std::move(context_.dirty_), constant = std::move(context_.constant_);
  OutputConnector connector(recorded_ ? IntrusivePtr<Node>::share(this) : nullptr, std::move(inputs), dirty, constant);
  connector.check_dirty(outputs);
  for (Tensor& t : outputs) {
    forms_.push_back(t.defined() ? form_of(t) : OutputForm());
    if (t.defined())
      t = connector.connect(std::move(t), outputs.size());
    else
      add_output_without_history();
  }
  connector.finish();
  if (recorded_)
    for (const Tensor& t : context_.to_save_)
      saved_.emplace_back(t, t.defined() && autograd::grad_fn(t).get() == static_cast<Node*>(this));
  if (tangents_->any()) run_jvp(outputs, dirty, constant);
  context_.to_save_.clear();
  context_.saved_for_forward_.clear();
  inputs_.clear();
  tangents_.reset();
  return std::move(outputs);
}

variable_list CustomNode::apply(variable_list&& grads) {
  grads.resize(forms_.size());
  for (size_t i = 0; i < forms_.size(); ++i) {
    const OutputForm& f = forms_[i];
    if (!grads[i].defined() && f.is_tensor && context_.materialize_grads_)
      grads[i] = tessera::zeros(f.sizes, f.dtype, std::nullopt, f.device);
  }
  variable_list given = backward_(&context_, std::move(grads));
  while (given.size() > edge_of_input_.size() && !given.back().defined()) given.pop_back();
  TESSERA_CHECK(given.size() == edge_of_input_.size(), "function ", name_,
                " returned an incorrect number of gradients (expected ", edge_of_input_.size(), ", got ", given.size(),
                ")");
  variable_list result(edges().size());
  for (size_t i = 0; i < given.size(); ++i) {
    if (edge_of_input_[i] >= 0) {
      result[static_cast<size_t>(edge_of_input_[i])] = std::move(given[i]);
      continue;
    }
    TESSERA_CHECK(!given[i].defined(), "function ", name_, " returned a gradient different from None at position ",
                  i + 1, ", but the corresponding forward input was not a Variable");
  }
  return result;
}

void CustomNode::release_variables() {
  for (SavedVariable& v : saved_) v.reset();
}
void CustomNode::visit_saved(SavedVisitor& v) { v("tensors", saved_); }

std::string readable_name(const std::type_info& type) {
  int status = 0;
  char* text = abi::__cxa_demangle(type.name(), nullptr, nullptr, &status);
  std::string name = text ? text : type.name();
  std::free(text);
  const size_t at = name.rfind("::");
  return at == std::string::npos ? name : name.substr(at + 2);
}

}  // namespace tessera::autograd
