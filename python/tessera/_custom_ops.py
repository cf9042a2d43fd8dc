"""Older place of what `library` has."""

from tessera.library import custom_op, get_ctx, impl, impl_abstract

__all__ = ["custom_op", "get_ctx", "impl", "impl_abstract"]
