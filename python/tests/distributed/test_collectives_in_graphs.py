"""Collectives in graphs: of tessera.compile without a break, and of make_fx."""

import pytest
import tessera
import tessera.distributed as dist
from ranks import run
from tessera.distributed import _functional_collectives as funcol
from tessera.fx.experimental.proxy_tensor import make_fx

GROUP = dist.group


def summed(x):
    return funcol.all_reduce(x * 2, "sum", GROUP.WORLD) + 1


def waited(x):
    return funcol.wait_tensor(funcol.all_gather_tensor(x, 0, GROUP.WORLD))


def cut(x):
    return funcol.reduce_scatter_tensor(x, "max", 0, GROUP.WORLD)


def several(x):
    first, second = funcol.all_reduce_coalesced([x, x * 2], "sum", GROUP.WORLD)
    return first + second


def in_place(x):
    y = x * 2
    dist.all_reduce(y, op=dist.ReduceOp.MAX, group=GROUP.WORLD)
    return y + 1


def given(x):
    y = x * 2
    dist.broadcast(y, 1)
    return y


def into_one(x):
    out = tessera.zeros(8)
    dist.all_gather_into_tensor(out, x)
    return out + 1


def into_many(x):
    outs = [tessera.zeros(4), tessera.zeros(4)]
    dist.all_gather(outs, x * 2)
    return outs[0] - outs[1]


def exchanged(x):
    out = tessera.zeros(4)
    dist.all_to_all_single(out, x)
    return out


def asked(x):
    group = dist.distributed_c10d._get_default_group()
    return x * dist.get_world_size(group) + group.rank() + group.size() + dist.get_rank()


PROGRAMS = (summed, waited, cut, several, in_place, given, into_one, into_many, exchanged, asked)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_compiled_functions_hold_collectives(backend):
    def body(rank, world):
        x, found = tessera.arange(4.0) + 10 * rank, []
        for program in PROGRAMS:
            compiled = tessera.compile(program, backend=backend, fullgraph=True)
            for y in (x, x + 1):
                found.append(tessera.equal(compiled(y), program(y)))
        return found

    assert run(body) == [[True] * 2 * len(PROGRAMS)] * 2


def test_a_work_is_refused_in_a_whole_graph():
    def body(rank, world):
        def program(x):
            dist.all_reduce(x, async_op=True).wait()
            return x + 1

        with pytest.raises(tessera._dynamo.exc.Unsupported, match="async_op=True"):
            tessera.compile(program, backend="eager", fullgraph=True)(tessera.ones(2))
        return tessera.compile(program, backend="eager")(tessera.ones(2)).tolist()  # the graph ends there

    assert run(body) == [[3.0, 3.0]] * 2


def test_gradients_go_through_compiled_collectives():
    def body(rank, world):
        x = (tessera.arange(3.0) + rank).requires_grad_()
        compiled = tessera.compile(lambda x: funcol.all_reduce(x * 2, "sum", GROUP.WORLD).pow(2).sum(), fullgraph=True)
        compiled(x).backward()
        return x.grad.tolist()

    assert run(body) == [[16.0, 48.0, 80.0]] * 2


@pytest.mark.parametrize("mode", ["real", "fake"])
def test_traces_hold_collectives_with_their_groups(mode):
    def body(rank, world):
        x, found = tessera.arange(4.0) + 10 * rank, []
        for program in (in_place, given, into_one, into_many, exchanged):
            graph = make_fx(program, tracing_mode=mode)(x)
            kept = [getattr(graph, n.target) for n in graph.graph.nodes if n.op == "get_attr"]
            assert dist.group.WORLD in kept and "torch.ops.c10d." in graph.code
            found.append(tessera.equal(graph(x + 1), program(x + 1)))
        return found

    assert run(body) == [[True] * 5] * 2


def test_collectives_in_place_are_no_change_for_autograd():
    def body(rank, world):
        x = tessera.ones(2, requires_grad=True)
        y = (x * (1 + rank)).exp()  # which its backward pass reads
        dist.all_reduce(y)
        y.sum().backward()
        out = tessera.zeros(4)
        dist.all_gather_into_tensor(out, tessera.ones(2))
        return (x.grad / (1 + rank) - y.detach()).abs().max().item() < 1e-6, y._version, out._version

    assert run(body) == [(True, 0, 1)] * 2
