#include "autograd/forward_codegen.h"

#include <algorithm>

#include "autograd/autograd.h"
#include "autograd/formulas.h"
#include "autograd/saved_variable.h"
#include "autograd/codegen_api.h"
#include "autograd/variable.h"
#include "tensor/core/transforms.h"

namespace tessera::autograd::forward {
namespace {

bool is_differentiable(const Tensor& t) { return t.defined() && (t.is_floating_point() || t.is_complex()); }

// A rule's value in the shape and dtype of the result.
Tensor fitted(const Tensor& tangent, const Tensor& result) {
  Tensor t = formulas::gradient_as(tangent, result.dtype(), result.device());
  if (!std::ranges::equal(t.sizes(), result.sizes())) t = tessera::expand(t, to_vector(result.sizes()));
  return t;
}

// The twins that a node keeps of an output get its tangent, too: what backward computes with them has one then.
class GiveTangent final : public SavedVisitor {
 public:
  GiveTangent(const Tensor& output, const Tensor& tangent, const IntrusivePtr<TangentLevel>& level)
      : output_(output), tangent_(tangent), level_(level) {}
  void tensor(const char*, const SavedVariable& v) override { v.give_tangent(output_, tangent_, level_); }
  void tensor_list(const char*, const std::vector<SavedVariable>& l) override {
    for (const SavedVariable& v : l) v.give_tangent(output_, tangent_, level_);
  }
  void value(const char*, const Value&) override {}

 private:
  const Tensor& output_;
  const Tensor& tangent_;
  const IntrusivePtr<TangentLevel>& level_;
};

void tell_node(const Tensor& output, const Tensor& tangent, const IntrusivePtr<TangentLevel>& level,
               bool written = false) {
  if (!output.requires_grad()) return;
  // What was written to a view is kept by its base's node.
  const IntrusivePtr<Node> node = grad_fn(written && output.is_view() ? output.view_base() : output);
  if (!node) return;
  GiveTangent give(output, tangent, level);
  node->visit_saved_of_write(give);
}

}  // namespace

bool has_tangent(TensorList l) {
  return std::any_of(l.begin(), l.end(), [](const Tensor& t) { return has_tangent(t); });
}

void throw_out(const char* name) {
  throw Error(
      str_cat("Trying to use forward AD with ", name, "_out that does not support it because it is an out= function"));
}

Tensor Scope::tangent(const Tensor& t) {
  if (!enabled()) return Tensor();
  Tensor r = tangent_of(t);
  if (!r.defined()) return r;
  if (!level_) level_ = tangent_level(t);
  if (tangent_follows(t)) followed_.push_back(r);
  return r;
}

Tensor Scope::overwritten_tangent(const Tensor& t) {
  Tensor r = tangent(t);
  const bool may_be_saved = r.defined() && thread_state.grad_enabled && (r.requires_grad() || is_transformed(r));
  return may_be_saved && tangent_follows(t) ? tessera::clone(r) : r;
}

Tensor Scope::own(const Tensor& tangent) const {
  for (const Tensor& t : followed_)
    if (same_memory(t, tangent)) return tessera::clone(tangent);
  return tangent;
}

std::vector<Tensor> Scope::tangents(TensorList l) {
  std::vector<Tensor> r;
  for (size_t i = 0; i < l.size(); ++i) {
    Tensor t = tangent(l[i]);
    if (!t.defined()) continue;
    r.resize(l.size());
    r[i] = std::move(t);
  }
  return r;
}
std::vector<Tensor> Scope::tangents(const std::optional<TensorList>& l) {
  return l ? tangents(*l) : std::vector<Tensor>();
}

Tensor Scope::view_tangent(const Tensor& t) {
  if (!tangent(t).defined()) return Tensor();
  return following_tangent(t);
}

void Scope::put(const Tensor& result, const Tensor& tangent) const {
  if (!tangent.defined() || !is_differentiable(result)) return;
  const Tensor t = own(fitted(tangent, result));
  set_tangent(result, t, level_, false);
  tell_node(result, t, level_);
}

void Scope::put_view(const Tensor& view, const Tensor& tangent) const {
  if (!tangent.defined() || !is_differentiable(view)) return;
  set_tangent(view, tangent, level_, true);
  tell_node(view, tangent, level_);
}
void Scope::put_view(const std::vector<Tensor>& views, const std::vector<Tensor>& tangents) const {
  for (size_t i = 0; i < views.size(); ++i) put_view(views[i], tangents[i]);
}

void Scope::write(const Tensor& self, const Tensor& tangent) const {
  if (!is_differentiable(self)) return;
  Tensor t = tangent.defined() ? fitted(tangent, self) : Tensor();
  if (t.defined() && !t.is_same(tangent_of(self))) t = own(t);
  write_tangent(self, t, level_);
  if (tangent.defined()) tell_node(self, tangent_of(self), level_, true);
}

void Scope::write(TensorList self, const Tensor& tangent) const {
  for (const Tensor& t : self) write(t, tangent);
}

void Scope::replace(const Tensor& self, const Tensor& tangent) const { put_view(self, tangent); }

Tensor original(const Tensor& self) { return tessera::clone(self); }

void add(Tensor& sum, const Tensor& term) {
  if (!term.defined()) return;
  sum = sum.defined() ? tessera::add(sum, term) : term;
}
void add(std::vector<Tensor>& sums, const std::vector<Tensor>& terms) {
  sums.resize(std::max(sums.size(), terms.size()));
  for (size_t i = 0; i < terms.size(); ++i) add(sums[i], terms[i]);
}

Tensor or_zeros(const Tensor& tangent, const Tensor& like) {
  if (tangent.defined() || !like.defined()) return tangent;
  return tessera::expand(tessera::zeros(IntVector{}, like.dtype(), std::nullopt, like.device()),
                         to_vector(like.sizes()));
}
std::vector<Tensor> or_zeros(const std::vector<Tensor>& tangents, TensorList like) {
  std::vector<Tensor> r;
  for (size_t i = 0; i < like.size(); ++i) r.push_back(or_zeros(i < tangents.size() ? tangents[i] : Tensor(), like[i]));
  return r;
}

std::vector<Tensor> twice_backward(std::vector<Tensor> inputs, const std::vector<Tensor>& tangents,
                                   const std::function<std::vector<Tensor>(const std::vector<Tensor>&)>& f) {
  const bool record = thread_state.grad_enabled;  // the tangent is to be differentiable itself
  NoGradGuard on(true);
  std::vector<Tensor> wanted, seeds;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!tangents[i].defined()) continue;
    if (record && inputs[i].requires_grad()) {
      inputs[i] = tessera::alias(inputs[i]);
    } else {
      inputs[i] = detached(inputs[i]);
      inputs[i].impl()->set_requires_grad(true);
    }
    wanted.push_back(inputs[i]);
    seeds.push_back(tangents[i]);
  }
  const std::vector<Tensor> outputs = f(inputs);
  std::vector<Tensor> roots, incoming, result(outputs.size());
  std::vector<size_t> place;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].defined() || !outputs[i].requires_grad()) continue;
    place.push_back(i);
    roots.push_back(outputs[i]);
    incoming.push_back(tessera::zeros_like(outputs[i]));
    incoming.back().impl()->set_requires_grad(true);
  }
  if (roots.empty()) return result;
  const variable_list grads = grad(roots, wanted, incoming, true, true, true);
  std::vector<Tensor> linear, along;
  for (size_t i = 0; i < grads.size(); ++i) {
    if (!grads[i].defined() || !grads[i].requires_grad()) continue;
    linear.push_back(grads[i]);
    along.push_back(seeds[i]);
  }
  if (linear.empty()) return result;
  variable_list products = grad(linear, incoming, along, record, record, true);
  for (size_t i = 0; i < place.size(); ++i) result[place[i]] = std::move(products[i]);
  return result;
}

}  // namespace tessera::autograd::forward
