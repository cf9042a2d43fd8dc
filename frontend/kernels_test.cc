// What kernels and nodes of others are written with: sizes that may be symbols, loops that know their thread, checks of
// arguments, outputs last, histories made by hand.
#include <ATen/TensorUtils.h>
#include <ATen/autocast_mode.h>
#include <ATen/record_function.h>
#include <gtest/gtest.h>
#include <torch/library.h>
#include <torch/torch.h>

#include <atomic>
#include <set>

namespace {

at::Tensor sized(const at::Tensor& x, c10::SymInt n, c10::SymIntArrayRef sizes, at::OptionalSymIntArrayRef more,
                 std::optional<c10::SymInt> k) {
  EXPECT_EQ(C10_AS_INTARRAYREF_SLOW(sizes), at::IntArrayRef({5, 6}));
  EXPECT_EQ(n.guard_int(__FILE__, __LINE__) + n.expect_int(), 8);
  EXPECT_FALSE(more.has_value());
  EXPECT_EQ(k.value_or(1), 7);
  const auto size = n * 2 + sizes[0] - 1;  // a size again
  static_assert(std::is_same_v<decltype(size), const c10::SymInt>);
  EXPECT_EQ(x.view_symint({x.sym_size(0), -1}).expand_symint({2, x.sym_size(0), -1}).sym_sizes()[2], 3);
  return at::zeros_symint({x.sym_size(0) + n, size}, x.options());
}

TORCH_LIBRARY(kernels_test, m) {
  m.def("sized(Tensor x, SymInt n, SymInt[] sizes, SymInt[]? more=None, SymInt? k=None) -> Tensor");
  m.def("inferred", [](c10::SymInt n, std::vector<c10::SymInt> l) { return n + l[0]; });
}
TORCH_LIBRARY_IMPL(kernels_test, CPU, m) { m.impl("sized", sized); }

TEST(Kernels, SizesMayBeSymbols) {
  const auto op = c10::Dispatcher::singleton().findSchemaOrThrow("kernels_test::sized", "");
  const at::Tensor x = at::ones({2, 3});
  const at::Tensor y = op.typed<decltype(sized)>().call(x, 4, std::vector<c10::SymInt>{5, 6}, std::nullopt, 7);
  EXPECT_EQ(y.sizes(), at::IntArrayRef({6, 12}));
  torch::jit::Stack stack;
  torch::jit::push(stack, x, 4, std::vector<int64_t>{5, 6}, torch::IValue(), c10::SymInt(7));
  op.callBoxed(&stack);
  EXPECT_EQ(torch::jit::pop(stack).toTensor().numel(), 72);
  const auto inferred = c10::Dispatcher::singleton().findSchemaOrThrow("kernels_test::inferred", "");
  EXPECT_EQ(c10::str(inferred.schema()), "kernels_test::inferred(SymInt _0, SymInt[] _1) -> SymInt");
}

TEST(Kernels, OutputsLast) {
  const at::Tensor a = at::tensor({1.0f, 2.0f}), m = torch::tensor({{1.0f, 5.0f}, {4.0f, 3.0f}});
  at::Tensor out = at::empty({2}), index = at::empty({2}, at::kLong);
  EXPECT_TRUE(at::add_outf(a, a, 2, out).is_same(out));
  EXPECT_TRUE(at::equal(out, a * 3));
  at::max_outf(m, 1, false, out, index);
  EXPECT_TRUE(at::equal(out, at::tensor({5.0f, 4.0f})) && at::equal(index, at::tensor({1L, 0L})));
  at::max_outf(a, at::tensor({3.0f, 0.0f}), out);
  EXPECT_TRUE(at::equal(out, at::tensor({3.0f, 2.0f})));
}

TEST(Kernels, ThreadsOfALoopHaveNumbers) {
  const int threads = at::get_num_threads();
  at::set_num_threads(3);
  for (int repeated = 0; repeated < 20; ++repeated) {
    std::vector<std::atomic<int>> inside(3);
    std::atomic<int> wrong{0};
    at::parallel_for(0, 64, 1, [&](int64_t, int64_t) {
      const int n = at::get_thread_num();
      if (n < 0 || n >= 3 || inside[static_cast<size_t>(n)].fetch_add(1) != 0) return void(++wrong);
      at::parallel_for(0, 4, 1, [&](int64_t, int64_t) { wrong += at::get_thread_num() != n; });
      --inside[static_cast<size_t>(n)];
    });
    EXPECT_EQ(wrong, 0);
    EXPECT_EQ(at::get_thread_num(), 0);
  }
  at::set_num_threads(threads);
}

std::string message(const std::function<void()>& f) {
  try {
    f();
  } catch (const c10::Error& e) { return e.msg(); }
  return "";
}

TEST(Kernels, ChecksNameTheArgument) {
  const at::Tensor a = at::ones({2, 3}), b = at::ones({6});
  const at::TensorArg first{a, "a", 1}, second{b, "b", 2};
  at::checkDim("f", first, 2);
  at::checkAllSameNumel("f", {first, second});
  EXPECT_EQ(message([&] { at::checkDim("f", first, 1); }),
            "Expected 1-dimensional tensor, but got 2-dimensional tensor for argument #1 'a' (while checking arguments "
            "for f)");
  EXPECT_EQ(message([&] { at::checkSameSize("f", first, second); }),
            "Expected tensor for argument #1 'a' to have same size as tensor for argument #2 'b'; but [2, 3] does not "
            "equal [6] (while checking arguments for f)");
  EXPECT_NE(message([&] { at::checkScalarType("f", second, at::kHalf); }), "");
  EXPECT_EQ(a.type().toString(), "CPUFloatType");
  EXPECT_TRUE(a.type().scalarType() == at::kFloat && !a.type().is_cuda());
}

TEST(Kernels, AutocastAndTheProfilerAreThere) {
  RECORD_FUNCTION("block", std::vector<c10::IValue>());
  EXPECT_FALSE(at::autocast::is_autocast_enabled(at::kCPU));
  const at::Tensor x = at::ones({2});
  EXPECT_EQ(at::autocast::cached_cast(at::kBFloat16, x, at::kCPU).scalar_type(), at::kBFloat16);
  EXPECT_EQ(at::autocast::cached_cast(at::kBFloat16, x.to(at::kLong), at::kCPU).scalar_type(), at::kLong);
}

struct Triple : torch::autograd::Node {
  explicit Triple(int* alive) : alive(alive) { ++*alive; }
  ~Triple() override { --*alive; }
  torch::autograd::variable_list apply(torch::autograd::variable_list&& grads) override {
    calls++;
    return {grads[0] * 3};
  }
  int* alive;
  int calls = 0;
};

TEST(Kernels, NodesOfOnesOwn) {
  int alive = 0;
  {
    const at::Tensor x = torch::ones({2}, torch::requires_grad());
    at::Tensor y = x.detach() * 3;
    {
      const auto node = std::make_shared<Triple>(&alive);
      node->set_next_edges(torch::autograd::collect_next_edges(x));
      EXPECT_EQ(node->num_outputs(), 1u);
      EXPECT_TRUE(node->should_compute_output(0));
      torch::autograd::create_gradient_edge(y, node);
      EXPECT_TRUE(node->name().find("Triple") != std::string::npos);
    }
    EXPECT_EQ(alive, 1);  // the graph keeps it
    auto* made = dynamic_cast<Triple*>(y.grad_fn().get());
    ASSERT_TRUE(made != nullptr);
    EXPECT_EQ(made->next_edge(0).function->name(), "torch::autograd::AccumulateGrad");
    (y * 2).sum().backward();
    EXPECT_EQ(made->calls, 1);
    EXPECT_TRUE(at::equal(x.grad(), at::full({2}, 6.0)));
    EXPECT_THROW(made->set_next_edges({}), c10::Error);
  }
  EXPECT_EQ(alive, 0);
}

TEST(Kernels, AnomaliesTellOfTheForwardCall) {
  struct Kept : c10::WarningHandler {
    void process(const c10::Warning& warning) override { text += warning.msg(); }
    std::string text;
  } kept;
  const auto x = torch::tensor({5.0}, torch::requires_grad());
  const auto before = x * x;
  const torch::autograd::DetectAnomalyGuard guard;
  const c10::WarningUtils::WarningHandlerGuard warnings(&kept);
  const auto y = x * x, z = y * y;
  y.add_(1);
  EXPECT_THROW(z.backward(), c10::Error);
  EXPECT_NE(kept.text.find("MulBackward0. Traceback of forward call that caused the error:\n  "), std::string::npos);
  kept.text.clear();
  const auto w = before * before;
  before.add_(1);
  EXPECT_THROW(w.backward(), c10::Error);
  EXPECT_NE(kept.text.find("Traceback of forward"), std::string::npos);
  const auto p = torch::zeros({1}, torch::requires_grad());
  const auto power = p.pow(1.5);
  const auto slope_of = power.grad_fn();
  const auto slope = torch::autograd::grad({power}, {p}, {}, true, true)[0];
  kept.text.clear();
  EXPECT_THROW(torch::autograd::grad({slope}, {p}, {torch::zeros({1})}), c10::Error);
  EXPECT_NE(kept.text.find("induced by " + slope_of->name() + ". Traceback"), std::string::npos) << kept.text;
  EXPECT_EQ(kept.text.find("Error detected"), kept.text.rfind("Error detected"));
  EXPECT_THROW(w.backward({}, true, false, std::vector<at::Tensor>{}), c10::Error);
}

}  // namespace
