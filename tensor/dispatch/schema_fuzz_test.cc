// Feeds the schema parser with random and mutated text for TESSERA_FUZZ_SECONDS (default 3): it returns a schema that
// prints and parses back to an equal one, or throws SchemaError. TESSERA_FUZZ_SEED repeats a run.
#include <chrono>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tensor/dispatch/schema.h"

namespace tessera {
namespace {

const char* const kSeeds[] = {"aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
                              "sort.values(Tensor self, int dim=-1, bool descending=False, *, Tensor(a!) values, "
                              "Tensor(b!) indices) -> (Tensor(a!) values, Tensor(b!) indices)",
                              "f(Tensor(a! -> a|b)[] x, Scalar y=1.5, complex c=1.-2.j, float? z=1, float big=1e+30, "
                              "str s=\"a\\n\\001\\\"\") -> (Tensor, int n)",
                              "g(Dict(str, Tensor)(a) self, Future(t) f, (int, Tensor)[] x, SymInt[2]? s=[1, 2], "
                              "ScalarType d=long, Device e=cuda:1, ...) -> ((str, t)[])",
                              "h(__torch__.torch.classes.ns.Thing x, Union(int, str) u, Layout l=strided, "
                              "MemoryFormat? m=None, int?[] n=[None, 2], *, bool[3] b=True) -> ..."};
const char* const kPieces[] = {
    "Tensor", "int",    "float", "SymInt", "(a!)", "(a -> *)", "[]",    "?",       "[3]",  "=",
    "None",   "[1, 2]", "1e-05", "-",      "->",   "::",       ".",     "...",     ", ",   "(",
    ")",      "*",      " x",    "\"",     "'",    "\\",       "Dict(", "Mean",    "True", "99999999999999999999",
    "1e999",  "nan",    "|",     "!",      "j",    "#",        "\n",    "float32", "0"};

double seconds() {
  const char* s = std::getenv("TESSERA_FUZZ_SECONDS");
  return s ? std::atof(s) : 3.0;
}

std::string next_input(std::mt19937_64& rng) {
  auto below = [&](size_t n) { return static_cast<size_t>(rng() % n); };
  std::string s = below(8) ? kSeeds[below(std::size(kSeeds))] : "";
  if (s.empty()) {
    for (size_t n = below(60); n; --n) s += kPieces[below(std::size(kPieces))];
    return below(2) ? "f(" + s + ") -> Tensor" : s;
  }
  for (size_t n = 1 + below(6); n; --n) {
    const size_t at = below(s.size() + 1);
    switch (below(6)) {
      case 0:
        s.insert(at, 1, static_cast<char>(rng()));
        break;
      case 1:
        if (at < s.size()) s[at] = static_cast<char>(below(2) ? rng() : 32 + below(95));
        break;
      case 2:
        s.erase(at, 1 + below(8));
        break;
      case 3:
        s.insert(at, kPieces[below(std::size(kPieces))]);
        break;
      case 4:
        s.insert(at, s.substr(below(s.size() + 1), 1 + below(30)));
        break;
      default:
        s = s.substr(0, at) + std::string(kSeeds[below(std::size(kSeeds))]).substr(below(40));
        break;
    }
  }
  return s;
}

TEST(SchemaFuzz, ParsesOrThrowsSchemaError) {
  const char* seed_text = std::getenv("TESSERA_FUZZ_SEED");
  std::mt19937_64 rng(seed_text ? std::strtoull(seed_text, nullptr, 10) : 20240607);
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds());
  size_t total = 0, good = 0;
  while (std::chrono::steady_clock::now() < end) {
    for (int i = 0; i < 200; ++i, ++total) {
      const std::string input = next_input(rng);
      try {
        const FunctionSchema s = parse_schema(input);
        ASSERT_EQ(parse_schema(s.str()).str(), s.str()) << input;
        ++good;
      } catch (const SchemaError& e) {
        ASSERT_LE(e.offset(), input.size()) << input;
        ASSERT_FALSE(e.reason().empty()) << input;
      }
    }
  }
  RecordProperty("inputs", static_cast<int>(total));
  EXPECT_GT(good, total / 100);  // the mutations must not be so wild that only errors are tested
}

}  // namespace
}  // namespace tessera
