"""Objects that know their own state."""

from typing import Any, Protocol, TypeVar, runtime_checkable

__all__ = ["Stateful", "StatefulT"]


@runtime_checkable
class Stateful(Protocol):
    """What has `state_dict` and `load_state_dict`: modules, optimizers, and programs' own classes. `save` writes the
    state of such objects, `load` gives it back to them.
    """

    def state_dict(self) -> dict[str, Any]:
        """The state: a dict, as for `save`."""
        ...

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Takes a state over."""
        ...


StatefulT = TypeVar("StatefulT", bound=Stateful)
