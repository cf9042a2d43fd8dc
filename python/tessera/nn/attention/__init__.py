"""Choice of the implementation behind scaled_dot_product_attention, and attention biases."""

import contextlib
import warnings

from tessera._lazy import attach as _attach
from tessera.backends import cuda as _cuda
from tessera.backends.cuda import SDPBackend

__all__ = [
    "SDPBackend",
    "sdpa_kernel",
    "WARN_FOR_UNFUSED_KERNELS",
    "register_flash_attention_impl",
    "activate_flash_attention_impl",
    "list_flash_attention_impls",
    "current_flash_attention_impl",
    "restore_flash_attention_impl",
]

__getattr__, __dir__ = _attach(__name__)

WARN_FOR_UNFUSED_KERNELS = False

_KINDS = {
    SDPBackend.CUDNN_ATTENTION: "cudnn",
    SDPBackend.FLASH_ATTENTION: "flash",
    SDPBackend.EFFICIENT_ATTENTION: "mem_efficient",
    SDPBackend.MATH: "math",
    SDPBackend.OVERRIDEABLE: "overrideable",
}
_priority = (
    SDPBackend.FLASH_ATTENTION,
    SDPBackend.EFFICIENT_ATTENTION,
    SDPBackend.MATH,
    SDPBackend.CUDNN_ATTENTION,
    SDPBackend.OVERRIDEABLE,
)


def _cur_sdpa_kernel_backends(with_priority=False):
    """The implementations that are allowed."""
    return [b for b in (_priority if with_priority else _KINDS) if _cuda._sdp[_KINDS[b]]]


@contextlib.contextmanager
def sdpa_kernel(backends, set_priority=False):
    """`with sdpa_kernel(SDPBackend.MATH):` (or a list) restricts the implementations that may be chosen; those of
    torch.backends.cuda.*_sdp_enabled() are back afterwards.

    set_priority: the list is also an order of preference. There is one fused implementation, so that it changes nothing
        but that order.
    Raises: AssertionError for other arguments.
    """
    global _priority
    if not isinstance(backends, (list, SDPBackend)):
        raise AssertionError(
            f"Backend must be an instance of SDPBackend or a list of SDPBackend instances, got "
            f"{type(backends).__name__}"
        )
    backends = list(dict.fromkeys([backends] if isinstance(backends, SDPBackend) else backends))
    before, priority = _cuda._set_sdp(**{kind: b in backends for b, kind in _KINDS.items()}), _priority
    if set_priority:
        _priority = tuple([b for b in backends if b in _KINDS] + [b for b in priority if b not in backends])
    try:
        yield {}
    finally:
        _cuda._set_sdp(**before)
        _priority = priority


# ---- implementations by others: a function that registers kernels with the dispatcher ----

_impls = {}
_active = None  # name and what its function returned


def register_flash_attention_impl(impl, *, register_fn):
    """Makes `register_fn` known under a name. activate_flash_attention_impl calls it; what it returns may have
    remove(), to undo what it did.
    """
    _impls[impl] = register_fn


def list_flash_attention_impls():
    """The registered names, sorted."""
    return sorted(_impls)


def activate_flash_attention_impl(impl):
    """Calls the function registered under this name. Raises: ValueError for an unknown one."""
    global _active
    if impl not in _impls:
        raise ValueError(
            f"Unknown flash attention impl {impl!r}. Available implementations: {list_flash_attention_impls()}"
        )
    if _active is not None:
        restore_flash_attention_impl(_raise_warn=False)
    _active = impl, _impls[impl]()


def current_flash_attention_impl():
    """The active name; None for the library's own kernels."""
    return _active[0] if _active is not None else None


def restore_flash_attention_impl(_raise_warn=True):
    """The library's own kernels again."""
    global _active
    handle = _active[1] if _active is not None else None
    if handle is not None:
        handle.remove()
    elif _raise_warn:
        warnings.warn("Trying to restore default FA2 impl when no custom impl was activated")
    _active = None
