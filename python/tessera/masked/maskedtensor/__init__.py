"""MaskedTensor: a tensor with a mask, and the operators that know of both."""

from tessera._lazy import attach as _attach

_names = dict.fromkeys(("MaskedTensor", "is_masked_tensor"), "core")
_names.update(dict.fromkeys(("as_masked_tensor", "masked_tensor"), "creation"))
__getattr__, __dir__ = _attach(__name__, _names)
