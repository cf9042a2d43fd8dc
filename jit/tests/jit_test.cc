#include <gtest/gtest.h>

#include <random>
#include <thread>

#include "jit/archive.h"
#include "jit/interpreter.h"
#include "jit/operator.h"
#include "jit/passes.h"
#include "jit/source/sugar.h"
#include "tensor/ops/api.h"
#include "tensor/ops/ops_registry.h"

namespace tessera::jit {
namespace {

struct TorchNames final : Resolver {
  bool resolve(const std::string& name, const Range&, Sugar* out) override {
    if (name == "torch") return *out = Sugar(Sugar::kNamespace, "torch"), true;
    if (name.starts_with("torch.")) return *out = Sugar(Sugar::kOp, "aten::" + name.substr(6)), true;
    return false;
  }
};

Function* compiled(const std::string& text) {
  set_operators(registry_ops());
  static auto* unit = new Unit;
  Source& s = unit->add_source(text, "test.py", 1);
  const Ast* module = parse_source(s);
  return define(*unit, *module->kids.back(), unit->unique_name("__torch__.f"), make_intrusive<TorchNames>());
}
int64_t run_int(const std::string& text, std::vector<Value> args) {
  return call(*compiled(text), std::move(args)).integer();
}
Value i(int64_t v) { return Value::of(v); }

TEST(Jit, LoopsLeaveEarly) {
  const std::string f =
      "def f(n: int) -> int:\n"
      "    s = 0\n"
      "    for k in range(n):\n"
      "        if k == 2:\n"
      "            continue\n"
      "        if k == 5:\n"
      "            break\n"
      "        if k == 7:\n"
      "            return -1\n"
      "        s += k\n"
      "    while s > 3:\n"
      "        s -= 3\n"
      "        if s == 5:\n"
      "            return 100\n"
      "    return s\n";
  EXPECT_EQ(run_int(f, {i(3)}), 1);
  EXPECT_EQ(run_int(f, {i(10)}), 100);  // 0 + 1 + 3 + 4, minus 3
}

TEST(Jit, BranchesAgreeOnTypes) {
  EXPECT_EQ(run_int("def f(c: bool) -> int:\n    x = 1 if c else 2\n    return x\n", {Value::of(true)}), 1);
  EXPECT_THROW(
      compiled("def f(c: bool):\n    if c:\n        r = 1\n    else:\n        r = 's'\n    return r\n")->ensure_graph(),
      CompileError);
  EXPECT_THROW(compiled("def f(c: bool):\n    if c:\n        r = 1\n    return r\n")->ensure_graph(), CompileError);
  EXPECT_THROW(compiled("def f(x: int) -> str:\n    return x\n")->ensure_graph(), CompileError);
}

TEST(Jit, RefinesOptionals) {
  const std::string f =
      "def f(x: Optional[int]) -> int:\n    if x is not None and x > 2:\n        return x\n    return 0\n";
  EXPECT_EQ(run_int(f, {Value()}), 0);
  EXPECT_EQ(run_int(f, {i(7)}), 7);
}

TEST(Jit, ContainersAreShared) {
  EXPECT_EQ(run_int("def f(n: int) -> int:\n    a = [1, 2]\n    b = a\n    b.append(n)\n    d = {'k': a}\n    return "
                    "len(d['k']) + sum(a)\n",
                    {i(4)}),
            10);
}

TEST(Jit, TensorsRunWithoutAnything) {
  Function* f = compiled("def f(x, n: int):\n    for i in range(n):\n        x = x * 2 + i\n    return x\n");
  const Value r = call(*f, {Value::of(Tensor(ones({2}))), i(3)});
  EXPECT_EQ(r.tensor().select(0, 0).item_scalar().to_double(), 12.0);
  std::vector<std::thread> threads;
  for (int k = 0; k < 4; ++k)
    threads.emplace_back([f] {
      for (int n = 0; n < 20; ++n) call(*f, {Value::of(Tensor(ones({2}))), i(3)});
    });
  for (std::thread& t : threads) t.join();
}

TEST(Jit, RaisesWithThePlace) {
  Function* f = compiled("def f(x: int) -> int:\n    if x < 0:\n        raise ValueError('negative')\n    return x\n");
  EXPECT_EQ(call(*f, {i(1)}).integer(), 1);
  try {
    call(*f, {i(-1)});
    FAIL();
  } catch (const RunError& e) {
    EXPECT_TRUE(e.raised());
    EXPECT_NE(std::string(e.what()).find("line 3"), std::string::npos);
    EXPECT_NE(std::string(e.what()).find("builtins.ValueError: negative"), std::string::npos);
  }
}

TEST(Jit, ArchivesComeBack) {
  Function* f = compiled("def f(x, n: int):\n    while n > 0:\n        x = x + 1\n        n -= 1\n    return x\n");
  serialization::MemorySink sink;
  save(module_of(*f), sink, "m", {{"note", "text"}});
  const std::vector<uint8_t> bytes = sink.take();
  serialization::MemorySource source(bytes);
  const Loaded loaded = load(source, {}, {"note"});
  EXPECT_EQ(loaded.extra.at("note"), "text");
  Function* g = as<Instance>(loaded.module).def->method("forward");
  const Value r = call(*g, {loaded.module, Value::of(Tensor(ones({1}))), i(3)});
  EXPECT_EQ(r.tensor().item_scalar().to_double(), 4.0);
}

// Whatever is in a text or an archive: an error, never more.
TEST(Jit, BrokenTextsAreErrors) {
  const std::string good =
      "def f(x: Optional[int], y: List[str] = []) -> Tuple[int, str]:\n    z = {1: 'a', 2: \"b\"}\n    for i, (a, b) "
      "in enumerate(zip([1], [2])):\n"
      "        if i is not None and not a in [1, 2]:\n            z[a] = f'{b}x' % (1,)\n    return (1, y[-1:][0])\n";
  std::mt19937 random(7);
  int errors = 0;
  for (int k = 0; k < 3000; ++k) {
    std::string text = good;
    for (int n = 0; n < 3; ++n) {
      const size_t at = random() % text.size();
      switch (random() % 3) {
        case 0:
          text.erase(at, 1 + random() % 5);
          break;
        case 1:
          text.insert(at, std::string(1, "()[]{}:,.=+-*'\"\n #@"[random() % 19]));
          break;
        default:
          text[at] = static_cast<char>(random() % 128);
      }
    }
    try {
      Unit unit;
      parse_source(unit.add_source(text, "fuzz.py", 1));
    } catch (const Error&) { ++errors; }
  }
  EXPECT_GT(errors, 100);
}
TEST(Jit, BrokenArchivesAreErrors) {
  Function* f = compiled("def f(x):\n    return x + 1\n");
  serialization::MemorySink sink;
  save(module_of(*f), sink, "m");
  const std::vector<uint8_t> good = sink.take();
  std::mt19937 random(3);
  int errors = 0;
  for (int k = 0; k < 2000; ++k) {
    std::vector<uint8_t> bad = good;
    for (int n = 0; n < 2; ++n) bad[random() % bad.size()] = static_cast<uint8_t>(random());
    if (random() % 3 == 0) bad.resize(random() % bad.size());
    try {
      serialization::MemorySource source(bad);
      load(source);
    } catch (const Error&) { ++errors; }
  }
  EXPECT_GT(errors, 500);
}

}  // namespace
}  // namespace tessera::jit
