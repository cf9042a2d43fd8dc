"""Learning-rate schedules: recurrences against closed forms, composition, state, errors; averages of weights."""

import copy
import math
import pickle

import pytest

import tessera
from tessera import optim
from tessera.optim import lr_scheduler as S
from tessera.optim import swa_utils


def sgd(lr=1.0, **options):
    return optim.SGD([tessera.nn.Parameter(tessera.ones(1))], lr=lr, **options)


def rates(make, n=6, optimizer=None):
    o = optimizer or sgd()
    s = make(o)
    out = [float(o.param_groups[0]["lr"])]
    for _ in range(n):
        o.step()
        s.step()
        out.append(float(o.param_groups[0]["lr"]))
    return out


def first_multiples(factor, milestones):
    return [factor ** sum(m <= e for m in milestones) for e in range(13)]


CLOSED = {
    "step": (lambda o: S.StepLR(o, 3, 0.3), [0.3 ** (e // 3) for e in range(13)]),
    "multi_step": (lambda o: S.MultiStepLR(o, [2, 5, 5], 0.7), first_multiples(0.7, [2, 5, 5])),
    "constant": (lambda o: S.ConstantLR(o, 0.3, 4), [0.3] * 4 + [1.0] * 9),
    "linear": (lambda o: S.LinearLR(o, 0.3, 0.9, 6), [0.3 + 0.1 * min(e, 6) for e in range(13)]),
    "exponential": (lambda o: S.ExponentialLR(o, 0.9), [0.9**e for e in range(13)]),
    "polynomial": (lambda o: S.PolynomialLR(o, 8, 1.5), [(1 - min(e, 8) / 8) ** 1.5 for e in range(13)]),
    "cosine": (
        lambda o: S.CosineAnnealingLR(o, 4, 0.2),
        [0.2 + 0.4 * (1 + math.cos(math.pi * e / 4)) for e in range(13)],
    ),
    "restarts": (
        lambda o: S.CosineAnnealingWarmRestarts(o, 2, 2, 0.1),
        [0.1 + 0.45 * (1 + math.cos(math.pi * at / of)) for of in (2, 4, 8) for at in range(of)][:13],
    ),
    "lambda": (lambda o: S.LambdaLR(o, lambda e: 1 / (1 + e)), [1 / (1 + e) for e in range(13)]),
    "multiplicative": (lambda o: S.MultiplicativeLR(o, lambda e: 0.8), [0.8**e for e in range(13)]),
    "averaging": (lambda o: swa_utils.SWALR(o, 0.2, 4, "linear"), [1 - 0.2 * min(e, 4) for e in range(13)]),
    "sequence": (
        lambda o: S.SequentialLR(o, [S.ConstantLR(o, 0.1, 2), S.ExponentialLR(o, 0.9)], [2]),
        [0.1, 0.1] + [0.9**e for e in range(11)],
    ),
    "chain": (
        lambda o: S.ChainedScheduler([S.ConstantLR(o, 0.1, 3), S.ExponentialLR(o, 0.9)]),
        [(0.1 if e < 3 else 1) * 0.9**e for e in range(13)],
    ),
}


@pytest.mark.parametrize("name", CLOSED)
def test_recurrences_follow_closed_forms(name):
    make, want = CLOSED[name]
    assert rates(make, 12) == pytest.approx(want, rel=1e-9, abs=1e-12)
    assert rates(make, 12, sgd(tessera.tensor(1.0))) == pytest.approx(want, rel=1e-5, abs=1e-6)


@pytest.mark.parametrize(
    "name", [name for name, (make, _) in CLOSED.items() if hasattr(make(sgd()), "_get_closed_form_lr")]
)
def test_a_given_epoch_takes_the_closed_form(name):
    make, want = CLOSED[name]
    o = sgd()
    s = make(o)
    o.step()
    for epoch in (3, 11, 7):
        with pytest.warns(UserWarning, match="epoch parameter"):
            s.step(epoch)
        assert o.param_groups[0]["lr"] == pytest.approx(want[epoch], rel=1e-9)


@pytest.mark.parametrize("name", CLOSED)
def test_state_comes_back(name):
    make, want = CLOSED[name]
    o = sgd()
    s = make(o)
    for _ in range(5):
        o.step()
        s.step()
    fresh = sgd()
    other = make(fresh)
    fresh.load_state_dict(o.state_dict())
    other.load_state_dict(copy.deepcopy(s.state_dict()))
    for epoch in range(6, 13):
        fresh.step()
        other.step()
        assert fresh.param_groups[0]["lr"] == pytest.approx(want[epoch], rel=1e-9, abs=1e-12)
    if name not in ("lambda", "multiplicative"):
        assert pickle.loads(pickle.dumps(s)).state_dict().keys() == s.state_dict().keys()


def test_recurrences_multiply_a_rate_that_somebody_else_set():
    o = sgd()
    s = S.ExponentialLR(o, 0.5)
    o.param_groups[0]["lr"] = 8.0
    o.step()
    s.step()
    assert o.param_groups[0]["lr"] == 4.0 and s.get_last_lr() == [4.0]


def test_compositions_nest():
    """A member that is a composition itself starts, and starts anew, like any other one."""
    chain = lambda o: S.ChainedScheduler([S.ConstantLR(o, 0.1, 2), S.ExponentialLR(o, 0.5)])  # noqa: E731
    first = lambda o: S.SequentialLR(o, [chain(o), S.ExponentialLR(o, 0.9)], [3])  # noqa: E731
    assert rates(first, 5) == pytest.approx([0.1, 0.05, 0.25, 1, 0.9, 0.81])
    later = lambda o: S.SequentialLR(o, [S.ExponentialLR(o, 0.9), chain(o)], [2])  # noqa: E731
    assert rates(later, 4) == pytest.approx([1, 0.9, 0.1, 0.05, 0.25])
    inner = lambda o: S.SequentialLR(o, [S.ConstantLR(o, 0.1, 9), S.ExponentialLR(o, 0.5)], [2])  # noqa: E731
    later = lambda o: S.SequentialLR(o, [S.ExponentialLR(o, 0.9), inner(o)], [2])  # noqa: E731
    assert rates(later, 6) == pytest.approx([1, 0.9, 0.1, 0.1, 1, 0.5, 0.25])


def test_starting_a_member_counts_no_step_and_warns_of_nothing(recwarn):
    o = sgd()
    members = [S.StepLR(o, 5), S.ExponentialLR(o, 0.5)]
    s = S.SequentialLR(o, members, [1])
    for _ in range(3):
        o.step()
        s.step()
    assert members[1]._step_count == 3 and members[1].last_epoch == 2  # one at construction
    assert not recwarn.list


def test_a_subclass_defines_the_next_rates():
    class Mine(S.StepLR):
        def get_lr(self):
            return [lr / 2 for lr in super().get_lr()]

    assert rates(lambda o: Mine(o, 2, 0.1), 3) == pytest.approx([0.5, 0.25, 0.0125, 0.00625])


def test_divisions_by_zero_are_errors():
    for make in (lambda o: S.StepLR(o, 0), lambda o: S.CosineAnnealingLR(o, 0), lambda o: S.ConstantLR(o, 0.0, 1)):
        o = sgd()
        s = make(o)
        o.step()
        with pytest.raises(ZeroDivisionError, match="check the arguments of the schedule"):
            s.step()
        assert o.param_groups[0]["lr"] in (0.0, 1.0)
    with pytest.raises(OverflowError):
        rates(lambda o: S.MultiStepLR(o, [1, 1], 1e200), 1)


def test_a_plateau_is_left_as_it_was_when_it_cannot_reduce():
    o = sgd()
    s = S.ReduceLROnPlateau(o, patience=0, min_lr=[0.1])
    o.add_param_group({"params": [tessera.nn.Parameter(tessera.ones(1))]})
    s.step(1.0)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="number of param groups"):
            s.step(2.0)
        assert (s.num_bad_epochs, s.cooldown_counter) == (0, 0)


def test_optimizer_steps_are_marked_once():
    o = sgd()
    S.StepLR(o, 1)
    step = o.step
    S.StepLR(o, 1)
    assert o.step is step and step.__name__ == "step" and step._wrapped_by_lr_sched
    assert not hasattr(o, "_opt_called")
    o.step()
    assert o._opt_called


def test_update_bn_restores_the_model_after_an_error():
    model = tessera.nn.Sequential(tessera.nn.BatchNorm1d(2, momentum=0.3)).eval()
    with pytest.raises(RuntimeError):
        swa_utils.update_bn([tessera.ones(3, 2), tessera.ones(3, 5)], model)
    assert model[0].momentum == 0.3 and not model.training
