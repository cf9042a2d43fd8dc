"""The table of decompositions: its interface, and those that recorded results (tests/conformance) do not get to."""

import pytest

import tessera
import tessera.nn.functional as F
from tessera._decomp import (
    core_aten_decompositions,
    decomposing,
    decomposition_table,
    get_decompositions,
    register_decomposition,
    remove_decompositions,
)
from tessera._subclasses.functional_tensor import functionalized
from tessera.fx.experimental.proxy_tensor import make_fx
from tessera.utils._python_dispatch import TorchDispatchMode

aten = tessera.ops.aten


def rand(*shape, seed=0):
    return tessera.randn(*shape, generator=tessera.Generator().manual_seed(seed))


def calls(gm):
    return [n.target for n in gm.graph.nodes if n.op == "call_function" and n.target.__module__ != "_operator"]


def test_core_set():
    table = core_aten_decompositions()
    core = [op for op in table if tessera.Tag.core in op.tags]
    assert core == []
    assert aten.linear.default in table and aten.silu.default in table and aten.mse_loss.default in table
    assert aten.add.Tensor not in table and aten.gelu.default not in table and aten.reshape.default not in table


def test_get_and_remove():
    some = get_decompositions([aten.silu, aten.all, aten.linear.default, aten.add])
    assert set(some) == {aten.silu.default, aten.all.default, aten.all.dim, aten.all.dims, aten.linear.default}
    assert some[aten.silu.default] is decomposition_table[aten.silu.default]
    remove_decompositions(some, [aten.all, aten.gelu])
    assert set(some) == {aten.silu.default, aten.linear.default}
    with pytest.raises(ValueError, match="expected type"):
        get_decompositions([aten.silu], type="never")
    with pytest.raises(TypeError, match="expected an operator"):
        get_decompositions([3])


def test_register():
    mine = {}

    @register_decomposition([aten.silu, aten.mish.default], mine)
    def double(x):
        return x + x

    assert set(mine) == {aten.silu.default, aten.silu.out, aten.mish.default}
    assert calls(make_fx(F.silu, decomposition_table=mine)(rand(3))) == [aten.add.Tensor]
    with pytest.raises(RuntimeError, match="duplicate registrations"):
        register_decomposition(aten.silu.default, mine)(double)
    with pytest.raises(ValueError, match="expected type"):
        register_decomposition(aten.silu.default, type="never")


def model():
    return tessera.nn.Sequential(
        tessera.nn.Conv2d(3, 4, 1), tessera.nn.BatchNorm2d(4), tessera.nn.SiLU(inplace=True), tessera.nn.Flatten(),
        tessera.nn.Linear(16, 2), tessera.nn.GELU(), tessera.nn.LayerNorm(2),
    )  # fmt: skip


def state_of(module):
    return {k: v.detach() for k, v in (*module.named_parameters(), *module.named_buffers())}


def trace(module, table):
    def run(state, x):
        return tessera.func.functional_call(module, state, (x,))

    x = rand(2, 3, 2, 2)
    with tessera.no_grad(), decomposing(table):
        return make_fx(functionalized(run, write_back=False), decomposition_table=table)(state_of(module), x), x


def test_a_model_in_core_operators():
    module = model()
    gm, x = trace(module, core_aten_decompositions())
    assert calls(gm) == [
        aten.convolution.default, aten.add.Tensor, aten._native_batch_norm_legit_functional.default,
        aten.sigmoid.default, aten.mul.Tensor, aten.view.default, aten.permute.default, aten.addmm.default,
        aten.gelu.default, aten.native_layer_norm.default,
    ]  # fmt: skip
    tessera.testing.assert_close(gm(state_of(module), x)[0], module(x))


def test_a_model_with_an_empty_table_and_with_own_functions():
    module = model().eval()
    gm, x = trace(module, {})
    assert {aten.conv2d.default, aten.linear.default, aten.silu.default, aten.layer_norm.default} <= set(calls(gm))
    assert aten._native_batch_norm_legit_no_training.default in calls(gm)
    tessera.testing.assert_close(gm(state_of(module), x)[0], module(x))
    table = core_aten_decompositions()
    del table[aten.conv2d.default]
    table[aten.linear.default] = lambda x, w, b=None: aten.mm.default(x, aten.permute.default(w, [1, 0])) + b
    gm, x = trace(module, table)
    assert calls(gm)[0] is aten.conv2d.default and aten.mm.default in calls(gm) and aten.addmm.default not in calls(gm)
    tessera.testing.assert_close(gm(state_of(module), x)[0], module(x))


def test_gradients_in_core_operators():
    def gradient(x):
        y = F.layer_norm(F.gelu(F.softmax(x, -1)), (3,))
        return tessera.autograd.grad((y * y).sum(), x)[0]

    x = rand(2, 3).requires_grad_()
    gm = make_fx(gradient, decomposition_table=core_aten_decompositions())(x)
    left = {op for op in calls(gm) if tessera.Tag.core not in op.tags}
    assert left == set()
    tessera.testing.assert_close(gm(x), gradient(x))


# What the recorded results don't get to: {operator: arguments}.
GRAD, X = rand(4, 3, seed=5), rand(4, 3) * 3
CASES = {
    aten._gelu_erf.default: (X,),
    aten._gelu_tanh.default: (X,),
    aten.relu6.default: (X,),
    aten._elu_backward_result.default: (GRAD, F.elu(X, 0.7), 0.7, 1.0, 1.0),
    aten._addmm_activation.default: (rand(2), rand(5, 4), rand(4, 2, seed=1)),
    aten.native_dropout_backward.default: (GRAD, X > 0, 2.0),
}


@pytest.mark.parametrize("op", CASES, ids=str)
@pytest.mark.parametrize("dtype", [tessera.float32, tessera.bfloat16, tessera.float64])
def test_gives_what_the_operator_gives(op, dtype):
    args = [a.to(dtype) if isinstance(a, tessera.Tensor) and a.is_floating_point() else a for a in CASES[op]]
    got, want = decomposition_table[op](*args), op(*args)
    assert got.dtype == want.dtype
    tessera.testing.assert_close(got, want)


def test_dropout():
    x = tessera.ones(1000)
    tessera.manual_seed(4)
    got = decomposition_table[aten.dropout.default](x, 0.25, True)
    tessera.manual_seed(4)
    assert tessera.equal(got, F.dropout(x, 0.25))
    assert tessera.equal(decomposition_table[aten.dropout.default](x, 0.25, False), x)


def test_composites_of_libraries_and_of_those_that_are_gone():
    from tessera.export import default_decompositions

    gone = tessera.library.Library("tests_decomp_gone", "FRAGMENT")
    gone.define("f.a(Tensor x) -> Tensor")
    gone.impl("f.a", lambda x: x + 1)
    del gone
    lib = tessera.library.Library("tests_decomp", "FRAGMENT")
    lib.define("f.a(Tensor x) -> Tensor")
    lib.define("g(Tensor x) -> Tensor")
    lib.impl("f.a", lambda x: x + 1)
    table = default_decompositions().materialize()
    assert tessera.ops.tests_decomp.f.a in table
    assert not [op for op in table if op.namespace == "tests_decomp_gone" or op._name == "tests_decomp::g"]


_F = tessera.nn.functional
_X, _R = tessera.linspace(-2, 2, 12).reshape(3, 4), tessera.linspace(0.1, 0.9, 12).reshape(3, 4)
_INDEX = tessera.tensor([[0, 2], [2, 1]])
_OF_CORE = {
    "relu": lambda x: _F.relu(x),
    "leaky_relu": lambda x: _F.leaky_relu(x, 0.2),
    "hardtanh": lambda x: _F.hardtanh(x),
    "elu": lambda x: _F.elu(x, 1.5),
    "gelu gelu_backward": lambda x: _F.gelu(x) + _F.gelu(x, approximate="tanh"),
    "_softmax": lambda x: _F.softmax(x, 1) * _R,
    "_log_softmax": lambda x: _F.log_softmax(x, 0) * _R,
    "native_layer_norm native_layer_norm_backward": lambda x: _F.layer_norm(x, (4,), x[0], x[1]) * _R,
    "native_group_norm": lambda x: _F.group_norm(x, 2, _R[0], _R[1]),
    "embedding_dense_backward": lambda x: _F.embedding(_INDEX, x, padding_idx=1) * _R[:2, None],
    "mse_loss": lambda x: _F.mse_loss(x, _R),
    "smooth_l1_loss": lambda x: _F.smooth_l1_loss(x, _R, beta=0.5),
    "huber_loss": lambda x: _F.huber_loss(x, _R, reduction="sum"),
    "binary_cross_entropy": lambda x: _F.binary_cross_entropy(tessera.sigmoid(x), _R, weight=_R),
}


@pytest.mark.parametrize("names", _OF_CORE)
def test_operators_of_the_core_set_are_decomposed_for_who_names_them(names):
    table = tessera._decomp.get_decompositions([getattr(tessera.ops.aten, name) for name in names.split()])
    assert table and (len(names.split()) > 1 or "loss" in names or "entropy" in names or
                      not set(table) & set(tessera._decomp.core_aten_decompositions()))  # fmt: skip
    function = _OF_CORE[names]
    with_gradient = "backward" in names

    def run(x):
        out = function(x.requires_grad_() if with_gradient else x)
        return [out, *tessera.autograd.grad(out.sum(), x)] if with_gradient else [out]

    for x in (_X, _X.half()) if "backward" not in names and "loss" not in names else (_X,):
        if x.dtype is tessera.half and ("softmax" in names or "group" in names or "entropy" in names):
            continue  # other operands are of float32
        graph = make_fx(run, table)(x.clone())
        assert not any(n.target in table for n in graph.graph.nodes)
        for found, expected in zip(graph(x.clone()), run(x.clone())):
            tessera.testing.assert_close(found.detach(), expected.detach(), atol=1e-5, rtol=1e-5)


def test_losses_with_checks_of_values_are_exported():
    class Losses(tessera.nn.Module):
        def forward(self, x, t):
            return _F.multilabel_margin_loss(x, t), _F.multi_margin_loss(x, t[:, 0])

    args = (_X[:2, :3], tessera.tensor([[0, -1, 1], [2, 1, -1]]))
    program = tessera.export.export(Losses(), args)
    for made in (program, program.run_decompositions()):
        assert all(map(tessera.equal, made.module()(*args), Losses()(*args)))


class Decomposing(TorchDispatchMode):
    """A mode of a program that calls the table's functions, in what they call, too."""

    def __init__(self, table):
        super().__init__()
        self.table, self.found = table, []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func in self.table:
            self.found.append(str(func))
            with self:
                return self.table[func](*args, **(kwargs or {}))
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize(
    ("fn", "name"),
    [
        (lambda x: 2 - x, "aten.rsub.Scalar"),
        (lambda x: x.clamp_min(0.5), "aten.clamp_min.default"),
        (lambda x: x.clamp_max(0.5), "aten.clamp_max.default"),
        (lambda x: tessera.where(x > 0.5, x, 3.5), "aten.where.ScalarOther"),
        (lambda x: tessera.where(x > 0.5, 3.5, x), "aten.where.ScalarSelf"),
    ],
    ids=["rsub", "clamp_min", "clamp_max", "other", "self"],
)
def test_documented_forms_with_numbers_are_taken_apart_once(fn, name):
    from tessera._decomp import core_aten_decompositions

    for x in (tessera.tensor([0.25, 0.75]), tessera.tensor([0, 1])):
        with Decomposing(core_aten_decompositions()) as mode:
            got = fn(x)
        assert mode.found.count(name) == 1
        tessera.testing.assert_close(got, fn(x))
