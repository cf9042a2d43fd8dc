"""Pruning: masks on parameters, recomputed in a forward pre-hook.

Pruning `weight` moves the parameter to `weight_orig`, adds the buffer `weight_mask` and makes `weight` their product.
"""

import math
import numbers
from collections.abc import Iterable

import tessera

from . import convert_parameters
from ._computed import Computed, hooks_on, take_off

__all__ = [
    "BasePruningMethod",
    "PruningContainer",
    "Identity",
    "RandomUnstructured",
    "L1Unstructured",
    "RandomStructured",
    "LnStructured",
    "CustomFromMask",
    "identity",
    "random_unstructured",
    "l1_unstructured",
    "random_structured",
    "ln_structured",
    "global_unstructured",
    "custom_from_mask",
    "remove",
    "is_pruned",
]


def _require(condition, message, error=ValueError):
    if not condition:
        raise error(message)


def _check_amount(amount):
    """TypeError unless a number, ValueError unless an int >= 0 or a float of [0, 1]."""
    _require(
        isinstance(amount, numbers.Real) and not isinstance(amount, bool),
        f"Invalid type for amount: {amount}. Must be int or float.",
        TypeError,
    )
    most = math.inf if isinstance(amount, numbers.Integral) else 1
    _require(
        0 <= amount <= most, f"amount={amount} should either be a float in the range [0, 1] or a non-negative integer"
    )


def _how_many(amount, size):
    """The number of elements, of `size`, that an amount means. ValueError if there are not as many."""
    if not isinstance(amount, numbers.Integral):
        return round(amount * size)
    _require(amount <= size, f"amount={amount} should be smaller than the number of parameters to prune={size}")
    return amount


def _along(t, dim, index):
    """The index of t that takes `index` of one dim and all of the others."""
    return (slice(None),) * (dim % t.dim()) + (index,)


def _others(t, dim):
    return [d for d in range(t.dim()) if d != dim % t.dim()]


class BasePruningMethod(Computed):
    """Base of pruning methods. A subclass has PRUNING_TYPE ('unstructured', 'structured' or 'global') and
    compute_mask(t, default_mask).
    """

    _tensor_name = None
    _target = "_tensor_name"
    _pieces = ("_orig", "_mask")

    def compute_mask(self, t, default_mask):
        """The mask for importance scores `t`, which keeps the zeros of default_mask."""
        raise NotImplementedError(f"{type(self).__name__} must define compute_mask")

    def apply_mask(self, module):
        """<name>_mask * <name>_orig."""
        name = self._tensor_name
        if name is None:
            raise AssertionError(f"Module {module} has to be pruned")
        orig, mask = getattr(module, name + "_orig"), getattr(module, name + "_mask")
        return mask.to(dtype=orig.dtype) * orig

    def _compute(self, module):
        return self.apply_mask(module)

    @classmethod
    def apply(cls, module, name, *args, importance_scores=None, **kwargs):
        """Prunes module.<name>, on top of earlier pruning. The module is left as it was if that fails."""
        found = hooks_on(module, BasePruningMethod, name)
        if len(found) > 1:
            raise AssertionError(
                f"Avoid adding multiple pruning hooks to the same tensor {name} of module {module}. Use a "
                f"PruningContainer."
            )
        method = cls(*args, **kwargs)
        method._tensor_name = name
        tensor = getattr(module, name)
        scores = tensor if importance_scores is None else importance_scores
        if scores.shape != tensor.shape:
            raise AssertionError(f"importance_scores should have the same shape as parameter {name} of {module}")
        if found:
            ((key, before),) = found
            method = PruningContainer._joined(before, method)
            present = getattr(module, name + "_mask").detach().clone(memory_format=tessera.contiguous_format)
            mask = method.compute_mask(scores, present)
            del module._forward_pre_hooks[key]
            module.register_buffer(name + "_mask", mask)
        else:
            method._take_place(module, tensor, method.compute_mask(scores, tessera.ones_like(tensor)))
        method(module, None)
        module.register_forward_pre_hook(method)
        return method

    def prune(self, t, default_mask=None, importance_scores=None):
        """A pruned copy of a tensor."""
        scores = t if importance_scores is None else importance_scores
        _require(scores.shape == t.shape, "importance_scores should have the same shape as tensor t", AssertionError)
        return t * self.compute_mask(
            scores, default_mask=tessera.ones_like(t) if default_mask is None else default_mask
        )

    def remove(self, module):
        """Makes the pruning permanent: <name> is a parameter again, with the pruned values."""
        if self._tensor_name is None:
            raise AssertionError(f"Module {module} has to be pruned before pruning can be removed")
        orig = self._piece(module, "_orig")
        orig.data = self.apply_mask(module).data
        self._give_back(module, orig)


class PruningContainer(BasePruningMethod):
    """Several methods on one tensor; each acts on what the ones before it left."""

    def __init__(self, *args):
        self._pruning_methods = ()
        if len(args) == 1:
            self._tensor_name = getattr(args[0], "_tensor_name", None)
        for method in args:
            self.add_pruning_method(method)

    @classmethod
    def _joined(cls, before, method):
        """What was there (a container or one method) and a new method."""
        container = before if isinstance(before, cls) else cls(before)
        container = cls._of(container._tensor_name, *container)
        container.add_pruning_method(method)
        return container

    @classmethod
    def _of(cls, name, *methods):
        container = cls()
        container._tensor_name = name
        for method in methods:
            container.add_pruning_method(method)
        return container

    def add_pruning_method(self, method):
        """Adds a method. TypeError if it is none, ValueError if it is for another tensor."""
        if method is not None:
            _require(
                isinstance(method, BasePruningMethod), f"{type(method)} is not a BasePruningMethod subclass", TypeError
            )
            _require(
                self._tensor_name == method._tensor_name,
                f"Can only add pruning methods acting on the parameter "
                f"named '{self._tensor_name}' to PruningContainer "
                f"{self}. Found '{method._tensor_name}'",
            )
        self._pruning_methods += (method,)

    def __len__(self):
        return len(self._pruning_methods)

    def __iter__(self):
        return iter(self._pruning_methods)

    def __getitem__(self, idx):
        return self._pruning_methods[idx]

    def compute_mask(self, t, default_mask):
        """The mask of the last method, computed on the part that is not pruned yet, times default_mask."""
        method, mask = self._pruning_methods[-1], default_mask.to(dtype=t.dtype, copy=True)
        part = self._left(method, t, mask)
        mask[part] = method.compute_mask(t[part], default_mask=mask[part]).to(mask.dtype)
        return mask

    @staticmethod
    def _left(method, t, mask):
        """The index of the part that a method chooses from: elements, whole slices, or all."""
        kind = method.PRUNING_TYPE
        if kind == "unstructured":
            return mask == 1
        _require(kind in ("structured", "global"), f"Unrecognized PRUNING_TYPE {kind}")
        if kind == "global":
            return (slice(None),) * t.dim()
        _require(
            hasattr(method, "dim"),
            "Pruning methods of PRUNING_TYPE 'structured' need to have the attribute `dim` defined.",
            AttributeError,
        )
        return _along(t, method.dim, mask.sum(dim=_others(t, method.dim)) != 0)


class Identity(BasePruningMethod):
    """Prunes nothing; adds the mask and the reparametrization."""

    PRUNING_TYPE = "unstructured"

    def compute_mask(self, t, default_mask):
        return default_mask

    @classmethod
    def apply(cls, module, name):
        return super().apply(module, name)


class _Elements(BasePruningMethod):
    """Prunes an amount of elements, those with the smallest scores (or the largest)."""

    PRUNING_TYPE = "unstructured"
    _prunes_largest = False

    def __init__(self, amount):
        _check_amount(amount)
        self.amount = amount

    def compute_mask(self, t, default_mask):
        mask = default_mask.clone(memory_format=tessera.contiguous_format)
        worst = tessera.topk(
            self._scores(t).reshape(-1), k=_how_many(self.amount, t.nelement()), largest=self._prunes_largest
        ).indices
        mask.view(-1)[worst] = 0
        return mask


class RandomUnstructured(_Elements):
    """Prunes elements at random; amount: a number of them or a fraction."""

    _prunes_largest = True
    _scores = staticmethod(tessera.rand_like)

    @classmethod
    def apply(cls, module, name, amount):
        return super().apply(module, name, amount=amount)


class L1Unstructured(_Elements):
    """Prunes the elements of the smallest magnitude."""

    _scores = staticmethod(tessera.abs)

    @classmethod
    def apply(cls, module, name, amount, importance_scores=None):
        return super().apply(module, name, amount=amount, importance_scores=importance_scores)


class _Slices(BasePruningMethod):
    """Prunes an amount of the slices along `dim`, those with the smallest scores."""

    PRUNING_TYPE = "structured"

    def __init__(self, amount, dim=-1):
        _check_amount(amount)
        self.amount, self.dim = amount, dim

    def compute_mask(self, t, default_mask):
        _require(
            t.dim() > 1,
            f"Structured pruning can only be applied to multidimensional tensors. Found tensor of "
            f"shape {t.shape} with {t.dim()} dims",
        )
        _require(-t.dim() <= self.dim < t.dim(), f"Invalid index {self.dim} for tensor of size {t.shape}", IndexError)
        size = t.shape[self.dim]
        pruned = _how_many(self.amount, size)
        if not pruned:
            return default_mask
        mask = tessera.zeros_like(t)
        mask[_along(t, self.dim, tessera.topk(self._scores(t), k=size - pruned).indices)] = 1
        return mask * default_mask.to(dtype=mask.dtype)


class RandomStructured(_Slices):
    """Prunes whole slices along `dim` at random."""

    def _scores(self, t):
        return tessera.rand(t.shape[self.dim])

    @classmethod
    def apply(cls, module, name, amount, dim=-1):
        return super().apply(module, name, amount=amount, dim=dim)


class LnStructured(_Slices):
    """Prunes the slices along `dim` of the smallest n-norm."""

    def __init__(self, amount, n, dim=-1):
        super().__init__(amount, dim)
        self.n = n

    def _scores(self, t):
        dims = _others(t, self.dim)
        return tessera.linalg.norm(t, self.n, dims) if self.n == "nuc" else t.norm(p=self.n, dim=dims)

    @classmethod
    def apply(cls, module, name, amount, n, dim, importance_scores=None):
        return super().apply(module, name, amount=amount, n=n, dim=dim, importance_scores=importance_scores)


class CustomFromMask(BasePruningMethod):
    """Prunes by a given mask."""

    PRUNING_TYPE = "global"

    def __init__(self, mask):
        self.mask = mask

    def compute_mask(self, t, default_mask):
        _require(
            default_mask.shape == self.mask.shape, "mask should have the same shape as the default mask", AssertionError
        )
        return default_mask * self.mask.to(dtype=default_mask.dtype)

    @classmethod
    def apply(cls, module, name, mask):
        return super().apply(module, name, mask=mask)


def identity(module, name):
    """Adds mask and reparametrization to module.<name> without pruning. Returns the module."""
    Identity.apply(module, name)
    return module


def random_unstructured(module, name, amount):
    """Prunes elements at random. Returns the module."""
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(module, name, amount, importance_scores=None):
    """Prunes the elements of the smallest magnitude (or score). Returns the module."""
    L1Unstructured.apply(module, name, amount, importance_scores)
    return module


def random_structured(module, name, amount, dim):
    """Prunes slices along `dim` at random. Returns the module."""
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(module, name, amount, n, dim, importance_scores=None):
    """Prunes the slices along `dim` of the smallest n-norm. Returns the module."""
    LnStructured.apply(module, name, amount, n, dim, importance_scores)
    return module


def global_unstructured(parameters, pruning_method, importance_scores=None, **kwargs):
    """Prunes several parameters [(module, name)] together, as if they were one tensor."""
    _require(isinstance(parameters, Iterable), "global_unstructured(): parameters is not an Iterable", TypeError)
    _require(
        isinstance(importance_scores, (dict, type(None))),
        "global_unstructured(): importance_scores must be of type dict",
        TypeError,
    )
    pairs = list(parameters)
    tensors = [getattr(*pair) for pair in pairs]
    masks = [getattr(module, name + "_mask", None) for module, name in pairs]
    method = pruning_method(**kwargs)
    method._tensor_name = "temp"
    _require(
        method.PRUNING_TYPE == "unstructured",
        f'Only "unstructured" PRUNING_TYPE supported for the '
        f"`pruning_method`. Found method {pruning_method} of type "
        f"{method.PRUNING_TYPE}",
        TypeError,
    )
    scores = [(importance_scores or {}).get(pair, tensor) for pair, tensor in zip(pairs, tensors)]
    present = [tessera.ones_like(tensor) if mask is None else mask for tensor, mask in zip(tensors, masks)]
    joined = convert_parameters.parameters_to_vector
    mask = PruningContainer._of("temp", method).compute_mask(joined(scores), joined(present))
    for (module, name), tensor, part in zip(pairs, tensors, mask.split([tensor.numel() for tensor in tensors])):
        custom_from_mask(module, name, part.view_as(tensor))


def custom_from_mask(module, name, mask):
    """Prunes module.<name> by a mask. Returns the module."""
    CustomFromMask.apply(module, name, mask)
    return module


def remove(module, name):
    """Makes the pruning of module.<name> permanent. Returns the module. ValueError if it is not pruned."""
    take_off(
        module,
        BasePruningMethod,
        name,
        "Parameter '{name}' of module {module} has to be pruned before pruning can be removed",
    )
    return module


def is_pruned(module):
    """Whether the module, or one below it, is pruned."""
    return any(
        isinstance(hook, BasePruningMethod) for part in module.modules() for hook in part._forward_pre_hooks.values()
    )
