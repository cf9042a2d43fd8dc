// The end of a backward path: adds to a leaf's grad.
#pragma once

#include "autograd/node.h"

namespace tessera::autograd {

class AccumulateGrad final : public Node {
 public:
  explicit AccumulateGrad(const Tensor& leaf);
  ~AccumulateGrad() override;
  variable_list apply(variable_list&& grads) override;
  const char* name() const override { return "torch::autograd::AccumulateGrad"; }
  const Tensor& variable() const { return variable_; }

 private:
  Tensor variable_;
};

// a + b where neither may change (create_graph), or with grad mode off, in place into a when nobody else holds it.
Tensor add_gradients(const Tensor& a, const Tensor& b);

}  // namespace tessera::autograd
