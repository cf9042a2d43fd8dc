#!/usr/bin/env python3
"""Writes the pages of the C++ API: one for each header in include/tessera, of that header and what it includes.

    tools/cpp_reference.py --bazel-bin "$(bazel info bazel-bin)" --out FOLDER

A page has the comment at the top of each header, with its examples, and every public declaration with the comment above
it. Names are those of the sources; what stands in namespaces `internal` and `detail`, and private members, are left
out. Needs the standard library alone. tests/reference compiles and runs the examples.
"""

import argparse
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
INCLUDE = re.compile(r'^#include "([^"]+)"', re.M)
SCOPE = re.compile(r"^(?:namespace|class|struct|enum)\b[^;(]*\{$")
HIDDEN = re.compile(r"^namespace (?:\w+::)*(?:internal|detail|kernels|op)\b|^namespace \{")
# Of the headers that a page's own folder does not hold, none is shown but these: what every namespace's users see.
TENSOR = ("tensor/core/tensor.h", "tensor/core/dtype.h", "tensor/core/device.h", "tensor/core/scalar.h")


def headers_of(name, trees):
    """Paths, as in sources, of the headers in the folder `name` that include/tessera/NAME.h includes, in order."""
    found = []

    def visit(path):
        text = next((tree / path).read_text() for tree in trees if (tree / path).is_file())
        for inner in INCLUDE.findall(text):
            own = inner.startswith(name + "/") or (name == "tensor" and inner in TENSOR)
            if own and "/cpu/" not in inner and inner not in found and any((t / inner).is_file() for t in trees):
                found.append(inner)
                visit(inner)

    visit(f"include/tessera/{name}.h")
    return found


def comment_of(lines):
    """A comment's text as Markdown: what is indented in it is code."""
    result, code = [], False
    for line in lines:
        text = line.strip()[2:].removeprefix(" ") if line.strip() != "//" else ""
        indented = text.startswith("  ")
        if indented and not code:
            result.append("```cpp")
            code = True
        elif code and text and not indented:
            while result[-1] == "":
                result.pop()
            result += ["```", ""]
            code = False
        result.append(text.removeprefix("  ") if code else text)
    while result and result[-1] == "":
        result.pop()
    return result + ["```"] * code


def examples_of(text):
    """The examples in the comment at the top of a header."""
    lead = []
    for line in text.split("\n"):
        if not line.startswith("//"):
            break
        lead.append(line)
    return re.findall(r"```cpp\n(.*?)```", "\n".join(comment_of(lead)) + "\n", re.S)


class Header:
    """The parts of one header: (depth, comment, declaration)."""

    def __init__(self, text):
        self.entries = []
        self.scopes = []  # (kind, shown)
        self.comment, self.pending = [], []
        lines = text.split("\n")
        first = next((i for i, line in enumerate(lines) if not line.startswith("//")), len(lines))
        self.lead = lines[:first]
        # Macros' texts are no declarations.
        rest = re.sub(r"^#(?:[^\n]*\\\n)*[^\n]*\n", "", "\n".join(lines[first:]) + "\n", flags=re.M)
        for line in rest.split("\n"):
            self.take(line)

    def shown(self):
        return all(shown for _, shown in self.scopes)

    def depth(self):
        return sum(kind == "class" for kind, _ in self.scopes)

    def take(self, line):
        text = line.strip()
        if not self.pending:
            if text.startswith("//"):
                self.comment.append(line)
                return
            if not text:
                self.comment = []
                return
            if re.fullmatch(r"(public|private|protected):", text):
                self.scopes[-1] = ("class", text == "public:")
                self.comment = []
                return
            if text.startswith("}") and text.rstrip(";").strip("} ").startswith(("//", "")) and self.closes(text):
                return
        self.pending.append(line)
        whole = "\n".join(self.pending)
        code = re.sub(r"//[^\n]*", "", whole)
        if SCOPE.match(" ".join(code.split())) and not code.strip().startswith("enum"):
            self.open(whole, " ".join(code.split()))
        elif self.complete(code):
            self.entry(whole)

    def closes(self, text):
        if not self.scopes or not re.match(r"\}\s*(;|//|$)", text):
            return False
        kind, _ = self.scopes.pop()
        if kind == "class" and self.shown():
            self.entries.append((self.depth(), [], "};"))
        self.comment = []
        return True

    def complete(self, code):
        if code.count("(") != code.count(")") or code.count("{") != code.count("}"):
            return False
        return code.rstrip().endswith((";", "}"))

    def open(self, whole, code):
        if code.startswith("namespace"):
            self.scopes += [("namespace", not HIDDEN.match(code))]
        else:
            self.entry(whole)
            self.scopes.append(("class", code.startswith("struct")))
        self.comment, self.pending = [], []

    def entry(self, whole):
        hidden = re.match(
            r"\s*(friend class|template class|extern template|static_assert|TESSERA_|using namespace)", whole
        )
        if self.shown() and not hidden:
            self.entries.append((self.depth(), self.comment, declaration(whole)))
        self.comment, self.pending = [], []


def declaration(whole):
    """Without a body or initializers, on its own indentation."""
    lines = whole.split("\n")
    margin = min(len(line) - len(line.lstrip()) for line in lines if line.strip())
    text = "\n".join(line[margin:] for line in lines)
    if re.match(r"(template\b.*\n)?\s*(enum|using|inline constexpr|constexpr|struct|class)\b", text) or "(" not in text:
        return text
    if SCOPE.match(" ".join(text.split())):
        return text
    depth = 0
    for i, c in enumerate(text):
        depth += (c in "(") - (c in ")")
        if depth == 0 and (text[i : i + 2] == " {" or text[i : i + 3] == " : " or text[i : i + 5] == "\n    :"):
            return text[:i].rstrip() + ";"
    return text


def page(name, trees):
    top = (trees[0] / f"include/tessera/{name}.h").read_text()
    lines = [f"# tessera/{name}.h", "", *comment_of(top.partition("#")[0].rstrip("\n").split("\n")), ""]
    lines += [f'`#include "tessera/{name}.h"`, `deps = ["@tessera//{name}"]`', ""]
    for path in headers_of(name, trees):
        header = Header(next((tree / path).read_text() for tree in trees if (tree / path).is_file()))
        if not header.entries:
            continue
        lines += [f"## {path}", "", *comment_of(header.lead), ""]
        code = []
        for depth, comment, text in header.entries:
            if depth == 0 and code and text != "};":
                lines += ["```cpp", *code, "```", ""]
                code = []
            indent = "  " * depth
            if depth == 0:
                lines += [*comment_of(comment), ""] if comment else []
            else:
                code += [indent + line.strip() for line in comment]
            code += [indent + line for line in text.split("\n")]
        lines += ["```cpp", *code, "```", ""]
    return "\n".join(lines)


def names():
    return sorted(p.stem for p in (ROOT / "include" / "tessera").glob("*.h"))


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("--bazel-bin", type=pathlib.Path, required=True, help="where Bazel put the generated headers")
    ap.add_argument("--out", type=pathlib.Path, required=True, help="the folder of the pages")
    opts = ap.parse_args()
    opts.out.mkdir(parents=True, exist_ok=True)
    for name in names():
        text = page(name, (ROOT, opts.bazel_bin))
        (opts.out / f"{name}.md").write_text(text)
        print(f"[cpp_reference] {name}.md: {len(text.split(chr(10)))} lines", file=sys.stderr)


if __name__ == "__main__":
    main()
