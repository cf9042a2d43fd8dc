"""Averages of model weights: stochastic weight averaging (Izmailov et al. 2018) and exponential moving averages."""

import itertools
from copy import deepcopy

import tessera
from tessera.nn import Module

from .lr_scheduler import LRScheduler, _formulas, _per_group, _read, _require

__all__ = [
    "AveragedModel",
    "update_bn",
    "SWALR",
    "get_ema_multi_avg_fn",
    "get_swa_multi_avg_fn",
    "get_ema_avg_fn",
    "get_swa_avg_fn",
]


def _check_decay(decay):
    _require(0 <= decay <= 1, f"Invalid decay value {decay} provided. Please provide a value in [0,1] range.")


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
    """A copy of a model (`module`) with averaged parameters; update_parameters(model) takes the model's present ones
    in. use_buffers: buffers are averaged too.
    """

    def __init__(self, model, device=None, avg_fn=None, multi_avg_fn=None, use_buffers=False):
        super().__init__()
        _require(
            None in (avg_fn, multi_avg_fn), "Only one of avg_fn and multi_avg_fn should be provided", AssertionError
        )
        own = deepcopy(model)
        self.module = own if device is None else own.to(device)
        self.avg_fn, self.multi_avg_fn, self.use_buffers = avg_fn, multi_avg_fn, use_buffers
        self.register_buffer("n_averaged", tessera.zeros((), dtype=tessera.int64, device=device))

    def forward(self, *args, **kwargs):
        return self.module(*args, **kwargs)

    def _state(self, module):
        return (
            list(itertools.chain(module.parameters(), module.buffers()))
            if self.use_buffers
            else list(module.parameters())
        )

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
    """Computes the running statistics of the BatchNorm layers again, as plain averages over the batches of `loader`
    (tensors, or sequences that begin with one).
    """
    from tessera.nn.modules.batchnorm import _BatchNorm

    momenta = {layer: layer.momentum for layer in model.modules() if isinstance(layer, _BatchNorm)}
    if not momenta:
        return
    training = model.training
    for layer in momenta:
        layer.reset_running_stats()
        layer.momentum = None  # the plain average
    model.train()
    try:
        for batch in loader:
            inputs = batch[0] if isinstance(batch, (list, tuple)) else batch
            model(inputs if device is None else inputs.to(device))
    finally:
        for layer, momentum in momenta.items():
            layer.momentum = momentum
        model.train(training)


class SWALR(LRScheduler):
    """Anneals the rate from its present value to swa_lr in anneal_epochs (strategy cos | linear), then keeps it."""

    def __init__(self, optimizer, swa_lr, anneal_epochs=10, anneal_strategy="cos", last_epoch=-1):
        for group, lr in zip(optimizer.param_groups, _per_group(optimizer, "swa_lr", swa_lr)):
            group["swa_lr"] = lr
        _require(
            anneal_strategy in ("cos", "linear"),
            f"anneal_strategy must by one of 'cos' or 'linear', instead got {anneal_strategy}",
        )
        _require(
            isinstance(anneal_epochs, int) and anneal_epochs >= 0,
            f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}",
        )
        self._start(optimizer, last_epoch, _anneal_strategy=anneal_strategy, anneal_epochs=anneal_epochs)

    def get_lr(self):
        self._expect_step()
        rates = _read(self.optimizer, "lr")
        # _step_count is one ahead of the number of steps that the user made
        step = max(self._step_count - 1, 0 if self.anneal_epochs else 1)
        before, share = (
            _formulas.averaging_weight(at, self.anneal_epochs, self._anneal_strategy == "cos")
            for at in (step - 1, step)
        )
        targets = [group["swa_lr"] for group in self.optimizer.param_groups]
        # the rate that the way began at, from the present one
        starts = (
            targets
            if before == 1
            else [(rate - before * target) / (1 - before) for rate, target in zip(rates, targets)]
        )
        return [target * share + start * (1 - share) for start, target in zip(starts, targets)]
