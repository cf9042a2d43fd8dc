"""Kinds of quantization."""

from .utils import QuantType

__all__ = ["QuantType"]

_NAMES = {QuantType.STATIC: "static", QuantType.DYNAMIC: "dynamic", QuantType.QAT: "qat",
          QuantType.WEIGHT_ONLY: "weight_only"}  # fmt: skip


def _get_quant_type_to_str(quant_type):
    return _NAMES[quant_type]


def _quant_type_from_str(name):
    for kind, text in _NAMES.items():
        if text == name.lower():
            return kind
    raise ValueError(f"there is no quant type {name!r}; expected one of {', '.join(_NAMES.values())}")
