#include <gtest/gtest.h>

#include "autograd/autograd.h"
#include "autograd/function.h"
#include "func/transforms.h"
#include "tensor/ops/api.h"

namespace tessera::func {
namespace {

Tensor values(std::vector<double> v, IntVector sizes) {
  Tensor t = empty_tensor(sizes, {}, DType::kFloat64, Device());
  std::copy(v.begin(), v.end(), t.data<double>());
  return t;
}
std::vector<double> read(const Tensor& t) {
  const Tensor c = contiguous(detach(t));
  return {c.data<double>(), c.data<double>() + c.numel()};
}
Tensor count(int64_t n, IntVector sizes) {
  std::vector<double> v;
  for (int64_t i = 0; i < n; ++i) v.push_back(static_cast<double>(i + 1));
  return values(v, sizes);
}

TEST(Vmap, ElementwiseAndReduction) {
  const Tensor x = count(6, {2, 3});
  EXPECT_EQ(read(vmap([](const Tensor& r) { return mul(r, r).sum(); })(x)), (std::vector<double>{14, 77}));
}
TEST(Vmap, DotOfRowsAndOfColumns) {
  const Tensor a = count(6, {2, 3}), b = count(6, {2, 3});
  const auto d = [](const Tensor& x, const Tensor& y) { return dot(x, y); };
  EXPECT_EQ(read(vmap(d)(a, b)), (std::vector<double>{14, 77}));
  EXPECT_EQ(read(vmap(d, {1, 1})(a, b)), (std::vector<double>{17, 29, 45}));
  EXPECT_EQ(read(vmap(d, {0, kNotMapped})(a, values({1, 0, 2}, {3}))), (std::vector<double>{7, 16}));
}
TEST(Vmap, NestsToAnOuterProduct) {
  const Tensor a = count(2, {2}), b = count(3, {3});
  const auto inner = [&](const Tensor& x) { return vmap([&](const Tensor& y) { return mul(x, y); })(b); };
  EXPECT_EQ(read(vmap(inner)(a)), (std::vector<double>{1, 2, 3, 2, 4, 6}));
}
TEST(Vmap, OutDimAndConstantResult) {
  const Tensor x = count(6, {2, 3});
  const Tensor r = vmap([](const Tensor& t) { return t; }, {0}, 1)(x);
  EXPECT_EQ(IntVector(r.sizes().begin(), r.sizes().end()), (IntVector{3, 2}));
  const Tensor c = values({5}, {});
  EXPECT_EQ(read(vmap([&](const Tensor&) { return c; })(x)), (std::vector<double>{5, 5}));
}
TEST(Vmap, Errors) {
  const Tensor x = count(6, {2, 3}), y = count(3, {3});
  const auto sum2 = [](const Tensor& a, const Tensor& b) { return add(a, b); };
  EXPECT_THROW(vmap(sum2)(x, y), ValueError);
  EXPECT_THROW(vmap(sum2, {kNotMapped, kNotMapped})(x, y), ValueError);
  EXPECT_THROW(vmap(sum2, {5, 0})(x, y), ValueError);
  EXPECT_THROW(vmap([](const Tensor& t) { return mul(t, t.sum().item_scalar()); })(x), Error);
  EXPECT_THROW(vmap([&](const Tensor& t) { return add_(y, t); })(x), Error);
  EXPECT_EQ(read(y), (std::vector<double>{1, 2, 3}));
  EXPECT_THROW(vmap([](const Tensor& t) { return add(t, rand(IntVector{3})); })(x), Error);
  EXPECT_TRUE(levels().empty());
}
TEST(Vmap, InPlaceOnBatchedValues) {
  const Tensor x = count(6, {2, 3});
  const auto f = [](const Tensor& t) {
    const Tensor r = new_zeros(t, IntVector{3});
    add_(r, t);
    mul_(select(r, 0, 1), 10);
    return r;
  };
  EXPECT_EQ(read(vmap(f)(x)), (std::vector<double>{1, 20, 3, 4, 50, 6}));
}

TEST(Grad, NestsWithItselfAndWithAutogradOutside) {
  const auto cube = [](const Tensor& x) { return pow(x, 3); };
  const Tensor x = values({2}, {});
  EXPECT_EQ(read(grad(cube)(x)), (std::vector<double>{12}));
  EXPECT_EQ(read(grad(grad(cube))(x)), (std::vector<double>{12}));
  EXPECT_EQ(read(grad(grad(grad(cube)))(x)), (std::vector<double>{6}));
  x.requires_grad_();
  autograd::backward({{grad(cube)(x)}});
  EXPECT_EQ(read(x.grad()), (std::vector<double>{12}));
}
TEST(Grad, CapturedTensorsAreConstantsWithTheirOwnHistory) {
  const Tensor w = values({3}, {});
  w.requires_grad_();
  const Tensor g = grad([&](const Tensor& x) { return mul(mul(x, x), w); })(values({2}, {}));
  EXPECT_EQ(read(g), (std::vector<double>{12}));
  autograd::backward({{g}});
  EXPECT_EQ(read(w.grad()), (std::vector<double>{4}));
}
TEST(Grad, ViewsAndInPlaceWrites) {
  const auto f = [](const Tensor& x) {
    const Tensor y = mul(x, 2);
    mul_(select(y, 0, 0), x.select(0, 1));
    return y.sum();
  };
  EXPECT_EQ(read(grad(f)(values({3, 5}, {2}))), (std::vector<double>{10, 8}));
  EXPECT_EQ(read(vmap(grad(f))(values({3, 5, 1, 2}, {2, 2}))), (std::vector<double>{10, 8, 4, 4}));
}
TEST(Grad, NoGradInsideIsRespectedOutsideNot) {
  NoGradGuard outside;
  const auto f = [](const Tensor& x) {
    Tensor c;
    {
      NoGradGuard inside;
      c = mul(x, x);
    }
    return sub(mul(x, x), c);
  };
  EXPECT_EQ(read(grad(f)(values({3}, {}))), (std::vector<double>{6}));
}
TEST(Grad, PerSampleGradients) {
  const Tensor w = values({1, -1}, {2}), xs = count(4, {2, 2});
  const auto loss = [](const Tensor& weight, const Tensor& x) { return pow(dot(weight, x), 2); };
  EXPECT_EQ(read(vmap(grad(loss), {kNotMapped, 0})(w, xs)), (std::vector<double>{-2, -4, -6, -8}));
}
TEST(Jacrev, OfAMatrixProductAndASecondDerivative) {
  const Tensor m = count(6, {2, 3}), x = count(3, {3});
  EXPECT_EQ(read(jacrev([&](const Tensor& t) { return mv(m, t); })(x)), read(m));
  const auto cubes = [](const Tensor& t) { return pow(t, 3).sum(); };
  EXPECT_EQ(read(jacrev(grad(cubes))(x)), (std::vector<double>{6, 0, 0, 0, 12, 0, 0, 0, 18}));
}
// A differentiable function of a program's own: x^3 * scale, with the scale's derivative.
struct ScaledCube : autograd::Function<ScaledCube> {
  static Tensor forward(autograd::AutogradContext* ctx, const Tensor& x, const Tensor& scale) {
    ctx->save_for_backward({x, scale});
    ctx->save_for_forward({x, scale});
    return mul(mul(mul(x, x), x), scale);
  }
  static autograd::variable_list backward(autograd::AutogradContext* ctx, autograd::variable_list grads) {
    const autograd::variable_list saved = ctx->get_saved_variables();
    const Tensor &x = saved[0], &scale = saved[1], &g = grads[0];
    return {mul(g, mul(mul(mul(x, x), 3), scale)), sum(mul(g, mul(mul(x, x), x)))};
  }
  static autograd::variable_list jvp(autograd::AutogradContext* ctx, autograd::variable_list tangents) {
    const autograd::variable_list saved = ctx->get_saved_variables();
    const Tensor &x = saved[0], &scale = saved[1];
    return {add(mul(tangents[0], mul(mul(mul(x, x), 3), scale)), mul(tangents[1], mul(mul(x, x), x)))};
  }
};
TEST(OwnFunction, InGradOfGradAndWithHistoryOutside) {
  const Tensor x = values({2}, {}), scale = values({5}, {});
  const auto f = [&](const Tensor& t) { return ScaledCube::apply(t, scale); };
  EXPECT_EQ(read(grad(f)(x)), (std::vector<double>{60}));
  EXPECT_EQ(read(grad(grad(f))(x)), (std::vector<double>{60}));
  EXPECT_EQ(read(grad(grad(grad(f)))(x)), (std::vector<double>{30}));
  scale.requires_grad_();
  x.requires_grad_();
  autograd::backward({{grad(f)(x)}});
  EXPECT_EQ(read(scale.grad()), (std::vector<double>{12}));
  EXPECT_EQ(read(x.grad()), (std::vector<double>{60}));
}
TEST(OwnFunction, WhoseScaleAnOuterLevelDifferentiates) {
  const Tensor x = values({2}, {}), scale = values({5}, {});
  const auto outer = [&](const Tensor& s) { return grad([&](const Tensor& t) { return ScaledCube::apply(t, s); })(x); };
  EXPECT_EQ(read(grad(outer)(scale)), (std::vector<double>{12}));
}
TEST(OwnFunction, InVmap) {
  const Tensor x = count(3, {3}), scale = values({5}, {});
  const auto f = [&](const Tensor& t) { return ScaledCube::apply(t, scale); };
  EXPECT_EQ(read(vmap(f)(x)), (std::vector<double>{5, 40, 135}));
  EXPECT_EQ(read(vmap(grad(f))(x)), (std::vector<double>{15, 60, 135}));
  EXPECT_THROW(grad([&](const Tensor& t) { return vmap(f)(t).sum(); })(x), NotImplementedError);
  scale.requires_grad_();
  EXPECT_THROW(vmap(f)(x), NotImplementedError);
  EXPECT_TRUE(levels().empty());
}
TEST(OwnFunction, InJvp) {
  const Tensor x = values({2}, {}), scale = values({5}, {});
  const auto f = [&](const Tensor& t) { return ScaledCube::apply(t, scale); };
  EXPECT_EQ(read(jvp(f, x, values({1}, {})).second), (std::vector<double>{60}));
  EXPECT_EQ(read(jvp(grad(f), x, values({1}, {})).second), (std::vector<double>{60}));
  EXPECT_EQ(read(grad([&](const Tensor& t) { return jvp(f, t, values({1}, {})).second; })(x)),
            (std::vector<double>{60}));
}
TEST(Vjp, CanBeAskedAgain) {
  auto [value, pull] = vjp([](const Tensor& t) { return mul(t, t); }, count(2, {2}));
  EXPECT_EQ(read(value), (std::vector<double>{1, 4}));
  EXPECT_EQ(read(pull(values({1, 1}, {2}))), (std::vector<double>{2, 4}));
  EXPECT_EQ(read(pull(values({0, 2}, {2}))), (std::vector<double>{0, 8}));
}

Tensor entangled(const Tensor& x) {
  const Tensor y = mul(sin(x), x.sum());
  mul_(select(y, 0, 0), select(x, 0, 1));
  return y;
}
void expect_near(const Tensor& got, const Tensor& want) {
  ASSERT_EQ(IntVector(got.sizes().begin(), got.sizes().end()), IntVector(want.sizes().begin(), want.sizes().end()));
  const std::vector<double> a = read(got), b = read(want);
  for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], 1e-12) << i;
}

TEST(Jvp, ValueAndTangent) {
  const auto [value, tangent] =
      jvp([](const Tensor& x) { return pow(x, 3); }, values({2, 3}, {2}), values({1, 10}, {2}));
  EXPECT_EQ(read(value), (std::vector<double>{8, 27}));
  EXPECT_EQ(read(tangent), (std::vector<double>{12, 270}));
  const Tensor c = values({5}, {});
  EXPECT_EQ(read(jvp([&](const Tensor&) { return c; }, c, c).second), (std::vector<double>{0}));
}
TEST(Jvp, NestsWithItselfAndWithOtherTransforms) {
  const Tensor x = values({2}, {}), one = values({1}, {});
  const auto cube = [](const Tensor& t) { return pow(t, 3); };
  const auto slope = [&](const Tensor& t) { return jvp(cube, t, one).second; };
  EXPECT_EQ(read(jvp(slope, x, one).second), (std::vector<double>{12}));
  EXPECT_EQ(read(grad(slope)(x)), (std::vector<double>{12}));
  EXPECT_EQ(read(jvp(grad(cube), x, one).second), (std::vector<double>{12}));
  EXPECT_EQ(read(vmap(slope)(values({1, 2}, {2}))), (std::vector<double>{3, 12}));
  x.requires_grad_();
  autograd::backward({{slope(x)}});
  EXPECT_EQ(read(x.grad()), (std::vector<double>{12}));
}
TEST(Jvp, Errors) {
  const auto same = [](const Tensor& t) { return t; };
  EXPECT_THROW(jvp(same, count(3, {3}), count(2, {2})), Error);
  EXPECT_THROW(jvp(same, count(3, {3}).to(DType::kInt64), count(3, {3})), ValueError);
  EXPECT_TRUE(levels().empty());
}
TEST(Jacfwd, IsJacrevAndHessianIsBoth) {
  const Tensor x = values({0.5, -1, 2}, {3});
  expect_near(jacfwd(entangled)(x), jacrev(entangled)(x));
  expect_near(hessian(entangled)(x), jacrev(jacrev(entangled))(x));
}
TEST(Linearize, RunsTheDerivativeAgain) {
  const Tensor x = values({0.5, -1, 2}, {3});
  int runs = 0;
  const auto f = [&](const Tensor& t) {
    ++runs;
    return mul(sin(t), t.sum());
  };
  const auto [value, push] = linearize(f, x);
  for (const Tensor& v : {values({1, 0, 0}, {3}), values({1, 2, 3}, {3})}) expect_near(push(v), mv(jacrev(f)(x), v));
  EXPECT_EQ(runs, 3);
  expect_near(value, f(x));
  const auto cube = linearize([](const Tensor& t) { return mul(t, mul(t, t)); }, x).second;
  const Tensor before = push(x);
  add_(x, 1);
  expect_near(push(sub(x, 1)), before);  // keeps cos(x), and not x
  EXPECT_THROW(cube(x), Error);          // keeps x, which is another one now
}

}  // namespace
}  // namespace tessera::func
