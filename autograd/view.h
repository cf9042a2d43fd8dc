// In-place writes through views: how they become part of the base's history.
#pragma once

#include "autograd/node.h"

namespace tessera::autograd {

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
  Shape base_, view_;
  int64_t base_offset_, view_offset_;
  IntrusivePtr<RefCounted> view_fn_;
  IntrusivePtr<Node> write_;
};

// Gives the view t the history "view of base" at the base's present state.
void regenerate_view_history(const Tensor& t, const Tensor& base);

}  // namespace tessera::autograd
