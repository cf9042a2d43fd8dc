"""How exact arithmetic of float32 is: "ieee", "tf32" or "bf16" (what its operands may be rounded to), for a backend's
family of operators, for all of a backend, or for everything. What is "none" takes what stands above it.
"""

import contextlib

from tessera.backends import _flags

_ALL = ("none", "ieee", "tf32", "bf16")
_OF_BACKEND = {"generic": _ALL, "cuda": _ALL[:3], "mkldnn": _ALL}
_chosen = {("cuda", "conv"): "tf32", ("cuda", "rnn"): "tf32"}  # the others are "none"
_legacy = {"cudnn": True, "matmul": "highest"}  # what the older settings say


def get(backend, family="all"):
    """The precision that holds for a family of operators; "none" if nobody chose one that the backend has."""
    for key in ((backend, family), (backend, "all"), ("generic", "all")):
        found = _chosen.get(key, "none")
        if found != "none" and found in _OF_BACKEND[backend]:
            return found
    return "none"


def set_(backend, family, precision):
    """Chooses a precision. TypeError for what is no str, RuntimeError for one that the backend has not."""
    if not isinstance(precision, str):
        raise TypeError(f"fp32_precision must be one of {', '.join(_ALL)}, but got {type(precision).__name__}")
    if precision not in _ALL:
        raise RuntimeError(f"Unknown precision: {precision}. fp32_precision is one of {', '.join(_ALL)}.")
    if precision not in _OF_BACKEND[backend]:
        raise RuntimeError(f"backend '{backend}' does not support precision '{precision}'")
    if _flags.closed():
        raise RuntimeError("fp32_precision can't be set after disable_global_flags(): use flags() for a block")
    _chosen[backend, family] = precision
    _flags.tell_cuda()


def setting(backend, family="all"):
    """The setting as an attribute."""
    return property(lambda self: get(backend, family), lambda self, value: set_(backend, family, value))


def of_module(backend, **others):
    """What _flags.install() wants to know of a backend's fp32_precision and `others` (name -> property)."""
    return {"fp32_precision": setting(backend), **others}, saved, restore


class FP32Precision:
    """The precision of one family of a backend's operators: fp32_precision."""

    __slots__ = ()


def family(backend, name):
    """The object of a family, such as torch.backends.cudnn.conv."""
    members = {"__slots__": (), "__doc__": FP32Precision.__doc__, "fp32_precision": setting(backend, name)}
    return type("FP32Precision", (FP32Precision,), members)()


def make_family(module, backend, name):
    """Gives a module the fp32_precision of a family."""
    module.__class__ = type("FP32PrecisionModule", (type(module),), {"fp32_precision": setting(backend, name)})


def saved():
    """What restore() takes."""
    return dict(_chosen), dict(_legacy)


def restore(state):
    """Gives all settings of this module the values that saved() found."""
    for held, values in zip((_chosen, _legacy), state):
        held.clear()
        held.update(values)
    _flags.tell_cuda()


def set_flags(_fp32_precision="none"):
    """Sets torch.backends.fp32_precision; returns what it was before, in a tuple."""
    before = (get("generic"),)
    with _flags.allowed():
        set_("generic", "all", _fp32_precision)
    return before


@contextlib.contextmanager
def flags(fp32_precision="none"):
    """Context manager: another torch.backends.fp32_precision for a block."""
    before = saved()
    try:
        set_flags(fp32_precision)
        yield
    finally:
        restore(before)


# --- the older settings, which say the same of less ---


def _mixed(name, value, found):
    return RuntimeError(
        f"{name} is {value!r}, but by fp32_precision this is {found}: the older and the newer settings were both used. "
        f"Use fp32_precision alone (torch.backends.fp32_precision, torch.backends.cuda.matmul.fp32_precision ...)."
    )


def set_matmul(precision):
    """What set_float32_matmul_precision() does."""
    _legacy["matmul"] = precision
    _chosen["cuda", "matmul"] = "ieee" if precision == "highest" else "tf32"
    _chosen["mkldnn", "matmul"] = {"highest": "ieee", "high": "tf32", "medium": "bf16"}[precision]
    _flags.tell_cuda()


def get_matmul():
    """What get_float32_matmul_precision() gives. RuntimeError where newer settings contradict it."""
    found = get("cuda", "matmul"), get("mkldnn", "matmul")
    if _legacy["matmul"] == "highest" and not {"tf32", "bf16"}.isdisjoint(found):
        raise _mixed("float32_matmul_precision", "highest", f"{found[0]!r} for CUDA, {found[1]!r} for the CPU")
    return _legacy["matmul"]


def set_cuda_tf32(allowed):
    """What setting cuda.matmul.allow_tf32 does."""
    _legacy["matmul"] = "high" if allowed else "highest"
    _chosen["cuda", "matmul"] = "tf32" if allowed else "ieee"
    _flags.tell_cuda()


def get_cuda_tf32():
    """cuda.matmul.allow_tf32. RuntimeError where newer settings contradict it."""
    allowed, found = _legacy["matmul"] != "highest", get("cuda", "matmul")
    if allowed != (found == "tf32"):
        raise _mixed("torch.backends.cuda.matmul.allow_tf32", allowed, repr(found))
    return allowed


def set_dnn_tf32(allowed):
    """What setting cudnn.allow_tf32 does. RuntimeError for what is no bool."""
    if not isinstance(allowed, bool):
        raise RuntimeError(f"expected a bool for cudnn.allow_tf32, but got {type(allowed).__name__}")
    _legacy["cudnn"] = allowed
    _chosen["cuda", "conv"] = _chosen["cuda", "rnn"] = "tf32" if allowed else "none"


def get_dnn_tf32():
    """cudnn.allow_tf32. RuntimeError where newer settings contradict it."""
    found = get("cuda", "conv"), get("cuda", "rnn")
    if {f == "tf32" for f in found} != {_legacy["cudnn"]}:
        raise _mixed("torch.backends.cudnn.allow_tf32", _legacy["cudnn"], f"{found[0]!r} (conv), {found[1]!r} (rnn)")
    return _legacy["cudnn"]
