"""Parametrizations: tensors of a module that are computed from others at each access."""

import functools
from copy import deepcopy

import tessera
import tessera.__future__
from tessera import Tensor
from tessera.nn.modules.container import ModuleDict, ModuleList
from tessera.nn.modules.module import Module
from tessera.nn.parameter import Parameter
from tessera.storage import keep_with_memo

from ._computed import register

__all__ = [
    "cached",
    "ParametrizationList",
    "register_parametrization",
    "is_parametrized",
    "remove_parametrizations",
    "type_before_parametrizations",
    "transfer_parametrizations_and_params",
]

_open_blocks = 0
_computed = {}  # ParametrizationList -> its tensor, while a block is open


class cached:
    """`with cached():` parametrized tensors are computed once only until the end of the outermost block."""

    def __enter__(self):
        global _open_blocks
        _open_blocks += 1

    def __exit__(self, exc_type, exc_value, traceback):
        global _open_blocks
        _open_blocks -= 1
        if _open_blocks == 0:
            _computed.clear()

    def __call__(self, func):
        @functools.wraps(func)
        def inside(*args, **kwargs):
            with self:
                return func(*args, **kwargs)

        return inside


def _hand_over(target, value):
    """Lets `target`, which stays the same object, hold the data of `value`."""
    if not tessera.__future__.get_swap_module_params_on_conversion():
        target.set_(value)
        return
    if isinstance(target, Parameter) and not isinstance(value, Parameter):
        value = Parameter(value, target.requires_grad)
    tessera.utils.swap_tensors(target, value)


def _expect(ok, message, **values):
    if not ok:
        raise ValueError(message.format(**values))


def _is_tensor(value, message, **values):
    _expect(isinstance(value, Tensor), message, kind=type(value).__name__, **values)


def _same(what, before, after, message, **values):
    """ValueError unless an attribute of two tensors is the same."""
    before, after = getattr(before, what), getattr(after, what)
    _expect(before == after, message, what=what, before=before, after=after, **values)


def _same_kind(before, after, message, **values):
    _is_tensor(after, "A parametrization must return a tensor. Got {kind}.")
    for what in ("dtype", "shape"):
        _same(
            what,
            before,
            after,
            "Registering a parametrization may not change the {what} of the tensor, unless " + message,
            **values,
        )


def _inverse(parametrization, value):
    """What its right inverse makes of a value; the value if it has none."""
    try:
        return parametrization.right_inverse(value) if hasattr(parametrization, "right_inverse") else value
    except NotImplementedError:
        return value


class ParametrizationList(ModuleList):
    """The parametrizations of one tensor and what they start from: `original`, or `original0`, `original1` ... if the
    right inverse gives several tensors.
    """

    def __init__(self, modules, original, unsafe=False):
        _expect(modules, "ParametrizationList requires one or more modules.")
        super().__init__(modules)
        self.unsafe = unsafe
        before = original.detach()  # its shape and dtype, whatever becomes of the original
        with tessera.no_grad():
            start = functools.reduce(lambda value, module: _inverse(module, value), reversed(self), original)
            self.is_tensor = isinstance(start, Tensor)
            _expect(
                self.is_tensor or isinstance(start, (list, tuple)),
                "'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). Got {kind}",
                kind=type(start).__name__,
            )
            self.ntensors = 1 if self.is_tensor else len(start)
            if self.is_tensor:
                for what in ("dtype", "device"):
                    _same(
                        what,
                        original,
                        start,
                        "When `right_inverse` outputs one tensor, it may not change the "
                        "{what}.\noriginal.{what}: {before}\n"
                        "right_inverse(original).{what}: {after}",
                    )
                _hand_over(original, start)
                register(self, "original", original)
            else:
                for i, (name, value) in enumerate(zip(self._names(), start)):
                    _is_tensor(
                        value,
                        "'right_inverse' must return a Tensor or a Sequence of tensors (list, tuple...). "
                        "Got element {i} of the sequence with type {kind}.",
                        i=i,
                    )
                    value = Parameter(value, original.requires_grad) if isinstance(original, Parameter) else value
                    register(self, name, value.requires_grad_(original.requires_grad))
        if not unsafe:
            _same_kind(
                before,
                self(),
                "`unsafe` flag is enabled.\nunparametrized {what}: {before}\nparametrized {what}: {after}",
            )

    def _names(self):
        return ["original"] if self.is_tensor else [f"original{i}" for i in range(self.ntensors)]

    def _originals(self):
        return [getattr(self, name) for name in self._names()]

    @tessera.no_grad()
    def right_inverse(self, value):
        """Assigns `value`: the originals become what the right inverses of all parametrizations, in reverse order, make
        of it.
        """
        for module in reversed(self):
            if not hasattr(module, "right_inverse"):
                raise RuntimeError(f"parametrization {type(module).__name__} does not implement right_inverse.")
            value = module.right_inverse(value)
        originals = self._originals()
        if self.is_tensor:
            _is_tensor(value, "`right_inverse` should return a tensor. Got {kind}")
            value = [value]
        else:
            _expect(
                isinstance(value, (list, tuple)),
                "'right_inverse' must return a sequence of tensors. Got {kind}.",
                kind=type(value).__name__,
            )
            _expect(
                len(value) == len(originals),
                "'right_inverse' must return a sequence of tensors of length {n}. Got a sequence of length {m}.",
                n=len(originals),
                m=len(value),
            )
        for i, (name, original, tensor) in enumerate(zip(self._names(), originals, value)):
            _is_tensor(tensor, "`right_inverse` must return a sequence of tensors. Got element {i} of type {kind}", i=i)
            _same(
                "dtype",
                original,
                tensor,
                "{which} returned by `right_inverse` has dtype {after} while `{name}` has dtype {before}",
                name=name,
                which="The tensor" if self.is_tensor else f"Tensor {i}",
            )
        for original, tensor in zip(originals, value):
            _hand_over(original, tensor)

    def forward(self):
        first, *others = self
        return functools.reduce(lambda value, module: module(value), others, first(*self._originals()))


def _computed_attribute(name):
    """The property that stands for a parametrized tensor."""

    def compute(self):
        parametrizations = self.parametrizations[name]
        if not _open_blocks:
            return parametrizations()
        if parametrizations not in _computed:
            _computed[parametrizations] = parametrizations()
        return _computed[parametrizations]

    def assign(self, value):
        self.parametrizations[name].right_inverse(value)

    return property(compute, assign)


def _refuse_to_pickle(self):
    raise RuntimeError(
        "Serialization of parametrized modules is only supported through state_dict(). See:\n"
        "https://pytorch.org/tutorials/beginner/saving_loading_models.html"
        "#saving-loading-a-general-checkpoint-for-inference-and-or-resuming-training"
    )


def _twin(self, memo):
    twin = memo[id(self)] = object.__new__(type(self))
    keep_with_memo(memo, self)
    vars(twin).update(deepcopy(vars(self), memo))
    return twin


def _reclass(module, base, names):
    """Gives the module the class Parametrized<Base>, where these names are computed, or the base if there are none.

    Classes do not change: copies of a module share them.
    """
    members = {name: _computed_attribute(name) for name in names}
    if base.__deepcopy__ is Module.__deepcopy__:
        members["__deepcopy__"] = _twin
    module.__class__ = (
        type(f"Parametrized{base.__name__}", (base,), {"__getstate__": _refuse_to_pickle, **members}) if names else base
    )


def register_parametrization(module, tensor_name, parametrization, *, unsafe=False):
    """From now on module.<tensor_name> is parametrization(original) (or of what earlier parametrizations give). Returns
    the module.

    The original is at module.parametrizations.<tensor_name>.original. A method `right_inverse` of the parametrization
    serves for the first value and for assignments.
    ValueError if there is no such parameter or buffer, or if shape or dtype would change and not `unsafe`.
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        if not unsafe:
            _check_addition(getattr(module, tensor_name), parametrization, tensor_name)
        present = module.parametrizations[tensor_name]
        present.append(parametrization)
        present.unsafe |= unsafe
        return module
    if tensor_name not in module._parameters.keys() | module._buffers.keys():
        raise ValueError(
            f"Module '{module}' does not have a parameter, a buffer, or a parametrized element with name "
            f"'{tensor_name}'"
        )
    # made before anything of the module changes, since it may raise
    made = ParametrizationList([parametrization], getattr(module, tensor_name), unsafe=unsafe)
    base = type_before_parametrizations(module)
    if not is_parametrized(module):
        module.parametrizations = ModuleDict()
    delattr(module, tensor_name)
    module.parametrizations[tensor_name] = made
    _reclass(module, base, module.parametrizations)
    return module


def _check_addition(before, parametrization, name):
    """ValueError if one more parametrization changes the kind of the tensor, in either direction."""
    after = parametrization(before)
    _same_kind(
        before,
        after,
        "the `unsafe` flag is enabled.\nmodule.{name}.{what}: {before}\nparametrization(module.{name}).{what}: {after}",
        name=name,
    )
    back = _inverse(parametrization, after)
    _is_tensor(back, "parametrization.right_inverse must return a tensor. Got: {kind}")
    _same(
        "dtype",
        after,
        back,
        "The tensor returned by parametrization.right_inverse must have the same dtype as "
        "module.{name}, unless the `unsafe` flag is enabled.\n"
        "module.{name}.dtype: {before}\nreturned dtype: {after}",
        name=name,
    )
    _same(
        "shape",
        before,
        back,
        "The tensor returned by parametrization.right_inverse must have the same shape as "
        "module.{name}, unless the `unsafe` flag is enabled.\n"
        "module.{name}.shape: {before}\nreturned shape: {after}",
        name=name,
    )


def is_parametrized(module, tensor_name=None):
    """Whether the module has a parametrized tensor (of this name)."""
    parametrizations = getattr(module, "parametrizations", None)
    return isinstance(parametrizations, ModuleDict) and (
        len(parametrizations) > 0 if tensor_name is None else tensor_name in parametrizations
    )


def remove_parametrizations(module, tensor_name, leave_parametrized=True):
    """Removes all parametrizations of a tensor, which keeps its present value (leave_parametrized) or goes back to the
    original. Returns the module.
    """
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"Module {module} does not have a parametrization on {tensor_name}")
    parametrizations, base = module.parametrizations[tensor_name], type_before_parametrizations(module)
    _expect(
        leave_parametrized or parametrizations.is_tensor,
        "Cannot leave unparametrized "
        "(`leave_parametrized=False`) a tensor that is "
        "parametrized in terms of a sequence "
        "of tensors.",
    )
    value = getattr(module, tensor_name) if leave_parametrized else None
    if parametrizations.is_tensor:
        tensor = parametrizations.original
        if leave_parametrized:
            with tessera.no_grad():
                _hand_over(tensor, value)
    else:
        tensor = Parameter(value) if value.requires_grad else value
    del module.parametrizations[tensor_name]
    _reclass(module, base, module.parametrizations)
    if not module.parametrizations:
        del module.parametrizations
    register(module, tensor_name, tensor)
    return module


def type_before_parametrizations(module):
    """The module's class without parametrizations."""
    return module.__class__.__bases__[0] if is_parametrized(module) else type(module)


def transfer_parametrizations_and_params(from_module, to_module, tensor_name=None):
    """Copies the parametrizations (of one tensor, or all) and the parameters they start from to another module. Returns
    it.
    """
    if not is_parametrized(from_module):
        return to_module
    names = list(from_module.parametrizations) if tensor_name is None else [tensor_name]
    for name in names:
        if not hasattr(to_module, name):
            setattr(to_module, name, Parameter(getattr(from_module, name).detach().clone()))
        for parametrization in from_module.parametrizations[name]:
            register_parametrization(to_module, name, parametrization, unsafe=True)
        source, target = from_module.parametrizations[name], to_module.parametrizations[name]
        for piece in source._names():
            setattr(target, piece, getattr(source, piece))
    return to_module
