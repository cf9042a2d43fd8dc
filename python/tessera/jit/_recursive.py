"""The types that modules were compiled to, where programs look for them: what they take out is compiled anew."""

from tessera.jit._modules import ConcreteType

__all__ = []


class concrete_type_store:
    """`type_store`: class of modules -> list of its types."""

    type_store = ConcreteType.shared
