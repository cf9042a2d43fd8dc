// Many threads run what one program is made of, from its first call on; to be run with --config=tsan, too.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "jit/archive.h"
#include "jit/interpreter.h"
#include "jit/operator.h"
#include "jit/programs.h"
#include "tensor/ops/api.h"
#include "tensor/ops/ops_registry.h"

namespace tessera::jit {
namespace {

using Role = DataArchive::Role;

void from_threads(const std::function<void(int)>& work, int threads = 4) {
  std::vector<std::thread> all;
  for (int k = 0; k < threads; ++k) all.emplace_back(work, k);
  for (std::thread& t : all) t.join();
}
Value tensor(double x, std::vector<int64_t> sizes = {3, 4}) { return Value::of(Tensor(full(sizes, x))); }
double first(const Tensor& t) { return t.reshape({-1}).select(0, 0).item_scalar().to_double(); }

constexpr char kMethods[] =
    "def scaled(self, x, n: int):\n"
    "    return x * self.scale + n\n"
    "def forward(self, x, steps: int = 3, note: Optional[str] = None):\n"
    "    seen: Dict[str, int] = {}\n"
    "    parts = annotate(List[Tensor], [])\n"
    "    for k in range(steps):\n"
    "        x = torch.tanh(self.scaled(x, k)) * 2 + self.shift\n"  // a block program
    "        a, b = x.chunk(2, 1)\n"
    "        parts.append(torch.sigmoid(a) * torch.tanh(b))\n"
    "        seen['last'] = k\n"
    "    if note is not None and seen['last'] > 1:\n"
    "        raise ValueError(note)\n"
    "    return torch.cat(parts, 1), (seen['last'], [1.5, 2.5])\n";

Value module() {
  set_operators(registry_ops());
  Value m = programs::new_module("Shared");
  programs::add_member(m, "scale", Role::kParameter, tensor(0.5, {4}));
  programs::add_member(m, "shift", Role::kBuffer, tensor(0.25, {}));
  programs::add_methods(m, kMethods);
  return m;
}
void run_together(const Value& m) {
  std::vector<double> results(4);
  from_threads([&](int k) {
    for (int n = 0; n < 10; ++n) {
      const Value r = call_method(m, "forward", {tensor(0.1)}, {{"steps", Value::of(int64_t{4})}});
      const double x = first(as<Tuple>(r).items[0].tensor());
      if (!n) results[static_cast<size_t>(k)] = x;
      EXPECT_EQ(x, results[static_cast<size_t>(k)]);
      EXPECT_EQ(as<Tuple>(as<Tuple>(r).items[1]).items[0].integer(), 3);
      EXPECT_THROW(call_method(m, "forward", {tensor(0.1)}, {{"note", Value::of(std::string("stop"))}}), RunError);
      EXPECT_THROW(call_method(m, "forward", {Value::of(int64_t{1})}), Error);
    }
  });
  for (const double x : results) EXPECT_EQ(x, results[0]);
}

TEST(Threads, OneModuleFromItsFirstCallOn) { run_together(module()); }

TEST(Threads, OneArchive) {
  serialization::MemorySink sink;
  save_module(module(), sink, "m");
  const std::vector<uint8_t> bytes = sink.take();
  serialization::MemorySource source(bytes);
  run_together(load_module(source, {}));
}

TEST(Threads, LoadingWhileOthersRun) {
  const Value m = module();
  serialization::MemorySink sink;
  save_module(m, sink, "m");
  const std::vector<uint8_t> bytes = sink.take();
  from_threads([&](int k) {
    for (int n = 0; n < 5; ++n) {
      if (k % 2) {
        call_method(m, "forward", {tensor(0.1)});
        continue;
      }
      serialization::MemorySource source(bytes);
      const Value own = load_module(source, {});
      call_method(own, "forward", {tensor(0.1)});
      serialization::MemorySink again;
      save_module(m, again, "m");
    }
  });
}

TEST(Threads, FunctionsThatForkAndFunctionsThatAreAdded) {
  set_operators(registry_ops());
  const IntrusivePtr<RefCounted> f = programs::compile(
      "def part(x, n: int):\n    return torch.abs(x + n)\n"
      "def f(x):\n"
      "    a = torch.fork(part, x, 1)\n"
      "    b = torch.fork(part, x, 2)\n"
      "    return torch.wait(a) + torch.wait(b)\n");
  from_threads([&](int k) {
    for (int n = 0; n < 10; ++n) {
      EXPECT_EQ(first(programs::call_function(*f, "f", {tensor(1)}).tensor()), 5.0);
      const IntrusivePtr<RefCounted> own = programs::compile("def g(x, y: List[int]):\n    return x * y[0]\n");
      std::vector<Value> items = {Value::of(int64_t{k})};
      const Value list = make_value<List>(int_type(), std::move(items));
      EXPECT_EQ(first(programs::call_function(*own, "g", {tensor(2), list}).tensor()), 2.0 * k);
    }
  });
}

}  // namespace
}  // namespace tessera::jit
