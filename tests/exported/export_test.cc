#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <vector>

#include "export/json.h"
#include "export/names.h"
#include "export/numbers.h"
#include "export/program.h"
#include "nn/nn_ops_registry.h"
#include "serialization/checkpoint.h"
#include "sparse/sparse_registry.h"
#include "tensor/ops/api.h"
#include "tensor/ops/ops_registry.h"

namespace tessera::exported {
namespace {

std::string path_of(const std::string& name) {
  const char* root = std::getenv("TEST_SRCDIR");
  return (root ? std::string(root) + "/tessera/" : std::string()) + "export/testdata/" + name;
}
OpInfoList all_operators() {
  static const std::vector<const OpInfo*> all = [] {
    std::vector<const OpInfo*> v(registry_ops().begin(), registry_ops().end());
    v.insert(v.end(), registry_nn_ops().begin(), registry_nn_ops().end());
    v.insert(v.end(), registry_sparse().begin(), registry_sparse().end());
    return v;
  }();
  return all;
}
Tensor as_tensor(const Value& v) {
  if (v.is_tensor()) return v.tensor();
  return scalar_to_tensor(v.scalar(), v.tag() == Value::Tag::kDouble ? DType::kFloat64 : DType::kInt64);
}
IntVector sizes_of(const Tensor& t) { return {t.sizes().begin(), t.sizes().end()}; }
// Results may differ in the last bits: the file was written with another instruction set, maybe.
void expect_close(const Tensor& got, const Tensor& wanted, const std::string& name) {
  ASSERT_EQ(got.dtype(), wanted.dtype()) << name;
  ASSERT_EQ(sizes_of(got), sizes_of(wanted)) << name;
  EXPECT_TRUE(got.allclose(wanted, 1e-5, 1e-6, true)) << name;
}
template <class F>
std::string error_of(F f) {
  try {
    f();
  } catch (const Error& e) { return e.what(); }
  return "";
}

class Programs : public testing::TestWithParam<const char*> {};

TEST_P(Programs, GiveWhatPythonGives) {
  const std::string name = GetParam();
  const Program program = load(path_of(name + ".pt2"), all_operators());
  const serialization::StateDict known = serialization::load_state_dict(path_of(name + "_results.pt"));
  std::vector<Value> inputs = *program.example_inputs();
  const std::vector<Value> results = program.run(inputs);
  size_t results_known = 0, others = 0;
  for (const auto& [key, tensor] : known) {
    if (key.starts_with("result.")) {
      const size_t i = std::stoul(key.substr(7));
      ASSERT_LT(i, results.size());
      expect_close(as_tensor(results[i]), tensor, key);
      ++results_known;
    } else if (key.starts_with("state.")) {  // what the program wrote to is written to
      expect_close(program.state().at(key.substr(6)), tensor, key);
      ++others;
    } else if (name != "mixed") {  // its leaves are not its arguments
      expect_close(inputs.at(std::stoul(key.substr(6))).tensor(), tensor, key);
      ++others;
    }
  }
  EXPECT_EQ(results_known, results.size());
  EXPECT_GT(others, 0u);
}
INSTANTIATE_TEST_SUITE_P(All, Programs, testing::Values("mixed", "loops", "net", "makers", "sparse"));

TEST(Program, TakesOtherSizes) {
  const Program program = load(path_of("mixed.pt2"), all_operators());
  const Tensor x = ones({7, 4}), a = ones({7, 3});
  const Tree result = program.call({x, Tree::dict({"a"}, {a})}, {{"k", Tree(Value::of(2.5))}});
  ASSERT_EQ(result.kind, Tree::Kind::kDict);
  EXPECT_EQ(result.keys, (std::vector<std::string>{"flat", "list", "rows", "twice", "half"}));
  EXPECT_EQ(result.items[0].leaf.tensor().numel(), 42);
  EXPECT_EQ(result.items[1].kind, Tree::Kind::kList);
  EXPECT_EQ(result.items[1].items.size(), 5u);
  EXPECT_EQ(result.items[3].leaf.integer(), 14);
  EXPECT_EQ(result.items[4].leaf.integer(), 4);
  const Program net = load(path_of("net.pt2"), all_operators());
  EXPECT_EQ(sizes_of(net({ones({9, 3, 9, 9})}).at(0)), (IntVector{9, 5}));
}

TEST(Program, ChecksItsArguments) {
  const Program program = load(path_of("mixed.pt2"), all_operators());
  const auto guard = [&](const Tensor& x, const Tensor& a, double k) {
    return error_of([&] { program.run({Value::of(Tensor(x)), Value::of(Tensor(a)), Value::of(k)}); });
  };
  EXPECT_EQ(guard(ones({5, 4}), ones({5, 3}), 2.5), "");
  EXPECT_EQ(guard(ones({5, 3}), ones({5, 3}), 2.5), "Guard failed: x.size()[1] == 4");
  EXPECT_EQ(guard(ones({5}), ones({5, 3}), 2.5), "Guard failed: len(x.size()) == 2");
  EXPECT_EQ(guard(ones({5, 4}), ones({6, 3}), 2.5), "Guard failed: d_a.size()[0] == s0");
  EXPECT_EQ(guard(ones({1, 4}), ones({1, 3}), 2.5), "Guard failed: s0 >= 2");
  EXPECT_EQ(guard(ones({65, 4}), ones({65, 3}), 2.5), "Guard failed: s0 <= 64");
  EXPECT_EQ(guard(ones({5, 4}), ones({5, 3}), 2.0), "Guard failed: k == the value of the exported call");
  EXPECT_EQ(guard(Tensor(), ones({5, 3}), 2.5), "Guard failed: isinstance(x, Tensor)");
  EXPECT_THROW(program.run({}), ValueError);
  EXPECT_THROW(program.call({ones({5, 4})}), ValueError);
  EXPECT_THROW(program.call({ones({5, 4}), ones({5, 3})}, {{"k", Tree(Value::of(2.5))}}), ValueError);
  EXPECT_THROW(program.call({ones({5, 4}), Tree::dict({"b"}, {ones({5, 3})})}, {{"k", Tree(Value::of(2.5))}}),
               ValueError);
  EXPECT_THROW(program({ones({5, 4}), ones({5, 3})}), TypeError);  // it returns numbers, too
}

TEST(Program, SaysWhatIsNotLinked) {
  const std::string message = error_of([] { load(path_of("net.pt2"), {}); });
  EXPECT_NE(message.find("which is not among the operators"), std::string::npos) << message;
  EXPECT_NE(error_of([] { load(path_of("net.pt2")); }).find("no operators are linked"), std::string::npos);
  serialization::FileSource source(path_of("loops.pt2"));
  const std::set<std::string> names = operators_of(source);
  EXPECT_EQ(names.count("aten::stack"), 1u);
  EXPECT_EQ(names.count("aten::mul.Tensor"), 1u);
  serialization::FileSource with_sparse(path_of("sparse.pt2"));
  const std::set<std::string> makers = operators_of(with_sparse);
  EXPECT_TRUE(makers.contains(kSparseCoo) && makers.contains(kSparseCompressed));
}

TEST(Json, Values) {
  const JsonDocument d(R"( {"a": [1, -2.5e1, true, null], "b": "x\n\u00e9\ud83d\ude00\"", "c": {}, "d": []} )");
  const Json root = d.root();
  EXPECT_EQ(root.size(), 4u);
  auto item = root["a"].begin();
  EXPECT_EQ((*item).integer(), 1);
  EXPECT_EQ((*++item).number(), -25);
  EXPECT_TRUE((*++item).boolean());
  EXPECT_TRUE((*++item).is_null());
  EXPECT_FALSE(++item != root["a"].end());
  EXPECT_EQ(root["b"].text(), "x\n\xc3\xa9\xf0\x9f\x98\x80\"");
  EXPECT_EQ(root["c"].size() + root["d"].size(), 0u);
  EXPECT_THROW(root["e"], Error);
  EXPECT_THROW(root["a"].text(), Error);
  EXPECT_THROW(root.only(), Error);
}

TEST(Json, Refuses) {
  for (const char* text :
       {"",      "{",       "[1,]",        "{\"a\" 1}", "{a: 1}", "01",    "1.",  "-",
        "1e",    "\"\\x\"", "\"\\ud800\"", "\"\n\"",    "tru",    "[1] 2", "nan", "99999999999999999999",
        "1e999", "\"",      "\"\\u12\"",   "+1",        "[1 2]"})
    EXPECT_THROW(JsonDocument{std::string(text)}, Error) << text;
  EXPECT_THROW(JsonDocument{std::string(100000, '[')}, Error);
}

TEST(Expressions, AsPython) {
  Symbols symbols;
  const size_t s0 = symbols.place("s0"), s1 = symbols.place("s1");
  SymbolValues v(2);
  v.values[s0] = Number::of(int64_t{7}), v.values[s1] = Number::of(int64_t{-3});
  v.known = {true, true};
  const std::pair<const char*, const char*> cases[] = {
      {"(2*s0 + -1)", "13"},
      {"s0 // s1", "-3"},
      {"s0 % s1", "-2"},
      {"-s0 // 2", "-4"},
      {"s0 ** 2 - s1", "52"},
      {"-s0 ** 2", "-49"},
      {"2 ** -1", "0.5"},
      {"s0 / 2", "3.5"},
      {"max(s0, s1, 9)", "9"},
      {"Min(s0, 2.5)", "2.5"},
      {"FloorDiv(s0, 2)", "3"},
      {"(1 if s0 > 3 else 2)", "1"},
      {"(1 if s1 > 3 else (5 if s0 == 7 else 6))", "5"},
      {"s0 >= 7 and not s1 >= 0", "True"},
      {"(s0 < 7 or s1 == -3) and True", "True"},
      {"Eq(s0, 7)", "True"},
      {"math.trunc(float(s1) / 2)", "-1"},
      {"math.floor(s1 / 2)", "-2"},
      {"math.ceil(s1 / 2)", "-1"},
      {"round(2.5)", "2"},
      {"math.sqrt(s0 + 2)", "3"},
      {"Add(s0, s1, 1)", "5"},
      {"1e3", "1000"},
  };
  for (const auto& [text, wanted] : cases) EXPECT_EQ(Expression(text, symbols).evaluate(v).text(), wanted) << text;
  for (const char* bad : {"", "s0 +", "x0", "s", "s0 s1", "(s0", "f(s0)", "s0.x", "max()", "lambda: 1", "s0[0]",
                          "__import__('os')", "99999999999999999999", "FloorDiv(s0)", "1 if s0", "s0 < 1 < 2 <"})
    EXPECT_THROW(Expression(bad, symbols), Error) << bad;
  EXPECT_THROW(Expression(std::string(5000, '(') + "1" + std::string(5000, ')'), symbols), Error);
  EXPECT_THROW(Expression(std::string(9000, '-') + "1", symbols), Error);
  for (const char* wrong : {"s0 // 0", "s0 % (s0 - 7)", "2 ** 64", "(2 ** 62) * 4", "9223372036854775807 + s0"})
    EXPECT_THROW(Expression(wrong, symbols).evaluate(v), Error) << wrong;
}

}  // namespace
}  // namespace tessera::exported
