"""The table of translations: from the name of an operator to what writes its nodes.

A translation is called with the graph that is being written and the operator's arguments by the names of its schema;
tensors and sizes that may differ are Values, the rest is plain. `b.out` is what the trace knows of the result.
"""

TABLE = {}  # "aten::relu" -> function(graph, arguments...)


def aten(names, namespace="aten"):
    """Decorator: the translation of some operators (names in one string)."""

    def enter(f):
        for name in names.split():
            TABLE[f"{namespace}::{name}"] = f
        return f

    return enter


def rows(table, make):
    """Enters operators of a text "name=ONNX name=ONNX ..." ("name" alone: capitalised) by make(ONNX name)."""
    for entry in table.split():
        name, _, op = entry.partition("=")
        TABLE["aten::" + name] = make(op or name.capitalize())
