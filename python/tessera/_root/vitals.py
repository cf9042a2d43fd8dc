"""Vitals: texts that a program and this library note for whoever reads the end of its output.

They are kept where the environment has TORCH_VITAL, and printed when the program ends.
"""

import atexit
import os

import tessera

_noted: dict = {}


def vitals_enabled():
    """Whether the environment asks for vitals: TORCH_VITAL is there and not empty."""
    return bool(os.environ.get("TORCH_VITAL"))


def set_vital(vital, attr, value):
    """Notes a text.

    Args:
        vital, attr: what it is called: "vital.attr".
        value: str.

    Returns: whether it was noted, as `vitals_enabled` says.
    """
    for text in (vital, attr, value):
        if not isinstance(text, str):
            raise TypeError(f"set_vital(): expected str, but got {type(text).__name__}")
    if not vitals_enabled():
        return False
    if not _noted:
        atexit.register(lambda: print(read_vitals(), end=""))
    _noted[f"{vital}.{attr}"] = value
    return True


def read_vitals():
    """All vitals, a line for each; "" where they are not asked for. CUDA.used is whether a device was used."""
    if not vitals_enabled():
        return ""
    lines = {**_noted, "CUDA.used": str(tessera.cuda.is_initialized())}
    return "".join(f"[TORCH_VITAL] {name}\t\t {value}\n" for name, value in lines.items())
