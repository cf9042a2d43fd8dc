"""What users give to a writer, as NumPy arrays."""

import re

import numpy
import tessera


def array(value):
    """A tensor, array, number or list of numbers as a NumPy array. Raises: NotImplementedError for anything else."""
    if isinstance(value, tessera.Tensor):
        value = value.detach().cpu()
        value = value.float() if value.dtype in (tessera.bfloat16, tessera.half) else value
        return value.resolve_conj().resolve_neg().numpy()
    if isinstance(value, (numpy.ndarray, numpy.generic)):
        return numpy.asarray(value)
    if isinstance(value, (bool, int, float, complex)):
        return numpy.asarray(value)
    if isinstance(value, (list, tuple)):
        return numpy.asarray([array(v) if isinstance(v, tessera.Tensor) else v for v in value])
    raise NotImplementedError(
        f"Got {type(value)}, but expected a tensor, a NumPy array, a number, or a list of numbers"
    )


def number(value):
    """One number as a float. Raises: ValueError for several."""
    if type(value) in (int, float, bool):
        return float(value)
    found = array(value)
    if found.size != 1:
        raise ValueError(f"expected one number, but got {found.size} of shape {found.shape}")
    return float(found.reshape(()))


def file_name(tag):
    """A tag as the name of a folder: characters that file systems or TensorBoard cannot have become underscores."""
    return re.sub(r"[^-/\w.]", "_", tag).lstrip("/")
