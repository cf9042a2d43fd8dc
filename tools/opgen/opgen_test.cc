#include <algorithm>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tools/opgen/formula.h"
#include "tools/opgen/generate.h"

namespace tessera::opgen {
namespace {

std::vector<std::string> errors_of(const std::string& text) {
  Diagnostics d;
  std::vector<Family> families;
  families.push_back(read_table("dir/t.textproto", text, &d));
  if (d.ok()) check_families(&families, &d);
  return d.messages();
}

struct Bad {
  const char* name;
  std::string table;
  const char* message;  // the start "dir/t.textproto:LINE:" and a part of the reason, separated by '|'
};

// A whole op around one line that matters; the schema is on line 2, `body` on line 3.
std::string op(const std::string& schema, const std::string& body) {
  return "op {\nschema: \"" + schema + "\"\n" + body + "\n}\n";
}

class BadTable : public testing::TestWithParam<Bad> {};

TEST_P(BadTable, StopsWithFileLineAndReason) {
  const std::vector<std::string> errors = errors_of(GetParam().table);
  ASSERT_FALSE(errors.empty());
  const std::string expected = GetParam().message;
  const size_t bar = expected.find('|');
  const std::string place = "dir/t.textproto:" + expected.substr(0, bar) + ": ", reason = expected.substr(bar + 1);
  const bool found = std::any_of(errors.begin(), errors.end(), [&](const std::string& e) {
    return e.rfind(place, 0) == 0 && e.find(reason) != std::string::npos;
  });
  std::string all;
  for (const std::string& e : errors) all += e + "\n";
  EXPECT_TRUE(found) << "wanted " << place << "... " << reason << "\ngot " << all;
}

const char kAdd[] = "add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor";

INSTANTIATE_TEST_SUITE_P(
    All, BadTable,
    testing::Values(
        Bad{"Syntax", "op {\n  schema \"x\"\n}", "2|Expected"},
        Bad{"UnknownField", "op {\n  shema: \"x\"\n}", "2|no field named \"shema\""},
        Bad{"UnknownRule", "op {\n  schema: \"f(Tensor x) -> Tensor\"\n  rule: POINTWISEE\n}", "3|POINTWISEE"},
        Bad{"AutocastPolicy", op("f(Tensor x) -> Tensor", "rule: DIRECT variants: FUNCTION autocast: \"cpu half\""),
            "3|a policy (lower_precision_fp"},
        Bad{"DocumentedName", op("f(Tensor x) -> Tensor", "rule: DIRECT variants: FUNCTION documented: \"y=input\""),
            "3|expected \"argument=name\""},
        Bad{"NumberNode",
            op("f(Tensor x, int n) -> Tensor",
               "rule: DIRECT variants: FUNCTION number_node: \"n=FBackward1\" derivative { input: \"x\" formula: "
               "\"grad\" }"),
            "3|expected \"tensor=NodeName\""},
        Bad{"AutocastTwice",
            op("f(Tensor x) -> Tensor", "rule: DIRECT variants: FUNCTION autocast: [\"cpu fp32\", \"cpu promote\"]"),
            "3|two policies for cpu"},
        Bad{"AutocastDtype",
            op("f(Tensor x) -> Tensor", "rule: DIRECT variants: FUNCTION autocast: \"cpu fp32_set_opt_dtype\""),
            "3|needs an argument ScalarType? dtype"},
        Bad{"AutocastWrites",
            op("f(Tensor(a!) x) -> Tensor(a!)", "rule: DIRECT variants: FUNCTION autocast: \"cpu fp32\""),
            "3|only functional operators are cast"},
        Bad{"MissingRule", "\nop {\n  schema: \"f(Tensor x) -> Tensor\"\n}", "2|the op lacks: rule"},
        Bad{"BadSchema", op("f(Tenser x) -> Tensor", "rule: VIEW variants: FUNCTION"), "2|unknown type 'Tenser'"},
        Bad{"Namespace", op("aten::f(Tensor x) -> Tensor", "rule: DIRECT variants: FUNCTION not_differentiable: true"),
            "2|without its namespace"},
        Bad{"TypeWithoutCpp", op("f(Any x) -> Tensor", "rule: DIRECT variants: FUNCTION"), "2|the type Any of 'x'"},
        Bad{"NoVariants", op(kAdd, "rule: POINTWISE not_differentiable: true"), "2|no variants"},
        Bad{"UnknownInput",
            op(kAdd, "variants: FUNCTION rule: POINTWISE\nderivative { input: \"slef\"\n formula: \"grad\" }"),
            "5|there is no argument 'slef'"},
        Bad{"NotATensor",
            op(kAdd, "variants: FUNCTION rule: POINTWISE\nderivative { input: \"alpha\" formula: \"grad\" }"),
            "4|'alpha' is not a tensor"},
        Bad{"TwiceTheSame",
            op(kAdd,
               "variants: FUNCTION rule: POINTWISE\nderivative { input: \"self\" formula: \"grad\" }\nderivative { "
               "input: \"self\" formula: \"grad\" }"),
            "5|a second derivative of 'self'"},
        Bad{"UnknownNameInFormula",
            op(kAdd, "variants: FUNCTION rule: POINTWISE\nderivative { input: \"self\" formula: \"grad * othr\" }"),
            "4|unknown name 'othr'"},
        Bad{"UnbalancedFormula",
            op(kAdd,
               "variants: FUNCTION rule: POINTWISE\nderivative { input: \"self\" formula: \"f(grad * (alpha)\" }"),
            "4|'(' is not closed"},
        Bad{"UnknownNameInParam",
            op(kAdd, "variants: FUNCTION rule: POINTWISE not_differentiable: true\nparam: \"beta\""),
            "4|unknown name 'beta' in 'param'"},
        Bad{"NoDerivative", op(kAdd, "variants: FUNCTION rule: POINTWISE"), "2|no derivative"},
        Bad{"DerivativeAndNot",
            op(kAdd,
               "variants: FUNCTION rule: POINTWISE not_differentiable: true derivative { input: \"self\" formula: "
               "\"grad\" }"),
            "3|not_differentiable, but"},
        Bad{"FieldOfAnotherRule", op(kAdd, "variants: FUNCTION rule: POINTWISE not_differentiable: true\nview: \"x\""),
            "4|means nothing with rule POINTWISE"},
        Bad{"InplaceImpossible",
            op("f(Tensor[] x) -> Tensor", "variants: INPLACE rule: DIRECT not_differentiable: true"),
            "3|INPLACE needs a Tensor"},
        Bad{"OutImpossible", op("f(Tensor x) -> Tensor[]", "variants: OUT rule: DIRECT not_differentiable: true"),
            "3|OUT needs Tensor results"},
        Bad{"MethodImpossible", op("f(int x) -> Tensor", "variants: METHOD rule: DIRECT backends: ALL"),
            "3|METHOD needs a Tensor"},
        Bad{"ViewWithoutAlias", op("f(Tensor x) -> Tensor", "variants: FUNCTION rule: VIEW not_differentiable: true"),
            "2|alias annotation"},
        Bad{"ScalarWithoutOf",
            op("f.Scalar(Tensor x, Scalar y) -> Tensor", "variants: FUNCTION rule: SCALAR_OVERLOAD scalar: \"y\""),
            "3|needs 'of'"},
        Bad{"ScalarUnknownTarget",
            op("f.Scalar(Tensor x, Scalar y) -> Tensor",
               "variants: FUNCTION rule: SCALAR_OVERLOAD scalar: \"y\" of: \"g\""),
            "3|there is no op 'g'"},
        Bad{"Duplicate",
            op("f(Tensor x) -> Tensor", "variants: FUNCTION rule: COMPOSITE expr: \"x\"") +
                op("f(Tensor y) -> Tensor", "variants: FUNCTION rule: COMPOSITE expr: \"y\""),
            "6|the same name and overload as in dir/t.textproto:2"},
        Bad{"SameCppSignature",
            op("f(Tensor x) -> Tensor", "variants: FUNCTION rule: COMPOSITE expr: \"x\"") +
                op("f.two(Tensor y) -> Tensor", "variants: FUNCTION rule: COMPOSITE expr: \"y\""),
            "6|the C++ function f(const Tensor&)"},
        Bad{"WrongDifferentiability",
            op("f(Tensor x) -> Tensor",
               "variants: FUNCTION rule: DIRECT derivative { input: \"x\" formula: \"grad\" "
               "}\noutput_differentiability: [true, false]"),
            "4|2 values for 1 results"},
        Bad{"UnknownForwardRule",
            op(kAdd,
               "variants: FUNCTION rule: POINTWISE\nderivative { input: \"self\" formula: \"grad\" forward: "
               "\"lineer\" }"),
            "4|unknown rule of forward mode 'lineer'"},
        Bad{"TangentOfNothing",
            op(kAdd,
               "variants: FUNCTION rule: POINTWISE\nderivative { input: \"self\" formula: \"grad\" forward: "
               "\"self_t + alpha_t\" }"),
            "4|there is no derivative of 'alpha'"},
        Bad{"JointlyLinearInOne",
            op(kAdd,
               "variants: FUNCTION rule: POINTWISE\nderivative { input: \"self\" formula: \"grad\" forward: "
               "\"jointly_linear\" }"),
            "4|said of the op"},
        Bad{"FormulaForTwo",
            op(kAdd,
               "variants: FUNCTION rule: POINTWISE\nderivative { input: [\"self\", \"other\"] formula: \"f(grad)\" }"),
            "4|can't be derived from a formula for several inputs"},
        Bad{"ForwardWithoutDerivative",
            op(kAdd, "variants: FUNCTION rule: POINTWISE not_differentiable: true\nforward: \"linear\""),
            "4|'forward' needs derivatives"},
        Bad{"OutNames",
            op("f(Tensor x) -> (Tensor, Tensor)",
               "variants: [FUNCTION, OUT] rule: DIRECT not_differentiable: true\nout_names: \"a\""),
            "4|1 out_names for 2 results"}),
    [](const testing::TestParamInfo<Bad>& i) { return std::string(i.param.name); });

Library toys() {
  std::ifstream f("tools/opgen/testdata/toy.textproto");
  std::stringstream text;
  text << f.rdbuf();
  Diagnostics d;
  Library library;
  library.name = "toys";
  library.package = "toys";
  library.header = "toys.h";
  library.families.push_back(read_table("toy.textproto", text.str(), &d));
  check_families(&library.families, &d);
  for (const std::string& m : d.messages()) ADD_FAILURE() << m;
  EXPECT_GT(library.families[0].entries.size(), 8u);
  return library;
}

TEST(Generate, NamesOfAModule) {
  Diagnostics d;
  std::vector<Family> families;
  families.push_back(read_table("line/tables/algebra.textproto", R"pb(
                                  op {
                                    schema: "line_solve(Tensor A, Tensor B, *, bool left=True) -> Tensor"
                                    variants: [ FUNCTION, OUT ]
                                    rule: COMPOSITE
                                    expr: "A"
                                    python_module: "line"
                                    doc: "Solves."
                                  }
                                  op {
                                    schema: "solve_line(Tensor A) -> Tensor"
                                    variants: [ FUNCTION ]
                                    rule: COMPOSITE
                                    expr: "A"
                                  }
                                )pb",
                                &d));
  check_families(&families, &d);
  ASSERT_TRUE(d.ok()) << d.messages()[0];
  const std::string header = generate_names(families, "line");
  for (const char* part : {"#include \"line/algebra_ops.h\"", "namespace tessera::line {", "// Solves.",
                           "inline Tensor solve(const Tensor& A, const Tensor& B, bool left = true) { return "
                           "op::line_solve.call(A, B, left); }",
                           "solve_out(const Tensor& out, const Tensor& A"})
    EXPECT_NE(header.find(part), std::string::npos) << part << " in " << header;
  EXPECT_EQ(header.find("solve_line"), std::string::npos);
  const std::string nested = generate_names(families, "other.line");
  for (const char* part : {"namespace tessera::other::line {", "inline Tensor solve("})
    EXPECT_NE(nested.find(part), std::string::npos) << part << " in " << nested;
}

TEST(Generate, OpsHaveObjectsFunctionsAndKernels) {
  Files files;
  generate_ops(toys(), &files);
  const std::string& header = files["toy_ops.h"];
  for (const char* part : {"extern constinit Op<Tensor(const Tensor&, const Tensor&, const Scalar&)> toy_add_Tensor;",
                           "inline Tensor toy_add(const Tensor& self, const Tensor& other, const Scalar& alpha = 1) { "
                           "return op::toy_add_Tensor.call(self, other, alpha); }",
                           "inline const Tensor& toy_scale_out(const Tensor& out, const Tensor& self, const Scalar& "
                           "factor) { return op::toy_scale_out.call(self, factor, out); }",
                           "IntList dim = internal::int_list<0>(), bool keepdim = false"})
    EXPECT_NE(header.find(part), std::string::npos) << part;
  EXPECT_NE(files["toys.h"].find("#include \"toys/toy_ops.h\""), std::string::npos);
  const std::string& kernels = files["toy_kernels.h"];
  EXPECT_NE(kernels.find("std::array<OutputSpec, 2> toy_minmax_meta(const Tensor& self, IntList dim, bool keepdim);"),
            std::string::npos);
  EXPECT_NE(
      kernels.find("void toy_minmax_kernel(const Tensor& self, IntList dim, bool keepdim, const Tensor& out0, const "
                   "Tensor& out1);"),
      std::string::npos);
  const std::string& source = files["toy_ops_0.cc"];
  for (const char* part :
       {"[[gnu::weak, gnu::visibility(\"hidden\")]] Tensor toy_add_Tensor(CallContext ctx,",
        "pointwise::functional(pw::toy_plus, {&self, &other}, {alpha})",
        "{nullptr, nullptr, nullptr, &op_autograd::toy_row, &op_forward::toy_row, nullptr, &kernels::k_toy_row, "
        "nullptr}",
        "structured::InplaceGuard g0_(self, spec_, true);"})
    EXPECT_NE(source.find(part), std::string::npos) << part;
}

TEST(Generate, DerivativesSaveOnlyWhatTheyNeed) {
  Files files;
  generate_autograd(toys(), &files);
  const std::string& source = files["toy_autograd_0.cc"];
  for (const char* part :
       {"if (node_->should_compute(0)) node_->other_ = SavedVariable(other, false);",  // toy_mul:
                                                                                       // other is
                                                                                       // for self's
                                                                                       // derivative
        "if (node_->should_compute(1)) node_->self_ = SavedVariable(autograd::clone_original(self), "
        "false);",  // in place: the original
        "node_->self_sym_sizes_ = autograd::to_saved(self.sym_sizes());",
        "toy_row_backward(grad, self_sym_sizes_, index_)",
        "autograd::put_list(to_inputs_, 0, toy_unjoin(grad, tensors_size_));",
        "autograd::rebase_history_zero(self, \"ToyZeroBackward0\");",
        "autograd::throw_out_requires_grad(\"toy_scale\");", "node_->low_ = SavedVariable(std::get<0>(result_), true);",
        "const std::array<bool, 3> grad_input_mask = {should_compute(0), should_compute(1), "
        "should_compute(2)};"})
    EXPECT_NE(source.find(part), std::string::npos) << part;
  EXPECT_EQ(source.find("bias_"), std::string::npos);                       // no formula uses it
  EXPECT_NE(source.find("#line 35 \"toy.textproto\""), std::string::npos);  // a formula's compile error names the table
}

TEST(Generate, TangentsFollowFromTheTable) {
  Files files;
  generate_forward(toys(), &files);
  const std::string& source = files["toy_forward_0.cc"];
  for (const char* part :
       {"const Tensor grad = conj_of(other_t);\n",                                  // elementwise: the formula
        "forward::add(sum_, conj_of(toy_scale(grad, alpha)));",                     // with tangents
        "forward::add(sum_, op::toy_scale.call(self_t, factor));",                  // found to be linear
        "const Tensor original_self = forward::original(self);\n",                  // in place: the value before
        "forward::add(sum_, conj_of(toy_mul(grad, original_self)));",               //
        "fw_.put_view(result_, op::toy_row.call(self_t, index));",                  // a view of the tangent
        "op::toy_join.call(forward::or_zeros(tensors_t, tensors))",                 // a list
        "fw_.write(self, {});",                                                     // overwritten with constants
        "forward::refuse_out(\"toy_scale\", self, out);",                           //
        "toy_linear_tangent(input_t, weight_t, bias_t, input, weight)",             // written
        "return forward::results(op::toy_minmax.call(in_[0], dim, keepdim)); });",  // twice through the gradient
        "return op::toy_shifted.kernels[static_cast<int>(Slot::kCompositeExplicit)](ctx, self);"})
    EXPECT_NE(source.find(part), std::string::npos) << part;
}

TEST(Generate, RegistryStubsAndReference) {
  const Library library = toys();
  Files files;
  generate_registry(library, &files);
  EXPECT_NE(files["toy_registry_0.cc"].find(
                "\"toy::toy_add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)\""),
            std::string::npos);
  for (const char* text : {"self other", "derived"})  // what is differentiable, and how
    EXPECT_NE(files["toy_registry_0.cc"].find("    \"" + std::string(text) + "\"\"\\0\"\n"), std::string::npos) << text;
  EXPECT_NE(files["toy_registry_0.cc"].find("OpNumbers::kBoth"), std::string::npos);
  const std::string& list = files["toys_registry.cc"];
  EXPECT_LT(list.find("&op_info::toy_add_Scalar,"), list.find("&op_info::toy_add_Tensor,"));
  const std::string stubs = generate_stubs(library.families);
  EXPECT_NE(stubs.find("def toy_minmax(input: Tensor, dim: Union[_int, Sequence[_int]] = (0,), keepdim: _bool = False, "
                       "*, out: Optional[Tuple[Tensor, Tensor]] = None) -> Tuple[Tensor, Tensor]: ..."),
            std::string::npos)
      << stubs;
  const std::string page = generate_reference(library.families);
  EXPECT_NE(page.find("- derivative of other: `toy_mul(grad, self)`"), std::string::npos);
}

TEST(Generate, OverloadsStayCallable) {
  Diagnostics d;
  Library library;
  library.name = library.package = "l";
  library.header = "l.h";
  library.families.push_back(
      read_table("t.textproto",
                 op("all(Tensor self) -> Tensor", "rule: COMPOSITE expr: \"self\" variants: [FUNCTION, OUT]") +
                     op("all.dims(Tensor self, int[]? dim=None, bool keepdim=False) -> Tensor",
                        "rule: COMPOSITE expr: \"self\" variants: [FUNCTION, OUT]"),
                 &d));
  check_families(&library.families, &d);
  ASSERT_TRUE(d.ok()) << d.messages()[0];
  Files files;
  generate_ops(library, &files);
  EXPECT_NE(files["t_ops.h"].find("all(const Tensor& self, std::optional<IntList> dim, bool keepdim = false)"),
            std::string::npos);
  EXPECT_NE(files["t_ops.h"].find(
                "all_out(const Tensor& out, const Tensor& self, std::optional<IntList> dim, bool keepdim = false)"),
            std::string::npos);
}

TEST(Autocast, OnlyFunctionalFormsAreCast) {
  Diagnostics d;
  std::vector<Family> families;
  families.push_back(
      read_table("t.textproto",
                 op("f(Tensor x) -> Tensor",
                    "rule: COMPOSITE expr: \"x\" variants: [FUNCTION, OUT] autocast: [\"cpu lower_precision_fp\", "
                    "\"cuda fp32\"]") +
                     op("g(Tensor x) -> Tensor", "rule: COMPOSITE expr: \"x\" variants: [FUNCTION, OUT]"),
                 &d));
  check_families(&families, &d);
  ASSERT_TRUE(d.ok()) << d.messages()[0];
  const std::string text = generate_autocast(families);
  EXPECT_NE(text.find("install<Policy::kLowerPrecisionFp, Policy::kFp32>(&op::f);"), std::string::npos);
  EXPECT_NE(text.find("install<Policy::kAsIs, Policy::kAsIs>(&op::f_out);"), std::string::npos);
  EXPECT_EQ(text.find("op::g"), std::string::npos);
}

TEST(Formula, FindsValuesNotMembersOrCalls) {
  std::vector<std::string> found;
  for (const FormulaName& n :
       value_names(tokenize_formula("where(self > 1e-3, grad * other.conj(), std::get<0>(x)) + a.b.sizes() / s::t")))
    found.push_back(n.name + "." + n.method);
  EXPECT_EQ(found, (std::vector<std::string>{"self.", "grad.", "other.conj", "x.", "a."}));
  EXPECT_EQ(title("max_pool2d_with_indices"), "MaxPool2DWithIndices");
  EXPECT_EQ(title("_to_copy"), "ToCopy");
}

}  // namespace
}  // namespace tessera::opgen
