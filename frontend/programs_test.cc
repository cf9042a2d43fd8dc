// Functions and modules that are made from text in C++, types and futures.
#include <gtest/gtest.h>
#include <torch/script.h>

#include <ATen/core/ivalue_future.h>
#include <c10/util/Registry.h>
#include <c10/util/ScopeExit.h>
#include <c10/util/env.h>
#include <c10/util/overloaded.h>
#include <c10/util/strides.h>

#include <thread>

namespace {

TEST(Programs, FunctionsOfASource) {
  const auto unit = torch::jit::compile(
      "def half(x, k: float = 2.0):\n  return x / k\n"
      "def all(xs: List[Tensor]) -> Tuple[Tensor, int]:\n  return half(torch.stack(xs)), len(xs)\n");
  EXPECT_EQ(unit->run_method("half", torch::ones(2), 4.0).toTensor()[1].item<float>(), 0.25f);
  EXPECT_EQ(unit->get_function("half")({torch::ones(1)}, {{"k", 5.0}}).toTensor().item<float>(), 0.2f);
  const auto both = unit->run_method("all", std::vector<at::Tensor>{torch::ones(1), torch::ones(1)}).toTuple();
  EXPECT_EQ(both->elements()[0].toTensor().sizes(), (std::vector<int64_t>{2, 1}));
  EXPECT_EQ(both->elements()[1].toInt(), 2);
  EXPECT_EQ(c10::str(unit->get_function("half").getSchema()), "half(Tensor x, float k=2.) -> Tensor");
  EXPECT_NE(unit->get_function("half").graph()->toString().find("aten::div"), std::string::npos);
  unit->define("def again(x):\n  return half(half(x))\n");
  EXPECT_EQ(unit->run_method("again", torch::ones(1)).toTensor().item<float>(), 0.25f);
  EXPECT_EQ(unit->get_functions().size(), 3u);
}

TEST(Programs, WhatDoesNotCompileChangesNothing) {
  const auto unit = torch::jit::compile("def f(x):\n  return x\n");
  EXPECT_THROW(unit->define("def g(x):\n  return nothing(x)\n"), c10::Error);
  EXPECT_THROW(unit->define("def g(x):\n  return x +\n"), c10::Error);
  EXPECT_THROW(unit->define("def f(x):\n  return x\n"), c10::Error);
  EXPECT_THROW(unit->define("x = 3\n"), c10::Error);
  EXPECT_THROW(unit->define(""), c10::Error);
  EXPECT_EQ(unit->get_functions().size(), 1u);
  EXPECT_THROW(unit->run_method("g", torch::ones(1)), c10::Error);
  EXPECT_THROW(unit->run_method("f"), c10::Error);
  EXPECT_THROW(unit->run_method("f", 3), c10::Error);
  EXPECT_THROW(unit->run_method("f", torch::ones(1), torch::ones(1)), c10::Error);
  EXPECT_THROW(unit->get_function("f")({torch::ones(1)}, {{"y", 1}}), c10::Error);
  EXPECT_THROW(unit->get_function("f")({torch::ones(1)}, {{"x", torch::ones(1)}}), c10::Error);
}

torch::jit::Module scaled() {
  torch::jit::Module m("Scaled");
  m.register_parameter("w", torch::full({2}, 3.0), false);
  m.register_buffer("b", torch::ones(2));
  m.register_attribute("k", c10::IntType::get(), 5);
  m.register_attribute("names", c10::ListType::create(c10::StringType::get()), std::vector<std::string>());
  m.define(
      "def forward(self, x, y: Optional[Tensor] = None):\n"
      "  if y is not None:\n    x = x + y\n"
      "  return self.scale(x) + self.b\n"
      "def scale(self, x):\n  return x * self.w * self.k\n");
  return m;
}

TEST(Programs, AModuleOfParts) {
  torch::jit::Module m = scaled();
  EXPECT_EQ(m.forward({torch::ones(2)}).toTensor()[0].item<float>(), 16.0f);
  EXPECT_EQ(m.run_method("forward", torch::ones(2), torch::ones(2)).toTensor()[0].item<float>(), 31.0f);
  EXPECT_EQ(m.named_parameters().size(), 1u);
  EXPECT_EQ(m.named_buffers().size(), 1u);
  EXPECT_EQ(m.type()->name()->name(), "Scaled");
  m.setattr("k", 1);
  EXPECT_EQ(m.forward({torch::ones(2)}).toTensor()[0].item<float>(), 4.0f);
  torch::jit::Module whole("Whole");
  whole.register_module("inner", m);
  whole.define("def forward(self, x):\n  return self.inner.forward(x) * 2\n");
  EXPECT_EQ(whole.forward({torch::ones(2)}).toTensor()[0].item<float>(), 8.0f);
  int seen = 0;
  whole.apply([&](torch::jit::Module&) { ++seen; });
  EXPECT_EQ(seen, 2);
}

TEST(Programs, AModuleIsSavedAndFrozen) {
  torch::jit::Module m = scaled();
  std::stringstream file;
  m.save(file);
  torch::jit::Module read = torch::jit::load(file);
  EXPECT_EQ(read.forward({torch::ones(2)}).toTensor()[0].item<float>(), 16.0f);
  EXPECT_EQ(read.attr("names").toListRef().size(), 0u);
  EXPECT_THROW(torch::jit::freeze(read), c10::Error);  // in training mode
  read.eval();
  torch::jit::Module frozen = torch::jit::freeze(read, std::vector<std::string>{"scale"});
  EXPECT_EQ(frozen.forward({torch::ones(2)}).toTensor()[0].item<float>(), 16.0f);
  EXPECT_FALSE(frozen.hasattr("w"));
  EXPECT_TRUE(frozen.find_method("scale"));
}

TEST(Programs, MisuseOfModulesIsAnError) {
  torch::jit::Module m = scaled();
  EXPECT_THROW(m.register_buffer("w", torch::ones(1)), c10::Error);
  EXPECT_THROW(m.register_attribute("n", c10::IntType::get(), "text"), c10::Error);
  EXPECT_THROW(m.define("def forward(self, x):\n  return x\n"), c10::Error);
  EXPECT_THROW(m.define("def more(self, x):\n  return self.nothing\n"), c10::Error);
  EXPECT_FALSE(m.find_method("more"));
  EXPECT_THROW(torch::jit::Module(""), c10::Error);
}

TEST(Values, KnowTheirTypes) {
  using c10::IValue;
  EXPECT_EQ(IValue(3).type()->str(), "int");
  EXPECT_EQ(IValue(2.5).type()->str(), "float");
  EXPECT_EQ(IValue("s").type()->str(), "str");
  EXPECT_EQ(IValue(torch::ones(1)).type()->str(), "Tensor");
  EXPECT_EQ(IValue(std::vector<int64_t>{1}).type()->str(), "int[]");
  EXPECT_EQ(IValue(std::vector<std::string>{"a"}).type()->str(), "str[]");
  EXPECT_EQ(IValue(std::make_tuple(1, "a")).type()->str(), "(int, str)");
  c10::Dict<std::string, int64_t> d;
  d.insert("a", 1);
  EXPECT_EQ(IValue(d).type()->str(), "Dict(str, int)");
  EXPECT_EQ(c10::DictType::create(c10::StringType::get(), c10::ListType::ofInts())->str(), "Dict(str, int[])");
  EXPECT_EQ(c10::OptionalType::ofTensor()->str(), "Tensor?");
  EXPECT_EQ(c10::ListType::create(c10::OptionalType::ofTensor())->annotation_str(), "List[Optional[Tensor]]");
  EXPECT_EQ(c10::str(IValue(std::complex<double>(1, -2.5))), "1.-2.5j");
  EXPECT_EQ(c10::TupleType::create({c10::IntType::get(), c10::FloatType::get()})->str(), "(int, float)");
}

TEST(Values, AreCopiedWithWhatTheyHold) {
  const at::Tensor t = torch::ones(1);
  const c10::IValue both(std::make_tuple(t, t));
  const c10::IValue copy = both.deepcopy();
  copy.toTupleRef().elements()[0].toTensor().fill_(5);
  EXPECT_EQ(t.item<float>(), 1.0f);
  EXPECT_EQ(copy.toTupleRef().elements()[1].toTensor().item<float>(), 5.0f);  // one tensor, twice
  c10::impl::GenericDict d(c10::StringType::get(), c10::TensorType::get());
  d.insert("k", t);
  const c10::IValue held(d);
  EXPECT_FALSE(held.deepcopy().toGenericDict().at("k").toTensor().is_same(t));
  EXPECT_EQ(c10::IValue::hash(3), c10::IValue::hash(3));
  EXPECT_THROW(c10::IValue::hash(held), c10::Error);
}

TEST(Values, Futures) {
  auto later = c10::make_intrusive<c10::ivalue::Future>(c10::IntType::get());
  int seen = 0;
  later->addCallback([&](c10::ivalue::Future& f) { seen = static_cast<int>(f.value().toInt()); });
  auto next = later->then([](c10::ivalue::Future& f) { return f.value().toInt() + 1; }, c10::IntType::get());
  auto failed =
      later->then([](c10::ivalue::Future&) -> c10::IValue { throw std::runtime_error("no"); }, c10::NoneType::get());
  EXPECT_THROW(later->value(), c10::Error);
  std::thread([&] { later->markCompleted(4); }).join();
  later->wait();
  EXPECT_EQ(seen, 4);
  EXPECT_EQ(next->value().toInt(), 5);
  EXPECT_TRUE(failed->hasError());
  EXPECT_THROW(failed->waitAndThrow(), std::runtime_error);
  EXPECT_THROW(later->markCompleted(5), c10::Error);
}

TEST(Warnings, GoToTheHandlerOfTheThread) {
  struct Keep : c10::WarningHandler {
    std::vector<std::string> all;
    void process(const c10::Warning& w) override { all.push_back(w.msg()); }
  } keep;
  {
    const c10::WarningUtils::WarningHandlerGuard guard(&keep);
    TORCH_WARN("careful ", 1);
    for (int i = 0; i < 2; ++i) TORCH_WARN_ONCE("once");
    TORCH_WARN_DEPRECATION("old");
  }
  EXPECT_EQ(keep.all, (std::vector<std::string>{"careful 1", "once", "old"}));
  EXPECT_NE(c10::WarningUtils::get_warning_handler(), &keep);
}

struct Shape {
  virtual ~Shape() = default;
  virtual int sides() const = 0;
};
struct Square : Shape {
  int sides() const override { return 4; }
};
C10_DECLARE_REGISTRY(Shapes, Shape);
C10_DEFINE_REGISTRY(Shapes, Shape);
C10_REGISTER_CLASS(Shapes, square, Square);

TEST(Utilities, DoWhatTheySay) {
  EXPECT_TRUE(Shapes()->Has("square"));
  EXPECT_EQ(Shapes()->Create("square")->sides(), 4);
  EXPECT_EQ(Shapes()->Create("circle"), nullptr);
  EXPECT_THROW(Shapes()->Register("square", [] { return std::make_unique<Square>(); }), c10::Error);
  int ran = 0;
  {
    const auto one = c10::make_scope_exit([&] { ++ran; });
    auto two = c10::make_scope_exit([&] { ran += 10; });
    two.release();
  }
  EXPECT_EQ(ran, 1);
  const std::variant<int, float> v = 2;
  EXPECT_EQ(std::visit(c10::overloaded([](int) { return 'i'; }, [](float) { return 'f'; }), v), 'i');
  EXPECT_EQ(c10::contiguous_strides({2, 0, 3}), (std::vector<int64_t>{3, 3, 1}));
  EXPECT_FALSE(c10::utils::has_env("TESSERA_NO_SUCH_NAME"));
  EXPECT_EQ(at::ones({2, 3, 4}).mT().sizes(), (std::vector<int64_t>{2, 4, 3}));
  at::globalContext().setDeterministicAlgorithms(true, false);
  EXPECT_TRUE(at::globalContext().deterministicAlgorithms());
  at::globalContext().setDeterministicAlgorithms(false, false);
}

}  // namespace
