"""The capture of Python functions: their bytecode is run on values that write down what operators do. Out of it come
graphs (tessera.fx), which a backend compiles, with checks (guards) of all that they depend on. What a graph cannot hold
ends it: Python does that, and another graph begins behind it.

    _points       places where captures begin, their compiled pieces, and the loop that runs these
    _frames       one frame of the program: its instructions
    _calls, _builtins, _objects, _copies   calls; Python's own functions and types; attributes and items; copies
    _tracer       one capture: values that come in, nodes, what the program writes
    _sources      where values come from, and the guards on them
    _emit, _breaks, _resume       the function of a piece; the end of a graph; Python's continuation from the middle
    eval_frame, _running          torch.compile
"""

from tessera._lazy import attach as _attach

__all__ = [
    "OptimizedModule", "allow_in_graph", "assume_constant_result", "disable", "disallow_in_graph",
    "error_on_graph_break", "explain", "export",
    "forbid_in_graph", "graph_break", "is_compiling", "is_dynamo_supported", "is_inductor_supported",
    "list_backends", "lookup_backend", "mark_dynamic", "mark_static", "mark_static_address", "maybe_mark_dynamic",
    "nonstrict_trace",
    "optimize", "optimize_assert", "register_backend", "reset", "run", "skip_frame", "substitute_in_graph",
]  # fmt: skip

_frame = (
    "OptimizedModule", "disable", "is_dynamo_supported", "is_inductor_supported", "optimize", "optimize_assert",
    "reset", "reset_code_caches",
)  # fmt: skip
_marks = (
    "allow_in_graph", "assume_constant_result", "disallow_in_graph", "error_on_graph_break", "forbid_in_graph",
    "graph_break", "is_compiling", "mark_dynamic", "mark_static", "mark_static_address", "maybe_mark_dynamic",
    "nonstrict_trace", "run", "skip_frame",
    "substitute_in_graph",
)  # fmt: skip
__getattr__, __dir__ = _attach(
    __name__,
    {
        **{name: "eval_frame" for name in _frame},
        **{name: "decorators" for name in _marks},
        "explain": "_explain",
        "export": "_export",
        **{name: "backends.registry" for name in ("list_backends", "lookup_backend", "register_backend")},
    },
)
