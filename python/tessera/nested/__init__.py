"""Nested tensors: batches of tensors whose sizes differ, strided (any sizes) or jagged (one dimension of them)."""

from tessera._lazy import attach as _attach

__all__ = [
    "as_nested_tensor",
    "masked_select",
    "narrow",
    "nested_tensor",
    "nested_tensor_from_jagged",
    "to_padded_tensor",
]
__getattr__, __dir__ = _attach(__name__, dict.fromkeys(__all__, "_make"))
