#include "tensor/dispatch/schema.h"

#include <string>

#include "gtest/gtest.h"

namespace tessera {
namespace {

std::string roundtrip(const char* text) {
  const FunctionSchema s = parse_schema(text);
  EXPECT_EQ(parse_schema(s.str()), s) << text;
  return s.str();
}

// The normal form is the text itself for these.
TEST(Schema, PrintsBackExactly) {
  for (const char* text :
       {"aten::add.Tensor(Tensor self, Tensor other, *, Scalar alpha=1) -> Tensor",
        "aten::add_.Tensor(Tensor(a!) self, Tensor other, *, Scalar alpha=1) -> Tensor(a!)",
        "aten::chunk(Tensor(a -> *) self, int chunks, int dim=0) -> Tensor(a)[]",
        "aten::random_.from(Tensor(a!) self, int from, int? to, *, Generator? generator=None) -> Tensor(a!)",
        "aten::sort.values(Tensor self, int dim=-1, bool descending=False, *, Tensor(a!) values, Tensor(b!) indices) "
        "-> (Tensor(a!) values, Tensor(b!) indices)",
        "aten::batch_norm(Tensor input, Tensor? weight, bool training, float momentum, float "
        "eps=1.0000000000000001e-05) -> (Tensor, Tensor)",
        "aten::index.Tensor(Tensor self, Tensor?[] indices) -> Tensor",
        "aten::conv(Tensor x, SymInt[2] stride=[1, 1], int[2] padding=0, int[1] p=[0], bool[3] mask=[True, True, "
        "False]) -> Tensor",
        "aten::to.dtype(Tensor(a) self, ScalarType dtype, bool copy=False, MemoryFormat? memory_format=None) -> "
        "Tensor(a)",
        "aten::einsum(str equation, Tensor[] tensors, *, int[]? path=None) -> Tensor",
        "aten::foreach_(Tensor(a!)[] self, Scalar[] scalars, Tensor[](b) others) -> ()",
        "aten::strip(str self, str chars=\" \\n\\t\\f\\v\") -> str",
        "aten::names(Tensor(a) self, Dimname[]? names, Storage s, Device d=cuda:0, Layout l=0) -> Tensor(a)",
        "prim::items(Dict(str, Tensor) self, Future(t) f, (int, Tensor)[] x) -> ((str, t)[])",
        "prim::python(...) -> ...",
        "prim::mixed(Tensor x, ...) -> (Tensor, ...)",
        "prim::none() -> ()",
        "c::m(__torch__.torch.classes.ns.Thing x, Any y, Union(int, str) u) -> NoneType",
        "(Tensor x) -> Tensor",
        "f(Tensor(a! -> a|b) x, Scalar y=1.5, complex c=1.-2.j, float? z=1, float big=1e+30) -> (Tensor, int n)",
        "f(Tensor[][] x, int?[] y) -> int[] sizes"})
    EXPECT_EQ(roundtrip(text), text);
}

TEST(Schema, NormalisesDefaults) {
  EXPECT_EQ(roundtrip("f ( Tensor x,int r = Mean , ScalarType t=long,MemoryFormat m=preserve_format ,Layout "
                      "l=strided,Device d='cpu')->Tensor # note"),
            "f(Tensor x, int r=1, ScalarType t=4, MemoryFormat m=1, Layout l=0, Device d=cpu) -> Tensor");
  EXPECT_EQ(roundtrip("f(float a=1e-5, float b=-2.5e+10, float c=.5, float d=3, float e=-inf, int[2] k=[1,1], "
                      "SymInt[2] s=1) -> ()"),
            "f(float a=1.0000000000000001e-05, float b=-25000000000., float c=0.5, float d=3., float e=-inf, int[2] "
            "k=1, SymInt[2] s=[1, 1]) -> ()");
  EXPECT_EQ(roundtrip("f(str[] s=[\"a\", 'b'], float[]? f=[1, 2.5], int?[] n=[None, 2]) -> (Tensor)"),
            "f(str[] s=[\"a\", \"b\"], float[]? f=[1., 2.5], int?[] n=[None, 2]) -> Tensor");
}

TEST(Schema, Structure) {
  const FunctionSchema s = parse_schema(
      "ns::op.ov(Tensor(a!) self, SymInt[2]? size=None, *, ScalarType dtype=float32) -> (Tensor(a!) v, Tensor)");
  EXPECT_EQ(s.name, "ns::op");
  EXPECT_EQ(s.overload, "ov");
  EXPECT_EQ(s.name_space(), "ns");
  EXPECT_EQ(s.base_name(), "op");
  ASSERT_EQ(s.arguments.size(), 3u);
  EXPECT_TRUE(s.is_mutable());
  EXPECT_TRUE(s.arguments[0].is_write());
  const SchemaType& size = s.arguments[1].type;
  ASSERT_TRUE(size.is_optional());
  EXPECT_EQ(size.elements[0].size, 2);
  EXPECT_EQ(size.elements[0].elements[0].kind, TypeKind::kSymInt);
  EXPECT_EQ(s.arguments[1].default_value->kind, SchemaValue::Kind::kNone);
  EXPECT_TRUE(s.arguments[2].kwarg_only);
  EXPECT_EQ(s.arguments[2].default_value->s, "float32");
  EXPECT_EQ(s.returns[0].name, "v");
  EXPECT_EQ(s.find_argument("dtype"), 2);
  EXPECT_EQ(s.find_argument("nope"), -1);
  EXPECT_EQ(parse_operator_name("a::b.c"), (OperatorName{"a::b", "c"}));
  EXPECT_EQ(parse_schema_type("Tensor(a!)[]?").str(), "Tensor(a!)[]?");
}

struct Bad {
  const char* text;
  const char* reason;
  size_t offset;
};

TEST(Schema, ErrorsNameThePlaceAndTheReason) {
  for (const Bad& b : {Bad{"f(Tenser x) -> Tensor", "unknown type 'Tenser'", 2},
                       Bad{"junk(", "expected a type but found the end", 5},
                       Bad{"f(Tensor x)", "expected '->' but found the end", 11},
                       Bad{"f(Tensor x,) -> ()", "expected a type but found ')'", 11},
                       Bad{"f(int a=1, int b) -> ()", "without a default follows", 11},
                       Bad{"f(int a, int a) -> ()", "two arguments have the name 'a'", 9},
                       Bad{"f(int a=1.5) -> ()", "expected an integer but found '1.5'", 8},
                       Bad{"f(int a=99999999999999999999) -> ()", "does not fit in 64 bits", 8},
                       Bad{"f(bool a=1) -> ()", "expected True or False", 9},
                       Bad{"f(ScalarType a=float31) -> ()", "'float31' is not a ScalarType", 15},
                       Bad{"f(int[] a=1) -> ()", "expected a list", 10},
                       Bad{"f(int[-1] a) -> ()", "the length of a list", 6},
                       Bad{"f(str s=\"ab) -> ()", "unterminated string", 8},
                       Bad{"f.default(int x) -> ()", "not a legal overload name", 2},
                       Bad{"f(*) -> ()", "must follow '*'", 2},
                       Bad{"f(Tensor(a x) -> ()", "expected ')'", 11},
                       Bad{"f(..., int x) -> ()", "')' after '...'", 5},
                       Bad{"f(int $x) -> ()", "unexpected character", 6},
                       Bad{"f(Tensor x=1) -> ()", "can't have this default", 11},
                       Bad{"", "expected an operator name", 0},
                       Bad{"f(Dict(int) x) -> ()", "Dict takes 2 types", 10},
                       Bad{"f() -> () x", "expected the end", 10}}) {
    try {
      parse_schema(b.text);
      ADD_FAILURE() << b.text;
    } catch (const SchemaError& e) {
      EXPECT_NE(e.reason().find(b.reason), std::string::npos) << b.text << ": " << e.reason();
      EXPECT_EQ(e.offset(), b.offset) << b.text << ": " << e.reason();
      EXPECT_NE(std::string(e.what()).find("~ <--- HERE"), std::string::npos);
    }
  }
  EXPECT_THROW(parse_schema("f(" + std::string(100000, '(') + "int x) -> ()"), SchemaError);
  EXPECT_THROW(parse_schema("f(" + std::string(1000, '(') + "int x) -> ()"), SchemaError);
  EXPECT_THROW(parse_schema("f(int" +
                            [] {
                              std::string s;
                              for (int i = 0; i < 1000; ++i) s += "[]";
                              return s;
                            }() +
                            " x) -> ()"),
               SchemaError);
}

TEST(Schema, BackwardCompatibility) {
  const FunctionSchema old = parse_schema("f(Tensor x, int n=1, *, float? p=None) -> Tensor");
  std::string why;
  for (const char* good : {"f(Tensor x, int n=1, *, float? p=None) -> Tensor",
                           "f(Tensor? x, SymInt n=1, int m=2, *, bool b=False, float? p=None) -> Tensor"})
    EXPECT_TRUE(parse_schema(good).is_backward_compatible_with(old, &why)) << why;
  const char* bad[][2] = {{"g(Tensor x, int n=1, *, float? p=None) -> Tensor", "name"},
                          {"f(Tensor y, int n=1, *, float? p=None) -> Tensor", "'x' is now 'y'"},
                          {"f(Tensor x, int n=2, *, float? p=None) -> Tensor", "default of 'n'"},
                          {"f(Tensor x, int n=1, *, float p=1.) -> Tensor", "'p' was float?"},
                          {"f(Tensor x, *, int n=1, float? p=None) -> Tensor", "keyword-only"},
                          {"f(Tensor x, int n=1, *, float? p=None, int q) -> Tensor", "no default"},
                          {"f(Tensor(a!) x, int n=1, *, float? p=None) -> Tensor", "alias"},
                          {"f(Tensor x, int n=1, *, float? p=None) -> Tensor?", "return 0"}};
  for (const auto& b : bad) {
    EXPECT_FALSE(parse_schema(b[0]).is_backward_compatible_with(old, &why)) << b[0];
    EXPECT_NE(why.find(b[1]), std::string::npos) << b[0] << ": " << why;
  }
}

}  // namespace
}  // namespace tessera
