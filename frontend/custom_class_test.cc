// torch::class_: classes of C++ in scripts, archives, operators and stacks of values.
#include <gtest/gtest.h>
#include <torch/script.h>
#include <torch/torch.h>

#include "jit/interpreter.h"
#include "jit/source/sugar.h"
#include "tensor/ops/ops_registry.h"

namespace {

struct Counter : torch::CustomClassHolder {
  int64_t count = 0;
  double step = 1.0;
  std::string name;
  static inline int alive = 0;
  Counter(int64_t n, std::string s) : count(n), name(std::move(s)) { ++alive; }
  ~Counter() override { --alive; }
  int64_t add(int64_t n, int64_t times) { return count += n * times; }
  at::Tensor times(const at::Tensor& x) const { return x * static_cast<double>(count); }
  void merge(const c10::intrusive_ptr<Counter>& other) noexcept { count += other->count; }
  c10::intrusive_ptr<Counter> twin() const { return c10::make_intrusive<Counter>(count, name + "'"); }
  std::tuple<std::string, std::vector<int64_t>> state() const { return {name, {count, count + 1}}; }
  int64_t total(std::vector<std::string> keys, c10::Dict<std::string, int64_t> table, at::IntArrayRef more) {
    int64_t sum = 0;
    for (const auto& k : keys) sum += table.at(k);
    for (int64_t m : more) sum += m;
    return sum;
  }
};
struct Unknown : torch::CustomClassHolder {};

int64_t count_of(const c10::intrusive_ptr<Counter>& c) { return c->count; }
c10::intrusive_ptr<Counter> counter(int64_t n) { return c10::make_intrusive<Counter>(n, "made"); }
c10::Dict<std::string, at::Tensor> doubled(c10::Dict<std::string, at::Tensor> in,
                                           std::vector<std::tuple<std::string, int64_t>> factors) {
  c10::Dict<std::string, at::Tensor> out;
  for (const auto& [key, factor] : factors) out.insert(key, in.at(key) * factor);
  return out;
}

TORCH_LIBRARY(counting, m) {
  m.class_<Counter>("Counter", "Counts.")
      .def(torch::init<int64_t, std::string>(), "", {torch::arg("n") = 0, torch::arg("name") = "c"})
      .def("add", &Counter::add, "", {torch::arg("n"), torch::arg("times") = 1})
      .def("times", &Counter::times)
      .def("merge", &Counter::merge)
      .def("twin", &Counter::twin)
      .def("state", &Counter::state)
      .def("total", &Counter::total)
      .def("label", [](const c10::intrusive_ptr<Counter>& self) { return "<" + self->name + ">"; })
      .def("other", [](const c10::intrusive_ptr<Counter>&, std::optional<int64_t> n) { return n; })
      .def_static("zero", []() { return c10::make_intrusive<Counter>(0, "zero"); })
      .def_readwrite("step", &Counter::step)
      .def_readonly("count", &Counter::count)
      .def_property(
          "name", [](const c10::intrusive_ptr<Counter>& self) { return self->name; },
          [](const c10::intrusive_ptr<Counter>& self, std::string s) { self->name = std::move(s); })
      ._def_unboxed(
          "plus",
          [](torch::jit::Stack& stack) {
            const int64_t n = torch::jit::pop(stack).toInt();
            const auto self = torch::jit::pop(stack).toCustomClass<Counter>();
            torch::jit::push(stack, self->count + n);
          },
          torch::jit::parseSchema("plus(__torch__.torch.classes.counting.Counter self, int n) -> int"))
      .def_pickle([](const c10::intrusive_ptr<Counter>& self) { return self->state(); },
                  [](std::tuple<std::string, std::vector<int64_t>> s) {
                    return c10::make_intrusive<Counter>(std::get<1>(s)[0], std::get<0>(s));
                  });
  m.def("count_of", &count_of);
  m.def("counter(int n) -> __torch__.torch.classes.counting.Counter", &counter);
  m.def("doubled", &doubled);
}

struct Names final : tessera::jit::Resolver {
  bool resolve(const std::string& name, const tessera::jit::Range&, tessera::jit::Sugar* out) override {
    using tessera::jit::Sugar;
    if (name == "Counter") {
      *out = Sugar::of_type(tessera::jit::custom::find("__torch__.torch.classes.counting.Counter")->type);
      return true;
    }
    for (const char* op : {"count_of", "counter", "doubled"})
      if (name == op) return *out = Sugar(Sugar::kOp, std::string("counting::") + op), true;
    return false;
  }
};

tessera::jit::Function* compiled(const std::string& text) {
  tessera::jit::set_operators(tessera::registry_ops());
  static auto* unit = new tessera::jit::Unit;
  tessera::jit::Source& s = unit->add_source(text, "test.py", 1);
  return tessera::jit::define(*unit, *tessera::jit::parse_source(s)->kids.back(), unit->unique_name("__torch__.f"),
                              tessera::make_intrusive<Names>());
}
c10::IValue run(const std::string& text, std::vector<c10::IValue> args) {
  std::vector<tessera::Value> values;
  for (const auto& a : args) values.push_back(tessera::jit::value_of(c10::objects::to_datum(a)));
  return c10::objects::from_object(tessera::jit::call(*compiled(text), std::move(values)));
}

TEST(CustomClass, ScriptsMakeAndCallObjects) {
  EXPECT_EQ(
      run("def f(n: int) -> int:\n  c = Counter(n, 'a')\n  c.add(2)\n  c.add(2, times=3)\n  return c.add(0)\n", {1})
          .toInt(),
      9);
  EXPECT_EQ(run("def f() -> str:\n  return Counter().label()\n", {}).toStringRef(), "<c>");
  EXPECT_EQ(run("def f() -> int:\n  return Counter.zero().add(n=4)\n", {}).toInt(), 4);
  EXPECT_EQ(run("def f() -> int:\n  return Counter(3, 'x').plus(5)\n", {}).toInt(), 8);
  EXPECT_EQ(run("def f() -> int:\n  c = Counter(1)\n  n = c.other(None)\n  return 7 if n is None else n\n", {}).toInt(),
            7);
  EXPECT_EQ(Counter::alive, 0);
}

TEST(CustomClass, PropertiesAreReadAndWritten) {
  const auto c = c10::make_intrusive<Counter>(2, "p");
  run("def f(c: Counter) -> None:\n  c.step = c.step + 1.5\n  c.name = c.name + 'q'\n", {c10::IValue(c)});
  EXPECT_EQ(c->step, 2.5);
  EXPECT_EQ(c->name, "pq");
  EXPECT_EQ(run("def f(c: Counter) -> int:\n  return c.count\n", {c10::IValue(c)}).toInt(), 2);
  EXPECT_THROW(run("def f(c: Counter) -> None:\n  c.count = 3\n", {c10::IValue(c)}), tessera::Error);
}

TEST(CustomClass, ContainersAndObjectsAreArgumentsAndResults) {
  const auto state =
      run("def f(c: Counter):\n  return c.state()\n", {c10::IValue(c10::make_intrusive<Counter>(4, "s"))});
  EXPECT_EQ(state.toTupleRef().elements()[0].toStringRef(), "s");
  EXPECT_EQ(state.toTupleRef().elements()[1].toIntVector(), (std::vector<int64_t>{4, 5}));
  EXPECT_EQ(run("def f() -> int:\n  return Counter().total(['a', 'b'], {'a': 1, 'b': 10, 'c': 9}, [100, 1000])\n", {})
                .toInt(),
            1111);
  const auto c = c10::make_intrusive<Counter>(1, "c");
  const auto twin =
      run("def f(c: Counter):\n  d = c.twin()\n  d.merge(c)\n  c.merge(d)\n  return d\n", {c10::IValue(c)})
          .toCustomClass<Counter>();
  EXPECT_EQ(twin->count, 2);
  EXPECT_EQ(twin->name, "c'");
  EXPECT_EQ(c->count, 3);
}

TEST(CustomClass, OperatorsTakeAndGiveObjectsAndContainers) {
  EXPECT_EQ(run("def f() -> int:\n  c = counter(5)\n  c.add(1)\n  return count_of(c)\n", {}).toInt(), 6);
  auto op = c10::Dispatcher::singleton().findSchemaOrThrow("counting::count_of", "");
  EXPECT_EQ(c10::str(op.schema()), "counting::count_of(__torch__.torch.classes.counting.Counter _0) -> int");
  EXPECT_EQ(op.typed<int64_t(const c10::intrusive_ptr<Counter>&)>().call(c10::make_intrusive<Counter>(8, "")), 8);
  torch::jit::Stack stack = {torch::make_custom_class<Counter>(9, "on a stack")};
  op.callBoxed(&stack);
  EXPECT_EQ(stack.at(0).toInt(), 9);
  EXPECT_THROW(run("def f(x: Tensor) -> int:\n  return count_of(x)\n", {at::ones({1})}), tessera::Error);

  c10::Dict<std::string, at::Tensor> in;
  in.insert("a", at::ones({2}));
  in.insert("b", at::ones({2}) * 2);
  const auto out = run("def f(d: Dict[str, Tensor]):\n  return doubled(d, [('b', 3), ('a', 5)])\n", {c10::IValue(in)})
                       .to<c10::Dict<std::string, at::Tensor>>();
  EXPECT_EQ(out.at("b").sum().item<float>(), 12);
  EXPECT_EQ(out.at("a").sum().item<float>(), 10);
  stack = {c10::IValue(in), c10::IValue(std::vector<std::tuple<std::string, int64_t>>{{"a", 4}})};
  c10::Dispatcher::singleton().findSchemaOrThrow("counting::doubled", "").callBoxed(&stack);
  EXPECT_EQ(stack.at(0).toGenericDict().size(), 1u);
}

TEST(CustomClass, ObjectsAreCopiedByTheirState) {
  tessera::Value v = tessera::jit::custom::wrap(c10::make_intrusive<Counter>(6, "copied"));
  const tessera::Value copy = tessera::jit::deep_copy(v);
  auto* c = dynamic_cast<Counter*>(tessera::jit::custom::held(copy.object()));
  ASSERT_TRUE(c);
  EXPECT_NE(c, tessera::jit::custom::held(v.object()));
  EXPECT_EQ(c->count, 6);
  EXPECT_EQ(c->name, "copied");
}

TEST(CustomClass, MisuseIsAnError) {
  EXPECT_THROW(torch::class_<Counter>("counting", "Again"), tessera::Error);
  EXPECT_THROW(torch::class_<Unknown>("counting", "Counter"), tessera::Error);
  EXPECT_THROW(torch::class_<Unknown>("counting", "no name"), tessera::Error);
  EXPECT_THROW(torch::make_custom_class<Unknown>(), tessera::Error);
  EXPECT_THROW(c10::getCustomClassType<c10::intrusive_ptr<Unknown>>(), tessera::Error);
  EXPECT_FALSE(torch::getCustomClass("__torch__.torch.classes.counting.Nothing"));
  EXPECT_EQ(torch::getCustomClass("__torch__.torch.classes.counting.Counter")->str(),
            "__torch__.torch.classes.counting.Counter");
  const c10::IValue value = torch::make_custom_class<Counter>(1, "v");
  EXPECT_TRUE(torch::isCustomClass(value));
  EXPECT_THROW(value.toCustomClass<Unknown>(), tessera::Error);
  EXPECT_THROW(run("def f() -> int:\n  return Counter(1, 2).count\n", {}), tessera::Error);
  EXPECT_THROW(run("def f() -> int:\n  return Counter().nothing()\n", {}), tessera::Error);
}

}  // namespace
