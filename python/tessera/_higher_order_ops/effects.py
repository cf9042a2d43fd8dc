"""Operators with effects (see _library.effects), for programs that look for them here."""

from tessera._library.effects import EffectType, effect_of, register
from tessera._ops import _resolve

_EffectType = EffectType

__all__ = ["EffectType"]


def _register_effectful_op(op, effect):
    """An operator, or its name, has an effect; None: it has none."""
    register(_resolve(op), effect)


def _get_effect(op):
    """The EffectType of an operator, or None."""
    return effect_of(op)
