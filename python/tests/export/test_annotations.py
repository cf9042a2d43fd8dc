"""Notes that a program gives its operators (fx.traceback.annotate) in captured and exported graphs."""

import pytest
import tessera
from tessera.export import export
from tessera.fx import traceback


class Staged(tessera.nn.Module):
    def forward(self, x):
        with traceback.annotate({"stage": 1}):
            y = x.sin()
            with traceback.annotate({"inner": 2}):
                y = y.cos()
        return y + 1


NOTES = [{"stage": 1}, {"stage": 1, "inner": 2}, None]
X = tessera.ones(3)


def notes(graph):
    return [n.meta.get("custom") for n in graph.nodes if n.op in ("call_function", "call_method")]


@pytest.mark.parametrize("kept", [False, True])
@pytest.mark.parametrize("strict", [False, True])
def test_of_programs(strict, kept):
    with traceback.preserve_node_meta(kept):
        program = export(Staged(), (X,), strict=strict)
    want = NOTES if strict or kept else [None] * 3
    assert notes(program.graph) == notes(program.run_decompositions().graph) == want
    assert notes(program.module().graph)[-3:] == want


def test_of_captured_functions():
    graphs = []
    call = tessera.compile(Staged(), backend=lambda module, _: graphs.append(module) or module, fullgraph=True)
    assert tessera.equal(call(X), Staged()(X)) and notes(graphs[0].graph) == NOTES


def test_a_graph_may_end_inside():
    def function(x):
        with traceback.annotate({"stage": 1}):
            x = x.sin()
            tessera._dynamo.graph_break()
            x = x.cos()
        return x + 1

    assert tessera.equal(tessera.compile(function, backend="eager")(X), function(X))
    assert not traceback.get_current_meta() and not traceback.has_preserved_node_meta()
