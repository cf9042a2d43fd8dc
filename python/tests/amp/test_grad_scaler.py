"""GradScaler: scaling, steps that are left out, several optimizers, states."""

import pickle

import pytest

import tessera
from tessera import nn
from tessera.amp.grad_scaler import OptState


def setup(optimizer=tessera.optim.SGD, **options):
    p = nn.Parameter(tessera.ones(3))
    extra = options.pop("extra", {})
    return p, optimizer([p], lr=1.0, **extra), tessera.GradScaler("cpu", **options)


def backward(scaler, p, factor=1.0):
    p.grad = None
    scaler.scale((p * factor).sum()).backward()


def test_scale_of_nested_iterables():
    _, _, s = setup(init_scale=4.0)
    from collections import namedtuple

    Pair = namedtuple("Pair", "a b")
    one = tessera.ones(())
    a, pair, rest = s.scale([one, Pair(one, (one,)), iter([one])])
    assert a.item() == pair.a.item() == pair.b[0].item() == next(rest).item() == 4.0
    with pytest.raises(ValueError, match="got str"):
        s.scale("text")
    assert s.scale(tessera.ones(2, dtype=tessera.float16)).dtype == tessera.float16


@pytest.mark.parametrize("bad", [float("inf"), float("-inf"), float("nan")])
def test_one_infinite_gradient_among_many_is_found(bad):
    ps = [nn.Parameter(tessera.ones(7)) for _ in range(20)]
    o = tessera.optim.SGD(ps, lr=1.0)
    s = tessera.GradScaler("cpu", init_scale=8.0)
    s.scale(sum(p.sum() for p in ps)).backward()
    ps[13].grad[5] = bad
    assert s.step(o) is None
    s.update()
    assert all((p == 1).all() for p in ps) and s.get_scale() == 4.0


def test_two_optimizers_and_one_update():
    p, a, s = setup(init_scale=8.0)
    q = nn.Parameter(tessera.ones(3))
    b = tessera.optim.SGD([q], lr=1.0)
    s.scale((p * float("inf")).sum() + q.sum()).backward()
    s.unscale_(b)
    assert (q.grad == 1).all()
    s.step(a)
    s.step(b)
    assert (p == 1).all() and (q == 0).all()
    s.update()
    assert s.get_scale() == 4.0


def test_stages():
    p, o, s = setup(init_scale=2.0)
    with pytest.raises(AssertionError, match="no scale yet"):
        s.unscale_(o)
    with pytest.raises(AssertionError, match="no scale yet"):
        s.step(o)
    with pytest.raises(AssertionError, match="no scale yet"):
        s.update()
    s.scale(p.sum())
    with pytest.raises(AssertionError, match="No inf checks were recorded for this optimizer"):
        s.step(o)
    s.update(2.0)
    backward(s, p)
    s.unscale_(o)
    assert s._per_optimizer_states[o]["stage"] is OptState.UNSCALED
    with pytest.raises(RuntimeError, match="already been called on this optimizer"):
        s.unscale_(o)
    s.step(o)
    with pytest.raises(RuntimeError, match="after step"):
        s.unscale_(o)
    with pytest.raises(RuntimeError, match="already been called since"):
        s.step(o)
    s.update()
    backward(s, p)
    s.step(o)


def test_unscaled_gradients_can_be_clipped():
    p, o, s = setup(init_scale=1024.0)
    backward(s, p, 10.0)
    s.unscale_(o)
    nn.utils.clip_grad_norm_([p], 1.0)
    s.step(o)
    assert tessera.allclose(1 - p, tessera.full((3,), 3**-0.5), atol=1e-5)


def test_growth_starts_again_after_an_infinite_gradient():
    p, o, s = setup(init_scale=8.0, growth_interval=2)
    scales = []
    for factor in (1.0, float("inf"), 1.0, 1.0, 1.0):
        backward(s, p, factor)
        s.step(o)
        s.update()
        scales.append(s.get_scale())
    assert scales == [8.0, 4.0, 4.0, 8.0, 8.0]


def test_a_scale_never_grows_to_infinity():
    p, o, s = setup(init_scale=3e38, growth_interval=1)
    backward(s, p, 1e-30)
    s.step(o)
    s.update()
    assert s.get_scale() == tessera.tensor(3e38).item()


def test_new_scales():
    p, o, s = setup()
    s.scale(p.sum())
    s.update(32)
    assert s.get_scale() == 32.0
    s.update(tessera.tensor([16.0]))
    assert s.get_scale() == 16.0
    with pytest.raises(AssertionError, match="one element"):
        s.update(tessera.ones(2))


def test_gradients_in_half_precision():
    p = nn.Parameter(tessera.ones(2, dtype=tessera.float16))
    o, s = tessera.optim.SGD([p], lr=1.0), tessera.GradScaler("cpu")
    s.scale(tessera.ones(()))
    p.grad = tessera.ones_like(p)
    with pytest.raises(ValueError, match="unscale FP16 gradients"):
        s.step(o)
    q = nn.Parameter(tessera.ones(2, dtype=tessera.bfloat16))
    o = tessera.optim.SGD([q], lr=1.0)
    q.grad = tessera.full_like(q, 65536.0)
    s.step(o)
    assert (q == 0).all()


@pytest.mark.parametrize("kind", [tessera.optim.SGD, tessera.optim.Adam, tessera.optim.AdamW, tessera.optim.Adagrad])
def test_fused_steps_divide_and_skip_themselves(kind):
    """They read `grad_scale` and `found_inf` of the optimizer, which go after the step."""
    p, o, s = setup(kind, init_scale=16.0, extra={"fused": True})
    q, plain, _ = setup(kind)
    backward(s, p, float("nan"))
    s.step(o)
    s.update()
    assert (p == 1).all() and s.get_scale() == 8.0
    assert not hasattr(o, "grad_scale") and not hasattr(o, "found_inf")
    for _ in range(2):
        backward(s, p, 0.25)
        s.step(o)
        s.update()
        q.grad = tessera.full((3,), 0.25)
        plain.step()
    assert tessera.allclose(p, q) and (p.grad == 0.25).all()
    backward(s, p, 0.25)
    s.unscale_(o)
    assert (p.grad == 0.25).all()
    s.step(o)
    plain.step()
    assert tessera.allclose(p, q)


def test_states():
    p, o, s = setup(init_scale=16.0, growth_factor=3.0, growth_interval=2)
    backward(s, p)
    s.step(o)
    with pytest.raises(AssertionError, match="between steps"):
        pickle.dumps(s)
    s.update()
    state = s.state_dict()
    assert state == {
        "scale": 16.0,
        "growth_factor": 3.0,
        "backoff_factor": 0.5,
        "growth_interval": 2,
        "_growth_tracker": 1,
    }
    again = pickle.loads(pickle.dumps(s))
    fresh = tessera.GradScaler("cpu")
    fresh.scale(p.sum())
    fresh.load_state_dict(state)
    for other in (again, fresh):
        assert other.state_dict() == state
        backward(other, p)
        other.step(o)
        other.update()
        assert other.get_scale() == 48.0
    with pytest.raises(RuntimeError, match="is off"):
        fresh.load_state_dict({})
    off = tessera.GradScaler("cpu", enabled=False)
    off.load_state_dict({})
    assert off.state_dict() == {} and pickle.loads(pickle.dumps(off)).is_enabled() is False


@pytest.mark.parametrize("factors", [{"growth_factor": 1.0}, {"backoff_factor": 1.0}])
def test_factors(factors):
    with pytest.raises(AssertionError, match="must be"):
        tessera.GradScaler("cpu", **factors)


def test_without_a_device_it_is_off():
    if tessera.cuda.is_available():
        assert tessera.GradScaler().is_enabled()
        return
    with pytest.warns(UserWarning, match="no CUDA device"):
        assert not tessera.GradScaler().is_enabled()


def test_operators_on_any_layout():
    strided = tessera.full((3, 5, 2), 4.0)[:, :, 1]
    double = tessera.full((2,), 4.0, dtype=tessera.float64)
    found, inverse = tessera.zeros(1), tessera.tensor(0.5)
    tessera._amp_foreach_non_finite_check_and_unscale_([strided, double], found, inverse)
    assert (strided == 2).all() and (double == 2).all() and found.item() == 0
    strided[2, 3] = float("nan")
    tessera._amp_foreach_non_finite_check_and_unscale_([strided, double], found, inverse)
    assert found.item() == 1
    with pytest.raises(RuntimeError, match="found_inf must be one number"):
        tessera._amp_foreach_non_finite_check_and_unscale_([double], tessera.zeros(2), inverse)
    with pytest.raises(RuntimeError, match="floating dtypes"):
        tessera._amp_foreach_non_finite_check_and_unscale_([tessera.ones(1, dtype=tessera.int64)], found, inverse)
    assert double[0].item() == 1.0
