"""utils.checkpoint: the same gradients, random numbers, errors and memory, with and without reentrance."""

import functools
import gc
import weakref

import pytest
import tessera
from tessera import nn
from tessera.autograd.graph import saved_tensors_hooks
from tessera.utils.checkpoint import (
    CheckpointError,
    CheckpointPolicy,
    DefaultDeviceType,
    GraphExecGroup,
    check_backward_validity,
    checkpoint,
    checkpoint_sequential,
    create_selective_checkpoint_contexts,
    detach_variable,
    get_device_states,
    set_checkpoint_debug_enabled,
    set_checkpoint_early_stop,
)

aten = tessera.ops.aten
plain = functools.partial(checkpoint, use_reentrant=False)


def leaf(n=3):
    return tessera.linspace(0.1, 1, n).requires_grad_()


class Counted:
    """A function that counts its calls."""

    def __init__(self, function):
        self.function, self.calls = function, 0

    def __call__(self, *args, **kwargs):
        self.calls += 1
        return self.function(*args, **kwargs)


@pytest.mark.parametrize("reentrant", [True, False])
def test_gradients_of_a_model_with_dropout(reentrant):
    tessera.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.Dropout(0.5), nn.Tanh(), nn.Linear(8, 2))
    x = tessera.randn(5, 4, requires_grad=True)

    def gradients(call):
        tessera.manual_seed(1)
        y = call(x)
        model.zero_grad()
        x.grad = None
        y.sum().backward()
        return [y.detach(), x.grad, *(p.grad for p in model.parameters())]

    counted = Counted(model)
    wanted, got = gradients(model), gradients(lambda v: checkpoint(counted, v, use_reentrant=reentrant))
    assert counted.calls == 2
    for a, b in zip(got, wanted):
        tessera.testing.assert_close(a, b)


@pytest.mark.parametrize("reentrant", [True, False])
def test_random_numbers(reentrant):
    x = tessera.ones(100, requires_grad=True)
    dropout = functools.partial(nn.functional.dropout, p=0.5)
    y = checkpoint(dropout, x, use_reentrant=reentrant)
    tessera.rand(10)
    before = tessera.get_rng_state()
    y.sum().backward()
    assert tessera.equal(x.grad, y.detach())
    assert tessera.equal(before, tessera.get_rng_state())
    x.grad = None
    y = checkpoint(dropout, x, use_reentrant=reentrant, preserve_rng_state=False)
    y.sum().backward()
    assert not tessera.equal(x.grad, y.detach())


def test_arguments_of_any_kind():
    x, w = leaf(), leaf()

    def f(pair, scale, *, power, shift):
        return (pair[0] * pair[1]) ** power * scale + shift

    y = plain(f, (x, w), 2.0, power=3, shift=w)
    y.sum().backward()
    tessera.testing.assert_close(x.grad, 6 * x.detach() ** 2 * w.detach() ** 3)
    assert w.grad is not None


def test_nothing_but_inputs_is_kept():
    made = []

    def f(x):
        y = x.exp()
        made.append(weakref.ref(y))
        return y.exp().exp()

    y = plain(f, leaf())
    gc.collect()
    assert made[0]() is None
    y.sum().backward()


def test_hooks_around_see_the_inputs_alone():
    seen = []
    x = leaf()
    with saved_tensors_hooks(lambda t: seen.append(t.shape) or t, lambda t: t):
        plain(lambda v: v.exp().exp().exp(), x).sum().backward()
    assert seen == [x.shape]


def test_inputs_that_were_written_to():
    x = leaf() * 1
    y = plain(tessera.sin, x)
    x.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_the_second_run_stops_early():
    ran = []

    def f(x):
        y = x.exp()
        ran.append("needed")
        z = y + 2
        ran.append("not needed")
        return z

    plain(f, leaf()).sum().backward()
    assert ran == ["needed", "not needed"]  # the second run ends inside exp
    for arguments, override in [({"early_stop": False}, None), ({}, False)]:
        ran.clear()
        if override is None:
            plain(f, leaf(), **arguments).sum().backward()
        else:
            with set_checkpoint_early_stop(override):
                y = plain(f, leaf(), **arguments)
            y.sum().backward()
        assert ran == ["needed", "not needed"] * 2


def test_code_that_catches_exceptions_does_not_catch_the_end():
    def f(x):
        try:
            return x.exp()
        except Exception:
            return x.sin()

    x = leaf()
    plain(f, x).sum().backward()
    tessera.testing.assert_close(x.grad, x.detach().exp())


@pytest.mark.parametrize("early", [True, False])
def test_nested(early):
    x = leaf()
    inner, outer = Counted(lambda v: v.sin().exp()), Counted(lambda v: plain(inner, v.cos()).tanh().sin())
    with set_checkpoint_early_stop(early):
        y = plain(outer, x)
    y.sum().backward()
    (wanted,) = tessera.autograd.grad(x.cos().sin().exp().tanh().sin().sum(), x)
    tessera.testing.assert_close(x.grad, wanted)
    assert (outer.calls, inner.calls) == (2, 3)


def test_passes_over_a_retained_graph():
    x = leaf()
    f = Counted(lambda v: v.sin().exp())
    y = plain(f, x).sum()
    (first,) = tessera.autograd.grad(y, x, retain_graph=True)
    (second,) = tessera.autograd.grad(y, x)
    assert tessera.equal(first, second)
    assert f.calls == 3
    y = plain(f, x)
    tessera.testing.assert_close(y.grad_fn._saved_result, y.detach())


def test_second_derivatives():
    x = leaf()
    y = plain(lambda v: v.sin().exp(), x).sum()
    (g,) = tessera.autograd.grad(y, x, create_graph=True)
    (gg,) = tessera.autograd.grad(g.sum(), x)
    reference = x.sin().exp().sum()
    (h,) = tessera.autograd.grad(reference, x, create_graph=True)
    tessera.testing.assert_close(gg, tessera.autograd.grad(h.sum(), x)[0])


def test_what_a_restricted_pass_left_over_goes():
    x, w = leaf(), leaf()
    made = []

    def f(x, w):
        y = x.exp()
        made.append(weakref.ref(y))
        return (y * w).sum()

    y = plain(f, x, w, early_stop=False)
    tessera.autograd.grad(y, w, retain_graph=True)
    gc.collect()
    assert len(made) == 2
    y.backward()
    tessera.testing.assert_close(x.grad, x.detach().exp() * w.detach())


def test_a_group_runs_a_part_once():
    x = leaf()
    f = Counted(lambda v: (v.sin().exp(), v.cos().exp()))
    a, b = plain(f, x, early_stop=False)
    with GraphExecGroup() as group:
        assert GraphExecGroup._get_current_group() is group
        a.sum().backward(retain_graph=True)
        b.sum().backward()
        with pytest.raises(RuntimeError, match="cannot be nested"), GraphExecGroup():
            pass
    assert f.calls == 2
    assert GraphExecGroup._get_current_group() is None


def alternating(*functions):
    calls = iter(functions)
    return lambda x: next(calls)(x)


def two(x):
    return x.sin().exp().sin()


@pytest.mark.parametrize(
    ("second", "options", "message"),
    [
        (lambda x: x.sin(), {}, "during forward: 3\nNumber of tensors saved during recomputation: 1"),
        (lambda x: two(x).sin(), {"early_stop": False}, "more tensors during recomputation"),
        (lambda x: two(x[:2]), {}, "different metadata"),
        (lambda x: two(x.double()), {}, "float64"),
    ],
)
def test_runs_that_differ(second, options, message):
    y = plain(alternating(two, second), leaf(), **options)
    with pytest.raises(CheckpointError, match=message):
        y.sum().backward()


def test_forms_are_not_compared_on_request():
    x = leaf()
    y = plain(alternating(two, lambda v: two(v.double())), x, determinism_check="none")
    y.sum().backward()
    assert x.grad is not None


@pytest.mark.parametrize("everywhere", [True, False])
def test_debug_shows_both_runs(everywhere):
    with set_checkpoint_debug_enabled(everywhere or None):
        y = plain(alternating(two, lambda x: x.cos()), leaf(), debug=not everywhere)
    with pytest.raises(CheckpointError) as error:
        y.sum().backward()
    text = str(error.value)
    assert "aten.exp.default(torch.float32[3])" in text.replace("tessera.float32", "torch.float32")
    assert "aten.cos.default" in text
    assert "test_debug_shows_both_runs" in text
    assert isinstance(error.value.__cause__, CheckpointError)


def test_errors_of_the_second_run_are_its_own():
    x = leaf()

    def fail(value):
        raise KeyError("second run")

    with pytest.raises(KeyError, match="second run"):
        plain(alternating(two, fail), x).sum().backward()


def test_arguments_that_do_not_fit():
    x = leaf()
    with pytest.warns(UserWarning, match="use_reentrant parameter should be passed explicitly"):
        checkpoint(tessera.sin, x)
    with pytest.raises(ValueError, match="Unexpected keyword arguments: b"):
        checkpoint(lambda a, b: a, x, use_reentrant=True, b=1)
    with pytest.raises(ValueError, match="only supported when use_reentrant=False"):
        checkpoint(tessera.sin, x, use_reentrant=True, debug=True)
    with pytest.raises(ValueError, match=r"one of \['default', 'none'\], but got x"):
        plain(tessera.sin, x, determinism_check="x")
    with pytest.warns(UserWarning, match="None of the inputs have requires_grad=True"):
        checkpoint(tessera.sin, x.detach(), use_reentrant=True)
    with pytest.raises(ValueError, match="Unexpected keyword arguments: foo"):
        checkpoint_sequential([tessera.sin], 1, x, use_reentrant=False, foo=1)
    with pytest.raises(ValueError, match="at least 1"):
        checkpoint_sequential([tessera.sin], 0, x, use_reentrant=False)
    with pytest.raises(RuntimeError, match="Only tuple of tensors is supported"):
        detach_variable([x])
    with tessera.no_grad():
        assert plain(tessera.sin, x).grad_fn is None


def test_reentrance_needs_a_whole_pass():
    x = leaf()
    for restricted in (
        lambda y: tessera.autograd.grad(y, x),
        lambda y: y.backward(inputs=[x]),
    ):
        y = checkpoint(lambda v: v.sin().sum(), x, use_reentrant=True)
        with pytest.raises(RuntimeError, match="incompatible with .grad"):
            restricted(y)
    # ... also around it
    outer = checkpoint(
        lambda v: checkpoint(lambda u: u.sin(), v, use_reentrant=True).exp().sum(), x, use_reentrant=True
    )
    outer.backward()
    tessera.testing.assert_close(x.grad, x.detach().cos() * x.detach().sin().exp())
    frozen = checkpoint(lambda v: v.detach() * 2, x, use_reentrant=True)
    with pytest.raises(RuntimeError, match="none of output has requires_grad=True"):
        frozen.sum().backward()


@pytest.mark.parametrize("segments", [1, 2, 3, 5, 7])
@pytest.mark.parametrize("reentrant", [True, False])
def test_sequences(segments, reentrant):
    layers = [Counted(nn.Linear(3, 3)) for _ in range(5)]
    x = tessera.randn(2, 3, requires_grad=True)
    y = checkpoint_sequential(layers, segments, x, use_reentrant=reentrant)
    wanted = x
    for layer in layers:
        wanted = layer.function(wanted)
    tessera.testing.assert_close(y, wanted)
    y.sum().backward()
    last = 5 - 5 // segments * (segments - 1)
    assert [layer.calls for layer in layers[5 - last :]] == [1] * last
    assert all(layer.calls >= (2 if reentrant else 1) for layer in layers[: 5 - last])


def test_small_helpers():
    x = leaf()
    assert get_device_states(x, 1) == ([], [])
    assert DefaultDeviceType.get_device_type() == "cuda"
    a, b = detach_variable((x * 2, 5))
    assert (a.requires_grad, a.is_leaf, b) == (True, True, 5)
    check_backward_validity([x])


# ---- selective -----------------------------------------------------------------------------------------------------


class Operators(tessera.utils._python_dispatch.TorchDispatchMode):
    """The names of the operators that run."""

    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.append(str(func))
        return func(*args, **(kwargs or {}))


def selective(policy, function, x, **options):
    contexts = functools.partial(create_selective_checkpoint_contexts, policy, **options)
    return plain(function, x, context_fn=contexts, early_stop=False)


def multiply(x):
    return tessera.mm(x.sin(), x).sin()


POLICIES = {
    "list": [aten.mm.default],
    "policy": lambda context, op, *args, **kwargs: (
        CheckpointPolicy.MUST_SAVE if op == aten.mm.default else CheckpointPolicy.PREFER_RECOMPUTE
    ),
    "bool": lambda context, op, *args, **kwargs: op == aten.mm.default,
    "offload": lambda context, op, *args, **kwargs: (
        CheckpointPolicy.MUST_CPU_OFFLOAD if op == aten.mm.default else CheckpointPolicy.MUST_RECOMPUTE
    ),
}


@pytest.mark.parametrize("policy", POLICIES.values(), ids=POLICIES)
def test_kept_results_are_not_computed_again(policy):
    x = tessera.randn(3, 3, requires_grad=True)
    (wanted,) = tessera.autograd.grad(multiply(x).sum(), x)
    y = selective(policy, multiply, x).sum()
    with Operators() as seen:
        y.backward()
    tessera.testing.assert_close(x.grad, wanted)
    assert seen.names.count("aten.sin.default") == 2
    assert seen.names.count("aten.mm.default") == 2  # of backward itself
    with pytest.raises(RuntimeError):
        y.backward()


def test_policies_know_which_run_it_is():
    runs = []

    def policy(context, op, *args, **kwargs):
        runs.append((context.is_recompute, str(op), len(args)))
        return CheckpointPolicy.PREFER_RECOMPUTE

    selective(policy, lambda v: v.sin().exp(), leaf()).sum().backward()
    once = [("aten.sin.default", 1), ("aten.exp.default", 1)]
    assert runs == [(False, *r) for r in once] + [(True, *r) for r in once]


def test_kept_results_that_changed():
    def f(x):
        return x.sin().add_(1).sin()

    keep = [aten.sin.default]
    with pytest.raises(RuntimeError, match="has been mutated"):
        selective(keep, f, leaf()).sum().backward()
    selective(keep, f, leaf(), allow_cache_entry_mutation=True).sum().backward()


def test_errors_of_policies():
    x = leaf()
    with pytest.raises(TypeError, match="either a function or a list of ops"):
        create_selective_checkpoint_contexts(3)
    with pytest.raises(ValueError, match="aten.sin.default"):
        create_selective_checkpoint_contexts([aten.sin])
    with pytest.raises(TypeError, match="has to return a CheckpointPolicy or a bool"):
        selective(lambda context, op, *a, **k: 3, two, x)
    with pytest.raises(RuntimeError, match="not found in storage"):
        selective(lambda context, op, *a, **k: context.is_recompute, two, x).sum().backward()
    y = selective([aten.sin.default], two, x).sum()
    y.backward(retain_graph=True)
    with pytest.raises(RuntimeError, match="backward an extra time"):
        y.backward()
