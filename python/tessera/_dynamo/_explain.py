"""explain: what the capture makes of a function."""

from . import _logs, _running
from .backends.debugging import eager

__all__ = ["ExplainOutput", "explain"]


class ExplainOutput:
    """What explain found: graphs, graph_count, graph_break_count, op_count, break_reasons, ops_per_graph, out_guards,
    compile_times. Its text says it all.
    """

    def __init__(self, graphs, breaks, guards):
        self.graphs, self.break_reasons, self.out_guards = graphs, breaks, guards
        self.graph_count = len(graphs)
        self.graph_break_count = max(len(graphs) - 1, 0)
        self.ops_per_graph = [[n.target for n in g.graph.nodes if n.op.startswith("call_")] for g in graphs]
        self.op_count = sum(len(ops) for ops in self.ops_per_graph)
        self.compile_times = None

    def __str__(self):
        lines = [f"Graph Count: {self.graph_count}", f"Graph Break Count: {self.graph_break_count}",
                 f"Op Count: {self.op_count}", "Break Reasons:"]  # fmt: skip
        for i, reason in enumerate(self.break_reasons):
            lines += [f"  Break Reason {i + 1}:", f"    Reason: {reason.reason}", "    User Stack:"]
            lines += [f"      {frame}" for frame in reason.user_stack]
        lines.append("Ops per Graph:")
        for i, ops in enumerate(self.ops_per_graph):
            lines += [f"  Ops {i + 1}:", *(f"    {getattr(op, '__name__', op)}" for op in ops)]
        lines += ["Out Guards:", *(f"  {g!r}" for g in self.out_guards)]
        return "\n".join(lines)

    __repr__ = __str__


class GraphBreakReason:
    """Why a graph ended. Attributes: reason (text), user_stack (lines of the program), graph_break."""

    def __init__(self, reason, user_stack):
        self.reason, self.user_stack, self.graph_break = reason, user_stack, True

    def __repr__(self):
        return f"GraphBreakReason(reason={self.reason!r}, user_stack={self.user_stack})"


def explain(f, *extra_args, **extra_kwargs):
    """A function that runs f on its arguments, captured, and returns what the capture made of it: ExplainOutput.

    >>> from tessera import _dynamo
    >>> _dynamo.explain(lambda x: x.sin() + 1)(tessera.ones(2)).op_count
    2
    """

    def inner(*args, **kwargs):
        graphs, breaks, guards = [], [], []

        def listen(kind, point, what):
            if kind == "graph":
                graphs.append(what)
            elif kind == "break":
                breaks.append(GraphBreakReason(what.msg.partition("\n\nfrom user")[0], list(what.real_stack)))
            elif kind == "entry":
                guards.extend(what.guards)

        _logs._listeners.append(listen)
        try:
            _running.optimize(eager)(_running.innermost_fn(f))(*args, **kwargs)
        finally:
            _logs._listeners.remove(listen)
        return ExplainOutput(graphs, breaks, guards)

    if extra_args or extra_kwargs:
        return inner(*extra_args, **extra_kwargs)
    return inner
