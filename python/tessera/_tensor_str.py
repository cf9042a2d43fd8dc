"""How tensors print: `repr(tensor)`, `str(tensor)` and `set_printoptions`.

All values come through `tolist()` of the elements that are shown, so printing records nothing for autograd, runs no
arithmetic
kernel and draws no random number.
"""

import math
import sys

import tessera


class _PrintOptions:
    __slots__ = ("precision", "threshold", "edgeitems", "linewidth", "sci_mode")

    def __init__(self):
        self.precision = 4
        self.threshold = 1000
        self.edgeitems = 3
        self.linewidth = 80
        self.sci_mode = None


PRINT_OPTS = _PrintOptions()

_PROFILES = {
    "default": {"precision": 4, "threshold": 1000, "edgeitems": 3, "linewidth": 80},
    "short": {"precision": 2, "threshold": 1000, "edgeitems": 2, "linewidth": 80},
    "full": {"precision": 4, "threshold": math.inf, "edgeitems": 3, "linewidth": 80},
}


def set_printoptions(precision=None, threshold=None, edgeitems=None, linewidth=None, profile=None, sci_mode=None):
    """Sets how tensors print.

    Args:
        precision: digits after the point (4).
        threshold: number of elements above which a tensor is summarised (1000).
        edgeitems: elements shown at each end of a summarised dimension (3).
        linewidth: characters in a line (80).
        profile: "default", "short" or "full" sets all of the above; the other arguments override it.
        sci_mode: True or False for scientific notation always or never; None (also after every call without it) decides
            by value.

        >>> tessera.set_printoptions(precision=2)
        >>> tessera.tensor([1.12345])
        tensor([1.12])
    """
    if profile is not None:
        for name, value in _PROFILES.get(profile, {}).items():
            setattr(PRINT_OPTS, name, value)
    if precision is not None:
        PRINT_OPTS.precision = precision
    if threshold is not None:
        PRINT_OPTS.threshold = threshold
    if edgeitems is not None:
        PRINT_OPTS.edgeitems = edgeitems
    if linewidth is not None:
        PRINT_OPTS.linewidth = linewidth
    PRINT_OPTS.sci_mode = sci_mode


def get_printoptions():
    """The current options as a dict."""
    return {name: getattr(PRINT_OPTS, name) for name in _PrintOptions.__slots__}


class printoptions:
    """Context manager: options of `set_printoptions` for one block."""

    def __init__(self, **kwargs):
        self.kwargs = kwargs

    def __enter__(self):
        self.saved = get_printoptions()
        set_printoptions(**self.kwargs)

    def __exit__(self, *exc):
        set_printoptions(**self.saved)


class _Formatter:
    """One format for all the values of a tensor (or for the real, or the imaginary parts of a complex one)."""

    __slots__ = ("floating", "integral", "scientific", "width")

    def __init__(self, values, floating):
        self.floating = floating
        self.integral = True
        self.scientific = False
        self.width = 1
        if not floating:
            for value in values:
                self.width = max(self.width, len(str(value)))
            return
        finite = [v for v in values if v != 0.0 and v - v == 0.0]  # v - v is nan for inf and nan
        if finite:
            self._choose(finite)

    def _choose(self, finite):
        magnitudes = [abs(v) for v in finite]
        smallest, largest = min(magnitudes), max(magnitudes)
        self.integral = all(v == math.ceil(v) for v in finite)
        self.scientific = PRINT_OPTS.sci_mode
        if self.scientific is None:
            self.scientific = (
                largest / smallest > 1000.0 or largest > 1.0e8 or (not self.integral and smallest < 1.0e-4)
            )
        if self.scientific:
            lengths = (len(f"{v:.{PRINT_OPTS.precision}e}") for v in finite)
        elif self.integral:
            lengths = (len(f"{v:.0f}") + 1 for v in finite)
        else:
            lengths = (len(f"{v:.{PRINT_OPTS.precision}f}") for v in finite)
        self.width = max(self.width, max(lengths))

    def format(self, value):
        if not self.floating:
            text = str(value)
        elif self.scientific:
            text = f"{value:{self.width}.{PRINT_OPTS.precision}e}"
        elif self.integral:
            text = f"{value:.0f}"
            if value - value == 0.0:
                text += "."
        else:
            text = f"{value:.{PRINT_OPTS.precision}f}"
        return text.rjust(self.width)


class _ComplexFormatter:
    def __init__(self, values):
        self.real = _Formatter([v.real for v in values], True)
        self.imag = _Formatter([v.imag for v in values], True)
        self.width = self.real.width + self.imag.width + 1

    def format(self, value):
        real, imag = self.real.format(value.real), self.imag.format(value.imag).lstrip() + "j"
        return real + imag if imag[0] == "-" else f"{real}+{imag}"


class _Row:
    """A dimension that is cut: `head` and `tail` with dots between them."""

    __slots__ = ("head", "tail")

    def __init__(self, head, tail):
        self.head = head
        self.tail = tail


def _shown_values(tensor, summarize):
    """Nested lists (and _Row where a dimension is cut) of the elements that will be printed."""
    if not summarize or tensor.dim() == 0:
        return tensor.tolist()
    edge, size = PRINT_OPTS.edgeitems, tensor.size(0)
    if size > 2 * edge:
        if tensor.dim() == 1:
            head = tensor[:edge].tolist()
            tail = tensor[size - edge :].tolist()
        else:
            head = [_shown_values(tensor[i], True) for i in range(edge)]
            tail = [_shown_values(tensor[i], True) for i in range(size - edge, size)]
        return _Row(head, tail)
    if tensor.dim() == 1:
        return tensor.tolist()
    return [_shown_values(tensor[i], True) for i in range(size)]


def _flatten(data, out):
    if isinstance(data, _Row):
        _flatten(data.head, out)
        _flatten(data.tail, out)
    elif isinstance(data, list):
        if data and not isinstance(data[0], (list, _Row)):
            out.extend(data)
        else:
            for item in data:
                _flatten(item, out)
    else:
        out.append(data)
    return out


def _vector_text(data, indent, formatter):
    if isinstance(data, _Row):
        items = [formatter.format(v) for v in data.head] + [" ..."] + [formatter.format(v) for v in data.tail]
    else:
        items = [formatter.format(v) for v in data]
    per_line = max(1, int((PRINT_OPTS.linewidth - indent) // (formatter.width + 2)))
    lines = [", ".join(items[i : i + per_line]) for i in range(0, len(items), per_line)]
    return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"


def _nested_text(data, dim, indent, formatter):
    if dim == 0:
        return formatter.format(data)
    if dim == 1:
        return _vector_text(data, indent, formatter)
    if isinstance(data, _Row):
        slices = [_nested_text(d, dim - 1, indent + 1, formatter) for d in data.head]
        slices.append("...")
        slices += [_nested_text(d, dim - 1, indent + 1, formatter) for d in data.tail]
    else:
        slices = [_nested_text(d, dim - 1, indent + 1, formatter) for d in data]
    return "[" + ("," + "\n" * (dim - 1) + " " * (indent + 1)).join(slices) + "]"


def _storage_only(dtype):
    """Small float formats print through float32."""
    return dtype.is_floating_point and dtype.itemsize == 1


def _tensor_str(tensor, indent):
    """The bracketed values of a dense tensor, without prefix and suffixes."""
    if tensor.numel() == 0:
        return "[]"
    dtype = tensor.dtype
    if tensor.is_neg():
        tensor = tensor.resolve_neg()
    if dtype.is_complex and tensor.is_conj():
        tensor = tensor.resolve_conj()
    if _storage_only(dtype):
        tensor = tensor.float()
    if dtype.is_complex and dtype.itemsize == 4:
        tensor = tensor.to(tessera.complex64)
    data = _shown_values(tensor, tensor.numel() > PRINT_OPTS.threshold)
    values = _flatten(data, [])
    formatter = _ComplexFormatter(values) if dtype.is_complex else _Formatter(values, dtype.is_floating_point)
    return _nested_text(data, tensor.dim(), indent, formatter)


def _add_suffixes(text, suffixes, indent, force_newline):
    parts = [text]
    last_line = len(text) - text.rfind("\n") + 1
    for suffix in suffixes:
        if force_newline or last_line + len(suffix) + 2 > PRINT_OPTS.linewidth:
            parts.append(",\n" + " " * indent + suffix)
            last_line = indent + len(suffix)
            force_newline = False
        else:
            parts.append(", " + suffix)
            last_line += len(suffix) + 2
    parts.append(")")
    return "".join(parts)


def _has_default_dtype(dtype):
    default = tessera.get_default_dtype()
    complex_default = tessera.complex128 if default is tessera.float64 else tessera.complex64
    return dtype in (default, complex_default, tessera.int64, tessera.bool)


def _member(name, tensor, indent):
    """`name=tensor(...)` for the members of a sparse tensor; empty and meta members show their size."""
    text = _tensor_str(tensor, indent + len(name) + 8) if not tensor.is_meta else "..."
    if tensor.is_meta or tensor.numel() == 0:
        text += f", size={tuple(tensor.shape)}"
    return f"{name}=tensor({text})"


def _sparse_parts(tensor, indent, suffixes):
    suffixes.append(f"size={tuple(tensor.shape)}")
    if not tensor.is_meta:
        suffixes.append(f"nnz={tensor._nnz()}")
    if not _has_default_dtype(tensor.dtype):
        suffixes.append(f"dtype={tensor.dtype}")
    layout = str(tensor.layout).rpartition(".")[2]
    if layout == "sparse_coo":
        members = [("indices", tensor._indices()), ("values", tensor._values())]
    elif layout in ("sparse_csr", "sparse_bsr"):
        members = [
            ("crow_indices", tensor.crow_indices()),
            ("col_indices", tensor.col_indices()),
            ("values", tensor.values()),
        ]
    else:
        members = [
            ("ccol_indices", tensor.ccol_indices()),
            ("row_indices", tensor.row_indices()),
            ("values", tensor.values()),
        ]
    return (",\n" + " " * indent).join(_member(name, member.detach(), indent) for name, member in members)


def _quantized_parts(tensor, indent, suffixes):
    suffixes.append(f"size={tuple(tensor.shape)}")
    if tensor.is_meta:
        text = "..."
    else:
        text = _tensor_str(tensor.dequantize(), indent)
    suffixes.append(f"dtype={tensor.dtype}")
    scheme = tensor.qscheme()
    suffixes.append(f"quantization_scheme={scheme}")
    kind = str(scheme).rpartition(".")[2]
    if kind in ("per_tensor_affine", "per_tensor_symmetric"):
        suffixes.append(f"scale={tensor.q_scale()}")
        suffixes.append(f"zero_point={tensor.q_zero_point()}")
    else:
        suffixes.append(f"scale={tensor.q_per_channel_scales()}")
        suffixes.append(f"zero_point={tensor.q_per_channel_zero_points()}")
        suffixes.append(f"axis={tensor.q_per_channel_axis()}")
    return text


def _nested_parts(tensor):
    def line_block(text):
        return "\n".join("  " + line for line in text.split("\n"))

    parts = ",\n".join(line_block(str(t)) for t in tensor.unbind(0))
    return f"[\n{parts}\n]"


def _dense_parts(tensor, indent, suffixes):
    if tensor.is_meta:
        suffixes.append(f"size={tuple(tensor.shape)}")
        if tensor.dtype is not tessera.get_default_dtype():
            suffixes.append(f"dtype={tensor.dtype}")
        return "..."
    if tensor.numel() == 0:
        if tensor.dim() != 1:
            suffixes.append(f"size={tuple(tensor.shape)}")
        # Without elements nothing hints at int64 or bool, so they are shown as well.
        if tensor.dtype is not tessera.get_default_dtype():
            suffixes.append(f"dtype={tensor.dtype}")
        return "[]"
    if not _has_default_dtype(tensor.dtype):
        suffixes.append(f"dtype={tensor.dtype}")
    return _tensor_str(tensor, indent)


def _autograd_suffix(tensor, tangent):
    try:
        node = tensor.grad_fn
    except RuntimeError:  # a view whose base was changed in a way that makes its history invalid
        return ["grad_fn=<Invalid>"]
    if node is not None:
        name = type(node).__name__
        if name == "CppFunction":
            name = node.name().rpartition("::")[2]
        suffix = [f"grad_fn=<{name}>"]
    else:
        suffix = ["requires_grad=True"] if tensor.requires_grad else []
    if tangent is not None:
        suffix.append(f"tangent={tangent}")
    return suffix


def _tangent(tensor):
    """(primal, forward-mode tangent); (tensor, None) when no dual level was ever entered."""
    forward_ad = sys.modules.get("tessera.autograd.forward_ad")
    return (tensor, None) if forward_ad is None else forward_ad.unpack_dual(tensor)


def _shows_device(device):
    return device.type not in ("cpu", "meta")


def _str_intern(tensor, tensor_contents=None):
    cls = type(tensor)
    plain = cls is tessera.Tensor or cls.__name__ == "Parameter" or tensor.is_quantized
    prefix = "tensor(" if plain else f"{cls.__name__}("
    indent = len(prefix)
    shown, tangent = _tangent(tensor.rename(None) if tensor.has_names() else tensor)
    values = shown.detach() if shown.requires_grad else shown
    suffixes = []
    if tensor.is_meta or _shows_device(tensor.device):
        suffixes.append(f"device='{tensor.device}'")
    layout = str(tensor.layout).rpartition(".")[2]
    if tensor_contents is not None:
        text = tensor_contents
    elif layout.startswith("sparse"):
        text = _sparse_parts(values, indent, suffixes)
    elif tensor.is_nested:
        prefix = "nested_tensor("
        text = _nested_parts(values)
    elif tensor.is_quantized:
        text = _quantized_parts(values, indent, suffixes)
    else:
        text = _dense_parts(values, indent, suffixes)
    if layout != "strided":
        suffixes.append(f"layout={tensor.layout}")
    suffixes += _autograd_suffix(tensor, tangent)
    names = getattr(tensor, "names", ())
    if any(name is not None for name in names):
        suffixes.append(f"names={names}")
    shown = _add_suffixes(prefix + text, suffixes, indent, force_newline=layout == "sparse_coo")
    # A parameter of another class than Parameter is one by a mark alone.
    return f"Parameter({shown})" if not plain and getattr(tensor, "_is_param", False) else shown


def _transform_text(tensor, wrapper):
    """A tensor inside of a function transform: its level, the dimension of the batch, and what it holds."""
    level, dim = wrapper
    alive = [number for _, number, _, _ in tessera._C._func._levels()]  # outermost first
    kind = "GradTrackingTensor" if dim is None else "BatchedTensor"
    where = f"lvl={alive.index(level) + 1}" if level in alive else "lvl=dead"
    if dim is not None:
        where += f", bdim={dim}"
    value = repr(tessera._C._func._value(tensor)).replace("\n", "\n    ")
    return f"{kind}({where}, value=\n    {value}\n)"


def _str(tensor, *, tensor_contents=None):
    """`repr` of any tensor. Runs with function overrides and transforms switched off."""
    wrapper = tessera._C._func._wrapper(tensor)
    if wrapper is not None:
        return _transform_text(tensor, wrapper)
    if tessera._C._func._is_functional_tensor(tensor):
        value = repr(tessera._C._func._from_functional_tensor(tensor)).replace("\n", "\n    ")
        return f"FunctionalTensor(\n    {value}\n)"
    set_disabled = tessera._C._set_torch_function_subclass_disabled
    saved = set_disabled(True)
    try:
        return _str_intern(tensor, tensor_contents)
    finally:
        set_disabled(saved)
