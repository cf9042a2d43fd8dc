"""Names that moved here from the modules of devices."""

import warnings

import tessera


def warn_renamed(old, new):
    """FutureWarning for the caller of the function that calls this."""
    shown = tessera._display_name
    warnings.warn(f"{shown}.{old} is deprecated. Please use {shown}.{new} instead.", FutureWarning, stacklevel=3)
