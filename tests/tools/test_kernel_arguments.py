"""Every argument of an op's schema is read: by the expressions of the op tables, and by the functions that are written
by hand for them.
"""

import pathlib
import re

ROOT = pathlib.Path(__file__).resolve().parents[2]
LIBRARIES = ["tensor/ops", "nn", "special", "foreach", "optim"]

HINT = "which implementation to take: there is one"
GRADIENT = "of sparse gradients: for the gradient"
ALL = "says what else is wanted; all of it is computed"

# Expressions of tables: op -> (arguments that none of them reads, why).
TABLES = {
    "log_sigmoid_backward": (
        "buffer",
        "what the forward op kept for it: nothing, the gradient is computed from the input",
    ),
    "_convolution": (
        "benchmark deterministic cudnn_enabled allow_tf32",
        "settings, which the engines ask for themselves",
    ),
    "layer_norm": ("cudnn_enable", HINT),
    "max_unpool3d": ("stride padding", "output_size has them in it"),
    "isin.Tensor_Tensor": ("assume_unique", "a promise that can make it faster"),
    "isin.Tensor_Scalar": ("assume_unique", "a promise that can make it faster"),
    "isin.Scalar_Tensor": ("assume_unique", "a promise that can make it faster"),
}

# Functions written by hand: one of those that serve an op together -> (how many parameters none of them reads, why).
FUNCTIONS = {
    "_unique2_kernel": (1, "sorted: it always is"),
    "unique_dim_kernel": (3, "sorted: it always is; inverse and counts: " + ALL),
    "_ctc_loss_kernel": (1, "zero_infinity: for the gradient"),
    "expand_view": (1, "implicit: for tracers, which note how a call was written"),
    "embedding_rows": (3, "padding_idx, scale_grad_by_freq and sparse are for the gradient"),
    "gather_kernel": (1, GRADIENT),
    "batch_norm_composite": (1, HINT),
    "group_norm_composite": (1, HINT),
    "scalar_like": (1, "a result of no dimensions, whatever the argument is"),
}


def blocks(path):
    return re.findall(r"^op \{\n(.*?)^\}", path.read_text(), re.M | re.S)


def field(block, name):
    return re.findall(rf'^  {name}: "((?:[^"\\]|\\.)*)"', block, re.M)


def split(text):
    """At commas outside of brackets."""
    parts, depth, current = [], 0, ""
    for c in text:
        depth += (c in "<([{") - (c in ">)]}")
        if c == "," and not depth:
            parts.append(current.strip())
            current = ""
        else:
            current += c
    return [p for p in [*parts, current.strip()] if p]


def arguments(schema):
    """(type, name) of a schema's arguments."""
    inside = re.match(r"[\w.]+\((.*)\) -> ", schema).group(1)
    return [tuple(a.split("=")[0].rsplit(" ", 1)) for a in split(inside) if a != "*"]


def unread_in_table(block):
    """(op, expression field, arguments that the expression does not name). Layouts, pinning and the dtype of out= are
    checked by code that opgen writes.
    """
    schema = field(block, "schema")[0]
    for kind in ("expr", "inplace_expr", "out_expr"):
        for text in field(block, kind):
            generated = {"pin_memory", *(("dtype", "device", "memory_format") if kind == "out_expr" else ())}
            missing = {
                name
                for kind_of, name in arguments(schema)
                if not kind_of.startswith("Layout") and name not in generated and not re.search(rf"\b{name}_?\b", text)
            }
            yield schema.split("(")[0], kind, missing
    if (
        "rule: POINTWISE" in block
        and (field(block, "param") or "no_params: true" in block)
        and not field(block, "check")
    ):
        text = " ".join(field(block, "param"))
        yield (
            schema.split("(")[0],
            "param",
            {
                name
                for kind_of, name in arguments(schema)
                if kind_of.split("?")[0] in ("Scalar", "float", "int", "bool") and name not in text
            },
        )


def test_expressions_of_tables_read_their_arguments():
    found, ops = {}, 0
    for library in LIBRARIES:
        for path in sorted((ROOT / library).rglob("*.textproto")):
            for block in blocks(path):
                ops += 1
                for op, _, missing in unread_in_table(block):
                    if missing:
                        found.setdefault(op, set()).update(missing)
    assert ops > 800
    assert {op: " ".join(sorted(names)) for op, names in found.items()} == {
        op: " ".join(sorted(names.split())) for op, (names, _) in TABLES.items()
    }


DEFINITION = re.compile(
    r"^(?:template <[^\n]*>\s*)?(?:inline |static )*(?:const )?[\w:]+(?:<[^;{}()]*>)?[&*]? (\w+)\(([^;{}]*?)\) "
    r"(?:const )?\{",
    re.M,
)
# What opgen checks itself: layout= and pin_memory= of factories.
GENERATED = re.compile(r"^(std::optional<Layout>|std::optional<bool>|Lo|Pin)$")
# A table's check() gets all arguments, its kernel as well.
CHECK = re.compile(r"^check_|_check$")


def end_of_block(text, start):
    depth, i = 1, start
    while depth:
        depth += {"{": 1, "}": -1}.get(text[i], 0)
        i += 1
    return i


def definitions(library):
    """(name, [type and name, or type alone], body) of the functions written by hand."""
    folder = ROOT / library
    for path in sorted(p for pattern in ("*.cc", "*.h", "formulas/*.cc", "formulas/*.h") for p in folder.glob(pattern)):
        if not path.name.endswith("_test.cc"):
            text = re.sub(r"//[^\n]*", "", path.read_text())
            for m in DEFINITION.finditer(text):
                yield m.group(1), split(m.group(2)), text[m.end() : end_of_block(text, m.end())]


def unread_parameters(parameters, body):
    """Positions of parameters without a name, or whose name the body does not mention."""
    for i, parameter in enumerate(parameters):
        named = re.match(
            r"(.*[\s&*>])(\w+)$", re.sub(r"\(&(\w+)\)\[\d+\]$", r"& \1", parameter.split("=")[0].strip()), re.S
        )
        if named is None or named.group(1).strip() == "const":
            if not GENERATED.match(parameter):
                yield i
        elif not re.search(rf"\b{named.group(2)}\b", body) and not GENERATED.match(named.group(1).strip()):
            yield i


def partners(library):
    """{function: the functions that get the same arguments, itself included}: those that one entry of a table names, or
    calls by their default names.
    """
    together = {}
    for path in sorted((ROOT / library).rglob("*.textproto")):
        for block in blocks(path):
            given = [
                re.match(r"(?:kernels::)?(\w+)", f).group(1)
                for name in ("meta", "kernel", "composite", "view")
                for f in field(block, name)
            ]
            op = field(block, "schema")[0].split("(")[0].replace(".", "_")
            names = {*given, *(op + suffix for suffix in ("_meta", "_kernel", "_composite", "_view"))}
            names = names.union(*(together[n] for n in names if n in together))
            together.update(dict.fromkeys(names, names))
    return together


def test_the_finder_finds():
    [(name, parameters, body)] = [
        (m.group(1), split(m.group(2)), "return a + g(c);")
        for m in DEFINITION.finditer("Tensor foo_kernel(const Tensor& a, bool, int64_t b, std::array<bool, 2> c) {")
    ]
    assert name == "foo_kernel" and list(unread_parameters(parameters, body)) == [1, 2]


def test_functions_read_their_parameters():
    unread, seen = {}, 0
    for library in LIBRARIES:
        together = partners(library)
        for name, parameters, body in definitions(library):
            seen += 1
            if CHECK.search(name):
                continue
            group = (library, min(together.get(name, {name})))
            positions = set(unread_parameters(parameters, body))
            before = unread.get(group)
            unread[group] = (
                (name, positions) if before is None else (min(name, before[0]), positions & before[1])
            )  # read by one of them
    assert seen > 800
    found = {name: len(positions) for name, positions in unread.values() if positions}
    assert found == {name: count for name, (count, _) in FUNCTIONS.items()}


def test_hand_written_callables_of_the_binding_read_their_arguments():
    """read_args({"name", {"a", "b"}, ...}, call, v): v[0] and v[1] are used behind it, or v is handed on."""
    ignored, calls = [], 0
    call = re.compile(r"read_args\(\{[^{}]*, \{([^}]*)\}[^}]*\}, \w+, (\w+)(?: \+ \d+)?\)")
    for path in sorted((ROOT / "python/bindings").rglob("*.cc")):
        text = path.read_text()
        for function in DEFINITION.finditer(text):
            body = text[function.end() : end_of_block(text, function.end())]
            for m in call.finditer(body):
                calls += 1
                rest, names, values = body[m.end() :], re.findall(r'"(\w+)"', m.group(1)), m.group(2)
                # Handed on from some element on: the first ones are read one by one, if at all.
                if counted := re.search(rf"for \(int i = 0; i < (\d+); \+\+i\).*?\b{values}\[i\]", rest, re.S):
                    rest += " ".join(f"{values}[{i}]" for i in range(int(counted.group(1))))
                handed = re.search(rf"\b\w+\((?:[^();]*, )?{values}(?: \+ (\d+))?[,)]", rest)
                if not handed or handed.group(1):
                    ignored += [
                        f"{path.name}: {function.group(1)}({name})"
                        for i, name in enumerate(names)
                        if f"{values}[{i}]" not in rest and not (handed and i >= int(handed.group(1)))
                    ]
    assert calls > 40 and not ignored
