"""Graphs of programs from Python: uses of values, places of insertion, attributes of nodes, aliases."""

from typing import List

import pytest

import tessera as torch


@torch.jit.script
def twice(x):
    return x + 1 + x


@torch.jit.script
def written(x, y):
    a = x.view(-1)
    b = x + y
    c = b.t()
    c.add_(1)
    kept = [a, b]
    return kept[0], c


@torch.jit.script
def branches(x, l: List[torch.Tensor]):
    l.append(x)
    y = l[0].view(-1)
    if bool(y.sum() > 0):
        z = y
    else:
        z = x + 1
    for i in range(3):
        z = z + i
    return z


def named(graph):
    found = {v.debugName().partition(".")[0]: v for v in graph.inputs()}

    def walk(block):
        for node in block.nodes():
            found.update((o.debugName().partition(".")[0], o) for o in node.outputs())
            for inner in node.blocks():
                walk(inner)

    walk(graph)
    return found


def node_of(graph, kind):
    return next(n for n in graph.nodes() if n.kind() == kind)


def test_uses_name_node_and_place():
    graph = twice.graph.copy()
    first, second = next(iter(graph.inputs())).uses()
    assert (first.user.kind(), first.offset, second.offset) == ("aten::add", 0, 1)
    assert second.isAfter(first) and not first.isAfter(second)
    assert first.user == next(iter(graph.inputs())).uses()[0].user and isinstance(first, torch.Use)


def test_insertion_inside_of_a_guard():
    graph = twice.graph.copy()
    add = node_of(graph, "aten::add")
    end = graph.insertPoint().kind()
    with graph.insert_point_guard(add):
        made = graph.insertConstant(7).node()
    assert made.isBefore(add) and graph.insertPoint().kind() == end
    assert "value=7" in str(graph)


def test_attributes_of_all_kinds():
    graph = torch.Graph()
    n = graph.create("prim::Foo")
    graph.insertNode(n)
    n.i_("a", 3).f_("b", 1.5).s_("c", 'h"i').is_("d", [1, 2]).fs_("e", [1.0, 2.5]).ss_("h", ["x", "y"])
    n.t_("t", torch.tensor(2.0)).ts_("ts", [torch.zeros(2)]).t_("u", torch.zeros(3, 3))
    n.ty_("ty", torch.IntType.get()).tys_("tys", [torch.IntType.get()]).ival_("iv", (1, 2)).c_("cc", 1 + 2j)
    n.g_("g", torch.Graph()).gs_("gs", [])
    text = str(graph)
    for part in ('a=3, b=1.5, c="h\\"i", d=[1, 2], e=[1., 2.5], h=["x", "y"], t={2}, ts=[<Tensors>]',
                 "ty=int, tys=[int], iv=(1, 2), cc=1.+2.j, g=<Graph>, gs=[<Graphs>]"):  # fmt: skip
        assert part in text
    assert n.i("a") == 3 and n.fs("e") == [1.0, 2.5] and n.c("cc") == 1 + 2j and n.kindOf("u") == "t"
    assert n.f_("b", 1).f("b") == 1.0
    for method, wrong in (("i_", "x"), ("i_", 1.5), ("f_", "q"), ("s_", 3), ("t_", 3), ("is_", 3), ("is_", [1.5]),
                          ("ty_", 3), ("ss_", "abc")):  # fmt: skip
        with pytest.raises(TypeError):
            getattr(n, method)("k", wrong)
    assert not n.hasAttribute("k")
    with pytest.raises(RuntimeError, match="zz"):
        n.i("zz")
    with pytest.raises(RuntimeError, match="'f'"):
        n.i("b")


def test_calls_of_python_know_their_functions():
    @torch.jit.ignore
    def outside(x):
        return x

    @torch.jit.script
    def program(x):
        return outside(x)

    call = next(n for n in program.graph.nodes() if "Python" in n.kind() or "outside" in str(n))
    assert call.pyobj() is outside and call.pyname() == "outside" and call.scalar_args() == []
    with pytest.raises(RuntimeError):
        next(iter(twice.graph.nodes())).pyobj()


def test_views_alias_and_results_do_not():
    graph = written.graph
    db, v = graph.alias_db(), named(graph)
    assert isinstance(db, torch.AliasDb)
    assert db.may_contain_alias(v["a"], v["x"]) and db.may_contain_alias(v["b"], v["c"])
    assert not db.may_contain_alias(v["a"], v["b"])
    assert db.may_contain_alias(v["x"], v["y"])  # nothing is known of what is given
    assert db.may_contain_alias(v["kept"], [v["b"]]) and db.may_contain_alias([v["kept"], v["y"]], [v["a"]])
    assert db.has_writers(v["b"]) and db.has_writers(v["c"]) and not db.has_writers(v["x"])


def test_elements_branches_and_loops():
    graph = branches.graph
    db, v = graph.alias_db(), named(graph)
    assert db.may_contain_alias(v["y"], v["x"]) and db.may_contain_alias(v["l"], v["x"])
    assert db.has_writers(v["l"])
    add = [n for n in graph.nodes() if n.kind() == "prim::If"][0]
    assert db.may_contain_alias(add.output(), v["y"])


def test_frozen_attributes_have_memory_of_their_own():
    class Two(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.w, self.v = torch.nn.Parameter(torch.ones(2)), torch.nn.Parameter(torch.ones(2))

        def forward(self, x):
            return self.w + x, self.v

    graph = torch.jit.script(Two()).graph
    first, second = (n.output() for n in graph.findAllNodes("prim::GetAttr"))
    assert graph.alias_db().may_contain_alias(first, second)
    assert not graph.alias_db(isFrozen=True).may_contain_alias(first, second)
    with pytest.raises(RuntimeError, match="inline"):
        graph.alias_db(descend_function_calls=True)


def test_moves_keep_what_is_computed():
    graph = written.graph.copy()
    db = graph.alias_db()
    view, add, write = (node_of(graph, f"aten::{k}") for k in ("view", "add", "add_"))
    assert not db.move_before_topologically_valid(write, add)  # what it writes is computed there
    assert db.move_after_topologically_valid(view, add) and view.isAfter(add)
    assert not db.move_after_topologically_valid(add, write)
    graph.lint()
    x, y = torch.ones(2, 3), torch.ones(2, 3)
    made = torch._C._jit.function_of_graph("made", graph)
    for mine, first in zip(made(x, y), written(x, y)):
        assert torch.equal(mine, first)


def test_texts_of_aliases(capsys):
    written.graph.dump_alias_db()
    text = capsys.readouterr().out
    assert "%c" in text and "WILDCARD for type Tensor" in text and "aten::add_" in text.partition("Writes")[2]
    assert written.graph.alias_db().to_graphviz_str().startswith("digraph")


def test_types_by_the_names_of_the_root():
    whole = torch.IntType.get()
    assert isinstance(whole, torch.IntType) and not isinstance(whole, torch.FloatType)
    assert torch.ListType.getElementType(torch.ListType.ofInts()) == whole
    assert torch.TupleType([whole, torch.StringType.get()]).elements() == [whole, torch.StringType.get()]
    assert torch.DictType(whole, torch.NoneType.get()).getKeyType() == whole
    assert torch.unify_type_list([whole, torch.NoneType.get()]).kind() == "OptionalType"
    with pytest.raises(RuntimeError, match="in common"):
        torch.unify_type_list([whole, torch.FloatType.get()])
    with pytest.raises(TypeError, match="nowhere"):
        torch.ClassType("nowhere.X")
    known, unknown = torch.InferredType(whole), torch.InferredType("a reason")
    assert known.success() and known.type() == whole and known.reason() == ""
    assert not unknown.success() and unknown.reason() == "a reason"
    with pytest.raises(RuntimeError, match="a reason"):
        unknown.type()


def test_texts_become_graphs_and_schemas():
    graph = torch.parse_ir("graph(%a : Tensor):\n  %b : Tensor = aten::relu(%a)\n  return (%b)\n")
    assert isinstance(graph, torch.Graph) and [n.kind() for n in graph.nodes()] == ["aten::relu"]
    assert torch._C._jit.function_of_graph("made", graph)(torch.tensor([-1.0, 2.0])).tolist() == [0.0, 2.0]
    assert torch.parse_schema("aten::f(Tensor a, *, Scalar alpha=1) -> Tensor").arguments[1].kwarg_only
    for wrong in (torch.parse_ir, torch.parse_schema):
        with pytest.raises(RuntimeError):
            wrong("graph(")
    with pytest.raises(torch.JITException):
        torch.CompilationUnit("def f(x):\n    assert x.dim() == 2\n    return x\n").f(torch.ones(1))
    assert torch.wait(torch.fork(lambda x: x + 1, torch.ones(1))).item() == 2.0
