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

TEST(Frontend, TheSameSeedGivesTheSameStream) {
  torch::manual_seed(3);
  const auto first = torch::randn({4});
  torch::manual_seed(3);
  EXPECT_TRUE(torch::equal(first, torch::randn({4})));
  auto own = torch::make_generator<torch::CPUGeneratorImpl>(3);
  EXPECT_TRUE(torch::equal(first, torch::randn({4}, own)));
}

TEST(Frontend, Indexing) {
  using namespace torch::indexing;
  const auto t = torch::arange(24).view({2, 3, 4});
  EXPECT_EQ(t.index({1, Slice(None, 2), "..."}).sizes(), torch::IntArrayRef({2, 4}));
  EXPECT_EQ(t.index({t > 20}).sum().item<int64_t>(), 21 + 22 + 23);
  auto grid = torch::zeros({2, 2});
  grid.index_put_({Slice(), 1}, 5);
  grid[0][0] = 3;
  EXPECT_TRUE(torch::equal(grid, torch::tensor({{3.0, 5.0}, {0.0, 5.0}})));
  EXPECT_THROW(t.index({5}), c10::IndexError);
}

struct Cube : torch::autograd::Function<Cube> {
  static torch::Tensor forward(torch::autograd::AutogradContext* ctx, const torch::Tensor& x, int64_t power) {
    ctx->save_for_backward({x});
    ctx->saved_data["power"] = power;
    return x.pow(power);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 torch::autograd::variable_list grads) {
    const int64_t power = ctx->saved_data["power"].toInt();
    return {grads[0] * power * ctx->get_saved_variables()[0].pow(power - 1), torch::Tensor()};
  }
};

TEST(Frontend, CustomFunctionsAreDifferentiableTwice) {
  const auto x = torch::tensor({2.0}, torch::requires_grad());
  const auto g = torch::autograd::grad({Cube::apply(x, 3)}, {x}, {}, true, true)[0];
  EXPECT_EQ(g.item<float>(), 12);
  EXPECT_EQ(torch::autograd::grad({g}, {x})[0].item<float>(), 12);
}

namespace {
torch::Tensor shifted(const torch::Tensor& t, double by, std::optional<int64_t> times) {
  return t + by * static_cast<double>(times.value_or(1));
}
void ten_times(const c10::OperatorHandle&, torch::jit::Stack* stack) {
  const auto t = torch::jit::pop(*stack).toTensor();
  torch::jit::push(*stack, t * 10);
}
}  // namespace
TORCH_LIBRARY_IMPL(core_test, CPU, m) {  // before its operators
  m.impl("shifted", &shifted);
  m.impl("ten_times", torch::CppFunction::makeFromBoxedFunction<&ten_times>());
}
TORCH_LIBRARY(core_test, m) {
  m.def("shifted(Tensor t, float by=0.5, *, int? times=None) -> Tensor");
  m.def("ten_times(Tensor t) -> Tensor");
  m.def("inferred", &shifted);
}

TEST(Frontend, OperatorsOfOnesOwn) {
  const auto& dispatcher = c10::Dispatcher::singleton();
  const auto op = dispatcher.findSchemaOrThrow("core_test::shifted", "");
  EXPECT_EQ(c10::str(op.schema()), "core_test::shifted(Tensor t, float by=0.5, *, int? times=None) -> Tensor");
  const auto t = torch::ones({2});
  EXPECT_TRUE(torch::equal(op.typed<decltype(shifted)>().call(t, 2.0, 3), t + 6));
  torch::jit::Stack stack{t, 1.0, torch::IValue()};
  op.callBoxed(stack);
  EXPECT_TRUE(torch::equal(stack.at(0).toTensor(), t + 1));
  const auto boxed =
      dispatcher.findSchemaOrThrow("core_test::ten_times", "").typed<torch::Tensor(const torch::Tensor&)>();
  EXPECT_TRUE(torch::equal(boxed.call(t), t * 10));
  EXPECT_THROW(boxed.call(t.to(torch::kMeta)), c10::NotImplementedError);
  EXPECT_EQ(c10::str(dispatcher.findSchemaOrThrow("core_test::inferred", "").schema()),
            "core_test::inferred(Tensor _0, float _1, int? _2) -> Tensor");
  EXPECT_FALSE(dispatcher.findSchema({"core_test::absent", ""}).has_value());
}

namespace {
struct Scaled : c10::OperatorKernel {
  explicit Scaled(double by = 1) : by_(by) {}
  torch::Tensor operator()(const torch::Tensor& t) const { return t * by_; }
  double by_;
};
const auto g_registered =
    torch::RegisterOperators()
        .op("core_test_old::shifted(Tensor t, float by=0.5, *, int? times=None) -> Tensor", &shifted)
        .op("core_test_old::inferred", &shifted)
        .op("core_test_old::scaled(Tensor t) -> Tensor",
            torch::RegisterOperators::options()
                .kernel<Scaled>(c10::DispatchKey::CPU, 3.0)
                .kernel(c10::DispatchKey::Meta, [](const torch::Tensor& t) { return t.sum(); }))
        .op(torch::RegisterOperators::options()
                .schema("core_test_old::static_kernel(Tensor t, float b, int? n) -> Tensor")
                .catchAllKernel<decltype(shifted), &shifted>());
TEST(Overloads, ZeroIsADimension) {
  const auto x = torch::randn({4, 3});
  EXPECT_EQ(x.var(0).numel(), 3);
  EXPECT_EQ(x.std(int64_t{1}).numel(), 4);
  EXPECT_EQ(torch::std(x, 0).numel(), 3);
  EXPECT_EQ(torch::var(x, false).numel(), 1);
}

TEST(Makers, OfOneNumber) {
  EXPECT_EQ(at::tensor(3).sizes(), at::IntArrayRef({1}));
  EXPECT_EQ(torch::tensor(3).dim(), 0);
  const c10::complex<float> z(1, 2);
  EXPECT_THROW(torch::tensor(z, torch::kFloat), c10::Error);
  EXPECT_THROW(torch::tensor({z, z}, torch::kInt), c10::Error);
  EXPECT_THROW(torch::tensor(std::vector<c10::complex<float>>{z}, torch::kDouble), c10::Error);
  EXPECT_THROW(torch::ones({1}).to(torch::TensorOptions().requires_grad(true)), c10::Error);
  EXPECT_THROW(torch::ones({1}, torch::kInt).requires_grad_(), c10::Error);
}

std::string error_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const std::exception& e) { return e.what(); }
  return "";
}

TEST(Indices, AreCheckedByTheTensorsOwnDimensions) {
  using torch::indexing::Slice;
  const auto x = torch::arange(100).view({2, 5, 10});
  const auto error = [&](std::initializer_list<at::indexing::TensorIndex> i) { return error_of([&] { x.index(i); }); };
  EXPECT_NE(error({0, 5}).find("index 5 is out of bounds for dimension 1 with size 5"), std::string::npos);
  EXPECT_NE(error({"...", 12}).find("index 12 is out of bounds for dimension 2 with size 10"), std::string::npos);
  EXPECT_NE(error({torch::tensor({0, 1}), torch::indexing::None, Slice(), -11}).find("for dimension 2 with size 10"),
            std::string::npos);
  EXPECT_NE(error({}).find("empty index list"), std::string::npos);
  EXPECT_NE(error_of([] { torch::tensor(1).index({0}); }).find("invalid index"), std::string::npos);
  EXPECT_NE(error_of([&] { x.index_put_({}, 1); }).find("empty index list"), std::string::npos);
}

TEST(Warnings, OfOperatorsGoToTheHandler) {
  struct Kept : c10::WarningHandler {
    void process(const c10::Warning& w) override {
      all.push_back(w.msg());
      c10::WarningHandler::process(w);
    }
    std::vector<std::string> all;
  } kept;
  const auto mask = torch::ones({3}, torch::kByte);
  {
    const c10::WarningUtils::WarningHandlerGuard guard(&kept);
    torch::arange(3).index({mask});
    TORCH_WARN("mine");
  }
  torch::arange(3).index({mask});
  ASSERT_EQ(kept.all.size(), 2u);
  EXPECT_NE(kept.all[0].find("uint8"), std::string::npos);
}

TEST(Names, OfDimensions) {
  const at::Dimname a = at::Dimname::fromSymbol(at::Symbol::dimname("A")), b(at::Dimname("B"));
  const auto x = torch::ones({2, 4}).refine_names({a, b});
  EXPECT_EQ(x.names(), (std::vector<at::Dimname>{a, b}));
  EXPECT_EQ(x.sum(1).names(), std::vector<at::Dimname>{a});
  EXPECT_FALSE(x.rename(std::nullopt).has_names());
  EXPECT_TRUE(x.rename(std::vector<at::Dimname>{a, at::Dimname::wildcard()}).names()[1].isWildcard());
  EXPECT_THROW(x.refine_names({b, a}), c10::Error);
  EXPECT_THROW(x.refine_names({a}), c10::Error);
  const auto parts = torch::nn::Unflatten(torch::nn::UnflattenOptions("B", {{"C", 2}, {"D", 2}}))(x);
  EXPECT_EQ(parts.sizes(), at::IntArrayRef({2, 2, 2}));
  EXPECT_EQ(parts.names()[2], at::Dimname("D"));
  EXPECT_STREQ(at::Symbol::fromQualString("aten::add").toUnqualString(), "add");
  EXPECT_TRUE(at::Symbol::attr("x").is_attr());
  EXPECT_THROW(at::Symbol::fromQualString("add"), c10::Error);
}

TEST(Backends, AreDeviceAndLayout) {
  const auto t = at::getDeprecatedTypeProperties(at::Backend::SparseCPU, at::kByte);
  EXPECT_EQ(torch::empty({5}, t).layout(), at::kSparse);
  EXPECT_EQ(t.backend(), at::Backend::SparseCPU);
  EXPECT_EQ(torch::zeros({2}, at::CPU(at::kInt)).scalar_type(), at::kInt);
  EXPECT_EQ(torch::zeros({2}, torch::kMeta).type().backend(), at::Backend::Meta);
}

}  // namespace

TEST(Frontend, RegisterOperatorsDefinesAsLibraryBlocksDo) {
  const auto& dispatcher = c10::Dispatcher::singleton();
  const auto t = torch::ones({2});
  const auto shifted_op = dispatcher.findSchemaOrThrow("core_test_old::shifted", "");
  EXPECT_TRUE(torch::equal(shifted_op.typed<decltype(shifted)>().call(t, 2.0, 3), t + 6));
  EXPECT_EQ(c10::str(dispatcher.findSchemaOrThrow("core_test_old::inferred", "").schema()),
            "core_test_old::inferred(Tensor _0, float _1, int? _2) -> Tensor");
  const auto scaled =
      dispatcher.findSchemaOrThrow("core_test_old::scaled", "").typed<torch::Tensor(const torch::Tensor&)>();
  EXPECT_TRUE(torch::equal(scaled.call(t), t * 3));
  EXPECT_EQ(scaled.call(t.to(torch::kMeta)).dim(), 0);
  const auto fixed = dispatcher.findSchemaOrThrow("core_test_old::static_kernel", "");
  EXPECT_TRUE(torch::equal(fixed.typed<decltype(shifted)>().call(t, 1.0, std::nullopt), t + 1));
  torch::RegisterOperators more;
  EXPECT_THROW(more.op("no_namespace(Tensor t) -> Tensor", &shifted), c10::Error);
  EXPECT_THROW(more.op("core_test_old::nothing"), c10::Error);
}
