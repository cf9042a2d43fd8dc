"""An optimizer that averages the model now and then."""

import warnings

from tessera.optim import Optimizer

__all__ = ["PostLocalSGDOptimizer"]


class PostLocalSGDOptimizer(Optimizer):
    """Steps a local optimizer, then lets an averager average the parameters if it is time.

    Args:
        optim: the local optimizer.
        averager: a ModelAverager.
    """

    def __init__(self, optim, averager):
        self.optim, self.averager = optim, averager
        self.param_groups = optim.param_groups

    @property
    def state(self):
        """The local optimizer's state."""
        return self.optim.state

    def __repr__(self):
        return repr(self.optim)

    def state_dict(self):
        """The local optimizer's, with the averager's `step`."""
        found = self.optim.state_dict()
        found["step"] = self.averager.step
        return found

    def load_state_dict(self, state_dict):
        """Loads what `state_dict` gave; without a `step` in it the averager begins at 0, with a warning."""
        self.optim.load_state_dict({name: value for name, value in state_dict.items() if name != "step"})
        self.param_groups = self.optim.param_groups
        if "step" not in state_dict:
            warnings.warn("the state has no 'step' of the averager, which begins at 0", stacklevel=2)
        self.averager.step = state_dict.get("step", 0)

    def step(self):
        """Steps the local optimizer, then averages if it is time."""
        self.optim.step()
        self.averager.average_parameters(params=self.param_groups)

    def zero_grad(self, set_to_none=True):
        """Takes the gradients away, or sets them to 0."""
        self.optim.zero_grad(set_to_none=set_to_none)

    def add_param_group(self, param_group):
        """Adds parameters to the local optimizer."""
        self.optim.add_param_group(param_group)
