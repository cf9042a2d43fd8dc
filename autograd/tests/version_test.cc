// Writes in place: the versions of saved tensors, histories of views and their bases, what may not be written.
#include <functional>
#include <string>
#include <vector>

#include "autograd/autograd.h"
#include "autograd/tests/testing.h"
#include "autograd/variable.h"
#include "gtest/gtest.h"
#include "tensor/core/restore.h"
#include "tensor/ops/api.h"

namespace tessera::autograd {
namespace {

ThreadState in_inference() {
  ThreadState s = thread_state;
  s.inference_mode = true;
  s.grad_enabled = false;
  return s;
}
struct InferenceMode {
  ScopedValue<ThreadState> state{thread_state, in_inference()};
};

TEST(Versions, AWrittenInputRaises) {
  const Tensor x = leaf({1, 2});
  const Tensor y = x * 2.0;
  const Tensor z = sum(y * y);
  y.add_(Scalar(1));
  expect_error(
      [&] { z.backward(); },
      "one of the variables needed for gradient computation has been modified by an inplace operation: "
      "[torch.DoubleTensor [2]], which is output 0 of AddBackward0, is at version 1; expected version 0 instead. Hint: "
      "enable anomaly detection to find the operation that failed to compute its gradient, with "
      "torch.autograd.set_detect_anomaly(True).");
  EXPECT_FALSE(x.grad().defined());
}

TEST(Versions, AWrittenResultRaises) {
  const Tensor x = leaf({0});
  const Tensor y = exp(x);  // its derivative is itself
  y.mul_(Scalar(2));
  expect_error([&] { sum(y).backward(); }, "which is output 0 of ExpBackward0, is at version 1; expected version 0");
}

TEST(Versions, AWriteThroughAViewRaises) {
  const Tensor x = leaf({1, 2}), constant = doubles({3, 4});
  const Tensor y = sum(x * constant);
  select(constant, 0, 1).fill_(Scalar(0));
  expect_error([&] { y.backward(); }, "[torch.DoubleTensor [2]] is at version 1; expected version 0 instead");
}

TEST(Versions, WhatIsNotSavedMayBeWritten) {
  const Tensor x = leaf({1, 2});
  const Tensor y = x * 2.0;
  const Tensor z = sum(y + y);
  y.zero_();
  z.backward();
  EXPECT_EQ(values(x.grad()), (Numbers{4, 4}));
}

TEST(Versions, CountWritesAndAreShared) {
  const Tensor base = doubles({1, 2, 3});
  const Tensor view = narrow(base, 0, 1, 2), alias = detach(base), copy = clone(base);
  const uint32_t start = base.version();
  view.add_(Scalar(1));
  EXPECT_EQ(base.version(), start + 1);
  alias.mul_(Scalar(2));
  EXPECT_EQ(base.version(), start + 2);
  EXPECT_EQ(view.version(), start + 2);
  EXPECT_EQ(alias.version(), start + 2);
  EXPECT_EQ(values(base), (Numbers{2, 6, 8}));
  copy.zero_();
  EXPECT_EQ(base.version(), start + 2);
  base + view.sum();  // reads do not count
  EXPECT_EQ(base.version(), start + 2);
}

TEST(Versions, ADetachedTensorTellsItsOrigin) {
  const Tensor x = leaf({2});
  const Tensor y = x * 1.0;
  const Tensor z = sum(y * y);
  detach(y).zero_();
  expect_error([&] { z.backward(); }, "modified by an inplace operation");
}

TEST(Versions, SettingDataIsInvisible) {
  const Tensor x = leaf({2}), w = leaf({3});
  const Tensor y = sum(x * w);
  const uint32_t before = w.version();
  set_data(w, doubles({5}));
  EXPECT_EQ(w.version(), before);
  y.backward();
  EXPECT_EQ(values(x.grad()), (Numbers{5}));
}

TEST(Views, AWriteBecomesPartOfTheBasesHistory) {
  const Tensor x = leaf({1, 2, 3, 4});
  const Tensor base = x * 1.0;
  const Tensor other = select(base, 0, 2), middle = narrow(base, 0, 1, 2);
  middle.mul_(Scalar(10));
  EXPECT_STREQ(grad_fn(base)->name(), "CopySlices");
  EXPECT_EQ(values(base), (Numbers{1, 20, 30, 4}));
  sum(base).backward(Tensor(), true);
  EXPECT_EQ(values(x.grad()), (Numbers{1, 10, 10, 1}));
  x.set_grad(Tensor());
  other.backward();  // a view that was made before the write
  EXPECT_EQ(values(x.grad()), (Numbers{0, 0, 10, 0}));
}

TEST(Views, AWriteToTheBaseIsSeenByItsViews) {
  const Tensor x = leaf({1, 2, 3});
  const Tensor base = x * 1.0;
  const Tensor tail = narrow(base, 0, 1, 2);
  base.mul_(Scalar(3));
  EXPECT_EQ(values(tail), (Numbers{6, 9}));
  sum(tail).backward();
  EXPECT_EQ(values(x.grad()), (Numbers{0, 3, 3}));
}

TEST(Views, AConstantBaseComesToRequireGrad) {
  const Tensor base = doubles({1, 2, 3}), u = leaf({7, 8});
  const Tensor part = narrow(base, 0, 0, 2);
  EXPECT_FALSE(base.requires_grad());
  part.copy_(u);
  EXPECT_TRUE(base.requires_grad());
  EXPECT_TRUE(part.requires_grad());
  sum(base * doubles({2, 5, 11})).backward();
  EXPECT_EQ(values(u.grad()), (Numbers{2, 5}));
}

TEST(Views, AViewOfAViewHasTheSameBase) {
  const Tensor x = leaf({1, 2, 3, 4});
  const Tensor base = x * 1.0;
  const Tensor square = view(base, {2, 2});
  const Tensor column = select(square, 1, 0);
  EXPECT_TRUE(column.view_base().is_same(base));
  column.zero_();
  sum(base * base).backward();
  EXPECT_EQ(values(x.grad()), (Numbers{0, 4, 0, 8}));
}

TEST(Writes, ThatAreForbidden) {
  const Tensor x = leaf({1, 2});
  expect_error([&] { x.add_(Scalar(1)); },
               "a leaf Variable that requires grad is being used in an in-place operation.");
  expect_error([&] { select(x, 0, 0).add_(Scalar(1)); },
               "a view of a leaf Variable that requires grad is being used in an in-place operation.");
  const Tensor square = view(doubles({1, 2, 3, 4}), {2, 2});
  square.requires_grad_();
  for (const Tensor& t : {square, select(square, 0, 0)})
    expect_error([&] { t.add_(Scalar(1)); },
                 "a view of a leaf Variable that requires grad is being used in an in-place operation.");
  const Tensor y = x * 1.0;
  expect_error([&] { unbind(y)[0].add_(Scalar(1)); }, "is the output of a function that returns multiple views");
  Tensor hidden;
  {
    NoGradGuard no_grad;
    hidden = select(y, 0, 0);
  }
  expect_error([&] { hidden.mul_(x.sum()); },
               "A view was created in no_grad mode and is being modified inplace with grad mode enabled.");
  expect_error([&] { autograd::detach_(select(y, 0, 0)); }, "Can't detach views in-place. Use detach() instead.");
  EXPECT_EQ(values(x), (Numbers{1, 2}));
  EXPECT_EQ(values(y), (Numbers{1, 2}));
}

TEST(Modes, NoGradRecordsNothing) {
  const Tensor x = leaf({1, 2});
  NoGradGuard no_grad;
  EXPECT_FALSE((x * 2.0).requires_grad());
  x.add_(Scalar(1));
  EXPECT_EQ(values(x), (Numbers{2, 3}));
  EXPECT_TRUE(x.requires_grad());
  EXPECT_TRUE(x.is_leaf());
}

TEST(Modes, InferenceTensorsStayOutsideOfGraphs) {
  const Tensor x = leaf({1, 2});
  Tensor t;
  {
    InferenceMode inference;
    t = x * 2.0;
    t.add_(Scalar(1));
  }
  EXPECT_TRUE(t.is_inference());
  EXPECT_FALSE(t.requires_grad());
  EXPECT_FALSE(t.impl()->has_version());
  EXPECT_EQ(values(t), (Numbers{3, 5}));
  expect_error([&] { x* t; }, "Inference tensors cannot be saved for backward.");
  expect_error([&] { t.add_(Scalar(1)); }, "Inplace update to inference tensor outside InferenceMode is not allowed.");
  EXPECT_EQ(values(t), (Numbers{4, 6}));  // it is told after the write
  sum(x * clone(t)).backward();           // what the message recommends
  EXPECT_EQ(values(x.grad()), (Numbers{4, 6}));
}

}  // namespace
}  // namespace tessera::autograd
