"""Tensors without numbers, which operators run on while a program is captured."""

import contextlib

import tessera
from tessera.utils import _pytree as pytree
from tessera.utils._python_dispatch import TorchDispatchMode

__all__ = ["Examples", "NeedsNumbers"]


class NeedsNumbers(RuntimeError):
    """An operator asked for numbers that an example does not have."""


class _Example(tessera.Tensor):
    """A tensor of a device without memory; the metadata is that of a tensor on "meta"."""

    @staticmethod
    def __new__(cls, inner, device):
        made = tessera.Tensor._make_wrapper_subclass(
            cls, inner.shape, strides=inner.stride(), storage_offset=inner.storage_offset(), dtype=inner.dtype,
            device=device, requires_grad=False,
        )  # fmt: skip
        made.inner = inner
        return made

    __torch_function__ = tessera._C._disabled_torch_function_impl

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return _run(func, args, kwargs or {})


def _run(func, args, kwargs):
    if func._schema.name in _NUMBERS:
        raise NeedsNumbers(f"{func} needs the numbers of a tensor")
    devices = [a.device for a in pytree.tree_leaves((args, kwargs)) if isinstance(a, _Example)]
    wanted = kwargs.get("device")
    device = tessera.device(wanted) if wanted is not None else next((d for d in devices), tessera.device("cpu"))
    if any(d != device for d in devices) and wanted is None:
        shaped = [a for a in pytree.tree_leaves((args, kwargs)) if isinstance(a, _Example) and a.dim()]
        device = shaped[0].device if shaped else device
    names = [a.name for a in func._schema.arguments]
    if wanted is not None or ("device" in names and not devices):
        kwargs = {**kwargs, "device": "meta"}
    known = {}

    def strip(a):
        if isinstance(a, _Example):
            known[id(a.inner)] = a
            return a.inner
        if isinstance(a, tessera.Tensor) and a.device.type != "meta":
            return a.to("meta")
        return a

    args, kwargs = pytree.tree_map(strip, (args, kwargs))
    result = func(*args, **kwargs)

    def dress(r):
        if not isinstance(r, tessera.Tensor):
            return r
        found = known.get(id(r))
        return _Example(r, device) if found is None else found

    return pytree.tree_map(dress, result)


_NUMBERS = ("aten::_local_scalar_dense", "aten::item", "aten::equal", "aten::is_nonzero", "aten::nonzero")


class _Mode(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return _run(func, args, kwargs or {})


class Examples:
    """Makes examples of tensors, and runs operators on them."""

    def __init__(self):
        self._mode = _Mode()

    def of(self, tensor):
        """An example of a tensor, which records gradients if the tensor does."""
        example = _Example(tensor.detach().to("meta"), tensor.device)
        return example.requires_grad_() if tensor.requires_grad else example

    @contextlib.contextmanager
    def running(self):
        """Context manager: operators give examples."""
        with self._mode:
            yield
