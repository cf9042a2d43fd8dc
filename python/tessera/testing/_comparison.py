"""`assert_close`: compares tensors, numbers and containers of them, and says where they differ."""

import collections.abc
import math
import numbers
import sys

import tessera

# dtype name -> (rtol, atol); dtypes that are not listed are compared exactly. Complex numbers have the tolerances of
# their parts.
_TOLERANCES = {
    "float16": (1e-3, 1e-5),
    "bfloat16": (1.6e-2, 1e-5),
    "float32": (1.3e-6, 1e-5),
    "float64": (1e-7, 1e-7),
    "complex32": (1e-3, 1e-5),
    "complex64": (1.3e-6, 1e-5),
    "complex128": (1e-7, 1e-7),
    "quint8": (1.3e-6, 1e-5),
    "qint8": (1.3e-6, 1e-5),
    "qint32": (1.3e-6, 1e-5),
    "quint4x2": (1.3e-6, 1e-5),
    "quint2x4": (1.3e-6, 1e-5),
}


class _Mismatch(Exception):
    """A failed comparison; `path` collects the keys of the containers around it."""

    def __init__(self, error, message, path=()):
        super().__init__(message)
        self.error = error
        self.message = message
        self.path = path


def default_tolerances(*inputs, dtype_precisions=None):
    """The largest (rtol, atol) of the dtypes of `inputs` (tensors or dtypes)."""
    pairs = []
    for value in inputs:
        dtype = value.dtype if isinstance(value, tessera.Tensor) else value
        pairs.append((dtype_precisions or {}).get(dtype) or _TOLERANCES.get(str(dtype).rpartition(".")[2], (0.0, 0.0)))
    return max(p[0] for p in pairs), max(p[1] for p in pairs)


def _check_tolerances(rtol, atol):
    if (rtol is None) != (atol is None):
        raise ValueError(
            f"Both 'rtol' and 'atol' must be either specified or omitted, but got no "
            f"{'rtol' if rtol is None else 'atol'}."
        )


def get_tolerances(*inputs, rtol, atol):
    """(rtol, atol) as they are given, or `default_tolerances(*inputs)` if both are None. ValueError if only one is."""
    _check_tolerances(rtol, atol)
    return default_tolerances(*inputs) if rtol is None else (rtol, atol)


class _Options:
    def __init__(self, rtol, atol, equal_nan, check_device, check_dtype, check_layout, check_stride, allow_subclasses):
        _check_tolerances(rtol, atol)
        self.rtol, self.atol, self.equal_nan = rtol, atol, equal_nan
        self.check_device, self.check_dtype, self.check_layout, self.check_stride = (
            check_device,
            check_dtype,
            check_layout,
            check_stride,
        )
        self.allow_subclasses = allow_subclasses

    def tolerances(self, *inputs):
        return (self.rtol, self.atol) if self.rtol is not None else default_tolerances(*inputs)


def _is_array(value):
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, (numpy.ndarray, numpy.generic)) and value.dtype.kind not in "SUO"


def _is_numpy_bool(value):
    numpy = sys.modules.get("numpy")
    return numpy is not None and isinstance(value, numpy.bool_)


def _is_tensor_like(value):
    return isinstance(value, tessera.Tensor) or (_is_array(value) and not isinstance(value, numbers.Number))


def _tensor_pair(actual, expected, options):
    if not (_is_tensor_like(actual) and _is_tensor_like(expected)):
        return False
    directly_related = isinstance(actual, type(expected)) or isinstance(expected, type(actual))
    if not directly_related:
        return False
    return options.allow_subclasses or type(actual) is type(expected)


def _compare(actual, expected, options):
    if actual is None or expected is None:
        if actual is not expected:
            raise _Mismatch(AssertionError, f"None mismatch: {actual} is not {expected}")
    elif isinstance(actual, bool) or isinstance(expected, bool) or _is_numpy_bool(actual) or _is_numpy_bool(expected):
        _compare_bools(actual, expected)
    elif isinstance(actual, numbers.Number) and isinstance(expected, numbers.Number):
        _compare_numbers(actual, expected, options)
    elif _tensor_pair(actual, expected, options):
        to_tensor = tessera.as_tensor
        _compare_tensors(
            actual if isinstance(actual, tessera.Tensor) else to_tensor(actual),
            expected if isinstance(expected, tessera.Tensor) else to_tensor(expected),
            options,
        )
    elif _is_sequence(actual) and _is_sequence(expected):
        _compare_sequences(actual, expected, options)
    elif isinstance(actual, collections.abc.Mapping) and isinstance(expected, collections.abc.Mapping):
        _compare_mappings(actual, expected, options)
    else:
        raise _unsupported(actual, expected)


def _unsupported(actual, expected):
    return _Mismatch(
        TypeError, f"No comparison pair was able to handle inputs of type {type(actual)} and {type(expected)}."
    )


def _is_sequence(value):
    return isinstance(value, collections.abc.Sequence) and not isinstance(value, str)


def _nested(key, actual, expected, options):
    try:
        _compare(actual, expected, options)
    except _Mismatch as mismatch:
        mismatch.path = (key, *mismatch.path)
        raise


def _compare_sequences(actual, expected, options):
    if len(actual) != len(expected):
        raise _Mismatch(AssertionError, f"The length of the sequences mismatch: {len(actual)} != {len(expected)}")
    for i, (a, e) in enumerate(zip(actual, expected)):
        _nested(i, a, e, options)


def _compare_mappings(actual, expected, options):
    missing, additional = set(expected) - set(actual), set(actual) - set(expected)
    if missing or additional:
        raise _Mismatch(
            AssertionError,
            f"The keys of the mappings do not match:\nMissing keys in the actual mapping: {sorted(missing, key=str)}\n"
            f"Additional keys in the actual mapping: {sorted(additional, key=str)}",
        )
    for key in sorted(actual, key=lambda key: (isinstance(key, str), str(key))):
        _nested(key, actual[key], expected[key], options)


def _compare_bools(actual, expected):
    kinds = (bool,) if "numpy" not in sys.modules else (bool, sys.modules["numpy"].bool_)
    if not isinstance(actual, kinds) or not isinstance(expected, kinds):
        raise _unsupported(actual, expected)
    if bool(actual) is not bool(expected):
        raise _Mismatch(AssertionError, f"Booleans mismatch: {bool(actual)} is not {bool(expected)}")


def _number_dtype(value):
    if isinstance(value, numbers.Integral):
        return tessera.int64
    return tessera.float64 if isinstance(value, numbers.Real) else tessera.complex128


def _is_nan(value):
    return value != value


def _is_close(actual, expected, rtol, atol, equal_nan):
    if actual == expected or (equal_nan and _is_nan(actual) and _is_nan(expected)):
        return True
    difference = abs(actual - expected)
    return math.isfinite(difference) and difference <= atol + rtol * abs(expected)


def _compare_numbers(actual, expected, options):
    actual, expected = (value.item() if hasattr(value, "item") else value for value in (actual, expected))  # NumPy's
    rtol, atol = options.tolerances(_number_dtype(actual), _number_dtype(expected))
    if options.check_dtype and type(actual) is not type(expected):
        raise _Mismatch(AssertionError, f"The (d)types do not match: {type(actual)} != {type(expected)}.")
    if _is_close(actual, expected, rtol, atol, options.equal_nan):
        return
    difference = abs(actual - expected)
    raise _Mismatch(AssertionError, _scalar_message(actual, expected, difference, rtol, atol))


def _scalar_message(actual, expected, difference, rtol, atol):
    equality = rtol == 0 and atol == 0
    relative = math.inf if expected == 0 else difference / abs(expected)
    lines = [f"Scalars are not {'equal' if equality else 'close'}!\n", f"Expected {expected} but got {actual}."]
    lines.append(f"Absolute difference: {difference}" + ("" if equality else f" (up to {atol} allowed)"))
    lines.append(f"Relative difference: {relative}" + ("" if equality else f" (up to {rtol} allowed)"))
    return "\n".join(lines)


def _check_attribute(name, actual, expected):
    if actual != expected:
        raise _Mismatch(AssertionError, f"The values for attribute '{name}' do not match: {actual} != {expected}.")


def _layout(tensor):
    return str(tensor.layout).rpartition(".")[2]


def _compare_attributes(actual, expected, options):
    _check_attribute("shape", actual.shape, expected.shape)
    _check_attribute("is_quantized", actual.is_quantized, expected.is_quantized)
    if actual.is_quantized:
        _check_attribute("qscheme()", actual.qscheme(), expected.qscheme())
    if options.check_layout:
        _check_attribute("layout", actual.layout, expected.layout)
    if options.check_device:
        _check_attribute("device", actual.device, expected.device)
    if options.check_dtype:
        _check_attribute("dtype", actual.dtype, expected.dtype)
    if options.check_stride and _layout(actual) == "strided":
        _check_attribute("stride()", actual.stride(), expected.stride())


def _compare_tensors(actual, expected, options):
    _compare_attributes(actual, expected, options)
    actual, expected = actual.detach(), expected.detach()
    if actual.is_meta or expected.is_meta:
        return
    rtol, atol = options.tolerances(actual, expected)
    if actual.device != expected.device:
        actual, expected = actual.cpu(), expected.cpu()
    if actual.dtype != expected.dtype:
        dtype = tessera.promote_types(actual.dtype, expected.dtype)
        actual, expected = actual.to(dtype), expected.to(dtype)
    if actual.layout != expected.layout:
        actual = actual.to_dense() if _layout(actual) != "strided" else actual
        expected = expected.to_dense() if _layout(expected) != "strided" else expected
    layout = _layout(actual)
    if actual.is_quantized:
        _compare_values(
            actual.dequantize(), expected.dequantize(), rtol, atol, options.equal_nan, "Quantized tensor-likes"
        )
    elif layout == "sparse_coo":
        _compare_coo(actual, expected, rtol, atol, options)
    elif layout.startswith("sparse"):
        _compare_compressed(actual, expected, layout, rtol, atol, options)
    elif layout == "jagged" or actual.is_nested:
        for i, (a, e) in enumerate(zip(actual.unbind(), expected.unbind())):
            _nested(i, a, e, options)
    else:
        _compare_values(actual, expected, rtol, atol, options.equal_nan, "Tensor-likes")


def _compare_coo(actual, expected, rtol, atol, options):
    if actual.sparse_dim() != expected.sparse_dim():
        raise _Mismatch(
            AssertionError,
            f"The number of sparse dimensions in sparse COO tensors does not match: {actual.sparse_dim()} != "
            f"{expected.sparse_dim()}",
        )
    if actual._nnz() != expected._nnz():
        raise _Mismatch(
            AssertionError,
            f"The number of specified values in sparse COO tensors does not match: {actual._nnz()} != "
            f"{expected._nnz()}",
        )
    _compare_values(actual._indices(), expected._indices(), 0, 0, False, "Sparse COO indices")
    _compare_values(actual._values(), expected._values(), rtol, atol, options.equal_nan, "Sparse COO values")


def _compare_compressed(actual, expected, layout, rtol, atol, options):
    name = layout[len("sparse_") :].upper()
    members = ("crow_indices", "col_indices") if name in ("CSR", "BSR") else ("ccol_indices", "row_indices")
    if actual._nnz() != expected._nnz():
        raise _Mismatch(
            AssertionError,
            f"The number of specified values in sparse {name} tensors does not match: {actual._nnz()} != "
            f"{expected._nnz()}",
        )
    for member in members:
        _compare_values(getattr(actual, member)(), getattr(expected, member)(), 0, 0, False, f"Sparse {name} {member}")
    _compare_values(actual.values(), expected.values(), rtol, atol, options.equal_nan, f"Sparse {name} values")


def _comparable(tensor):
    """Formats without arithmetic are compared in one that has it."""
    dtype = tensor.dtype
    if dtype == tessera.bool:
        return tensor.to(tessera.uint8)
    if dtype.is_floating_point and dtype.itemsize == 1:
        return tensor.to(tessera.float32)
    if str(dtype).rpartition(".")[2] in ("uint16", "uint32"):
        return tensor.to(tessera.int64)
    return tensor


def _compare_values(actual, expected, rtol, atol, equal_nan, name):
    actual, expected = _comparable(actual), _comparable(expected)
    if rtol == 0 and atol == 0 and not equal_nan and actual.shape == expected.shape:
        matches = actual == expected
    else:
        matches = tessera.isclose(actual, expected, rtol=rtol, atol=atol, equal_nan=equal_nan)
    if bool(matches.all()):
        return
    if actual.dim() == 0:
        a, e = actual.item(), expected.item()
        message = _scalar_message(a, e, abs(a - e), rtol, atol)
        if name != "Tensor-likes":
            message = name + message[len("Scalars") :]
        raise _Mismatch(AssertionError, message)
    raise _Mismatch(AssertionError, _tensor_message(actual, expected, matches, rtol, atol, name))


def _index_of(flat, shape):
    index = []
    for length in reversed(shape):
        index.append(flat % length)
        flat //= length
    return tuple(reversed(index))


def _tensor_message(actual, expected, matches, rtol, atol, name):
    equality = rtol == 0 and atol == 0
    total, shape = matches.numel(), tuple(matches.shape)
    count = total - int(matches.sum())
    matches, actual, expected = matches.reshape(-1), actual.reshape(-1), expected.reshape(-1)
    if not (actual.dtype.is_floating_point or actual.dtype.is_complex):
        actual, expected = (
            actual.to(tessera.int64),
            expected.to(tessera.int64),
        )  # differences of unsigned numbers would wrap
    absolute = (actual - expected).abs()
    relative = absolute / expected.abs()
    lines = [
        f"{name} are not {'equal' if equality else 'close'}!\n",
        f"Mismatched elements: {count} / {total} ({count / total:.1%})",
    ]
    for kind, values, limit in (("absolute", absolute, atol), ("relative", relative, rtol)):
        values = values.masked_fill(matches, 0)
        at = int(values.argmax())
        lines.append(
            f"Greatest {kind} difference: {values[at].item()} at index {_index_of(at, shape)}"
            + ("" if equality else f" (up to {limit} allowed)")
        )
    return "\n".join(lines)


def assert_close(
    actual,
    expected,
    *,
    allow_subclasses=True,
    rtol=None,
    atol=None,
    equal_nan=False,
    check_device=True,
    check_dtype=True,
    check_layout=True,
    check_stride=False,
    msg=None,
):
    """Asserts that `actual` and `expected` are close: |actual - expected| <= atol + rtol * |expected|, element by
    element.

    Args:
        actual, expected: tensors, arrays, numbers, None, bools, or sequences and mappings of them.
        rtol, atol: both or none; by default by dtype, (1.3e-6, 1e-5) for float32, exact for integers.
        equal_nan: NaN equals NaN.
        check_device, check_dtype, check_layout, check_stride: these must be the same too.
        msg: message of the error instead, or a function from the generated to the final message.

    Raises: AssertionError if they are not close, TypeError for types that can't be compared, ValueError for one
        tolerance without the other.

        >>> tessera.testing.assert_close(tessera.tensor([1.0, 2.0]), tessera.tensor([1.0, 2.0]))
    """
    __tracebackhide__ = True
    options = _Options(rtol, atol, equal_nan, check_device, check_dtype, check_layout, check_stride, allow_subclasses)
    try:
        _compare(actual, expected, options)
    except _Mismatch as mismatch:
        failure = mismatch
    else:
        return
    message = failure.message
    if failure.path:
        message += f"\n\nThe failure occurred for item {''.join(f'[{key!r}]' for key in failure.path)}"
    if failure.error is AssertionError and msg is not None:
        message = msg(message) if callable(msg) else msg
    raise failure.error(message)


def assert_allclose(actual, expected, rtol=None, atol=None, equal_nan=True, msg=""):
    """Deprecated: `assert_close` that ignores dtype and device and takes NaNs as equal."""
    import warnings

    warnings.warn(
        "`torch.testing.assert_allclose()` is deprecated since 1.12 and will be removed in a future release. Please "
        "use "
        "`torch.testing.assert_close()` instead.",
        FutureWarning,
        stacklevel=2,
    )
    actual = tessera.as_tensor(actual)
    expected = expected if isinstance(expected, tessera.Tensor) else tessera.tensor(expected, dtype=actual.dtype)
    tolerances = (rtol, atol)
    if rtol is None and atol is None:  # wider than those of assert_close
        floats = [t.dtype for t in (actual, expected) if t.dtype.is_floating_point]
        coarse = (1e-3, 1e-3) if tessera.float16 in floats else (1e-4, 1e-5) if tessera.float32 in floats else None
        tolerances = coarse or ((1e-5, 1e-8) if tessera.float64 in floats else default_tolerances(actual, expected))
    strictness = dict(check_device=True, check_dtype=False, check_stride=False, equal_nan=equal_nan)
    assert_close(actual, expected, **dict(zip(("rtol", "atol"), tolerances)), **strictness, msg=msg or None)
