"""Scaling of the loss, so that small gradients do not vanish in float16."""

import enum
import warnings

import tessera
from tessera import _C

__all__ = ["GradScaler", "OptState"]

_OPTIONS = ("growth_factor", "backoff_factor", "growth_interval")


class OptState(enum.Enum):
    """How far an optimizer is since the last update()."""

    READY = 0
    UNSCALED = 1
    STEPPED = 2


class _PerOptimizer:
    """An optimizer since the last update(): its stage, and {device: whether a gradient is infinite}."""

    __slots__ = ("found_inf", "stage")

    def __init__(self):
        self.stage, self.found_inf = OptState.READY, {}

    # Libraries read these by name.
    def __getitem__(self, name):
        return self.stage if name == "stage" else self.found_inf


def _check_factors(growth_factor, backoff_factor):
    if not growth_factor > 1.0:
        raise AssertionError(f"The growth factor must be > 1.0, but got {growth_factor}")
    if not backoff_factor < 1.0:
        raise AssertionError(f"The backoff factor must be < 1.0, but got {backoff_factor}")


class GradScaler:
    """Multiplies a loss, so that gradients in float16 do not vanish, and divides the parameters' gradients before a
    step. A step with infinite gradients is left out, and the scale shrinks; after `growth_interval` steps without it
    grows.

    Args:
        device: where the scale lies: "cuda", "cpu" ...
        init_scale: the scale of the first step.
        growth_factor: > 1 (AssertionError).
        backoff_factor: < 1 (AssertionError).
        growth_interval: how many steps.
        enabled: False: everything passes through unchanged.

        >>> weight = tessera.nn.Parameter(tessera.ones(1))
        >>> optimizer = tessera.optim.SGD([weight], lr=0.5)
        >>> scaler = tessera.GradScaler("cpu", init_scale=4.0)
        >>> scaler.scale(weight.sum()).backward()
        >>> weight.grad
        tensor([4.])
        >>> scaler.step(optimizer)
        >>> scaler.update()
        >>> weight.detach()
        tensor([0.5000])
    """

    def __init__(
        self,
        device="cuda",
        init_scale=2.0**16,
        growth_factor=2.0,
        backoff_factor=0.5,
        growth_interval=2000,
        enabled=True,
    ):
        _check_factors(growth_factor, backoff_factor)
        self._device = device
        self._enabled = enabled
        if enabled and device == "cuda" and not tessera.cuda.is_available():
            warnings.warn("GradScaler is off: there is no CUDA device", stacklevel=2)
            self._enabled = False
        self._init_scale, self._init_growth_tracker = init_scale, 0
        self._growth_factor, self._backoff_factor = growth_factor, backoff_factor
        self._growth_interval = growth_interval
        self._scale = self._growth_tracker = None
        self._per_optimizer_states = {}

    # ---- the scale ---------------------------------------------------------------------------------------------------

    def _lazy_init_scale_growth_tracker(self, device):
        self._scale = tessera.full((), self._init_scale, dtype=tessera.float32, device=device)
        self._growth_tracker = tessera.full((), self._init_growth_tracker, dtype=tessera.int32, device=device)

    def _check_scale_growth_tracker(self, caller):
        if self._scale is None:
            raise AssertionError(f"Attempted {caller} but _scale is None: no scale yet, call scale(loss) before")
        return self._scale, self._growth_tracker

    def scale(self, outputs):
        """A tensor, or tensors in an iterable of any depth, times the scale. Raises: ValueError for anything else."""
        if not self._enabled:
            return outputs
        if isinstance(outputs, tessera.Tensor):
            if self._scale is None:
                self._lazy_init_scale_growth_tracker(outputs.device)
            scale = self._scale
            return outputs * (scale if scale.device == outputs.device else scale.to(outputs.device, non_blocking=True))
        if isinstance(outputs, (list, tuple)):
            scaled = [self.scale(output) for output in outputs]
            return type(outputs)(*scaled) if hasattr(outputs, "_fields") else type(outputs)(scaled)
        if hasattr(outputs, "__iter__") and not isinstance(outputs, (str, bytes)):
            return map(self.scale, outputs)
        raise ValueError(f"outputs must be a Tensor or an iterable of Tensors, but got {type(outputs).__name__}")

    def get_scale(self):
        """The scale as a number (waits for the device); 1.0 if this is off."""
        if not self._enabled:
            return 1.0
        return self._init_scale if self._scale is None else self._scale.item()

    def _get_scale_async(self):
        return self._scale

    # ---- steps -------------------------------------------------------------------------------------------------------

    def _state_of(self, optimizer):
        state = self._per_optimizer_states.get(optimizer)
        if state is None:
            state = self._per_optimizer_states[optimizer] = _PerOptimizer()
        return state

    def _unscale_grads_(self, optimizer, inv_scale, found_inf, allow_fp16):
        """Divides all gradients; {device: a tensor that is not 0 if one was infinite}."""
        by_device = {}
        for group in optimizer.param_groups:
            if _C._gradients_by_device(group["params"], by_device) and not allow_fp16:
                raise ValueError(
                    "Attempting to unscale FP16 gradients: keep parameters in float32, and let autocast make "
                    "copies in float16"
                )
        result = {}
        with tessera.no_grad():
            for device, grads in by_device.items():
                same = device == inv_scale.device
                result[device] = found_inf.clone() if same else found_inf.to(device)
                tessera._amp_foreach_non_finite_check_and_unscale_(
                    grads, result[device], inv_scale if same else inv_scale.to(device)
                )
        return result

    def unscale_(self, optimizer):
        """Divides the gradients of the optimizer's parameters by the scale, to look at or clip them before step().
        Once for each step.

        Raises: RuntimeError if they are unscaled, AssertionError before the first scale(), ValueError for gradients
        in float16.
        """
        if not self._enabled:
            return
        scale, _ = self._check_scale_growth_tracker("unscale_")
        state = self._state_of(optimizer)
        if state.stage is OptState.UNSCALED:
            raise RuntimeError("unscale_() has already been called on this optimizer since the last update().")
        if state.stage is OptState.STEPPED:
            raise RuntimeError("unscale_() is being called after step(): call update() between.")
        inverse = scale.double().reciprocal().float()
        state.found_inf = self._unscale_grads_(optimizer, inverse, tessera.zeros((), device=scale.device), False)
        state.stage = OptState.UNSCALED

    def _maybe_opt_step(self, optimizer, optimizer_state, *args, **kwargs):
        if any(found.item() for found in optimizer_state["found_inf_per_device"].values()):
            return None
        return optimizer.step(*args, **kwargs)

    def step(self, optimizer, *args, **kwargs):
        """Steps if all gradients are finite, with those divided by the scale (here, if unscale_() was not called).

        Args:
            optimizer: whose parameters have gradients of a scaled loss.
            args, kwargs: for optimizer.step(); no closure (RuntimeError).

        Returns what optimizer.step() returns, or None where it was left out. Raises: RuntimeError for a second step
        without update(), AssertionError before the first scale() and without any gradient.
        """
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise RuntimeError("Closure use is not supported: gradients are scaled before, looked at after")
        self._check_scale_growth_tracker("step")
        state = self._state_of(optimizer)
        if state.stage is OptState.STEPPED:
            raise RuntimeError("step() has already been called since the last update().")
        if getattr(optimizer, "_step_supports_amp_scaling", False):
            result = self._step_that_unscales(optimizer, state, args, kwargs)
        else:
            if state.stage is OptState.READY:
                self.unscale_(optimizer)
            if not state.found_inf:
                raise AssertionError("No inf checks were recorded for this optimizer: no parameter has a gradient")
            result = self._maybe_opt_step(optimizer, state, *args, **kwargs)
        state.stage = OptState.STEPPED
        return result

    def _step_that_unscales(self, optimizer, state, args, kwargs):
        """One that reads `grad_scale` and `found_inf` itself, and waits for no device."""
        scale = self._scale
        unscaled = state.stage is OptState.UNSCALED
        if not unscaled:
            self._check_inf_per_device(optimizer)
        found = [tensor.to(scale.device, non_blocking=True) for tensor in state.found_inf.values()]
        if not found:
            raise AssertionError("No inf checks were recorded for this optimizer: no parameter has a gradient")
        optimizer.grad_scale = None if unscaled else scale
        optimizer.found_inf = found[0] if len(found) == 1 else sum(found)
        try:
            return optimizer.step(*args, **kwargs)
        finally:
            del optimizer.grad_scale, optimizer.found_inf

    def _check_inf_per_device(self, optimizer):
        """Whether gradients are infinite, by device; they stay as they are."""
        scale, _ = self._check_scale_growth_tracker("_check_inf_per_device")
        one, zero = (tessera.full((), value, device=scale.device) for value in (1.0, 0.0))
        state = self._state_of(optimizer)
        state.found_inf = self._unscale_grads_(optimizer, one, zero, True)
        return state.found_inf

    def _found_inf_per_device(self, optimizer):
        return self._state_of(optimizer).found_inf

    def update(self, new_scale=None):
        """The scale for the next step; `new_scale` (a number, or a tensor with one element) sets it.

        Raises: AssertionError before the first scale(), and if no optimizer has stepped or been unscaled.
        """
        if not self._enabled:
            return
        scale, tracker = self._check_scale_growth_tracker("update")
        if new_scale is not None:
            if isinstance(new_scale, tessera.Tensor) and (new_scale.numel() != 1 or new_scale.requires_grad):
                raise AssertionError(
                    f"new_scale must be a number or a tensor with one element that requires no gradient, but got one "
                    f"of shape {tuple(new_scale.shape)}, requires_grad={new_scale.requires_grad}"
                )
            scale.copy_(new_scale.reshape(())) if isinstance(new_scale, tessera.Tensor) else scale.fill_(new_scale)
        else:
            found = [t for state in self._per_optimizer_states.values() for t in state.found_inf.values()]
            if not found:
                raise AssertionError("No inf checks were recorded prior to update(): no optimizer has stepped")
            found = [t if t.device == scale.device else t.to(scale.device, non_blocking=True) for t in found]
            tessera._amp_update_scale_(
                scale,
                tracker,
                found[0] if len(found) == 1 else sum(found),
                self._growth_factor,
                self._backoff_factor,
                self._growth_interval,
            )
        self._per_optimizer_states = {}

    # ---- options and state -------------------------------------------------------------------------------------------

    def get_growth_factor(self):
        """The factor after `growth_interval` steps."""
        return self._growth_factor

    def set_growth_factor(self, new_factor):
        """Sets the factor after `growth_interval` steps."""
        self._growth_factor = new_factor

    def get_backoff_factor(self):
        """The factor after infinite gradients."""
        return self._backoff_factor

    def set_backoff_factor(self, new_factor):
        """Sets the factor after infinite gradients."""
        self._backoff_factor = new_factor

    def get_growth_interval(self):
        """How many steps without infinite gradients let the scale grow."""
        return self._growth_interval

    def set_growth_interval(self, new_interval):
        """Sets how many steps without infinite gradients let the scale grow."""
        self._growth_interval = new_interval

    def _get_growth_tracker(self):
        if not self._enabled:
            return 0
        return self._init_growth_tracker if self._growth_tracker is None else self._growth_tracker.item()

    def is_enabled(self):
        """Whether this does anything."""
        return self._enabled

    def state_dict(self):
        """The scale, the options and the steps since the scale changed; {} if this is off. To call after update()."""
        options = {name: getattr(self, "_" + name) for name in _OPTIONS}
        values = {"scale": self.get_scale(), **options, "_growth_tracker": self._get_growth_tracker()}
        return values if self._enabled else {}

    def load_state_dict(self, state_dict):
        """Takes what `state_dict` gave. Raises: RuntimeError for {}, which is of a scaler that is off."""
        if not self._enabled:
            return
        if not state_dict:
            raise RuntimeError("The source state dict is empty: a GradScaler that is off saved it (enabled=False)")
        self._init_scale, self._init_growth_tracker = state_dict["scale"], state_dict["_growth_tracker"]
        for name in _OPTIONS:
            setattr(self, "_" + name, state_dict[name])
        if self._scale is not None:
            self._scale.fill_(self._init_scale)
            self._growth_tracker.fill_(self._init_growth_tracker)

    def __getstate__(self):
        state = dict(self.__dict__)
        if self._enabled:
            if self._per_optimizer_states:
                raise AssertionError("a GradScaler is pickled between steps: before scale(), or after update()")
            state["_init_scale"], state["_init_growth_tracker"] = self.get_scale(), self._get_growth_tracker()
            state["_scale"] = state["_growth_tracker"] = None
        return state
