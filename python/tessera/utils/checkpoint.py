"""Trading time for memory: parts of a network that keep nothing for backward and are run again there.

Without reentrance (`use_reentrant=False`) a hook stands in for each tensor that the part saves. When backward asks for
the first one, the part runs again on its inputs, under hooks that put what it saves this time into a table; the others
find theirs in it. With reentrance the part is one node of the graph, whose backward runs it and a backward of its own.
"""

import contextlib
import functools
import threading
import warnings
import weakref

import tessera
from tessera import _C
from tessera.amp import autocast_mode
from tessera.autograd.function import Function
from tessera.autograd.graph import saved_tensors_hooks
from tessera.utils._checkpoint_policies import (
    SAC_IGNORED_OPS,
    CheckpointPolicy,
    SelectiveCheckpointContext,
    create_selective_checkpoint_contexts,
)

__all__ = [
    "CheckpointError",
    "CheckpointFunction",
    "CheckpointPolicy",
    "DefaultDeviceType",
    "GraphExecGroup",
    "SAC_IGNORED_OPS",
    "SelectiveCheckpointContext",
    "check_backward_validity",
    "checkpoint",
    "checkpoint_sequential",
    "create_selective_checkpoint_contexts",
    "detach_variable",
    "get_device_states",
    "noop_context_fn",
    "set_checkpoint_debug_enabled",
    "set_checkpoint_early_stop",
    "set_device_states",
]


class CheckpointError(RuntimeError):
    """A part did not do the same when it was run again."""


class _Switches(threading.local):
    """What contexts say for calls of `checkpoint`; None leaves it to the call."""

    early_stop = None
    debug = None
    group = None


_switches = _Switches()


@contextlib.contextmanager
def _switched(name, value):
    before = getattr(_switches, name)
    setattr(_switches, name, value)
    try:
        yield
    finally:
        setattr(_switches, name, before)


def set_checkpoint_early_stop(enable):
    """Context manager: whether parts checkpointed inside stop running again once everything they saved is there.
    Without it, as their call says (`early_stop`).
    """
    return _switched("early_stop", enable)


def set_checkpoint_debug_enabled(enabled):
    """Context manager: whether parts checkpointed inside record their operators, to show them in errors. None leaves it
    to their call (`debug`).
    """
    return _switched("debug", enabled)


class GraphExecGroup:
    """Context manager: backward passes inside share what checkpointed parts give when they run again, so that each part
    runs once for all of them. The passes must not overlap in what they use. Raises: RuntimeError when nested.
    """

    def __init__(self):
        self._regions = weakref.WeakSet()

    def __enter__(self):
        if _switches.group is not None:
            raise RuntimeError(f"GraphExecGroup contexts cannot be nested. Already inside group {_switches.group}")
        _switches.group = self
        return self

    def __exit__(self, exc_type, exc_value, traceback):
        _switches.group = None
        for region in self._regions:
            region.runs.pop(self, None)

    @classmethod
    def _get_current_group(cls):
        return _switches.group


# ---- the state of the machine ---------------------------------------------------------------------------------------


class DefaultDeviceType:
    """The kind of device whose random numbers are preserved where no argument of the part tells; "cuda" at first."""

    _type = "cuda"

    @staticmethod
    def set_device_type(device="cuda"):
        """Sets it to a name such as "cuda"."""
        DefaultDeviceType._type = device

    @staticmethod
    def get_device_type():
        """Its name."""
        return DefaultDeviceType._type


def _devices_of(args):
    """Of the tensors on accelerators, at any depth: {type of device: indices}, in order of first appearance."""
    from tessera.utils._pytree import tree_leaves

    found = {}
    for value in tree_leaves(args):
        if isinstance(value, tessera.Tensor) and value.device.type not in ("cpu", "meta"):
            indices = found.setdefault(value.device.type, [])
            if value.device.index not in indices:
                indices.append(value.device.index)
    return found


def _device_type(args):
    """That of the arguments, the first one if there are several (which gives a warning)."""
    found = list(_devices_of(args))
    if len(found) > 1:
        warnings.warn(
            "Tensor arguments, excluding CPU tensors, are detected on at least two types of devices. Device state will "
            "only be saved for devices of a single device type, and the remaining devices will be ignored. "
            "Consequently, if any checkpointed functions involve randomness, this may result in incorrect gradients. "
            f"(The devices are {found}; {found[0]} is used.)",
            stacklevel=4,
        )
    return found[0] if found else DefaultDeviceType.get_device_type()


def get_device_states(*args):
    """(indices, states): the random number generators of the devices on which the tensors among `args` are."""
    kind = _device_type(args)
    devices = _devices_of(args).get(kind, [])
    module = tessera.get_device_module(kind) if devices else None
    return devices, [module.get_rng_state(device) for device in devices]


def set_device_states(devices, states, *, device_type=None):
    """Gives the generators of `devices` the `states` that `get_device_states` returned.

    Args:
        device_type: name of the kind of device; by default that of `DefaultDeviceType`.
    """
    if not devices:
        return
    module = tessera.get_device_module(device_type or DefaultDeviceType.get_device_type())
    for device, state in zip(devices, states):
        module.set_rng_state(state, device)


class _Conditions:
    """Under which a part ran, for its second run: random numbers, and autocast."""

    __slots__ = ("_autocast", "_cpu", "_device_type", "_devices", "_states", "_was_initialized")

    def __init__(self, args, preserve_rng_state):
        self._cpu = self._device_type = None
        self._devices, self._states = [], []
        if preserve_rng_state:
            self._cpu = _C.default_generator.get_state()
            self._device_type = _device_type(args)
            self._was_initialized = self._is_initialized()
            if self._was_initialized:
                self._devices, self._states = get_device_states(*args)
        self._autocast = autocast_mode._Conditions()

    def _is_initialized(self):
        module = getattr(tessera, self._device_type, None)
        return bool(module is not None and getattr(module, "is_initialized", bool)())

    def check_after_forward(self):
        if self._cpu is not None and not self._was_initialized and self._is_initialized():
            raise RuntimeError(
                "PyTorch's device state was initialized in the forward pass of a Checkpoint, which is not allowed. "
                "Please open an issue if you need this feature. (The random numbers of the forward pass could not be "
                "drawn again: initialize the device before, or pass preserve_rng_state=False.)"
            )

    @contextlib.contextmanager
    def again(self):
        """The same conditions; at the end those of before."""
        with contextlib.ExitStack() as stack:
            if self._cpu is not None:
                stack.enter_context(tessera.random.fork_rng(self._devices, device_type=self._device_type))
                _C.default_generator.set_state(self._cpu)
                set_device_states(self._devices, self._states, device_type=self._device_type)
            stack.enter_context(self._autocast)
            yield


# ---- without reentrance ---------------------------------------------------------------------------------------------


class _Enough(BaseException):
    """Ends a second run: all that the first one saved is there. No error of the part's, which might catch those."""


class _Inputs(Function):
    """Saves the tensors that a part gets as any operator would, for hooks around it to see and writes to be noticed."""

    @staticmethod
    def forward(ctx, anchor, *tensors):
        ctx.save_for_backward(*tensors)
        return anchor.detach()


def _keeper(tensors):
    return _Inputs.apply(tessera.empty(0, requires_grad=True), *tensors)


# What its node saves is asked for: compiled code would make another one.
setattr(_keeper, "_torchdynamo_disable", True)


class _Slot:
    """Stands in the graph for the tensor that was saved as the `index`-th."""

    __slots__ = ("__weakref__", "index")

    def __init__(self, index):
        self.index = index


def _form(tensor):
    return {"shape": tensor.shape, "dtype": tensor.dtype, "device": tensor.device}


def _same(value):
    return value


class _Region:
    """One checkpointed call: what it takes to run it again, and what its second runs saved."""

    def __init__(self, function, args, kwargs, conditions, checks_form, early_stop):
        self.function = function
        self.conditions = conditions
        self.checks_form = checks_form
        self.early_stop = early_stop
        self.context = contextlib.nullcontext()
        self.slots = []  # weak references
        self.forms = []
        self.runs = {}  # a pass's number or group -> {index: tensor}, from which each is taken once
        self.names = tuple(kwargs)
        values = (*args, *kwargs.values())
        self.places = [i for i, value in enumerate(values) if isinstance(value, tessera.Tensor)]
        self.others = [None if isinstance(value, tessera.Tensor) else value for value in values]
        self.keeper = _keeper([values[i] for i in self.places])

    def pack(self, tensor):
        slot = _Slot(len(self.slots))
        self.slots.append(weakref.ref(slot))
        if self.checks_form:
            self.forms.append(_form(tensor))
        return slot

    def unpack(self, slot):
        number, group = _C._current_graph_task_id(), _switches.group
        key = number if group is None else group
        if key == -1:  # somebody looks at the graph
            return self.run_again()[slot.index]
        values = self.runs.get(key)
        if values is None:
            values = self.runs[key] = self.run_again()
            if group is not None:
                group._regions.add(self)
            else:
                _C._queue_backward_callback(functools.partial(_forget_run, weakref.ref(self), key))
        if slot.index not in values:
            raise CheckpointError(
                "torch.utils.checkpoint: Unpack is being triggered for a tensor that was already unpacked once. If you "
                "are calling ctx.saved_tensors in backward, make sure to do so only once: what a checkpointed part "
                "saved is given away and not kept."
            )
        return values.pop(slot.index)

    def inputs(self):
        values = list(self.others)
        for place, tensor in zip(self.places, self.keeper.grad_fn.saved_tensors):
            values[place] = tensor
        count = len(values) - len(self.names)
        return values[:count], dict(zip(self.names, values[count:]))

    def run_again(self):
        run = _SecondRun(self)
        args, kwargs = self.inputs()
        with (
            self.conditions.again(),
            tessera.enable_grad(),
            self.context,
            saved_tensors_hooks(run.pack, _same),
        ):
            try:
                self.function(*args, **kwargs)
            except _Enough:
                pass
        run.check()
        return run.values


def _forget_run(region, key):
    """At the end of a pass: what it did not ask for (because it was for certain inputs, say) goes."""
    region = region()
    if region is not None:
        region.runs.pop(key, None)


class _SecondRun:
    """Collects what a region saves, and compares it with the first run."""

    def __init__(self, region):
        self.region = region
        self.values = {}
        self.count = 0
        self.changed = []

    def pack(self, tensor):
        region, index = self.region, self.count
        if index >= len(region.slots):
            raise CheckpointError(
                "torch.utils.checkpoint: trying to save more tensors during recomputation than during the original "
                f"forward pass, which saved {len(region.slots)}.{_TIP}"
            )
        self.count += 1
        tensor = tensor.detach()
        if region.slots[index]() is not None:
            self.values[index] = tensor
        if region.checks_form and region.forms[index] != (form := _form(tensor)):
            self.changed.append((index, region.forms[index], form))
        if region.early_stop and self.count == len(region.slots):
            raise _Enough
        return tensor

    def check(self):
        expected = len(self.region.slots)
        if self.count != expected:
            raise CheckpointError(
                "torch.utils.checkpoint: A different number of tensors was saved during the original forward and "
                f"recomputation.\nNumber of tensors saved during forward: {expected}\n"
                f"Number of tensors saved during recomputation: {self.count}.{_TIP}"
            )
        if self.changed:
            lines = "".join(
                f"tensor at position {index}:\nsaved metadata: {before}\nrecomputed metadata: {now}\n"
                for index, before, now in self.changed
            )
            raise CheckpointError(
                "torch.utils.checkpoint: Recomputed values for the following tensors have different metadata than "
                f"during the forward pass.\n{lines}{_TIP}"
            )


_TIP = (
    "\nThe function has to do the same each time it is called. `debug=True`, or `set_checkpoint_debug_enabled(True)`, "
    "shows the operators of both runs."
)


def noop_context_fn():
    """Two contexts that do nothing: the default of `context_fn`."""
    return contextlib.nullcontext(), contextlib.nullcontext()


def _without_reentrance(function, args, kwargs, preserve_rng_state, context_fn, checks_form, debug, early_stop):
    first, second = context_fn()
    if not tessera.is_grad_enabled():
        with first:
            return function(*args, **kwargs)
    if _switches.early_stop is not None:
        early_stop = _switches.early_stop
    conditions = _Conditions((args, kwargs), preserve_rng_state)
    region = _Region(function, args, kwargs, conditions, checks_form, early_stop)
    region.context = second
    unpack = region.unpack
    if debug if _switches.debug is None else _switches.debug:
        from tessera.utils._checkpoint_debug import record_runs

        first, region.context, unpack = record_runs(first, second, unpack, CheckpointError)
    with saved_tensors_hooks(region.pack, unpack), first:
        result = function(*args, **kwargs)
    conditions.check_after_forward()
    return result


# ---- with reentrance ------------------------------------------------------------------------------------------------


def detach_variable(inputs):
    """Tensors of a tuple cut off their history, with the same `requires_grad`; other values as they are.

    Raises: RuntimeError for anything but a tuple.
    """
    if not isinstance(inputs, tuple):
        raise RuntimeError(
            f"Only tuple of tensors is supported. Got Unsupported input type: {type(inputs).__name__}",
        )
    return tuple(
        value.detach().requires_grad_(value.requires_grad) if isinstance(value, tessera.Tensor) else value
        for value in inputs
    )


def check_backward_validity(inputs):
    """Warns if no tensor among the inputs requires grad."""
    if not any(isinstance(value, tessera.Tensor) and value.requires_grad for value in inputs):
        warnings.warn("None of the inputs have requires_grad=True. Gradients will be None", stacklevel=2)


class CheckpointFunction(Function):
    """The node of a part with reentrance: `CheckpointFunction.apply(function, preserve_rng_state, *args)`."""

    @staticmethod
    def forward(ctx, run_function, preserve_rng_state, *args):
        check_backward_validity(args)
        ctx.run_function = run_function
        ctx.conditions = _Conditions(args, preserve_rng_state)
        ctx.places = [i for i, value in enumerate(args) if isinstance(value, tessera.Tensor)]
        ctx.others = [None if isinstance(value, tessera.Tensor) else value for value in args]
        ctx.save_for_backward(*(args[i] for i in ctx.places))
        outputs = run_function(*args)
        ctx.conditions.check_after_forward()
        return outputs

    @staticmethod
    def backward(ctx, *grads):
        if not _C._is_checkpoint_valid():
            raise RuntimeError(
                "When use_reentrant=True, torch.utils.checkpoint is incompatible with .grad() or passing an `inputs` "
                "parameter to .backward(). To resolve this error, you can either set use_reentrant=False, or call "
                ".backward() without passing the `inputs` argument."
            )
        inputs = list(ctx.others)
        for place, tensor in zip(ctx.places, ctx.saved_tensors):
            inputs[place] = tensor
        inputs = detach_variable(tuple(inputs))
        with ctx.conditions.again(), tessera.enable_grad():
            outputs = ctx.run_function(*inputs)
        if isinstance(outputs, tessera.Tensor):
            outputs = (outputs,)
        wanted = [
            (output, grad)
            for output, grad in zip(outputs, grads)
            if isinstance(output, tessera.Tensor) and output.requires_grad
        ]
        if not wanted:
            raise RuntimeError("none of output has requires_grad=True, this checkpoint() is not necessary")
        tessera.autograd.backward(*map(list, zip(*wanted)))
        return (None, None, *(value.grad if isinstance(value, tessera.Tensor) else None for value in inputs))


# ---- the functions --------------------------------------------------------------------------------------------------

_DETERMINISM_CHECKS = {"default": True, "none": False}


def _explicit(use_reentrant, caller):
    if use_reentrant is None:
        warnings.warn(
            f"torch.utils.checkpoint{caller}: the use_reentrant parameter should be passed explicitly. In a future "
            "release, calling it without use_reentrant will raise an exception. use_reentrant=False is recommended; "
            "to keep the present behaviour pass use_reentrant=True.",
            stacklevel=3,
        )
        return True
    return use_reentrant


def checkpoint(
    function,
    *args,
    use_reentrant=None,
    context_fn=noop_context_fn,
    determinism_check="default",
    debug=False,
    early_stop=True,
    **kwargs,
):
    """Calls `function(*args, **kwargs)` without keeping what its operators save for backward; backward calls it again.

    Args:
        use_reentrant: False keeps the graph of the function and needs no more of the inputs than any operator does.
            True (the default, with a warning) makes one node of it: gradients by `backward()` alone, for inputs that
            are tensors among `args`, at least one of which requires grad.
        preserve_rng_state: (keyword, default True) the second run draws the random numbers of the first.
        context_fn: returns two context managers, for the first and for the second run.
        determinism_check: "default" compares shapes, dtypes and devices of what both runs save, "none" nothing.
        debug: errors show the operators of both runs.
        early_stop: the second run ends when all that is needed is there.
    The last four need `use_reentrant=False`.

    Returns: what the function returns. Raises: ValueError for arguments that don't fit together; in backward
        CheckpointError if the runs differ.
    """
    use_reentrant = _explicit(use_reentrant, "")
    preserve_rng_state = kwargs.pop("preserve_rng_state", True)
    if use_reentrant:
        if kwargs:
            raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
        if context_fn is not noop_context_fn or debug is not False:
            raise ValueError("Passing `context_fn` or `debug` is only supported when use_reentrant=False.")
        return CheckpointFunction.apply(function, preserve_rng_state, *args)
    if determinism_check not in _DETERMINISM_CHECKS:
        raise ValueError(f"determinism_check should be one of {list(_DETERMINISM_CHECKS)}, but got {determinism_check}")
    checks_form = _DETERMINISM_CHECKS[determinism_check]
    return _without_reentrance(function, args, kwargs, preserve_rng_state, context_fn, checks_form, debug, early_stop)


def checkpoint_sequential(functions, segments, input, use_reentrant=None, **kwargs):
    """Runs functions one after the other, in `segments` parts of which all but the last one are checkpointed.

    Args:
        functions: a Sequential or a list of modules or functions of one argument.
        segments: how many parts.
        input: what the first function gets.
        use_reentrant, preserve_rng_state: as `checkpoint`.

    Raises: ValueError for other keywords, and for a number of segments below 1.
    """
    use_reentrant = _explicit(use_reentrant, ".checkpoint_sequential")
    preserve_rng_state = kwargs.pop("preserve_rng_state", True)
    if kwargs:
        raise ValueError("Unexpected keyword arguments: " + ",".join(kwargs))
    if segments < 1:
        raise ValueError(f"checkpoint_sequential: segments has to be at least 1, got {segments}")
    functions = list(functions.children() if isinstance(functions, tessera.nn.Sequential) else functions)
    length = len(functions) // segments

    def part(first, last):
        def run(value):
            for function in functions[first:last]:
                value = function(value)
            return value

        return run

    for first in range(0, length * (segments - 1), length or 1):
        run = part(first, first + length)
        input = checkpoint(run, input, use_reentrant=use_reentrant, preserve_rng_state=preserve_rng_state)
    return part(length * (segments - 1), len(functions))(input)
