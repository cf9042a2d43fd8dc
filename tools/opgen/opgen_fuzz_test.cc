// Mutated tables for TESSERA_FUZZ_SECONDS (default 3): the reader reports errors with a line or accepts, and whatever
// it accepts can be generated. Never a crash.
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <random>
#include <sstream>
#include <string>

#include "gtest/gtest.h"
#include "tools/opgen/generate.h"

namespace tessera::opgen {
namespace {

std::string seed_table() {
  std::ifstream f("tools/opgen/testdata/toy.textproto");
  std::stringstream text;
  text << f.rdbuf();
  return text.str();
}

const char* const kPieces[] = {"Tensor",
                               "Tensor?",
                               "Tensor[]",
                               "(a!)",
                               "self",
                               "grad",
                               "grads[0]",
                               "result",
                               "OUT",
                               "INPLACE",
                               "METHOD",
                               "VIEW",
                               "STRUCTURED",
                               "COMPOSITE",
                               "DIRECT",
                               "{",
                               "}",
                               "(",
                               ")",
                               "\"",
                               ",",
                               "[",
                               "]",
                               ".sizes()",
                               "out",
                               "-> ()",
                               "-> (Tensor, Tensor)",
                               "-> Tensor[]",
                               "true",
                               "op {",
                               "node: \"a b\"",
                               "of: \"toy_add.Tensor\"",
                               "expr: \"\"",
                               "*, ",
                               "=None",
                               "1e9"};

void mutate(std::string* s, std::mt19937_64* rng) {
  auto below = [&](size_t n) { return static_cast<size_t>((*rng)() % n); };
  const size_t at = below(s->size() + 1);
  switch (below(5)) {
    case 0:
      s->insert(at, kPieces[below(std::size(kPieces))]);
      break;
    case 1:
      s->erase(at, 1 + below(12));
      break;
    case 2:
      if (at < s->size()) (*s)[at] = static_cast<char>(32 + below(95));
      break;
    case 3:
      s->insert(at, s->substr(below(s->size() + 1), 1 + below(80)));
      break;
    default: {  // a word for another one of the table
      const size_t from = below(s->size() + 1);
      s->replace(at, std::min<size_t>(5, s->size() - at), s->substr(from, 5));
    }
  }
}

TEST(OpgenFuzz, ReportsOrGenerates) {
  const std::string seed = seed_table();
  ASSERT_GT(seed.size(), 1000u);
  const char* seconds = std::getenv("TESSERA_FUZZ_SECONDS");
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds ? std::atof(seconds) : 3.0);
  std::mt19937_64 rng(4711);
  size_t accepted = 0, total = 0;
  for (; std::chrono::steady_clock::now() < end; ++total) {
    std::string table = seed;
    for (size_t n = 1 + rng() % 4; n; --n) mutate(&table, &rng);
    Diagnostics d;
    Library library;
    library.name = library.package = "fuzz";
    library.header = "fuzz.h";
    library.families.push_back(read_table("t.textproto", table, &d));
    if (d.ok()) check_families(&library.families, &d);
    for (const std::string& m : d.messages()) ASSERT_EQ(m.rfind("t.textproto:", 0), 0u) << m << "\n" << table;
    if (!d.ok()) continue;
    ++accepted;
    Files files;
    generate_ops(library, &files);
    generate_autograd(library, &files);
    generate_registry(library, &files);
    ASSERT_FALSE(generate_stubs(library.families).empty());
    ASSERT_FALSE(generate_reference(library.families).empty());
  }
  EXPECT_GT(accepted, 0u);
  EXPECT_LT(accepted, total);
}

}  // namespace
}  // namespace tessera::opgen
