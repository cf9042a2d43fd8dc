// The documented names do what they say; the large part of that is tested by the programs of tests/conformance.
#include <sstream>

#include "gtest/gtest.h"
#include "torch/torch.h"

TEST(Frontend, OperatorsAndAutograd) {
  auto x = torch::tensor({1.0, 2.0}, torch::requires_grad());
  (x * x).sum().backward();
  EXPECT_TRUE(torch::equal(x.grad(), torch::tensor({2.0, 4.0})));
  std::ostringstream out;
  out << torch::tensor({{1, -20}, {300, 4}});
  EXPECT_EQ(out.str(), "   1  -20\n 300    4\n[ CPULongType{2,2} ]");
}

TEST(Frontend, ErrorsAreOfTheDocumentedClass) {
  EXPECT_THROW(torch::ones({2}).view({3}), c10::Error);
  EXPECT_THROW(torch::ones({2})[5], c10::IndexError);
  try {
    TORCH_CHECK_VALUE(false, "value ", 2.5);
    FAIL();
  } catch (const c10::Error& e) { EXPECT_EQ(e.msg(), "value 2.5"); }
}
