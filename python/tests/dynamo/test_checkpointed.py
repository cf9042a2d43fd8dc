"""torch.utils.checkpoint.checkpoint in compiled functions: the function is a graph in the graph."""

import functools

import pytest
import tessera
from tessera import nn
from tessera.utils.checkpoint import CheckpointPolicy, checkpoint, create_selective_checkpoint_contexts

BACKENDS = ["eager", "aot_eager", "inductor"]
RUNS = []


@tessera.library.custom_op("test_checkpointed::noted", mutates_args=())
def noted(x: tessera.Tensor) -> tessera.Tensor:
    RUNS.append(1)
    return x.clone()


noted.register_fake(lambda x: x.clone())
noted.register_autograd(lambda ctx, grad: grad)


def gradient(function, x):
    x = x.clone().requires_grad_()
    result = function(x)
    result.sum().backward()
    return result.detach(), x.grad


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("reentrant", [False, True])
def test_functions_modules_and_methods(backend, reentrant):
    layer = nn.Linear(4, 4)

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(4, 4)

        def part(self, x, y):
            return {"sum": self.inner(x).relu() + y, "kept": 3}, x

        def forward(self, x):
            made, same = checkpoint(self.part, x, x * 2, use_reentrant=False)
            return checkpoint(layer, made["sum"] * made["kept"] + same, use_reentrant=reentrant)

    model, x = Model(), tessera.randn(3, 4)
    compiled = tessera.compile(model, fullgraph=True, backend=backend)
    for got, wanted in zip(gradient(compiled, x), gradient(model, x)):
        tessera.testing.assert_close(got, wanted)


def test_the_graph_holds_the_function_and_runs_it_again():
    graphs = []

    def backend(module, examples):
        graphs.append(module)
        return module.forward

    def function(x):
        return checkpoint(lambda a: noted(a.sin()).cos(), x, use_reentrant=False) * 2

    x = tessera.randn(3, requires_grad=True)
    result = tessera.compile(function, fullgraph=True, backend=backend)(x)
    node = next(n for n in graphs[0].graph.nodes if n.target is tessera.ops.higher_order.tag_activation_checkpoint)
    assert node.kwargs == {"use_reentrant": False} and node.args[0].op == "get_attr"
    before = len(RUNS)
    result.sum().backward()
    assert len(RUNS) == before + 1
    tessera.testing.assert_close(x.grad, -2 * x.detach().sin().sin() * x.detach().cos())


@pytest.mark.parametrize("backend", BACKENDS)
def test_random_numbers_are_those_of_the_first_run(backend):
    def function(x):
        return checkpoint(nn.functional.dropout, x, 0.5, use_reentrant=False)

    result, grad = gradient(tessera.compile(function, fullgraph=True, backend=backend), tessera.ones(200))
    assert 0 < (result == 0).sum() < 200 and tessera.equal(result, grad)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_statistics_are_written_once(backend):
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
    compiled = tessera.compile(lambda x: checkpoint(model, x, use_reentrant=False), fullgraph=True, backend=backend)
    gradient(compiled, tessera.randn(5, 4))
    assert model[1].num_batches_tracked == 1


def test_a_policy_says_what_is_saved():
    def policy(ctx, op, *args, **kwargs):
        saved = op == tessera.ops.aten.mm.default
        return CheckpointPolicy.MUST_SAVE if saved else CheckpointPolicy.PREFER_RECOMPUTE

    contexts = functools.partial(create_selective_checkpoint_contexts, policy)

    def function(x):
        return checkpoint(lambda a: (a @ a).sin(), x, use_reentrant=False, context_fn=contexts)

    x = tessera.randn(3, 3)
    compiled = tessera.compile(function, fullgraph=True, backend="eager")
    for got, wanted in zip(gradient(compiled, x), gradient(function, x)):
        tessera.testing.assert_close(got, wanted)


def test_what_a_graph_cannot_hold_runs_as_it_is():
    seen = []

    def function(x):
        def inner(a):
            seen.append(a.shape)
            return a.sin()

        return checkpoint(inner, x, use_reentrant=False)

    x = tessera.randn(3)
    tessera.testing.assert_close(gradient(tessera.compile(function, backend="eager"), x)[1], x.cos())
    assert seen
    with pytest.raises(tessera._dynamo.exc.Unsupported, match="writes to objects outside"):
        tessera.compile(function, backend="eager", fullgraph=True)(x.requires_grad_())
    with pytest.raises(tessera._dynamo.exc.Unsupported, match="use_reentrant=True and keyword arguments"):
        tessera.compile(lambda x: checkpoint(tessera.add, x, other=x, use_reentrant=True), fullgraph=True)(x)
