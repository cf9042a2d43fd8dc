"""Operators of functions: conditions, loops, scans."""

import tessera
from tessera.onnx._build import Value, _meta
from tessera.onnx._translate import cells_of, read
from tessera.onnx._types import BOOL, INT64


def _inputs(module):
    return [n for n in module.graph.nodes if n.op == "placeholder"]


def _run(walk, graph, module, args):
    """The results (Values) of a graph module in a graph inside of the walk's."""
    made = type(walk)(walk.translator, graph, module, dict(zip(_inputs(module), args))).run()
    made = read(made)
    return list(made) if isinstance(made, (list, tuple)) else [made]


def own(graph, values):
    """Values that nodes of the graph itself give, as results of a graph inside of another have to be."""
    seen, made = set(), []
    for v in values:
        v = graph.value(v)
        if v.graph is not graph or v.node is None or id(v) in seen:
            kept = v
            v = graph.Identity(v)
            v.val = kept.val
        seen.add(id(v))
        made.append(v)
    return made


def condition(graph, pred, then, otherwise):
    """If: `then` and `otherwise` write into a graph and return Values. Returns a tuple of Values."""
    pred = graph.to(pred, BOOL)
    if pred.shape != () and pred.val is not None:
        pred = graph.reshape(pred, [])
    branches = []
    for write in (then, otherwise):
        inner = graph.inner()
        inner.outputs = own(inner, write(inner))
        branches.append(inner)
    one, two = branches
    two.outputs = own(two, [two.to(v, w.dtype) for v, w in zip(two.outputs, one.outputs)])
    made = graph.op("If", pred, then_branch=one, else_branch=two, outputs=len(one.outputs))
    made = (made,) if isinstance(made, Value) else made
    for v, w in zip(made, one.outputs):
        v.dtype, v.val = w.dtype, w.val
    return made


def _cond(walk, pred, true_graph, false_graph, operands=()):
    pred = read(pred)
    if not isinstance(pred, Value):
        return walk.inline(true_graph if pred else false_graph, operands)
    values = read(operands)
    run = lambda module: lambda g: _run(walk, g, module, [cells_of(v) for v in values])  # noqa: E731
    return cells_of(condition(walk.graph, pred, run(true_graph), run(false_graph)))


def loop(graph, count, go_on, carried, write):
    """Loop: `write(graph, step, carried values)` gives (whether to go on, next values). Returns a tuple of Values.

    Args:
        count: how often at most: a Value or number; None: no limit.
        go_on: whether to begin: a Value or bool.
    """
    body = graph.inner()
    step = body.input("step", INT64, _meta(INT64, 0))
    given = body.input("going", BOOL, _meta(BOOL, 0))
    states = []
    for v in carried:
        state = body.input("state", v.dtype, v.val)
        states.append(state)
    going, after = write(body, step, states)
    going = given if going is None else body.to(going, BOOL)
    after = [body.to(a, s.dtype) for a, s in zip(after, states)]
    body.outputs = own(body, [going, *after])
    count = None if count is None else graph.to(count, INT64)
    made = graph.op("Loop", count, graph.value(go_on), *carried, body=body, outputs=len(carried))
    made = (made,) if isinstance(made, Value) else made
    for m, v in zip(made, carried):
        m.dtype, m.val = v.dtype, v.val
    return made


def _while_loop(walk, cond_graph, body_graph, carried, additional=()):
    graph = walk.graph
    carried = [graph.value(v) for v in read(list(carried))]
    more = list(read(list(additional)))
    asked = lambda g, states: _run(walk, g, cond_graph, [cells_of(v) for v in [*states, *more]])[0]  # noqa: E731

    def write(body, _step, states):
        after = _run(walk, body, body_graph, [cells_of(v) for v in [*states, *more]])
        after = [body.value(a) for a in after]
        return asked(body, after), after

    first = graph.to(asked(graph, carried), BOOL)
    return cells_of(loop(graph, None, first, carried, write))


def _scan(walk, combine, init, xs, additional=()):
    graph = walk.graph
    init, xs, more = [graph.value(v) for v in read(list(init))], read(list(xs)), list(read(list(additional)))
    body = graph.inner()
    states = [body.input("state", v.dtype, v.val) for v in init]
    elements = [body.input("element", v.dtype, None if v.val is None else v.val[0]) for v in xs]
    after = _run(walk, body, combine, [cells_of(v) for v in [*states, *elements, *more]])
    after = [body.to(body.value(a), s.dtype) for a, s in zip(after, states)] + after[len(states) :]
    body.outputs = own(body, after)
    made = graph.op("Scan", *init, *xs, body=body, num_scan_inputs=len(xs), outputs=len(after))
    made = (made,) if isinstance(made, Value) else made
    for m, v in zip(made, body.outputs):
        m.dtype = v.dtype
    for m, v in zip(made, init):
        m.val = v.val
    for m, v in zip(made[len(init) :], body.outputs[len(init) :]):
        if isinstance(v.val, tessera.Tensor) and isinstance(xs[0].val, tessera.Tensor):
            m.val = v.val.unsqueeze(0).expand(xs[0].val.shape[0], *v.val.shape)
    return cells_of(made)


def _map(walk, body, xs, additional=()):
    return _scan(walk, body, (), xs, additional)


def _wrapped(skipped):
    """Operators that run a function under some setting, of which files of ONNX know nothing."""

    def run(walk, *args):
        return walk.inline(args[skipped], args[skipped + 1 :])

    return run


CONTROL = {
    "cond": _cond, "while_loop": _while_loop, "scan": _scan, "map_impl": _map, "map": _map,
    "wrap_with_set_grad_enabled": _wrapped(1), "wrap_with_autocast": _wrapped(4), "wrap": _wrapped(0),
    "tag_activation_checkpoint": _wrapped(0), "wrap_activation_checkpoint": _wrapped(0),
}  # fmt: skip
