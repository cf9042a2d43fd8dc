"""Learning-rate schedules.

A schedule sets the rates of its optimizer's groups at construction (epoch 0) and at each `step()`.

The formulas are C++ (`optim/schedules`); a class here is their arguments, what goes into its state dict, and how rates
are read and written.
"""

import functools
import math
import types
import warnings
import weakref
from bisect import bisect_right
from collections import Counter
from operator import attrgetter, itemgetter

import tessera
from tessera import Tensor

from .optimizer import Optimizer

__all__ = [
    "LambdaLR",
    "MultiplicativeLR",
    "StepLR",
    "MultiStepLR",
    "ConstantLR",
    "LinearLR",
    "ExponentialLR",
    "SequentialLR",
    "CosineAnnealingLR",
    "ChainedScheduler",
    "ReduceLROnPlateau",
    "CyclicLR",
    "CosineAnnealingWarmRestarts",
    "OneCycleLR",
    "PolynomialLR",
    "LRScheduler",
]

EPOCH_DEPRECATION_WARNING = (
    "The epoch parameter in `scheduler.step()` was not necessary and is being deprecated where possible. Please use "
    "`scheduler.step()` to step the "
    "scheduler. During the deprecation, if epoch is different from None, the closed form is used instead of the new "
    "chainable form, where "
    "available. Please open an issue if you are unable to replicate your use case: "
    "https://github.com/pytorch/pytorch/issues/new/choose."
)
_ORDER = "See more details at https://pytorch.org/docs/stable/optim.html#how-to-adjust-learning-rate"
_STEP_REPLACED = (
    "Seems like `optimizer.step()` has been overridden after learning rate scheduler initialization. "
    "Please, make sure to call `optimizer.step()` before "
    f"`lr_scheduler.step()`. {_ORDER}"
)
_STEP_LATE = (
    "Detected call of `lr_scheduler.step()` before `optimizer.step()`. In PyTorch 1.1.0 and later, you "
    "should call them in the opposite order: `optimizer.step()` "
    "before `lr_scheduler.step()`.  Failure to do this will result in PyTorch skipping the first value of "
    "the learning rate schedule. " + _ORDER
)

_formulas = tessera._C._schedules


def _require(condition, message, error=ValueError):
    if not condition:
        raise error(message)


def _own(value):
    """A rate that nobody else changes: tensors are copied."""
    return value.clone() if isinstance(value, Tensor) else value


def _read(optimizer, option):
    """This option of each group; tensors are copied."""
    return _formulas.read(optimizer.param_groups, option)


def _write(optimizer, option, values):
    """Sets an option of each group; a tensor stays the same object."""
    _formulas.write(optimizer.param_groups, option, values)


def _per_group(optimizer, name, value):
    """One value for each parameter group. ValueError if there are not as many."""
    groups = optimizer.param_groups
    if not isinstance(value, (list, tuple)):
        return [_own(value) for _ in groups]
    _require(
        len(value) == len(groups),
        f"{name} must have the same length as optimizer.param_groups. {name} has "
        f"{len(value)} values, param_groups has {len(groups)}.",
    )
    return list(value)


def _checked(optimizer):
    _require(isinstance(optimizer, Optimizer), f"{type(optimizer).__name__} is not an Optimizer", TypeError)
    return optimizer


def _between(start, end, share):
    return start + (end - start) * share


def _without_code(function):
    """What a state dict keeps of a function: nothing, or the attributes of an object with __call__."""
    return None if isinstance(function, (types.FunctionType, type(None))) else dict(getattr(function, "__dict__", {}))


def _with_attributes(function, attributes):
    """Gives a function what _without_code() kept of another one."""
    if attributes:
        vars(function).update(attributes)


def _leave_marks(optimizer):
    """Makes optimizer.step() set `_opt_called`, so that a wrong order of calls can be told."""
    step = optimizer.step
    if hasattr(step, "_wrapped_by_lr_sched"):
        return
    owner = weakref.ref(optimizer)  # the wrapper is an attribute of the optimizer: no cycle
    function = getattr(step, "__func__", None) or (lambda _, *args, **kwargs: step(*args, **kwargs))

    @functools.wraps(function)
    def marking(*args, **kwargs):
        owner()._opt_called = True
        return function(owner(), *args, **kwargs)

    marking._wrapped_by_lr_sched = True
    optimizer.step = marking


class LRScheduler:
    """Base class.

    A subclass defines get_lr(), the next rates computed from the present ones, and may define _get_closed_form_lr().

    Schedules that are members of another one are driven by step(), by _update_lr(0), which starts them anew at epoch 0,
    and by _undo().
    """

    _get_lr_called_within_step = False
    _is_initial = False

    def __init__(self, optimizer, last_epoch=-1):
        self.optimizer = _checked(optimizer)
        for i, group in enumerate(optimizer.param_groups):
            if last_epoch == -1:
                group.setdefault("initial_lr", _own(group["lr"]))
            elif "initial_lr" not in group:
                raise KeyError(
                    f"param 'initial_lr' is not specified in param_groups[{i}] when resuming scheduler with "
                    f"last_epoch >= 0.\nThis typically happens when:\n"
                    "1. You're trying to resume training from a checkpoint but haven't properly loaded the "
                    "optimizer state\n2. You're using last_epoch >= 0 for a "
                    "fresh training run (not recommended)"
                )
        self.base_lrs = _read(optimizer, "initial_lr")
        self.last_epoch = last_epoch
        _leave_marks(optimizer)
        self._initial_step()

    def _start(self, optimizer, last_epoch, **arguments):
        """Keeps the arguments as attributes, then does what all schedules do."""
        self.__dict__.update(arguments)
        LRScheduler.__init__(self, optimizer, last_epoch)

    def _initial_step(self):
        self._step_count = 0
        self._is_initial = True
        try:
            self.step()
        finally:
            self._is_initial = False

    def state_dict(self):
        """All attributes but the optimizer."""
        return {name: value for name, value in vars(self).items() if name != "optimizer"}

    def load_state_dict(self, state_dict):
        """Takes over a state_dict()."""
        vars(self).update(state_dict)

    def get_last_lr(self):
        """The rates that were set last, one for each group."""
        return self._last_lr

    def get_lr(self):
        """The rates for self.last_epoch."""
        raise NotImplementedError

    def step(self, epoch=None):
        """Goes on by one epoch (or, deprecated, to the given one). Call it after optimizer.step()."""
        if self._step_count == 1:
            in_place = hasattr(self.optimizer.step, "_wrapped_by_lr_sched")
            if not (in_place and getattr(self.optimizer, "_opt_called", False)):
                warnings.warn(_STEP_LATE if in_place else _STEP_REPLACED, stacklevel=2)
        self._step_count += 1
        if epoch is not None:
            warnings.warn(EPOCH_DEPRECATION_WARNING, UserWarning, stacklevel=2)
        self._update_lr(epoch)

    def _update_lr(self, epoch=None):
        """Takes on an epoch, by default the next one, and sets its rates.

        In closed form where the epoch is given and there is one.
        """
        formula = self.get_lr
        if epoch is None:
            epoch = self.last_epoch + 1
        else:
            formula = getattr(self, "_get_closed_form_lr", formula)
        self.last_epoch = epoch
        self._set_rates(formula)

    def _set_rates(self, formula):
        self._get_lr_called_within_step = True
        try:
            rates = formula()
        finally:
            self._get_lr_called_within_step = False
        _write(self.optimizer, "lr", rates)
        self._last_lr = _read(self.optimizer, "lr")

    def _undo(self):
        """Takes back one epoch, but not the rates."""
        self.last_epoch -= 1

    def _expect_step(self):
        """Warns of calls of get_lr() from elsewhere than step()."""
        if not self._get_lr_called_within_step:
            warnings.warn(
                "To get the last learning rate computed by the scheduler, please use `get_last_lr()`.",
                UserWarning,
                stacklevel=3,
            )


_LRScheduler = LRScheduler


def _formula(function, *arguments):
    """A method: the formula at the last epoch with these attributes as its arguments."""
    values = attrgetter("last_epoch", *arguments)
    return lambda self: function(*values(self))


class _Multiplied(LRScheduler):
    """Schedules by factors.

    A subclass defines _change(), the factor between the epoch before and this one, and _weight(), that between the
    first one and this one.
    """

    # whether a construction with last_epoch >= 0 multiplies the rates, or takes them for this epoch's
    _changes_when_resumed = False

    def get_lr(self):
        self._expect_step()
        rates = _read(self.optimizer, "lr")
        if self._is_initial and self.last_epoch != 0 and not self._changes_when_resumed:
            return rates
        change = self._change()
        return rates if change == 1 else [rate * change for rate in rates]

    def _get_closed_form_lr(self):
        weight = self._weight()
        return [base * weight for base in self.base_lrs]


class StepLR(_Multiplied):
    """Times gamma every step_size epochs."""

    _changes_when_resumed = True
    _change = _formula(_formulas.step_change, "step_size", "gamma")
    _weight = _formula(_formulas.step_weight, "step_size", "gamma")

    def __init__(self, optimizer, step_size, gamma=0.1, last_epoch=-1):
        self._start(optimizer, last_epoch, step_size=step_size, gamma=gamma)


class MultiStepLR(_Multiplied):
    """Times gamma at each milestone (as often as it is listed)."""

    _changes_when_resumed = True

    def __init__(self, optimizer, milestones, gamma=0.1, last_epoch=-1):
        self._start(optimizer, last_epoch, milestones=Counter(milestones), gamma=gamma)

    def _change(self):
        return _formulas.exponential_weight(self.milestones.get(self.last_epoch, 0), self.gamma)

    def _weight(self):
        return _formulas.exponential_weight(
            sum(count for epoch, count in self.milestones.items() if epoch <= self.last_epoch), self.gamma
        )


class ConstantLR(_Multiplied):
    """Initial rate times factor until total_iters."""

    _changes_when_resumed = True
    _change = _formula(_formulas.constant_change, "factor", "total_iters")
    _weight = _formula(_formulas.constant_weight, "factor", "total_iters")

    def __init__(self, optimizer, factor=1.0 / 3, total_iters=5, last_epoch=-1):
        _require(0 <= factor <= 1, "Constant multiplicative factor expected to be between 0 and 1.")
        self._start(optimizer, last_epoch, factor=factor, total_iters=total_iters)


class LinearLR(_Multiplied):
    """Initial rate times a factor that goes from start_factor to end_factor in total_iters epochs."""

    _change = _formula(_formulas.linear_change, "start_factor", "end_factor", "total_iters")
    _weight = _formula(_formulas.linear_weight, "start_factor", "end_factor", "total_iters")

    def __init__(self, optimizer, start_factor=1.0 / 3, end_factor=1.0, total_iters=5, last_epoch=-1):
        _require(
            0 < start_factor <= 1,
            "Starting multiplicative factor expected to be greater than 0 and less or equal to 1.",
        )
        _require(0 <= end_factor <= 1, "Ending multiplicative factor expected to be between 0 and 1.")
        self._start(optimizer, last_epoch, start_factor=start_factor, end_factor=end_factor, total_iters=total_iters)


class ExponentialLR(_Multiplied):
    """Times gamma every epoch."""

    _change = _formula(_formulas.exponential_change, "gamma")
    _weight = _formula(_formulas.exponential_weight, "gamma")

    def __init__(self, optimizer, gamma, last_epoch=-1):
        self._start(optimizer, last_epoch, gamma=gamma)


class PolynomialLR(_Multiplied):
    """Initial rate times (1 - epoch / total_iters)^power."""

    _change = _formula(_formulas.polynomial_change, "total_iters", "power")
    _weight = _formula(_formulas.polynomial_weight, "total_iters", "power")

    def __init__(self, optimizer, total_iters=5, power=1.0, last_epoch=-1):
        self._start(optimizer, last_epoch, total_iters=total_iters, power=power)


class _ByFunctions(LRScheduler):
    """Schedules by Python functions of the epoch, one or one for each group.

    State dicts hold none of them, but the attributes of objects with __call__.
    """

    def __init__(self, optimizer, lr_lambda, last_epoch=-1):
        groups = len(_checked(optimizer).param_groups)
        functions = list(lr_lambda) if isinstance(lr_lambda, (list, tuple)) else [lr_lambda] * groups
        _require(len(functions) == groups, f"Expected {groups} lr_lambdas, but got {len(functions)}")
        for function in functions:
            _require(
                callable(function), f"lr_lambda should be a function, but got {type(function).__name__}", TypeError
            )
        self._start(optimizer, last_epoch, lr_lambdas=functions)

    def _factors(self):
        return [function(self.last_epoch) for function in self.lr_lambdas]

    def state_dict(self):
        """As usual, without the functions (objects with __call__ keep their attributes)."""
        return {**super().state_dict(), "lr_lambdas": [_without_code(function) for function in self.lr_lambdas]}

    def load_state_dict(self, state_dict):
        """Takes over a state_dict()."""
        super().load_state_dict({**state_dict, "lr_lambdas": self.lr_lambdas})
        for function, attributes in zip(self.lr_lambdas, state_dict["lr_lambdas"]):
            _with_attributes(function, attributes)


class LambdaLR(_ByFunctions):
    """Initial rate times lr_lambda(epoch); one function or one for each group."""

    def get_lr(self):
        self._expect_step()
        return [base * factor for base, factor in zip(self.base_lrs, self._factors())]


class MultiplicativeLR(_ByFunctions):
    """The last rate times lr_lambda(epoch); one function or one for each group."""

    def get_lr(self):
        self._expect_step()
        rates = _read(self.optimizer, "lr")
        return rates if self._is_initial else [rate * factor for rate, factor in zip(rates, self._factors())]


class CosineAnnealingLR(LRScheduler):
    """eta_min + (initial - eta_min) (1 + cos(pi epoch / T_max)) / 2 (Loshchilov and Hutter 2016, without restarts),
    computed from the present rate.
    """

    def __init__(self, optimizer, T_max, eta_min=0.0, last_epoch=-1):
        self._start(optimizer, last_epoch, T_max=T_max, eta_min=eta_min)

    def get_lr(self):
        self._expect_step()
        rates = _read(self.optimizer, "lr")
        if self._is_initial or self.last_epoch == 0:
            return rates
        if self._step_count == 1 and self.last_epoch > 0:
            return self._get_closed_form_lr()
        rises, weight = _formulas.cosine_change(self.last_epoch, self.T_max)
        if rises:
            return [rate + (base - self.eta_min) * weight for rate, base in zip(rates, self.base_lrs)]
        return [_between(self.eta_min, rate, weight) for rate in rates]

    def _get_closed_form_lr(self):
        weight = _formulas.cosine_weight(self.last_epoch, self.T_max)
        return [_between(self.eta_min, base, weight) for base in self.base_lrs]


class CosineAnnealingWarmRestarts(LRScheduler):
    """Cosine annealing that starts again after T_0 epochs, then after T_0 T_mult, T_0 T_mult^2 ... (Loshchilov and
    Hutter 2016). step() takes fractions of epochs.
    """

    def __init__(self, optimizer, T_0, T_mult=1, eta_min=0.0, last_epoch=-1):
        _require(isinstance(T_0, int) and T_0 > 0, f"Expected positive integer T_0, but got {T_0}")
        _require(isinstance(T_mult, int) and T_mult >= 1, f"Expected integer T_mult >= 1, but got {T_mult}")
        _require(
            isinstance(eta_min, (float, int)),
            f"Expected float or int eta_min, but got {eta_min} of type {type(eta_min)}",
        )
        self._start(optimizer, last_epoch, T_0=T_0, T_i=T_0, T_mult=T_mult, eta_min=eta_min, T_cur=last_epoch)

    def get_lr(self):
        self._expect_step()
        weight = _formulas.cosine_weight(self.T_cur, self.T_i)
        return [_between(self.eta_min, base, weight) for base in self.base_lrs]

    def step(self, epoch=None):
        """Goes on by one epoch, or to the given (fractional) one."""
        self._update_lr(epoch)

    def _update_lr(self, epoch=None):
        if epoch is None and self.last_epoch < 0:
            epoch = 0
        if epoch is None:
            place, epoch = _formulas.next_in_cycle(self.T_cur, self.T_i, self.T_mult), self.last_epoch + 1
        else:
            if epoch < 0:
                raise ValueError(f"Expected non-negative epoch, but got {epoch}")
            place = _formulas.restart_cycle(epoch, self.T_0, self.T_mult)
        # counts of epochs stay whole numbers
        self.T_cur, self.T_i = (int(number) if number == int(number) else number for number in place)
        self.last_epoch = math.floor(epoch)
        self._set_rates(self.get_lr)


class _Composite(LRScheduler):
    """A schedule made of others, which it drives as LRScheduler says. All of them are of one optimizer."""

    def _take(self, schedulers, optimizer, missing):
        _require(
            len(schedulers) >= 1,
            f"{type(self).__name__} expects at least one scheduler{missing}, but got no scheduler.",
        )
        optimizer = optimizer or schedulers[0].optimizer
        for i, member in enumerate(schedulers):
            _require(
                hasattr(member, "optimizer"),
                f"{type(self).__name__} at index {i} should have `optimizer` as its attribute.",
                TypeError,
            )
            _require(
                not isinstance(member, ReduceLROnPlateau),
                f"{type(self).__name__} does not support "
                f"`ReduceLROnPlateau` scheduler as it requires "
                f"additional kwargs to be "
                f"specified when calling `step`, but got one at index {i} in the given schedulers sequence.",
            )
            if member.optimizer != optimizer:
                raise ValueError(
                    f"{type(self).__name__} expects all schedulers to belong to the same optimizer, but "
                    f"got scheduler {type(member).__name__} at index {i} has "
                    f"{member.optimizer}, which is different from {type(optimizer).__name__}."
                )
        self._schedulers = schedulers
        self.optimizer = optimizer

    def _undo(self):
        for member in self._schedulers:
            member._undo()

    def state_dict(self):
        """All attributes but the optimizer; the schedules as their state dicts."""
        return {**super().state_dict(), "_schedulers": [member.state_dict() for member in self._schedulers]}

    def load_state_dict(self, state_dict):
        """Takes over a state_dict()."""
        super().load_state_dict({**state_dict, "_schedulers": self._schedulers})
        for member, state in zip(self._schedulers, state_dict["_schedulers"]):
            member.load_state_dict(state)


class SequentialLR(_Composite):
    """Several schedules, one after the other, the next one from each milestone on."""

    def __init__(self, optimizer, schedulers, milestones, last_epoch=-1):
        self._take(schedulers, optimizer, "")
        _require(
            len(milestones) == len(schedulers) - 1,
            "Sequential Schedulers expects number of schedulers provided "
            "to be one more than the number of milestone points, but "
            f"got number of schedulers {len(schedulers)} and the number of milestones to be equal to "
            f"{len(milestones)}",
        )
        self._milestones = milestones
        self.last_epoch = last_epoch + 1
        # the constructions of the schedules have all changed the rates: back to the first values, then only the first
        # schedule starts
        _write(optimizer, "lr", _read(optimizer, "initial_lr"))
        self._undo()
        schedulers[0]._initial_step()
        self._last_lr = schedulers[0].get_last_lr()

    def recursive_undo(self, sched=None):
        """Takes back the epoch of the construction of a schedule's members (by default this one's)."""
        (self if sched is None else sched)._undo()

    def step(self):
        """Goes on by one epoch."""
        self._update_lr()

    def _update_lr(self, epoch=None):
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        present = self._schedulers[bisect_right(self._milestones, self.last_epoch)]
        if epoch is None and self.last_epoch not in self._milestones:
            present.step()
        else:
            present._update_lr(0)
        self._last_lr = present.get_last_lr()


class ChainedScheduler(_Composite):
    """Several chainable schedules applied at every step."""

    def __init__(self, schedulers, optimizer=None):
        self._take(schedulers, optimizer, " to be chained")
        self._last_lr = _read(self.optimizer, "lr")

    def _initial_step(self):
        for member in self._schedulers:
            member._initial_step()
        self._last_lr = _read(self.optimizer, "lr")

    def step(self):
        """Steps all schedules."""
        self._update_lr()

    def _update_lr(self, epoch=None):
        first, *others = self._schedulers
        if epoch is None:
            first.step()
        else:
            # anew: the first one sets the rates, the others multiply them
            first._update_lr(epoch)
            for member in others:
                member.last_epoch = epoch - 1
        for member in others:
            member.step()
        self._last_lr = _read(self.optimizer, "lr")


class ReduceLROnPlateau(LRScheduler):
    """Times factor when the metric given to step() has not improved for `patience` epochs. mode min | max,
    threshold_mode rel | abs.
    """

    def __init__(
        self,
        optimizer,
        mode="min",
        factor=0.1,
        patience=10,
        threshold=1e-4,
        threshold_mode="rel",
        cooldown=0,
        min_lr=0,
        eps=1e-8,
    ):
        _require(factor < 1, "Factor should be < 1.0.")
        self.optimizer = _checked(optimizer)
        groups, single = len(optimizer.param_groups), not isinstance(min_lr, (list, tuple))
        self.default_min_lr = min_lr if single else None
        self.min_lrs = [min_lr] * groups if single else list(min_lr)
        _require(len(self.min_lrs) == groups, f"expected {groups} min_lrs, got {len(self.min_lrs)}")
        self.factor, self.patience, self.cooldown, self.eps = factor, patience, cooldown, eps
        self.last_epoch = 0
        self._last_lr = _read(optimizer, "lr")
        self._init_is_better(mode, threshold, threshold_mode)
        self._reset()

    def _reset(self):
        """Forgets the best value."""
        self.best, self.num_bad_epochs, self.cooldown_counter = self.mode_worse, 0, 0

    def step(self, metrics, epoch=None):
        """Takes the epoch's metric."""
        metric = float(metrics)
        if epoch is not None:
            warnings.warn(EPOCH_DEPRECATION_WARNING, UserWarning, stacklevel=2)
        self.last_epoch = self.last_epoch + 1 if epoch is None else epoch
        better = self._is_better(metric, self.best)
        if better:
            self.best = metric
        bad, cooling, due = _formulas.next_plateau(
            better, self.num_bad_epochs, self.cooldown_counter, self.patience, self.cooldown
        )
        if due:
            self._reduce_lr(self.last_epoch)
        self.num_bad_epochs, self.cooldown_counter = bad, cooling
        self._last_lr = _read(self.optimizer, "lr")

    def _reduce_lr(self, epoch):
        groups = self.optimizer.param_groups
        if len(groups) != len(self.min_lrs):
            _require(
                self.default_min_lr is not None,
                f"The number of param groups in the `optimizer` ({len(groups)}) "
                f"differs from when `ReduceLROnPlateau` was initialized "
                f"({len(self.min_lrs)}), usually due to a new param group being added to the optimizer. Please "
                f"modify the `min_lrs` field to match the length of the "
                "`optimizer` param groups.",
                RuntimeError,
            )
            self.min_lrs = [self.default_min_lr] * len(groups)
        rates = [float(group["lr"]) for group in groups]
        reduced = [max(rate * self.factor, lowest) for rate, lowest in zip(rates, self.min_lrs)]
        _write(
            self.optimizer,
            "lr",
            [low if rate - low > self.eps else group["lr"] for group, rate, low in zip(groups, rates, reduced)],
        )

    @property
    def in_cooldown(self):
        return self.cooldown_counter > 0

    def _is_better(self, a, best):
        return _formulas.improves(a, best, self.threshold, self.mode == "max", self.threshold_mode == "rel")

    def _init_is_better(self, mode, threshold, threshold_mode):
        _require(mode in ("min", "max"), f"mode {mode} is unknown!")
        _require(threshold_mode in ("rel", "abs"), f"threshold mode {threshold_mode} is unknown!")
        self.mode, self.threshold, self.threshold_mode = mode, threshold, threshold_mode
        self.mode_worse = math.inf if mode == "min" else -math.inf

    def load_state_dict(self, state_dict):
        """Takes over a state_dict()."""
        super().load_state_dict(state_dict)
        self._init_is_better(self.mode, self.threshold, self.threshold_mode)


class _WithMomentum(LRScheduler):
    """Schedules that move the momentum (or the first of Adam's betas) against the rate."""

    def _take_momenta(self, optimizer, cycle_momentum, base_momentum, max_momentum, last_epoch):
        """The lowest and the highest momentum of each group; fresh schedules write them into the groups.

        ValueError for optimizers without momentum.
        """
        self.cycle_momentum = cycle_momentum
        if not cycle_momentum:
            return [], []
        _require(
            {"momentum", "betas"} & set(optimizer.defaults),
            "optimizer must support momentum or beta1 with `cycle_momentum` option enabled",
        )
        self.use_beta1 = "betas" in optimizer.defaults
        lows, highs = (
            _per_group(optimizer, "base_momentum", base_momentum),
            _per_group(optimizer, "max_momentum", max_momentum),
        )
        if last_epoch == -1:
            for group, low, high in zip(optimizer.param_groups, lows, highs):
                self._set_momentum(group, high)
                group.update(base_momentum=low, max_momentum=high)
        return lows, highs

    def _set_momentum(self, group, momentum):
        if self.use_beta1:
            group["betas"] = (momentum, *group["betas"][1:])
        else:
            group["momentum"] = momentum


class CyclicLR(_WithMomentum):
    """A rate that goes up and down between base_lr and max_lr (Smith 2015), with `step()` after every batch; momentum
    the other way round.
    """

    def __init__(
        self,
        optimizer,
        base_lr,
        max_lr,
        step_size_up=2000,
        step_size_down=None,
        mode="triangular",
        gamma=1.0,
        scale_fn=None,
        scale_mode="cycle",
        cycle_momentum=True,
        base_momentum=0.8,
        max_momentum=0.9,
        last_epoch=-1,
    ):
        _require(
            scale_fn is not None or mode in ("triangular", "triangular2", "exp_range"),
            "mode is invalid and scale_fn is None",
        )
        lows = _per_group(_checked(optimizer), "base_lr", base_lr)
        if last_epoch == -1:
            _write(optimizer, "lr", lows)
        self.max_lrs = _per_group(optimizer, "max_lr", max_lr)
        self.total_size = float(step_size_up) + float(step_size_up if step_size_down is None else step_size_down)
        self.step_ratio = step_size_up / self.total_size
        if scale_fn is None:
            scale_mode = "iterations" if mode == "exp_range" else "cycle"
        self.mode, self.gamma, self.scale_mode, self._scale_fn_custom = mode, gamma, scale_mode, scale_fn
        momenta = self._take_momenta(optimizer, cycle_momentum, base_momentum, max_momentum, last_epoch)
        if cycle_momentum:
            self.base_momentums, self.max_momentums = momenta
        super().__init__(optimizer, last_epoch)
        self.base_lrs = lows

    def scale_fn(self, x):
        """The amplitude in cycle x (or at iteration x)."""
        if self._scale_fn_custom is not None:
            return self._scale_fn_custom(x)
        if self.mode == "exp_range":
            return _formulas.exponential_weight(x, self.gamma)
        return 1.0 if self.mode == "triangular" else _formulas.halved_amplitude(x)

    def get_lr(self):
        self._expect_step()
        cycle, height = _formulas.triangle(self.last_epoch, self.total_size, self.step_ratio)
        scale = self.scale_fn(cycle if self.scale_mode == "cycle" else self.last_epoch)
        if self.cycle_momentum:
            for group, low, high in zip(self.optimizer.param_groups, self.base_momentums, self.max_momentums):
                self._set_momentum(group, high - (high - low) * height * scale)
        return [low + (high - low) * height * scale for low, high in zip(self.base_lrs, self.max_lrs)]

    def state_dict(self):
        """As usual, without a custom scale function (an object with __call__ keeps its attributes)."""
        return {**super().state_dict(), "_scale_fn_custom": _without_code(self._scale_fn_custom)}

    def load_state_dict(self, state_dict):
        """Takes over a state_dict()."""
        super().load_state_dict({**state_dict, "_scale_fn_custom": self._scale_fn_custom})
        _with_attributes(self._scale_fn_custom, state_dict.get("_scale_fn_custom"))


_end_step = itemgetter("end_step")
# Between which options of a group a phase goes. The share that is done counts from the first one, a cosine, which is
# the
# share that is left, from the second one.
_rate_options = itemgetter("start_lr", "end_lr")
_momentum_options = itemgetter("start_momentum", "end_momentum")


def _phase(end_step, lr, momentum):
    """One part of a cycle: its last step, and between which options of a group it goes."""
    return {
        "end_step": end_step,
        "start_lr": lr[0],
        "end_lr": lr[1],
        "start_momentum": momentum[0],
        "end_momentum": momentum[1],
    }


class OneCycleLR(_WithMomentum):
    """One cycle (Smith and Topin 2017): from max_lr / div_factor up to max_lr in pct_start of the steps, then down to
    initial / final_div_factor.

    total_steps, or epochs and steps_per_epoch. ValueError past the last step.
    """

    def __init__(
        self,
        optimizer,
        max_lr,
        total_steps=None,
        epochs=None,
        steps_per_epoch=None,
        pct_start=0.3,
        anneal_strategy="cos",
        cycle_momentum=True,
        base_momentum=0.85,
        max_momentum=0.95,
        div_factor=25.0,
        final_div_factor=1e4,
        three_phase=False,
        last_epoch=-1,
    ):
        self.optimizer = _checked(optimizer)
        self.total_steps = self._steps(total_steps, epochs, steps_per_epoch)
        _require(
            isinstance(pct_start, float) and 0 <= pct_start <= 1,
            f"Expected float between 0 and 1 pct_start, but got {pct_start}",
        )
        _require(
            anneal_strategy in ("cos", "linear"),
            f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}",
        )
        self._anneal_func_type = anneal_strategy
        highest, falling = ("max_momentum", "max_momentum"), ("max_momentum", "base_momentum")
        rise = float(pct_start * self.total_steps)
        phases = [_phase(rise - 1, ("initial_lr", "max_lr"), falling)]
        if three_phase:
            phases += [
                _phase(2 * rise - 2, ("max_lr", "initial_lr"), falling[::-1]),
                _phase(self.total_steps - 1, ("initial_lr", "min_lr"), highest),
            ]
        else:
            phases += [_phase(self.total_steps - 1, ("max_lr", "min_lr"), falling[::-1])]
        self._schedule_phases = phases
        highs = _per_group(optimizer, "max_lr", max_lr)
        if last_epoch == -1:
            for group, high in zip(optimizer.param_groups, highs):
                initial = high / div_factor
                group.update(initial_lr=initial, max_lr=high, min_lr=initial / final_div_factor)
        self._take_momenta(optimizer, cycle_momentum, base_momentum, max_momentum, last_epoch)
        super().__init__(optimizer, last_epoch)

    @staticmethod
    def _steps(total_steps, epochs, steps_per_epoch):
        _require(
            total_steps is not None or None not in (epochs, steps_per_epoch),
            "You must define either total_steps OR (epochs AND steps_per_epoch)",
        )
        counts = (
            {"epochs": epochs, "steps_per_epoch": steps_per_epoch}
            if total_steps is None
            else {"total_steps": total_steps}
        )
        for name, count in counts.items():
            _require(isinstance(count, int) and count > 0, f"Expected positive integer {name}, but got {count}")
        return math.prod(counts.values())

    def get_lr(self):
        self._expect_step()
        step, phases = self.last_epoch, self._schedule_phases
        if step > self.total_steps:
            raise ValueError(f"Tried to step {step} times. The specified number of total steps is {self.total_steps}")
        number, passed = _formulas.phase_of(step, *map(_end_step, phases))
        phase, groups = phases[number], self.optimizer.param_groups
        cosine = self._anneal_func_type == "cos"
        weight = _formulas.cosine_weight(passed, 1) if cosine else passed
        if self.cycle_momentum:
            start, end = _momentum_options(phase)[:: -1 if cosine else 1]
            for group in groups:
                self._set_momentum(group, _between(group[start], group[end], weight))
        start, end = _rate_options(phase)[:: -1 if cosine else 1]
        return [group[start] + (group[end] - group[start]) * weight for group in groups]
