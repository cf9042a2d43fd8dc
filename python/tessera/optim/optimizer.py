"""Optimizer, the base class: parameter groups, state, hooks, state dicts."""

from collections import OrderedDict, defaultdict
from collections.abc import Callable
from copy import deepcopy

import tessera
from tessera import _C, Tensor
from tessera.utils.hooks import RemovableHandle

from ._lists import Together

__all__ = ["Optimizer", "register_optimizer_step_pre_hook", "register_optimizer_step_post_hook"]

_begin_event, _end_event = _C._profiler.begin, _C._profiler.end  # None while nobody records
_global_optimizer_pre_hooks = OrderedDict()
_global_optimizer_post_hooks = OrderedDict()


class _RequiredParameter:
    """Stands for the default of an argument that every parameter group has to give."""

    def __repr__(self):
        return "<required parameter>"


required = _RequiredParameter()


def __getattr__(name):
    # type aliases, built only for those who ask
    if name in ("ParamsT", "_params_t", "StateDict", "Args", "Kwargs"):
        from typing import Any, Dict, Iterable, Tuple, Union

        aliases = {
            "ParamsT": Union[Iterable[Tensor], Iterable[Dict[str, Any]], Iterable[Tuple[str, Tensor]]],
            "_params_t": Union[Iterable[Tensor], Iterable[Dict[str, Any]]],
            "StateDict": Dict[str, Any],
            "Args": Tuple[Any, ...],
            "Kwargs": Dict[str, Any],
        }
        globals().update(aliases)
        return aliases[name]
    if name.startswith("_") and not name.startswith("__"):
        from tessera.optim import _shared

        if name in vars(_shared):
            return getattr(_shared, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def _use_grad_for_differentiable(func):
    """Runs a step with gradients recorded only if the optimizer is `differentiable`."""

    def _use_grad(*args, **kwargs):
        self = args[0]
        with tessera.set_grad_enabled(self.defaults["differentiable"]):
            return func(*args, **kwargs)

    _use_grad.__name__ = func.__name__
    _use_grad.__doc__ = func.__doc__
    _use_grad.__wrapped__ = func
    return _use_grad


def _get_value(x):
    """A Python number from a number or a one-element tensor."""
    return x.item() if isinstance(x, (Tensor, Together)) else x


def _to_scalar(x):
    """A 0-dim tensor from a one-element tensor; anything else as it is."""
    return x.squeeze() if isinstance(x, Tensor) and x.dim() != 0 else x


def _get_scalar_dtype(is_fused=None):
    """The dtype of `step` counters."""
    if is_fused:
        return tessera.float32
    return tessera.float64 if tessera.get_default_dtype() == tessera.float64 else tessera.float32


# ---- options ---------------------------------------------------------------------------------------------------------


def constructor(plain, named=None, order=""):
    """The constructor `(self, params, <plain options>, *, <named options>)` of an optimizer: it checks the options,
    makes them the defaults, and calls `_begin()`.

    Args:
        plain, named: option -> default, in the order of the signature. What an old pickle lacks is the default as well.
        order: the options with which groups begin; the others follow in the signature's order.
    """
    options = {**plain, **(named or {})}
    signature = [f"{name}=options[{name!r}]" for name in plain]
    signature += ["*", *(f"{name}=options[{name!r}]" for name in named)] if named else []
    handed_on = ", ".join(f"{name}={name}" for name in dict.fromkeys([*order.split(), *options]))
    space = {"options": options, "Optimizer": Optimizer, "__name__": __name__}
    # as Python makes the constructors of data classes: errors, inspect and help see a function like any other
    exec(f"def __init__(self, params, {', '.join(signature)}): Optimizer._declare(self, params, {handed_on})", space)
    made = space["__init__"]
    made.options = options
    return made


def check(ok, text, value, error=ValueError):
    """Raises "Invalid <text>: <value>" unless ok (NaN is not ok)."""
    if not ok:
        raise error(f"Invalid {text}: {value}")


def at_least_zero(text, form="Invalid {}: {}"):
    """A check of an option."""

    def test(value, _):
        if not value >= 0.0:
            raise ValueError(form.format(text, value))

    return test


def check_lr(lr):
    """ValueError for a negative learning rate, and for a tensor with more than one element."""
    one_element(lr)
    check(lr >= 0.0, "learning rate", lr)


def one_element(lr):
    """ValueError for a tensor as learning rate that has several elements."""
    if isinstance(lr, Tensor) and lr.numel() != 1:
        raise ValueError("Tensor lr must be 1-element")


AT_LEAST_ZERO = "{} should be >= 0 but is: {}"


def check_rate(lr, options):
    """As `check_lr`, in other words."""
    one_element(lr)
    at_least_zero("Learning rate", AT_LEAST_ZERO)(lr, options)


def check_betas(betas, _):
    """ValueError for betas outside [0, 1)."""
    for i, b in enumerate(betas):
        check(0.0 <= b < 1.0, f"beta parameter at index {i}", b)


def check_tensors_of_lists(options, **given):
    """ValueError for options that are tensors where parameters are updated as lists that no graph captures."""
    for name, value in given.items():
        if isinstance(value, Tensor) and options["foreach"] and not options["capturable"]:
            raise ValueError(f"{name} as a Tensor is not supported for capturable=False and foreach=True")


def check_fused(fused, options):
    """RuntimeError for flags that exclude each other."""
    if fused and options["differentiable"]:
        raise RuntimeError("`fused` does not support `differentiable`")
    if fused and options["foreach"]:
        raise RuntimeError("`fused` and `foreach` cannot be `True` together.")


# What an option of this name must be, in whichever optimizer; (value, all options) -> None or an error.
CHECKS = {
    "lr": lambda lr, options: check_lr(lr),
    "eps": at_least_zero("epsilon value"),
    "betas": check_betas,
    "weight_decay": at_least_zero("weight_decay value"),
    "momentum": at_least_zero("momentum value"),
    "momentum_decay": at_least_zero("momentum_decay value"),
    "lr_decay": at_least_zero("lr_decay value"),
    "initial_accumulator_value": at_least_zero("initial_accumulator_value value"),
    "fused": check_fused,
}


def _call_hook_pair(hook, optimizer, args, kwargs):
    result = hook(optimizer, args, kwargs)
    if result is None:
        return args, kwargs
    if isinstance(result, tuple) and len(result) == 2:
        return result
    raise RuntimeError(f"{hook} must return None or a tuple of (new_args, new_kwargs), but got {result}.")


def _or_else(result, present):
    """What a hook returned, or what there was if it returned nothing."""
    return present if result is None else result


def _fitted(value, param, group, key=None):
    """Saved state as it belongs to its parameter: on its device, floating point state in its dtype; a counter keeps its
    own, unless fused or capturable.
    """
    if isinstance(value, dict):
        return {name: _fitted(item, param, group, name) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(_fitted(item, param, group) for item in value)
    if not isinstance(value, Tensor):
        return value
    if key != "step":
        return value.to(param.device, param.dtype if param.is_floating_point() else value.dtype)
    there = group.get("capturable") or group.get("fused")
    return value.to(param.device, tessera.float32) if there else value


def register_optimizer_step_pre_hook(hook):
    """`hook(optimizer, args, kwargs) -> None or (args, kwargs)` runs before the step of every optimizer."""
    handle = RemovableHandle(_global_optimizer_pre_hooks)
    _global_optimizer_pre_hooks[handle.id] = hook
    return handle


def register_optimizer_step_post_hook(hook):
    """`hook(optimizer, args, kwargs) -> None` runs after the step of every optimizer."""
    handle = RemovableHandle(_global_optimizer_post_hooks)
    _global_optimizer_post_hooks[handle.id] = hook
    return handle


_HOOK_DICTS = (
    "_optimizer_step_pre_hooks",
    "_optimizer_step_post_hooks",
    "_optimizer_state_dict_pre_hooks",
    "_optimizer_state_dict_post_hooks",
    "_optimizer_load_state_dict_pre_hooks",
    "_optimizer_load_state_dict_post_hooks",
)


class Optimizer:
    """Base class of optimizers.

    params: tensors, (name, tensor) pairs, or dicts {"params": ..., option: value} that override `defaults` for their
        parameters. TypeError for a bare tensor,
    ValueError for no parameters, for a non-leaf, or for a parameter in two groups.
    """

    OptimizerPreHook = Callable[["Optimizer", tuple, dict], tuple[tuple, dict] | None]
    OptimizerPostHook = Callable[["Optimizer", tuple, dict], None]

    _checks: dict = {}  # of options that mean something else in this class than in CHECKS
    _steps_are_tensors = True  # in the classes of this package; others keep what they counted with
    _fixed: dict = {}  # options that are no arguments

    def _declare(self, params, **options):
        """What constructors do with their options."""
        options.update(self._fixed)
        for name, test in {**CHECKS, **self._checks}.items():
            if name in options:
                test(options[name], options)
        Optimizer.__init__(self, params, options)
        if options.get("fused"):
            self._need_device_dtype_check_for_fused = self._step_supports_amp_scaling = True
        self._begin()

    def _begin(self):
        """What a subclass does once its parameters are there."""

    def __init__(self, params, defaults):
        self.defaults = defaults
        for name in _HOOK_DICTS:
            setattr(self, name, OrderedDict())
        self._patch_step_function()
        if isinstance(params, Tensor):
            raise TypeError(
                "params argument given to the optimizer should be an iterable of Tensors or dicts, but got "
                + tessera.typename(params)
            )
        self.state = defaultdict(dict)
        self.param_groups = []
        param_groups = list(params)
        if not param_groups:
            raise ValueError("optimizer got an empty parameter list")
        if not isinstance(param_groups[0], dict):
            param_groups = [{"params": param_groups}]
        for group in param_groups:
            self.add_param_group(group)
        self._warned_capturable_if_run_uncaptured = True

    @staticmethod
    def _group_tensors_by_device_and_dtype(tensorlistlist, with_indices=False):
        """Parallel lists sorted by device and dtype of the first one: {(device, dtype): (lists, indices)}. Where
        torch.compile captures all are one group, of the key (None, None).
        """
        if tessera.compiler.is_compiling():
            return {(None, None): (tensorlistlist, list(range(len(tensorlistlist[0]))))}
        from tessera.utils._foreach_utils import _group_tensors_by_device_and_dtype as group

        return group(tensorlistlist, with_indices)

    def __getstate__(self):
        return {"defaults": self.defaults, "state": self.state, "param_groups": self.param_groups}

    def __setstate__(self, state):
        self.__dict__.update(state)
        for name in _HOOK_DICTS:
            if name not in self.__dict__:
                self.__dict__[name] = OrderedDict()
        self._patch_step_function()
        self.defaults.setdefault("differentiable", False)
        constructors = (vars(cls).get("__init__") for cls in type(self).__mro__)
        options = next((init.options for init in constructors if hasattr(init, "options")), {})
        for group in self.param_groups:
            # what the version that wrote the pickle did not know, or wrote as a number
            for name, value in options.items():
                group.setdefault(name, value)
            group.update(self._fixed)
            for p in group["params"]:
                state = self.state.get(p, {})
                if options and isinstance(state.get("step"), (int, float)) and self._steps_are_tensors:
                    state["step"] = tessera.tensor(float(state["step"]), dtype=_get_scalar_dtype())

    def __repr__(self):
        text = self.__class__.__name__ + " ("
        for i, group in enumerate(self.param_groups):
            text += f"\nParameter Group {i}\n"
            for key in sorted(group):
                if key != "params":
                    text += f"    {key}: {group[key]}\n"
        return text + ")"

    # ---- the step and its hooks --------------------------------------------------------------------------------------

    def _patch_step_function(self):
        self._zero_grad_profile_name = f"Optimizer.zero_grad#{self.__class__.__name__}.zero_grad"
        step = self.__class__.step
        if not getattr(step, "hooked", None):
            self.__class__.step = self.profile_hook_step(step)
            self.__class__.step.hooked = True

    @staticmethod
    def profile_hook_step(func):
        """Wraps a step function so that the hooks run around it."""

        def wrapper(*args, **kwargs):
            self = args[0]
            event = _begin_event(f"Optimizer.step#{type(self).__name__}.step")
            try:
                return hooked(self, args, kwargs)
            finally:
                _end_event(event)

        def hooked(self, args, kwargs):
            pre, post = self._optimizer_step_pre_hooks, self._optimizer_step_post_hooks
            if not (pre or post or _global_optimizer_pre_hooks or _global_optimizer_post_hooks):
                return func(*args, **kwargs)
            for hook in [*_global_optimizer_pre_hooks.values(), *pre.values()]:
                args, kwargs = _call_hook_pair(hook, self, args, kwargs)
            out = func(*args, **kwargs)
            for hook in [*post.values(), *_global_optimizer_post_hooks.values()]:
                hook(self, args, kwargs)
            return out

        wrapper.__name__ = getattr(func, "__name__", "step")
        wrapper.__doc__ = func.__doc__
        wrapper.__wrapped__ = func
        return wrapper

    def _add_hook(self, hooks, hook, prepend=False):
        handle = RemovableHandle(hooks)
        hooks[handle.id] = hook
        if prepend:
            hooks.move_to_end(handle.id, last=False)
        return handle

    def register_step_pre_hook(self, hook):
        """`hook(optimizer, args, kwargs) -> None or (args, kwargs)` runs before the step; args begins with the
        optimizer.
        """
        return self._add_hook(self._optimizer_step_pre_hooks, hook)

    def register_step_post_hook(self, hook):
        """`hook(optimizer, args, kwargs) -> None` runs after the step."""
        return self._add_hook(self._optimizer_step_post_hooks, hook)

    def register_state_dict_pre_hook(self, hook, prepend=False):
        """`hook(optimizer) -> None` runs before state_dict()."""
        return self._add_hook(self._optimizer_state_dict_pre_hooks, hook, prepend)

    def register_state_dict_post_hook(self, hook, prepend=False):
        """`hook(optimizer, state_dict) -> None or state_dict` runs after state_dict()."""
        return self._add_hook(self._optimizer_state_dict_post_hooks, hook, prepend)

    def register_load_state_dict_pre_hook(self, hook, prepend=False):
        """`hook(optimizer, state_dict) -> None or state_dict` runs before load_state_dict()."""
        return self._add_hook(self._optimizer_load_state_dict_pre_hooks, hook, prepend)

    def register_load_state_dict_post_hook(self, hook, prepend=False):
        """`hook(optimizer) -> None` runs after load_state_dict()."""
        return self._add_hook(self._optimizer_load_state_dict_post_hooks, hook, prepend)

    # ---- state dict --------------------------------------------------------------------------------------------------

    def state_dict(self):
        """{"state": {number of the parameter: its state}, "param_groups": [options, with "params" as numbers]}; tensors
        are references.
        """
        for hook in self._optimizer_state_dict_pre_hooks.values():
            hook(self)
        numbers = {}
        groups = []
        for group in self.param_groups:
            packed = {k: v for k, v in group.items() if k != "params"}
            for p in group["params"]:
                numbers.setdefault(id(p), len(numbers))
            packed["params"] = [numbers[id(p)] for p in group["params"]]
            groups.append(packed)
        state = {(numbers[id(k)] if isinstance(k, Tensor) else k): v for k, v in self.state.items()}
        out = {"state": state, "param_groups": groups}
        for hook in self._optimizer_state_dict_post_hooks.values():
            out = _or_else(hook(self, out), out)
        return out

    def load_state_dict(self, state_dict):
        """Takes over a state_dict(). ValueError if its groups do not have the sizes of this optimizer's."""
        state_dict = state_dict.copy()
        for hook in self._optimizer_load_state_dict_pre_hooks.values():
            state_dict = _or_else(hook(self, state_dict), state_dict)
        saved = deepcopy(state_dict["param_groups"])
        if len(saved) != len(self.param_groups):
            raise ValueError("loaded state dict has a different number of parameter groups")
        owners = {}  # number of a parameter in the state dict -> the parameter and its saved group
        for group, own in zip(saved, self.param_groups):
            if len(group["params"]) != len(own["params"]):
                raise ValueError(
                    "loaded state dict contains a parameter group that doesn't match the size of optimizer's group"
                )
            owners.update((number, (p, group)) for number, p in zip(group["params"], own["params"]))
        state = defaultdict(dict)
        for number, value in state_dict["state"].items():
            if number in owners:
                param, group = owners[number]
                state[param] = _fitted(value, param, group)
            else:
                state[number] = value
        for group, own in zip(saved, self.param_groups):
            names = {name: own[name] for name in ("param_names",) if name in own and name not in group}
            group.update(names, params=own["params"])
        self.__setstate__({"state": state, "param_groups": saved})
        for hook in self._optimizer_load_state_dict_post_hooks.values():
            hook(self)

    # ---- parameters --------------------------------------------------------------------------------------------------

    def zero_grad(self, set_to_none=True):
        """Drops the gradients of all parameters (set_to_none=False: fills them with zeros)."""
        event = _begin_event(f"Optimizer.zero_grad#{type(self).__name__}.zero_grad")
        try:
            self._drop_gradients(set_to_none)
        finally:
            _end_event(event)

    def _drop_gradients(self, set_to_none):
        zeros = []
        for group in self.param_groups:
            for p in group["params"]:
                grad = p.grad
                if grad is None:
                    continue
                if set_to_none:
                    p.grad = None
                    continue
                if grad.grad_fn is not None:
                    grad.detach_()
                else:
                    grad.requires_grad_(False)
                zeros.append(grad)
        for grad in zeros:
            grad.zero_()

    def step(self, closure=None):
        """Does one update. closure: computes the loss again and returns it."""
        raise NotImplementedError

    def add_param_group(self, param_group):
        """Adds a group: {"params": tensor, tensors or (name, tensor) pairs, option: value}.

        Raises: TypeError for a group that is no dict, for a set and for what is no tensor; ValueError for a non-leaf, a
            missing option, a parameter of another group, and names in some groups or for some parameters only.
        """
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group)}")
        params, names = _named_parameters(param_group["params"])
        for p in params:
            if not isinstance(p, Tensor):
                raise TypeError("optimizer can only optimize Tensors, but one of the params is " + tessera.typename(p))
            if not (self.defaults.get("differentiable") or p.is_leaf or p.retains_grad):
                raise ValueError("can't optimize a non-leaf Tensor")
        missing = [name for name, value in self.defaults.items() if value is required and name not in param_group]
        if missing:
            raise ValueError(f"parameter group didn't specify a value of required optimization parameter {missing[0]}")
        distinct = set(params)
        if len(distinct) != len(params):
            import warnings

            warnings.warn(
                "optimizer contains a parameter group with duplicate parameters; in future, this will cause an error; "
                "see github.com/pytorch/pytorch/issues/40967 for more information",
                stacklevel=3,
            )
        with_names = bool(names) or "param_names" in param_group
        for group in self.param_groups:
            if with_names != ("param_names" in group):
                raise ValueError(
                    "all optimizer param groups should be with/without names. cannot add param group "
                    f"{'with' if with_names else 'without'} names to the optimizer"
                )
            if not distinct.isdisjoint(group["params"]):
                raise ValueError("some parameters appear in more than one parameter group")
        param_group.update({**self.defaults, **param_group, **names, "params": params})
        self.param_groups.append(param_group)


def _named_parameters(params):
    """The tensors of a group as a list, and {"param_names": [...]} where they come with names."""
    if isinstance(params, set):
        raise TypeError(
            "optimizer parameters need to be organized in ordered collections, but the ordering of tensors in sets "
            "will change between runs. Please use a list instead."
        )
    items = [params] if isinstance(params, Tensor) else list(params)
    pairs = [item for item in items if isinstance(item, tuple)]
    if not pairs:
        return items, {}
    if len(pairs) != len(items):
        raise ValueError("all optimizer params should be with/without names. Some param names are missing")
    return [tensor for _, tensor in pairs], {"param_names": [name for name, _ in pairs]}


# ---- what the algorithms share ---------------------------------------------------------------------------------------


def run_closure(closure):
    """The closure's loss, computed with gradients enabled, or None."""
    if closure is None:
        return None
    with tessera.enable_grad():
        return closure()


def new_step(p, group):
    """The counter of a parameter's state: a 0-dim float tensor, on the CPU unless the step has to stay on the
    device.
    """
    if group.get("capturable") or group.get("fused"):
        return tessera.zeros((), dtype=_get_scalar_dtype(group.get("fused")), device=p.device)
    return tessera.tensor(0.0, dtype=_get_scalar_dtype())


def count_of(step, group):
    """The number of steps as the formulas take it: a Python number, or with `capturable` the counter itself, so that
    nothing waits for the device.
    """
    return step if group.get("capturable") else _get_value(step)


def subtract_scaled(p, direction, lr):
    """p -= lr direction; a tensor as learning rate stays on its device."""
    if isinstance(lr, (Tensor, Together)):
        p.sub_(direction * lr.to(direction.device))
    else:
        p.add_(direction, alpha=-lr)


def scale_of(optimizer):
    """What a gradient scaler left for this step."""
    return {"grad_scale": getattr(optimizer, "grad_scale", None), "found_inf": getattr(optimizer, "found_inf", None)}


def take_scale(grads, grad_scale, found_inf):
    """False if the step is to be left out because of infinite gradients; else the gradients of a scaled loss are
    divided by the scale.

    This is for steps that treat one parameter after the other, and waits for the device that knows; the fused ones read
    both there.
    """
    if found_inf is not None and bool(found_inf):
        return False
    if grad_scale is not None:
        for grad in grads:
            grad.div_(grad_scale.to(grad.device))
    return True


def dense_parameters(optimizer, group):
    """(parameter, gradient, state) of those that have a gradient. RuntimeError for a sparse one."""
    for p in group["params"]:
        grad = p.grad
        if grad is None:
            continue
        if grad.layout != tessera.strided:
            raise RuntimeError(f"{optimizer.__class__.__name__} does not support sparse gradients")
        yield p, grad, optimizer.state[p]


def as_real(*tensors):
    """Complex tensors as real ones with a last dim of 2 that share memory; None stays None."""
    return tuple(tessera.view_as_real(t) if t is not None and t.is_complex() else t for t in tensors)


def decayed(grad, p, group):
    """The gradient with `maximize` and the (coupled) weight decay of the group applied."""
    if group.get("maximize"):
        grad = -grad
    decay = group.get("weight_decay", 0)
    return grad.add(p, alpha=decay) if decay != 0 else grad


def fused_ready(lr, params, grads):
    """Whether one multi-tensor step can do all of them: dense real floating point tensors of one device that has such a
    step, and a number as learning rate.
    """
    if isinstance(lr, Tensor) or not params or params[0].device.type not in _FUSED_DEVICES:
        return False
    if any(tessera._tensor._takes_operators(type(p)) for p in params):
        return False  # a class that handles operators itself sees one parameter after the other
    return tessera._C._lists_fit(list(params), list(grads))


_FUSED_DEVICES = ("cpu", "cuda")


def step_lists(optimizer, group, names):
    """What one multi-tensor step of a group takes: [parameters with a gradient, gradients, state[name] of each name
    ...]; None if the group is not ready for it (as
    `fused_ready` says, or because some state has not been made yet)."""
    params = group["params"]
    if (
        group["differentiable"]
        or isinstance(group["lr"], Tensor)
        or not params
        or params[0].device.type not in _FUSED_DEVICES
    ):
        return None
    return tessera._C._step_lists(params, optimizer.state, names)


def count_steps(steps, number):
    """Adds a number to the counters of steps."""
    if steps[0].is_cuda:
        tessera._foreach_add_(steps, number)
    else:
        tessera._C._add_to_steps(steps, number)


def undo_steps(steps, found_inf):
    """Takes back the count of a step that was left out because of infinite gradients, without waiting for the device
    that knows.
    """
    if found_inf.device.type == "cpu":
        if bool(found_inf):
            count_steps(steps, -1)
        return
    skipped = {}
    for step in steps:
        skipped.setdefault((step.device, step.dtype), []).append(step)
    for (device, dtype), alike in skipped.items():
        tessera._foreach_sub_(alike, [(found_inf != 0).to(device, dtype).reshape(())] * len(alike))
