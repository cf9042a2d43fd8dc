"""Options of command lines that may come from the environment: --nnodes from PET_NNODES."""

import os
from argparse import Action

__all__ = ["check_env", "env"]


class env(Action):
    """An option whose default is the variable PET_DEST."""

    def __init__(self, dest, default=None, required=False, **kwargs) -> None:
        default = os.environ.get(f"PET_{dest.upper()}", default)
        super().__init__(dest=dest, default=default, required=required and default is None, **kwargs)

    def __call__(self, parser, namespace, values, option_string=None):
        setattr(namespace, self.dest, values)


class check_env(Action):
    """A flag that PET_DEST=1 sets."""

    def __init__(self, dest, default=False, **kwargs) -> None:
        default = bool(int(os.environ.get(f"PET_{dest.upper()}", "1" if default else "0")))
        super().__init__(dest=dest, const=True, default=default, nargs=0, **kwargs)

    def __call__(self, parser, namespace, values, option_string=None):
        setattr(namespace, self.dest, self.const)
