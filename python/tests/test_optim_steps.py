"""Optimizers against their recurrences, and the contract of the base class."""

import copy
import math

import inspect
import pickle

import pytest

import tessera
from tessera import optim


def trajectory(cls, steps, **options):
    """Values of one float64 parameter with loss 1.5 p^2 (gradient 3 p), from p = 1."""
    p = tessera.nn.Parameter(tessera.ones(1, dtype=tessera.float64))
    o = cls([p], **options)
    out = []
    for _ in range(steps):
        p.grad = 3 * p.detach()
        o.step()
        out.append(p.item())
    return out


def sgd(steps, lr, momentum=0.0, dampening=0.0, nesterov=False, decay=0.0):
    p, b, out = 1.0, None, []
    for _ in range(steps):
        g = 3 * p + decay * p
        if momentum:
            b = g if b is None else momentum * b + (1 - dampening) * g
            g = g + momentum * b if nesterov else b
        p -= lr * g
        out.append(p)
    return out


def adam(steps, lr, b1=0.9, b2=0.999, eps=1e-8, decay=0.0, decoupled=False, amsgrad=False):
    p, m, v, top, out = 1.0, 0.0, 0.0, 0.0, []
    for t in range(1, steps + 1):
        g = 3 * p
        if decoupled:
            p *= 1 - lr * decay
        else:
            g += decay * p
        m = b1 * m + (1 - b1) * g
        v = b2 * v + (1 - b2) * g * g
        top = max(top, v)
        denom = math.sqrt(top if amsgrad else v) / math.sqrt(1 - b2**t) + eps
        p -= lr / (1 - b1**t) * m / denom
        out.append(p)
    return out


@pytest.mark.parametrize(
    "options,want",
    [
        (dict(lr=0.1), sgd(6, 0.1)),
        (dict(lr=0.1, momentum=0.9), sgd(6, 0.1, 0.9)),
        (dict(lr=0.1, momentum=0.9, nesterov=True), sgd(6, 0.1, 0.9, nesterov=True)),
        (dict(lr=0.1, momentum=0.9, dampening=0.5, weight_decay=0.1), sgd(6, 0.1, 0.9, 0.5, decay=0.1)),
    ],
)
@pytest.mark.parametrize("flags", [{}, {"foreach": False}, {"fused": True}])
def test_sgd(options, want, flags):
    assert trajectory(optim.SGD, 6, **options, **flags) == pytest.approx(want, rel=1e-9)


@pytest.mark.parametrize(
    "cls,options,want",
    [
        (optim.Adam, dict(lr=0.05), adam(8, 0.05)),
        (optim.Adam, dict(lr=0.05, weight_decay=0.1), adam(8, 0.05, decay=0.1)),
        (optim.Adam, dict(lr=0.05, amsgrad=True, betas=(0.5, 0.6)), adam(8, 0.05, 0.5, 0.6, amsgrad=True)),
        (optim.AdamW, dict(lr=0.05), adam(8, 0.05, decay=0.01, decoupled=True)),
    ],
)
@pytest.mark.parametrize("flags", [{}, {"foreach": False}, {"fused": True}])
def test_adam(cls, options, want, flags):
    assert trajectory(cls, 8, **options, **flags) == pytest.approx(want, rel=1e-9)


def test_tensor_learning_rate_takes_the_same_way():
    assert trajectory(optim.Adam, 4, lr=tessera.tensor(0.05, dtype=tessera.float64)) == pytest.approx(
        adam(4, 0.05), rel=1e-6
    )


@pytest.mark.parametrize(
    "cls",
    [
        optim.RMSprop,
        optim.Adagrad,
        optim.Adadelta,
        optim.Adamax,
        optim.NAdam,
        optim.RAdam,
        optim.ASGD,
        optim.Rprop,
        optim.Adafactor,
    ],
)
def test_resume_from_state_dict(cls):
    def go(p, o, n):
        for _ in range(n):
            p.grad = 3 * p.detach()
            o.step()

    p = tessera.nn.Parameter(tessera.ones(2, 3))
    o = cls([p], lr=0.1)
    go(p, o, 3)
    state = copy.deepcopy(o.state_dict())
    q = tessera.nn.Parameter(p.detach().clone())
    o2 = cls([q], lr=0.1)
    o2.load_state_dict(state)
    go(p, o, 3)
    go(q, o2, 3)
    assert tessera.equal(p, q) and not tessera.equal(p, tessera.ones(2, 3))


def test_lbfgs_finds_the_minimum():
    x = tessera.nn.Parameter(tessera.tensor([3.0, -2.0], dtype=tessera.float64))
    o = optim.LBFGS([x], line_search_fn="strong_wolfe", max_iter=50)

    def closure():
        o.zero_grad()
        loss = ((x - tessera.tensor([1.0, 2.0], dtype=tessera.float64)) ** 2).sum()
        loss.backward()
        return loss

    assert o.step(closure).item() == pytest.approx(20)
    assert x.tolist() == pytest.approx([1.0, 2.0], abs=1e-6)
    with pytest.raises(TypeError):
        o.step()


def test_state_layout_and_hooks():
    p = tessera.nn.Parameter(tessera.ones(2))
    o = optim.Adam([("w", p)], amsgrad=True)
    assert o.state_dict()["state"] == {} and o.state_dict()["param_groups"][0]["param_names"] == ["w"]
    log = []
    o.register_step_pre_hook(lambda opt, a, k: log.append("pre"))
    handle = o.register_step_post_hook(lambda opt, a, k: log.append("post"))
    p.grad = tessera.ones(2)
    o.step()
    handle.remove()
    o.step()
    assert log == ["pre", "post", "pre"]
    assert (
        sorted(o.state[p]) == ["exp_avg", "exp_avg_sq", "max_exp_avg_sq", "step"] and float(o.state[p]["step"]) == 2.0
    )


def test_bad_arguments():
    p = tessera.nn.Parameter(tessera.ones(1))
    for make, error in [
        (lambda: optim.SGD([], lr=0.1), ValueError),
        (lambda: optim.SGD(p, lr=0.1), TypeError),
        (lambda: optim.SGD([p], lr=-1.0), ValueError),
        (lambda: optim.SGD([p], lr=0.1, nesterov=True), ValueError),
        (lambda: optim.Adam([p], betas=(1.0, 0.9)), ValueError),
        (lambda: optim.SGD([p * 2], lr=0.1), ValueError),
        (lambda: optim.Adam([p], foreach=True, fused=True), RuntimeError),
        (lambda: optim.SGD([{"params": [p]}, {"params": [p]}], lr=0.1), ValueError),
        (lambda: optim.Muon([p]), ValueError),
    ]:
        with pytest.raises(error):
            make()


CAPTURABLE = [
    optim.Adam,
    optim.AdamW,
    optim.RAdam,
    optim.NAdam,
    optim.Adamax,
    optim.ASGD,
    optim.Adadelta,
    optim.RMSprop,
    optim.Rprop,
]


def _steps(cls, n, device="cpu", lr=None, **options):
    p = tessera.nn.Parameter(tessera.ones(3, 2, dtype=tessera.float64, device=device))
    o = cls([p], **options)
    if lr is not None:
        o.param_groups[0]["lr"] = lr
    for i in range(n):
        p.grad = (tessera.arange(6, dtype=tessera.float64, device=device).reshape(3, 2) - 2.5) * (0.1 * (i + 1))
        o.step()
    return p, o


@pytest.mark.parametrize("cls", CAPTURABLE)
@pytest.mark.parametrize("tensor_lr", [False, True])
def test_capturable_takes_the_same_steps_without_a_number_on_the_host(cls, tensor_lr):
    lr = tessera.tensor(0.02, dtype=tessera.float64) if tensor_lr else 0.02
    want, _ = _steps(cls, 9, lr=0.02)
    got, o = _steps(cls, 9, lr=lr, capturable=True)
    assert tessera.allclose(got, want, rtol=1e-4, atol=1e-6) and not tessera.equal(got, tessera.ones_like(got))
    assert o.state[got]["step"].item() == 9
    # on meta tensors any question for a number is an error; every state lies on the parameter's device
    p, o = _steps(cls, 2, device="meta", lr=lr.to("meta") if tensor_lr else lr, capturable=True)
    assert {name: t.device.type for name, t in o.state[p].items()} == {name: "meta" for name in o.state[p]}


SCALED = [
    (optim.SGD, dict(lr=0.1, momentum=0.9, dampening=0.5)),
    (optim.SGD, dict(lr=0.1)),
    (optim.Adam, dict(lr=0.1)),
    (optim.AdamW, dict(lr=0.1, amsgrad=True)),
    (optim.Adagrad, dict(lr=0.1)),
]


@pytest.mark.parametrize("cls,options", SCALED)
@pytest.mark.parametrize("tensor_lr", [False, True])
def test_found_inf_leaves_a_fused_step_out_and_grad_scale_divides(cls, options, tensor_lr):
    if tensor_lr:
        options = {**options, "lr": tessera.tensor(options["lr"])}

    def go(scale, infs):
        p = tessera.nn.Parameter(tessera.full((4,), 2.0))
        o = cls([p], fused=True, **options)
        assert o._step_supports_amp_scaling
        for inf in infs:
            p.grad = tessera.tensor([1.0, -2.0, 3.0, 0.5]) * scale
            if scale != 1 or inf:
                o.grad_scale, o.found_inf = tessera.tensor(float(scale)), tessera.tensor(float(inf))
            before = p.detach().clone()
            o.step()
            assert tessera.equal(p, before) == bool(inf)
            if not inf:
                assert p.grad.tolist() == [1.0, -2.0, 3.0, 0.5]
        return p, o

    want, a = go(1, [0, 0])
    got, b = go(4, [1, 0, 1, 0])  # first of all a step that is left out: no state may come of it
    assert tessera.allclose(got, want)
    assert {k: v.tolist() for k, v in a.state[want].items()} == {
        k: pytest.approx(v.tolist()) for k, v in b.state[got].items()
    }


def test_functional_forms_leave_a_step_out_too():
    from tessera.optim.adagrad import adagrad
    from tessera.optim.adam import adam as adam_on_lists
    from tessera.optim.sgd import sgd as sgd_on_lists

    inf = tessera.tensor(1.0)
    lists = [[tessera.ones(2)] for _ in range(4)]
    step = tessera.zeros(())
    adagrad(
        *lists[:2],
        lists[2],
        [step],
        found_inf=inf,
        fused=True,
        lr=0.1,
        weight_decay=0,
        lr_decay=0,
        eps=1e-10,
        maximize=False,
    )
    adam_on_lists(
        *lists,
        [],
        [step],
        found_inf=inf,
        fused=True,
        amsgrad=False,
        beta1=0.9,
        beta2=0.99,
        lr=tessera.tensor(0.1),
        weight_decay=0,
        eps=1e-8,
        maximize=False,
    )
    sgd_on_lists(
        *lists[:2],
        [None],
        found_inf=inf,
        fused=True,
        weight_decay=0,
        momentum=0.9,
        lr=0.1,
        dampening=0,
        nesterov=False,
        maximize=False,
    )
    assert all(x[0].tolist() == [1.0, 1.0] for x in lists) and step.item() == 0


# ---- options are declared by constructors
# ------------------------------------------------------------------------------------------------------------------

CLASSES = [getattr(optim, name) for name in dir(optim) if name[0].isupper()]
DECLARED = [cls for cls in CLASSES if isinstance(cls, type) and hasattr(cls.__init__, "options")]


@pytest.mark.parametrize("cls", DECLARED, ids=lambda cls: cls.__name__)
def test_the_signature_says_what_the_options_are(cls):
    signature = inspect.signature(cls)
    defaults = {n: p.default for n, p in signature.parameters.items() if n != "params"}
    weight = tessera.nn.Parameter(tessera.ones(2, 2))
    optimizer = cls([weight])
    computed = {"max_eval": 25} if cls.__name__ == "LBFGS" else {}
    fixed = {"decoupled_weight_decay": True} if cls.__name__ == "AdamW" else {}
    options = {"differentiable": False, **defaults, **computed, **fixed}
    assert {"differentiable": False, **optimizer.defaults} == options
    assert {k: v for k, v in optimizer.param_groups[0].items() if k != "params"} == optimizer.defaults
    # what an older version did not write is there after loading
    state = optimizer.__getstate__()
    for name in {"maximize", "foreach", "differentiable", "decoupled_weight_decay"} & {*defaults, *fixed}:
        state["param_groups"][0].pop(name, None)
    state["state"][weight] = {"step": 3}
    again = cls.__new__(cls)
    again.__setstate__(state)
    assert {"differentiable": False, **options} == {"differentiable": False, **again.defaults}
    assert set(again.param_groups[0]) == {"params", *defaults, *fixed}
    kept = cls.__name__ in ("LBFGS", "Muon", "SGD", "SparseAdam")  # they have no counter, or count with a number
    assert isinstance(again.state[weight]["step"], int if kept else tessera.Tensor)
    assert len(DECLARED) == 15


def test_wrong_options():
    weight = [tessera.nn.Parameter(tessera.ones(2, 2))]
    for cls, options, text in [
        (tessera.optim.Adam, {"lr": -1.0}, "Invalid learning rate: -1.0"),
        (tessera.optim.Adam, {"betas": (0.9, 1.0)}, "Invalid beta parameter at index 1: 1.0"),
        (tessera.optim.Adam, {"eps": float("nan")}, "Invalid epsilon value: nan"),
        (tessera.optim.SGD, {"nesterov": True}, "Nesterov momentum requires a momentum and zero dampening"),
        (tessera.optim.Rprop, {"etas": (1.0, 2.0)}, "Invalid eta values: 1.0, 2.0"),
        (tessera.optim.Adadelta, {"rho": 2}, "Invalid rho value: 2"),
        (tessera.optim.Muon, {"momentum": -1}, "momentum should be >= 0 but is: -1"),
        (tessera.optim.Adafactor, {"eps": (None, -1.0)}, "epsilon2 should be >= 0 but is: -1.0"),
        (tessera.optim.SparseAdam, {"lr": 0.0}, "Invalid learning rate: 0.0"),
        (tessera.optim.RAdam, {"lr": tessera.ones(2)}, "Tensor lr must be 1-element"),
    ]:
        with pytest.raises(ValueError) as caught:
            cls(weight, **options)
        assert str(caught.value) == text
    with pytest.raises(RuntimeError, match="cannot be `True` together"):
        tessera.optim.AdamW(weight, fused=True, foreach=True)
    with pytest.raises(TypeError, match="unexpected keyword argument 'momentum'"):
        tessera.optim.Adam(weight, momentum=1)
    group = {"params": [("a", weight[0]), tessera.ones(1)]}
    before = dict(group)
    with pytest.raises(ValueError, match="Some param names are missing"):
        tessera.optim.SGD(weight).add_param_group(group)
    assert group == before  # not half a group


def test_lbfgs_goes_on_after_it_was_pickled():
    def run(optimizer, weight):
        def closure():
            optimizer.zero_grad()
            loss = ((weight - tessera.tensor([1.0, -2.0])) ** 4).sum() + weight.prod() ** 2
            loss.backward()
            return loss

        return [float(optimizer.step(closure)) for _ in range(3)]

    weight = tessera.nn.Parameter(tessera.tensor([3.0, 3.0]))
    optimizer = tessera.optim.LBFGS([weight], max_iter=4, history_size=2, line_search_fn="strong_wolfe")
    first = run(optimizer, weight)
    assert first[0] > first[1] > first[2] and len(optimizer.state[weight]["old_dirs"]) == 2
    copied = pickle.loads(pickle.dumps(optimizer))
    assert run(optimizer, weight) == run(copied, copied.param_groups[0]["params"][0])
    with pytest.raises(RuntimeError, match="only 'strong_wolfe'"):
        start = tessera.nn.Parameter(tessera.ones(2))
        run(tessera.optim.LBFGS([start], line_search_fn="armijo"), start)
    with pytest.raises(ZeroDivisionError):
        tessera.optim.LBFGS([weight], line_search_fn="strong_wolfe").step(lambda: 1 / 0)


@pytest.mark.parametrize(
    "max_iter,max_eval,counts", [(1, 1, [2, 2]), (1, 3, [4, 4]), (2, None, [3, 3]), (20, 7, [8, 8])]
)
def test_lbfgs_evaluates_no_more_than_it_may(max_iter, max_eval, counts):
    """A line search that begins far too near ends where max_eval is reached, at the best place that it saw."""
    weight = tessera.nn.Parameter(tessera.tensor([1.0, -2.0, 0.5], dtype=tessera.float64))
    optimizer = tessera.optim.LBFGS(
        [weight], lr=1e-3, max_iter=max_iter, max_eval=max_eval, line_search_fn="strong_wolfe"
    )
    losses = []

    def closure():
        optimizer.zero_grad()
        loss = ((weight - 0.3) ** 2).sum() / 2 + (weight**4).sum() / 100
        loss.backward()
        losses.append(loss.item())
        return loss

    for count in counts:
        losses.clear()
        optimizer.step(closure)
        assert len(losses) == count
        best = min(losses)
        assert closure().item() == pytest.approx(best, rel=1e-12)


def test_optimizers_of_others_keep_how_they_count():
    """Loading a state makes tensors of the counters of this package's classes alone, and of those derived from them."""

    class Own(optim.Optimizer):
        def __init__(self, params):
            super().__init__(params, {"lr": 0.1})

        def step(self, closure=None):
            for p in self.param_groups[0]["params"]:
                state = self.state[p]
                state["step"] = state.get("step", 0) + 1

    class Counted(optim.SGD):
        step = Own.step

    class Derived(optim.Adam):
        pass

    for cls, kind in ((Own, int), (Counted, int), (Derived, tessera.Tensor)):
        p, q = (tessera.nn.Parameter(tessera.ones(1)) for _ in range(2))
        one, other = cls([p]), cls([q])
        p.grad = tessera.ones(1)
        one.step()
        state = one.state_dict()
        state["state"][0]["step"] = int(state["state"][0]["step"])
        other.load_state_dict(state)
        assert type(other.state[q]["step"]) is kind and other.state[q]["step"] == 1, cls
