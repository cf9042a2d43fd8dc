"""Kernels as objects: what stands at a dispatch key of an operator now, to be called whatever comes to stand there."""

import tessera
from tessera import _C
from tessera._ops import DispatchKey, DispatchKeySet, OpOverload, _resolve

_COMPOSITES = ("CompositeExplicitAutograd", "CompositeImplicitAutograd")


class SafeKernelFunction:
    """The kernel of an operator for a key, as `get_kernel` found it."""

    def __init__(self, op, key, python):
        self._op, self._key, self._python = op, key, python
        alias = key in _COMPOSITES
        self._bits = 0 if alias else _C._key_bits("AutogradCPU" if key == "Autograd" else key)
        added = op.namespace != "aten"
        self._run = op._redispatch if added else op._run_built_in

    def call_boxed(self, keyset, *args, **kwargs):
        """The results of the kernel for these arguments. `keyset`: a DispatchKeySet; its keys below the kernel's are
        those of the layers that the kernel may pass the call on to.

        Raises: TypeError for another keyset, RuntimeError for arguments that don't fit the schema.
        """
        if not isinstance(keyset, DispatchKeySet):
            raise TypeError(f"call_boxed(keyset, *args): expected a DispatchKeySet first, got {type(keyset).__name__}")
        if self._python is None:
            return self._run(keyset.bits & (self._bits - 1) | self._bits if self._bits else 0, *args, **kwargs)
        if not self._op._fits(*args, **kwargs):
            raise RuntimeError(
                f"{self._op._name}() was called with arguments that don't fit its schema: {len(args)} positional ones "
                f"and {sorted(kwargs)}.\nDeclaration: {self._op._schema}"
            )
        function, with_keyset = self._python
        return function(keyset, *args, **kwargs) if with_keyset else function(*args, **kwargs)

    def __repr__(self):
        where = "built in" if self._python is None else getattr(self._python[0], "__qualname__", self._python[0])
        return f"SafeKernelFunction({self._op._name}, {self._key}: {where})"


def get_kernel(op, dispatch_key):
    """The kernel that a call of an operator with a dispatch key runs now.

    It stays that one when another is registered in its place, so that the new one can call it.

    Args:
        op: name ("aten::add.Tensor") or OpOverload.
        dispatch_key: DispatchKey or the name of one ("CPU").

    Returns: an object with `call_boxed(keyset, *args, **kwargs)`.

    Raises: ValueError for another `op` or an unknown key, RuntimeError for an unknown operator, TypeError.

    >>> kernel = tessera.library.get_kernel("aten::sin", "CPU")
    >>> kernel.call_boxed(tessera._C.DispatchKeySet("CPU"), tessera.zeros(2))
    tensor([0., 0.])
    """
    if not isinstance(op, (str, OpOverload)):
        raise ValueError(f"get_kernel({op!r}): expected the name of an operator or an OpOverload, got {type(op)}")
    if not isinstance(dispatch_key, (str, DispatchKey)):
        raise TypeError(f"get_kernel: expected a dispatch key or its name, got {type(dispatch_key).__name__}")
    key = str(getattr(dispatch_key, "value", dispatch_key))
    try:
        _C._key_bits("AutogradCPU" if key == "Autograd" else key)
    except RuntimeError:
        if key not in _COMPOSITES:
            raise ValueError(f"Invalid dispatch key: {key}") from None
    if isinstance(op, str):
        op = _resolve(op.removesuffix(".default"))
    return SafeKernelFunction(op, key, _of_python(op._name, key))


def _of_python(name, key):
    """(function, whether it takes a keyset) of the Python kernel that serves a key, or None."""
    registered = tessera.library._registered
    keys = [key, "Autograd"] if key.startswith("Autograd") else [key]
    for place in keys if key not in _COMPOSITES and _C._has_op_kernel(name, key) else [*keys, *_COMPOSITES]:
        if registered.get((name, place)):
            return list(registered[name, place].values())[-1]
    return None
