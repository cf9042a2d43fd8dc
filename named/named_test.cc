#include "named/named.h"

#include <gtest/gtest.h>

#include "tensor/ops/ops.h"

namespace tessera::named {
namespace {

Names list(const Tensor& t) {
  const auto n = names_of(t);
  return {n.begin(), n.end()};
}
Tensor with(IntVector sizes, Names names) {
  Tensor t = zeros(sizes);
  set_names(t, std::move(names));
  return t;
}

TEST(Named, ANameSetsTheKeyAndNoNameTakesItAway) {
  Tensor t = zeros(IntVector{2, 3});
  EXPECT_FALSE(t.keys().has(DispatchKey::kNamed));
  set_names(t, {"N", ""});
  EXPECT_TRUE(t.keys().has(DispatchKey::kNamed));
  EXPECT_EQ(list(t), (Names{"N", ""}));
  set_names(t, {"", ""});
  EXPECT_FALSE(t.keys().has(DispatchKey::kNamed));
  EXPECT_TRUE(names_of(t).empty());
}

TEST(Named, BadNamesAreRefusedAndLeaveTheTensorAsItWas) {
  Tensor t = with({2, 3}, {"N", "C"});
  EXPECT_THROW(set_names(t, {"N", "N"}), Error);
  EXPECT_THROW(set_names(t, {"N"}), Error);
  EXPECT_THROW(set_names(t, {"1x", "C"}), Error);
  EXPECT_THROW(set_names(t, {"a-b", "C"}), Error);
  EXPECT_EQ(list(t), (Names{"N", "C"}));
}

TEST(Named, OperatorsPassNamesOn) {
  const Tensor a = with({3, 3}, {"N", ""}), b = with({3, 3}, {"", "C"});
  EXPECT_EQ(list(add(a, b)), (Names{"N", "C"}));
  EXPECT_EQ(list(abs(a)), (Names{"N", ""}));
  EXPECT_EQ(list(transpose(with({2, 3}, {"N", "C"}), 0, 1)), (Names{"C", "N"}));
  EXPECT_EQ(list(mm(with({3, 3}, {"N", "D"}), with({3, 3}, {"in", "out"}))), (Names{"N", "out"}));
  EXPECT_EQ(list(sum(with({2, 3}, {"N", "C"}), IntVector{0})), (Names{"C"}));
  EXPECT_THROW(add(with({3}, {"X"}), with({3}, {"Z"})), Error);
  EXPECT_THROW(add(a, with({3}, {"N"})), Error);
}

TEST(Named, ResultsOfTensorsWithoutNamesHaveNone) {
  set_names(zeros(IntVector{2}), {"N"});  // the fallback is there
  const Tensor sum_of = add(zeros(IntVector{2}), zeros(IntVector{2}));
  EXPECT_FALSE(sum_of.keys().has(DispatchKey::kNamed));
  EXPECT_EQ(sum_of.impl()->extra(), nullptr);
}

}  // namespace
}  // namespace tessera::named
