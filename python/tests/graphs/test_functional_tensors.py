"""Functional tensors below autograd."""

import pytest

import tessera
from tessera._subclasses.functional_tensor import (
    FunctionalTensor,
    FunctionalTensorMode,
    _functionalize_has_data_mutation,
    _functionalize_replace,
    disable_functional_mode,
    functionalized,
    mb_unwrap_functional_tensor,
)
from tessera.fx.experimental.proxy_tensor import make_fx

aten = tessera.ops.aten


def calls(gm):
    return [n.target for n in gm.graph.nodes if n.op == "call_function"]


def writing(gm):
    return [t for t in calls(gm) if hasattr(t, "_schema") and t._schema.is_mutable]


def rand(*shape, seed=0):
    return tessera.randn(*shape, generator=tessera.Generator().manual_seed(seed))


def test_functional_tensor_and_what_it_holds():
    x = rand(3)
    t = FunctionalTensor(x)
    assert isinstance(t, FunctionalTensor) and not isinstance(x, FunctionalTensor)
    assert isinstance(t + 1, FunctionalTensor) and t.shape == x.shape
    assert tessera.equal(FunctionalTensor.from_functional(t * 2), x * 2)
    assert mb_unwrap_functional_tensor(x) is x
    assert "FunctionalTensor" in repr(t)
    with pytest.raises(RuntimeError, match="functional already"):
        FunctionalTensor(t)
    with pytest.raises(RuntimeError, match="expected a functional tensor"):
        FunctionalTensor.from_functional(x)
    with pytest.raises(TypeError, match="expected a tensor"):
        FunctionalTensor(3)


def test_writes_reach_views_and_bases_but_not_what_was_given():
    x = rand(3, 3)
    t = FunctionalTensor(x)
    row, flat = t[1], t.view(-1)
    row.zero_()
    flat[0] = 5
    held = FunctionalTensor.from_functional(t)
    assert held[1].tolist() == [0, 0, 0] and held[0, 0] == 5
    assert FunctionalTensor.from_functional(flat)[3] == 0
    assert tessera.equal(x, rand(3, 3)) and _functionalize_has_data_mutation(t)
    _functionalize_replace(t, tessera.ones(3, 3))
    assert FunctionalTensor.from_functional(row).tolist() == [1, 1, 1]


def in_place(x, y):
    x.view(-1).add_(1)
    z = tessera.zeros(2)
    z[0] = 1
    z += x.sum(0)[:2]
    tessera.add(z, 1, out=z)
    y.t_()
    return x.reshape(-1), z, y


def test_trace_of_an_in_place_program_is_functional():
    x, y = rand(3, 3), rand(3, 3, seed=1)
    gm = make_fx(functionalized(in_place))(x.clone(), y.clone())
    assert writing(gm) == [aten.copy_.default]
    a, b = x.clone(), x.clone()
    got, want = gm(a, y.clone()), in_place(b, y.clone())
    assert tessera.equal(a, b) and all(tessera.equal(p, q) for p, q in zip(got, want))
    gm = make_fx(lambda *args: functionalized(in_place, write_back=False)(*args)[0])(x, y)
    assert writing(gm) == []


def test_gradients_are_taken_above():
    def gradients(x, w):
        y = x * w
        y.view(-1)[2:].mul_(3)
        y.relu_()
        return tessera.autograd.grad((y * y).sum(), [x, w])

    x, w = rand(3, 3).requires_grad_(), rand(3, seed=1).requires_grad_()

    def below(x, w):
        inside = [FunctionalTensor(t.detach()).requires_grad_() for t in (x, w)]
        return [FunctionalTensor.from_functional(t) for t in gradients(*inside)]

    want = gradients(x, w)
    for got in (below(x, w), make_fx(below)(x, w)(x, w)):
        assert all(tessera.allclose(a, b) for a, b in zip(got, want))
    assert writing(make_fx(below)(x, w)) == []


def test_batch_norm_returns_its_statistics_and_random_numbers_are_new():
    model = tessera.nn.Sequential(
        tessera.nn.Conv2d(3, 3, 1), tessera.nn.BatchNorm2d(3), tessera.nn.ReLU(inplace=True), tessera.nn.Dropout(0.3)
    )
    state = {k: v.detach() for k, v in (*model.named_parameters(), *model.named_buffers())}
    x = rand(2, 3, 4, 4)

    def run(state, x):
        return tessera.func.functional_call(model, state, (x,))

    gm = make_fx(functionalized(run))(state, x)
    assert aten._native_batch_norm_legit_functional.default in calls(gm) and aten.bernoulli.p in calls(gm)
    assert set(writing(gm)) == {aten.copy_.default}
    first, second = ({k: v.clone() for k, v in state.items()} for _ in range(2))
    tessera.manual_seed(3)
    got = gm(first, x)
    tessera.manual_seed(3)
    assert tessera.equal(got, run(second, x))
    assert all(tessera.equal(first[k], second[k]) for k in first)
    assert not tessera.equal(first["1.running_mean"], state["1.running_mean"] * 0)


@pytest.mark.parametrize("fill", ["uniform_", "normal_", "exponential_", "bernoulli_"])
def test_random_fillings(fill):
    def run(x):
        return getattr(x.clone(), fill)()

    gm = make_fx(functionalized(run))(rand(5))
    assert writing(gm) == []
    tessera.manual_seed(1)
    got = gm(rand(5))
    tessera.manual_seed(1)
    assert tessera.equal(got, run(rand(5)))


def test_tensors_from_elsewhere():
    given = rand(3)
    inside = FunctionalTensor(rand(3))
    with pytest.raises(RuntimeError, match="mutating a non-functional tensor"):
        given.add_(inside)
    with FunctionalTensorMode():
        assert isinstance(tessera.zeros(2), FunctionalTensor)
        view = given.view(-1)
        view.zero_()
        with disable_functional_mode():
            assert not isinstance(tessera.zeros(2), FunctionalTensor)
    assert given.tolist() == [0, 0, 0] and not isinstance(tessera.zeros(2), FunctionalTensor)


def test_twins_keep_their_form():
    t = FunctionalTensor(rand(2, 3))
    twin = t.detach()
    t.t_()
    assert t.shape == (3, 2) and twin.shape == (2, 3)
    t.mul_(0)
    assert FunctionalTensor.from_functional(twin).tolist() == [[0] * 3] * 2


def test_without_functional_form_works_on_copies():
    def run(x):
        y = x.clone()
        y.cauchy_(generator=tessera.Generator().manual_seed(2))
        return y

    assert tessera.equal(functionalized(run)(rand(4)), run(rand(4)))
    with pytest.raises(RuntimeError, match="changes the shape"):
        functionalized(lambda x: x.zero_().unsqueeze_(0))(rand(2))


def test_tensors_of_numbers_belong_to_the_function():
    def run(x):
        c = tessera.tensor([1.0, 2.0])
        c.mul_(x)
        return c

    x = rand(2)
    assert tessera.equal(functionalized(run)(x), run(x))
    assert tessera.equal(make_fx(functionalized(run))(x)(x * 2), run(x * 2))
