"""tools/op_lines counts each line of hand-written code once, for the operators that need it."""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
TOOL = ROOT / "tools" / "op_lines"

TABLE = """# Comments do not count.
include: "tensor/ops/toy_extra.h"

op {
  schema: "twice(Tensor self) -> Tensor"
  variants: [FUNCTION, METHOD, INPLACE, OUT]
  rule: POINTWISE
  doc: "No { brace } of a text counts."
  derivative { input: "self" formula: "twice_backward(grad)" }
}
op {
  schema: "total(Tensor self) -> Tensor"
  variants: [FUNCTION]
  rule: STRUCTURED
}
op {
  schema: "total.dim(Tensor self, int dim) -> Tensor"
  variants: [FUNCTION, OUT]
  rule: STRUCTURED
}
op {
  schema: "both(Tensor self) -> Tensor"
  variants: [FUNCTION]
  rule: COMPOSITE
  expr: "both_impl(twice(self))"
}
op {
  schema: "total.names(Tensor self, Scalar other) -> Tensor"
  variants: [FUNCTION]
  rule: SCALAR_OVERLOAD
  of: "total.dim"
}
"""
FILES = {
    "tensor/ops/tables/toy.textproto": TABLE,
    "tensor/ops/toy.cc": """// toy
#include "toy.h"
namespace tessera::kernels {
namespace {
// Shared by the two shape rules.
IntVector common(const Tensor& self) {
  if (self.dim()) return {};

  return {1};
}
}  // namespace
OutputSpec total_meta(const Tensor& self) { return common(self); }
OutputSpec total_dim_meta(const Tensor& self, int64_t dim) {
  check(dim);
  return common(self);
}
void total_kernel(const Tensor& self, const Tensor& out) { TESSERA_ON(self.device(), run_total)(out); }
void total_dim_kernel(const Tensor& self, int64_t dim, const Tensor& out) { TESSERA_ON(self.device(), run_total)(out); }
Tensor both_impl(const Tensor& self) {
  const char* text = "common(";  // common(
  return self;
}
void nobody() {
  return;
}
}  // namespace tessera::kernels
""",
    "tensor/cpu/reduce/total.cc": "namespace tessera::cpu {\nvoid run_total(Operand out) {\n  a();\n  b();\n  "
    "c();\n}\n}\n",
    "tensor/cpu/pointwise/ops_toy.cc": """#define TESSERA_OPS(X) X(Twice, 1, 0)
namespace tessera::cpu {
namespace HWY_NAMESPACE {
struct Twice {
  template <class D, class V> static V Call(D d, V x) { return hn::Add(x, x); }
};
TESSERA_OPS(TESSERA_DEFINE_KERNELS)
}  // namespace HWY_NAMESPACE
}  // namespace tessera::cpu
namespace tessera {
namespace pw {
constinit const PointwiseOp twice = OpBuilder<1>("twice").floats(TwiceF32, TwiceF64);
}  // namespace pw
}  // namespace tessera
""",
    "tensor/cpu/pointwise/pointwise_ops.h": "namespace tessera::pw {\nTESSERA_PW(twice);  // (x)\n}\n",
    "autograd/formulas_toy.cc": "namespace tessera::autograd {\nTensor twice_backward(const Tensor& grad) {\n  return "
    "twice(grad);\n}\n}\n",
}


def printed(root, *arguments):
    run = subprocess.run(
        [sys.executable, str(TOOL), "--root", str(root), *arguments], capture_output=True, text=True, check=True
    )
    return run.stdout


def toy(folder):
    for name, text in FILES.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder


def parts(text, op):
    """What the list of operators says about one: kind -> lines."""
    line = re.search(rf"^ *([\d.]+)  {re.escape(op)}  \(\w+, [\w/.]+:(\d+): (.*)\)$", text, re.M)
    return float(line[1]), int(line[2]), {k: float(v) for k, v in re.findall(r"([a-z ]+?) ([\d.]+)(?:, |$)", line[3])}


def test_lines_are_attributed_by_name(tmp_path):
    text = printed(toy(tmp_path), "--ops")
    # struct 2, constant 1, declaration 1; the formula is a line of the table and a function of two
    own, line, kinds = parts(text, "twice")
    assert line == 4 and kinds == {"table": 5.0, "kernels": 4.0, "derivatives": 3.0} and own == 12.0
    # `common` has three lines for two operators, the engine has four
    assert parts(text, "total")[2] == {"table": 4.0, "kernels": 1.0, "shape rules": 2.5, "engines": 2.0}
    assert parts(text, "total.dim")[2] == {"table": 4.0, "kernels": 1.0, "shape rules": 4.5, "engines": 2.0}
    assert parts(text, "both")[2] == {"table": 5.0, "special": 3.0}
    assert parts(text, "total.names")[2] == {"table": 5.0}


def test_totals_by_rule_add_up(tmp_path):
    text = printed(toy(tmp_path))
    rows = {m[1]: m[2].split() for m in re.finditer(r"^(\w+) +(\d+ .*)$", text, re.M)}
    assert rows["POINTWISE"][:3] == ["1", "3", "12"] and rows["all"][:2] == ["5", "8"]
    assert sum(int(r[0]) for name, r in rows.items() if name != "all") == 5
    assert "tensor/ops 2" in text.splitlines()[-1]  # `nobody`


def test_a_list_selects_families_and_overloads(tmp_path):
    names = tmp_path / "names.txt"
    names.write_text("# a list\ntotal.dim twice.variant  # two\nnn.functional.both strange\n")
    text = printed(toy(tmp_path), "--list", str(names), "--ops")
    assert re.search(r"^all +3 ", text, re.M) and "total  (" not in text and text.splitlines()[-1].endswith(": strange")


def test_the_tree_itself():
    """Every operator is found, and every rule finds its hand-written half."""
    text = printed(ROOT, "--ops")
    tables = [path for path in ROOT.glob("[!.]*/**/*.textproto") if path.relative_to(ROOT).parts[0] != "tools"]
    schemas = sum(path.read_text().count("\n  schema:") for path in tables)
    assert re.search(rf"^all +{schemas} ", text, re.M)
    for rule, kind in [
        ("POINTWISE", "kernels"),
        ("STRUCTURED", "kernels"),
        ("STRUCTURED", "shape rules"),
        ("VIEW", "shape rules"),
        ("DIRECT", "kernels"),
    ]:
        without = [line for line in text.splitlines() if f"({rule}," in line and f"{kind} " not in line]
        assert not without, without


def test_the_documents_count_the_operators():
    """README.md: the last full fifty; tools/README.md's table may be a little behind."""
    count = int(re.search(r"^all +(\d+)", printed(ROOT), re.M)[1])
    said = int(re.search(r"more than (\d+) operators", (ROOT / "README.md").read_text())[1])
    assert said == (count - 1) // 50 * 50, f"README.md says more than {said} operators, there are {count}"
    table = int(re.search(r"^all +(\d+)", (ROOT / "tools/README.md").read_text(), re.M)[1])
    assert abs(table - count) < 100, f"tools/README.md: run tools/op_lines again, there are {count} operators"
