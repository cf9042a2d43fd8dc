"""Operators with effects: calls of them are kept in graphs, in order, whether their results are used or not."""

import enum


class EffectType(enum.Enum):
    """How calls of an operator depend on each other."""

    ORDERED = "Ordered"


_effects: dict = {}  # OpOverload -> EffectType


def register(op, effect):
    """Notes that an OpOverload has an effect, an EffectType; None: that it has none. TypeError for others."""
    if effect is None:
        _effects.pop(op, None)
    elif isinstance(effect, EffectType):
        _effects[op] = effect
    else:
        raise TypeError(f"expected an EffectType or None as an operator's effect, got {effect!r}")


def effect_of(op):
    """The EffectType of an operator, or None."""
    return _effects.get(op)
