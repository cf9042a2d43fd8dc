"""Tensors some of whose elements are not there: MaskedTensor, and reductions, normalisations and scans that look at the
elements that a mask leaves in.
"""

from tessera._lazy import attach as _attach

_functions = (
    "amax amin argmax argmin cumprod cumsum log_softmax logaddexp logsumexp mean median norm normalize prod softmax "
    "softmin std sum var"
).split()
_helpers = "_canonical_dim _combine_input_and_mask _input_mask _output_mask _reduction_identity _where".split()
__all__ = sorted((*_functions, "MaskedTensor", "as_masked_tensor", "is_masked_tensor", "masked_tensor"))

_names = dict.fromkeys((*_functions, *_helpers), "_ops")
_names.update(dict.fromkeys(("MaskedTensor", "is_masked_tensor"), "maskedtensor.core"))
_names.update(dict.fromkeys(("as_masked_tensor", "masked_tensor"), "maskedtensor.creation"))
__getattr__, __dir__ = _attach(__name__, _names)
