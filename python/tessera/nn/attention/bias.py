"""Causal masks as objects that functional.scaled_dot_product_attention understands."""

import enum

import tessera

__all__ = ["causal_upper_left", "causal_lower_right", "CausalVariant", "CausalBias"]


class CausalVariant(enum.IntEnum):
    """Where the diagonal of a causal mask that is not square begins."""

    UPPER_LEFT = 1
    LOWER_RIGHT = 2


class CausalBias(tessera.Tensor):
    """A causal mask (seq_len_q, seq_len_kv) that is made only when needed."""

    def __init__(self, variant, seq_len_q, seq_len_kv):
        if not isinstance(variant, CausalVariant):
            raise AssertionError(f"variant must be a CausalVariant, got {type(variant)}")
        self.variant = variant
        self.seq_len_q = seq_len_q
        self.seq_len_kv = seq_len_kv
        if seq_len_q > seq_len_kv and variant == CausalVariant.LOWER_RIGHT:
            import warnings

            warnings.warn(
                "Lower right causal bias will produce NaNs in the output when seq_len_q > seq_len_kv!", stacklevel=2
            )

    def __new__(cls, variant, seq_len_q, seq_len_kv):
        return tessera.Tensor._make_subclass(cls, tessera.empty((0,)), False)

    def _materialize(self, device=None):
        """The boolean mask, True where attention is allowed."""
        shift = 0 if self.variant == CausalVariant.UPPER_LEFT else self.seq_len_kv - self.seq_len_q
        return tessera.ones(self.seq_len_q, self.seq_len_kv, device=device, dtype=tessera.bool).tril(shift)

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if getattr(func, "__name__", "") == "scaled_dot_product_attention":
            args = list(args)
            mask = args[3] if len(args) > 3 else kwargs.get("attn_mask")
            if isinstance(mask, cls):
                if kwargs.get("is_causal") or len(args) > 5 and args[5]:
                    raise ValueError("CausalBias should not be used with causal=True")
                query = args[0] if args else kwargs["query"]
                dense = mask._materialize(query.device)
                if len(args) > 3:
                    args[3] = dense
                else:
                    kwargs["attn_mask"] = dense
                return func(*args, **kwargs)
        return super().__torch_function__(func, types, args, kwargs)

    def __repr__(self):
        return self._materialize().__repr__()


def causal_upper_left(*size):
    """A causal mask of size (L, S) whose diagonal starts at the upper left."""
    if len(size) != 2:
        raise AssertionError("causal_upper_left only supports 2D tensors")
    return CausalBias(CausalVariant.UPPER_LEFT, *size)


def causal_lower_right(*size):
    """A causal mask of size (L, S) whose diagonal ends at the lower right."""
    if len(size) != 2:
        raise AssertionError("causal_lower_right only supports 2D tensors")
    return CausalBias(CausalVariant.LOWER_RIGHT, *size)
