"""Averages of model weights: stochastic weight averaging (Izmailov et al. 2018) and exponential moving averages."""

import itertools
import math
import warnings
from copy import deepcopy

import tessera
from tessera.nn import Module

from .lr_scheduler import LRScheduler, _format_param

__all__ = ["AveragedModel", "update_bn", "SWALR", "get_ema_multi_avg_fn", "get_swa_multi_avg_fn", "get_ema_avg_fn", "get_swa_avg_fn"]


def _check_decay(decay):
    if decay < 0.0 or decay > 1.0:
        raise ValueError(f"Invalid decay value {decay} provided. Please provide a value in [0,1] range.")


def get_ema_multi_avg_fn(decay=0.999):
    """A function for AveragedModel(multi_avg_fn=): averages = decay averages + (1 - decay) parameters."""
    _check_decay(decay)

    @tessera.no_grad()
    def ema_update(ema_param_list, current_param_list, _):
        for ema, current in zip(ema_param_list, current_param_list):
            if ema.is_floating_point() or ema.is_complex():
                ema.lerp_(current, 1 - decay)
            else:
                ema.copy_(ema * decay + current * (1 - decay))

    return ema_update


def get_swa_multi_avg_fn():
    """A function for AveragedModel(multi_avg_fn=): the equal average of all."""

    @tessera.no_grad()
    def swa_update(averaged_param_list, current_param_list, num_averaged):
        for averaged, current in zip(averaged_param_list, current_param_list):
            if averaged.is_floating_point() or averaged.is_complex():
                averaged.lerp_(current, 1 / (float(num_averaged) + 1))
            else:
                averaged.add_((current - averaged) // (int(num_averaged) + 1))

    return swa_update


def get_ema_avg_fn(decay=0.999):
    """A function for AveragedModel(avg_fn=): average = decay average + (1 - decay) parameter."""
    _check_decay(decay)

    @tessera.no_grad()
    def ema_update(ema_param, current_param, num_averaged):
        return decay * ema_param + (1 - decay) * current_param

    return ema_update


def get_swa_avg_fn():
    """A function for AveragedModel(avg_fn=): the equal average of all."""

    @tessera.no_grad()
    def swa_update(averaged_param, current_param, num_averaged):
        return averaged_param + (current_param - averaged_param) / (num_averaged + 1)

    return swa_update


class AveragedModel(Module):
    """A copy of a model (`module`) with averaged parameters; update_parameters(model) takes the model's present ones in. use_buffers: buffers are averaged too."""

    def __init__(self, model, device=None, avg_fn=None, multi_avg_fn=None, use_buffers=False):
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError("Only one of avg_fn and multi_avg_fn should be provided")
        self.module = deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", tessera.tensor(0, dtype=tessera.long, device=device))
        self.avg_fn = avg_fn
        self.multi_avg_fn = multi_avg_fn
        self.use_buffers = use_buffers

    def forward(self, *args, **kwargs):
        return self.module(*args, **kwargs)

    def _state(self, module):
        return list(itertools.chain(module.parameters(), module.buffers())) if self.use_buffers else list(module.parameters())

    def update_parameters(self, model):
        """Takes the parameters of `model` into the average; the first time it copies them."""
        averages = [p.detach() for p in self._state(self.module)]
        current = [p.detach().to(a.device) for p, a in zip(self._state(model), averages)]
        if self.n_averaged == 0:
            for a, c in zip(averages, current):
                a.copy_(c)
        elif self.avg_fn is not None:
            for a, c in zip(averages, current):
                a.copy_(self.avg_fn(a, c, self.n_averaged.to(a.device)))
        else:
            update = self.multi_avg_fn if self.multi_avg_fn is not None else get_swa_multi_avg_fn()
            update(averages, current, self.n_averaged)
        if not self.use_buffers:
            # buffers are kept in step with the model's
            for b, c in zip(self.module.buffers(), model.buffers()):
                b.detach().copy_(c.detach().to(b.device))
        self.n_averaged += 1


@tessera.no_grad()
def update_bn(loader, model, device=None):
    """Computes the running statistics of the BatchNorm layers again, as plain averages over the batches of `loader` (tensors, or sequences that begin with one)."""
    from tessera.nn.modules.batchnorm import _BatchNorm
    momenta = {}
    for module in model.modules():
        if isinstance(module, _BatchNorm):
            module.reset_running_stats()
            momenta[module] = module.momentum
    if not momenta:
        return
    was_training = model.training
    model.train()
    for module in momenta:
        module.momentum = None
    for input in loader:
        if isinstance(input, (list, tuple)):
            input = input[0]
        if device is not None:
            input = input.to(device)
        model(input)
    for module, momentum in momenta.items():
        module.momentum = momentum
    model.train(was_training)


class SWALR(LRScheduler):
    """Anneals the rate from its present value to swa_lr in anneal_epochs (strategy cos | linear), then keeps it."""

    def __init__(self, optimizer, swa_lr, anneal_epochs=10, anneal_strategy="cos", last_epoch=-1):
        swa_lrs = _format_param("swa_lr", optimizer, swa_lr)
        for lr, group in zip(swa_lrs, optimizer.param_groups):
            group["swa_lr"] = lr
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy must by one of 'cos' or 'linear', instead got {anneal_strategy}")
        self._anneal_strategy = anneal_strategy
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}")
        self.anneal_epochs = anneal_epochs
        super().__init__(optimizer, last_epoch)

    def _anneal(self, t):
        return (1 - math.cos(math.pi * t)) / 2 if self._anneal_strategy == "cos" else t

    @staticmethod
    def _get_initial_lr(lr, swa_lr, alpha):
        return swa_lr if alpha == 1 else (lr - alpha * swa_lr) / (1 - alpha)

    def get_lr(self):
        if not self._get_lr_called_within_step:
            warnings.warn("To get the last learning rate computed by the scheduler, please use `get_last_lr()`.", UserWarning, stacklevel=2)
        # _step_count is one ahead of the number of steps that the user made
        step = self._step_count - 1
        if self.anneal_epochs == 0:
            step = max(1, step)
        prev_alpha = self._anneal(max(0, min(1, (step - 1) / max(1, self.anneal_epochs))))
        alpha = self._anneal(max(0, min(1, step / max(1, self.anneal_epochs))))
        out = []
        for group in self.optimizer.param_groups:
            start = self._get_initial_lr(group["lr"], group["swa_lr"], prev_alpha)
            out.append(group["swa_lr"] * alpha + start * (1 - alpha))
        return out
