"""Random tensors for tests."""

import math
import warnings

import tessera


def _limits(dtype, low, high):
    """The documented default interval of `dtype`, and a check of the given one."""
    name = str(dtype).rpartition(".")[2]
    if name.startswith(("q", "bits")):
        raise TypeError(f"The requested dtype {dtype} is not supported by make_tensor()")
    if dtype == tessera.bool:
        defaults = (0, 2)
    elif name.startswith("uint"):
        defaults = (0, 10)
    elif dtype.is_floating_point or dtype.is_complex:
        defaults = (-9, 9)
    else:
        defaults = (-9, 10)
    low, high = defaults[0] if low is None else low, defaults[1] if high is None else high
    if any(isinstance(v, float) and math.isnan(v) for v in (low, high)):
        raise ValueError(f"`low` and `high` cannot be NaN, but got low={low} and high={high}")
    real = dtype.is_floating_point or dtype.is_complex
    if low == high and real:
        message = "Passing `low==high` to `torch.testing.make_tensor` for floating or complex types is deprecated"
        warnings.warn(f"{message}: use torch.full() instead", FutureWarning, stacklevel=4)
    elif low >= high:
        raise ValueError(f"make_tensor: `low` must be less than `high`, but got {low} >= {high}")
    if real:
        info = tessera.finfo(dtype)
        least, end = info.min, info.max
    else:
        low, high = math.ceil(low), math.ceil(high)
        info = None if dtype == tessera.bool else tessera.iinfo(dtype)
        least, end = (info.min, info.max + 1) if info else (0, 2)
    if low > end or high < least or (not real and (low == end or high == least)):
        raise ValueError(f"make_tensor: no number of {dtype} is in [{low}, {high})")
    return max(low, least), min(high, end)


def _fill(shape, dtype, device, low, high):
    if dtype == tessera.bool or not (dtype.is_floating_point or dtype.is_complex):
        top = min(high, 2**63 - 1)
        return tessera.randint(low, top, shape, device=device, dtype=tessera.int64).to(dtype)
    if dtype.is_complex:
        return tessera.view_as_complex(_fill((*shape, 2), dtype.to_real(), device, low, high))
    wide = dtype if dtype.itemsize >= 4 else tessera.float32
    result = tessera.empty(shape, dtype=wide, device=device).uniform_(low, high)
    if low < high:
        result[result.to(dtype).to(wide) >= high] = low  # what was rounded up to the end
    return result.to(dtype)


def make_tensor(
    *shape,
    dtype,
    device="cpu",
    low=None,
    high=None,
    requires_grad=False,
    noncontiguous=False,
    exclude_zero=False,
    memory_format=None,
):
    """A tensor with random values from [low, high).

    Args:
        shape: sizes, or one sequence of them.
        dtype, device: of the result.
        low, high: limits; by default [-9, 9) for floats, [-9, 10) for signed, [0, 10) for unsigned integers, {False,
            True} for bool.
        requires_grad: for floating point and complex dtypes only.
        noncontiguous: the values lie in every second place of a larger storage.
        exclude_zero: zeros become the smallest positive number.
        memory_format: excludes `noncontiguous`.

    Raises: TypeError for quantized dtypes; ValueError if low >= high (low > high for floats), for NaN limits, limits
    that leave the dtype no number, for `requires_grad` with integers, or for both layouts at once.
    """
    if len(shape) == 1 and isinstance(shape[0], (list, tuple)):
        shape = tuple(shape[0])
    if noncontiguous and memory_format is not None:
        raise ValueError(
            f"The parameters `noncontiguous` and `memory_format` are mutually exclusive, but got "
            f"noncontiguous={noncontiguous!r} "
            f"and memory_format={memory_format!r}"
        )
    if requires_grad and not (dtype.is_floating_point or dtype.is_complex):
        raise ValueError(
            f"`requires_grad=True` is not supported for boolean and integral dtypes, but got dtype={dtype!r}"
        )
    low, high = _limits(dtype, low, high)
    result = _fill(shape, dtype, device, low, high)
    if noncontiguous and result.numel() > 1:
        result = tessera.repeat_interleave(result, 2, dim=-1)[..., ::2]
    elif memory_format is not None:
        result = result.clone(memory_format=memory_format)
    if exclude_zero:
        tiny = tessera.finfo(dtype).tiny if dtype.is_floating_point or dtype.is_complex else 1
        result[result == 0] = tiny
    if requires_grad:
        result.requires_grad_()
    return result
