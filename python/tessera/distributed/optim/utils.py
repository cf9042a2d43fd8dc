"""Optimizers that are given gradients, instead of finding them at the parameters."""

import tessera

__all__ = ["as_functional_optim", "functional_optim_map", "register_functional_optim"]


class _Functional:
    """An optimizer that is given its gradients: `step(gradients)` or `step_param(param, gradient)`.

    Args:
        cls: the optimizer's class.
        params: its parameters; more may come with `step_param`.
        args: arguments of the class.
        kwargs: the same, by name.
    """

    def __init__(self, cls, params, args, kwargs):
        self._make = lambda chosen: cls(chosen, *args, **kwargs)
        self._params = list(params)
        self._optimizers = {}

    def _of(self, param):
        # kept with its parameter, so that the number stays its own
        if id(param) not in self._optimizers:
            self._optimizers[id(param)] = (param, self._make([param]))
        return self._optimizers[id(param)][1]

    def step_param(self, param, grad):
        """Steps one parameter with a gradient (None: nothing happens)."""
        if grad is None:
            return
        kept, param.grad = param.grad, grad
        try:
            self._of(param).step()
        finally:
            param.grad = kept

    def step(self, gradients):
        """Steps all parameters, with a list of gradients of which some may be None.

        Raises: ValueError for another number of gradients than parameters."""
        if len(gradients) != len(self._params):
            raise ValueError(f"{len(self._params)} parameters need as many gradients, but got {len(gradients)}")
        for param, gradient in zip(self._params, gradients):
            self.step_param(param, gradient)

    @property
    def state(self):
        """The state of each parameter."""
        return {param: optimizer.state[param] for param, optimizer in self._optimizers.values()}


def _of_class(cls):
    def make(params, *args, _allow_empty_param_list=False, **kwargs):
        params = list(params)
        if not params and not _allow_empty_param_list:
            raise ValueError("a functional optimizer needs parameters")
        kwargs.pop("_use_multi_tensor", None)
        return _Functional(cls, params, args, kwargs)

    return make


_NAMES = "Adadelta Adagrad Adam Adamax AdamW RMSprop Rprop SGD".split()
functional_optim_map = {getattr(tessera.optim, name): _of_class(getattr(tessera.optim, name)) for name in _NAMES}


def register_functional_optim(key, optim):
    """Makes the functional form of a class of optimizers known, unless there is one."""
    functional_optim_map.setdefault(key, optim)


def as_functional_optim(optim_cls, *args, **kwargs):
    """The functional form of an optimizer, without parameters yet.

    Args:
        optim_cls: the class.
        args: its arguments.
        kwargs: the same, by name.

    Raises: ValueError for a class that has no such form.
    """
    if optim_cls not in functional_optim_map:
        raise ValueError(f"{optim_cls.__name__} has no functional form; register_functional_optim() takes one")
    return functional_optim_map[optim_cls]([], *args, _allow_empty_param_list=True, **kwargs)
