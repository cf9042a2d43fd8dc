// In-place writes through views: how they become part of the base's history.
#pragma once

#include "autograd/node.h"

namespace tessera::autograd {

// Where a view lies in its base, to take the same view of another tensor with the base's geometry: differentiable.
struct ViewGeometry {
  ViewGeometry(const Tensor& view, const Tensor& base);
  Tensor of(const Tensor& base) const;
  // True if as_strided alone makes the view: no other dtype, no lazy bits.
  bool is_strided(const Tensor& base) const;

  IntVector sizes, strides;
  int64_t offset;  // from the base's, in numbers of the view's dtype; of a complex view of real numbers, in those
  DType dtype;
  bool conjugate, negative;
};

// The gradient of a base that was written to through a view: outside the view it passes, inside it goes through the
// node of the write.
class CopySlices final : public Node {
 public:
  CopySlices(const Tensor& base, const Tensor& view, IntrusivePtr<Node> write);
  variable_list apply(variable_list&& grads) override;
  const char* name() const override { return "CopySlices"; }
  void release_variables() override;
  void visit_saved_of_write(SavedVisitor& v) override {
    if (write_) write_->visit_saved(v);
  }

 private:
  Shape base_;
  ViewGeometry view_;
  IntrusivePtr<RefCounted> view_fn_;
  IntrusivePtr<Node> write_;
};

// After an operator that gave self another shape in place: what is a view is another view of its base, whose values are
// what they were. Of other tensors, node becomes the history.
void reshape_history(const Tensor& self, const IntrusivePtr<Node>& node);

// Gives the view t the history "view of base" at the base's present state.
void regenerate_view_history(const Tensor& t, const Tensor& base);

}  // namespace tessera::autograd
