// The end of a backward path: adds to a leaf's grad.
#pragma once

#include <atomic>
#include <mutex>
#include <optional>

#include "autograd/node.h"

namespace tessera::autograd {

class AccumulateGrad final : public Node {
 public:
  explicit AccumulateGrad(const Tensor& leaf);
  ~AccumulateGrad() override;
  variable_list apply(variable_list&& grads) override;
  const char* name() const override { return "torch::autograd::AccumulateGrad"; }
  const Tensor& variable() const { return variable_; }

  // The accumulator that a leaf has, shared, or null; a leaf's lock (leaf_mutex) is held. The leaf's reference is a
  // weak one, so the last of the others may be going on another thread meanwhile: then nothing is shared.
  static IntrusivePtr<Node> shared_from(AutogradMeta& meta);
  // The leaf is another object's tensor now: graphs that have this accumulator can't go backward any more.
  void retire() { retired_ = true; }

 protected:
  void dispose() override;

 private:
  void add(AutogradMeta& meta, Tensor&& grad) const;

  Tensor variable_;
  std::atomic<bool> retired_{false};
  bool refused_ = false;  // shared_from came when the count was at zero already
};

// What a leaf keeps whose gradient may have another dtype than itself.
struct LeafWithGradDtype final : public LeafHooks {
  std::optional<DType> grad_dtype;  // none: any
};

// The dtype that gradients of a leaf are brought to, its own unless another was set; none: they stay as they are.
// Errors: t is no leaf; it has a gradient of another dtype.
std::optional<DType> grad_dtype(const Tensor& t);
void set_grad_dtype(const Tensor& t, std::optional<DType> dtype);
// The same for what arrives at a node's output: `own` is the dtype of the tensor that the output was made for.
DType wanted_grad_dtype(const Node& to, DType own, DType arriving);

// Guards what is made lazily for a tensor: a leaf's accumulator, the history of a view.
std::mutex& leaf_mutex(const TensorImpl* t);

// a + b where neither may change (create_graph), or with grad mode off, in place into a when nobody else holds it.
Tensor add_gradients(const Tensor& a, const Tensor& b);

}  // namespace tessera::autograd
