"""Custom differentiable functions.

`_C._FunctionBase` does the work: its class method `apply(*args)` makes the context (an instance of
`cls._backward_cls`), calls `forward`
with recording off, and connects the outputs to the context, which is the graph's node; the engine calls the node's
`apply(*grads)`.
From the context it reads `to_save`, `saved_for_forward`, `dirty_tensors`, `non_differentiable` and `materialize_grads`;
it provides
`saved_tensors`, `needs_input_grad`, `next_functions`, `metadata`, `name`, `register_hook` and `register_prehook`.
"""

import functools
import itertools

import tessera
from tessera import _C

__all__ = [
    "BackwardCFunction",
    "Function",
    "FunctionCtx",
    "FunctionMeta",
    "InplaceFunction",
    "NestedIOFunction",
    "once_differentiable",
]

_ids = itertools.count()


class FunctionCtx:
    """What `forward` and `setup_context` may tell about a call; any other attribute can be set as well."""

    def save_for_backward(self, *tensors):
        """Keeps tensors (or None) for backward, safe from reference cycles and in-place changes. At most once a
        call.
        """
        self.to_save = tensors

    def save_for_forward(self, *tensors):
        """Keeps tensors (or None) for `jvp`."""
        for tensor in tensors:
            if not isinstance(tensor, tessera.Tensor) and tensor is not None:
                raise AssertionError(
                    "save_for_forward expects all arguments to be tensors; you should save non-tensors as attributes "
                    "on ctx."
                )
        self.saved_for_forward = tensors

    def mark_dirty(self, *args):
        """Tells that these inputs were changed in place; they must also be returned."""
        self.dirty_tensors = args

    def mark_shared_storage(self, *pairs):
        import warnings

        warnings.warn(
            "mark_shared_storage is deprecated. Tensors with shared storages are automatically tracked. Note that "
            "calls to "
            "`set_()` are not tracked",
            FutureWarning,
            stacklevel=2,
        )

    def mark_non_differentiable(self, *args):
        """Tells that these outputs have no gradient."""
        self.non_differentiable = args

    def set_materialize_grads(self, value):
        """False: gradients of outputs that nobody used arrive as None, not as zeros."""
        self.materialize_grads = value


_ContextMethodMixin = FunctionCtx


class _HookMixin:
    @staticmethod
    def _register_hook(backward_hooks, hook):
        from collections import OrderedDict

        from tessera.utils.hooks import RemovableHandle

        if backward_hooks is None:
            backward_hooks = OrderedDict()
        handle = RemovableHandle(backward_hooks)
        backward_hooks[handle.id] = hook
        return backward_hooks, handle


class BackwardCFunction(_C._FunctionBase, FunctionCtx, _HookMixin):
    """Base of the nodes of custom functions. Don't use it directly."""

    def apply(self, *args):
        """What the engine calls: `backward` (or `vjp`) of the function."""
        backward, vjp = self._forward_cls.backward, self._forward_cls.vjp
        if backward is not Function.backward and vjp is not Function.vjp:
            raise RuntimeError(
                "Implementing both 'backward' and 'vjp' for a custom Function is not allowed. You should only "
                "implement one "
                "of them."
            )
        return (backward if vjp is Function.vjp else vjp)(self, *args)

    def apply_jvp(self, *args):
        """What forward mode calls."""
        return self._forward_cls.jvp(self, *args)


def _take_saved(ctx):
    if vars(ctx).get("_saved_are_taken"):
        raise RuntimeError(
            "saved_tensors can be read once, as clear_saved_tensors_on_access=True says that whoever reads them first "
            "has them. Keep them in a variable."
        )
    saved = BackwardCFunction.saved_tensors.__get__(ctx)
    ctx._saved_are_taken = True
    ctx.maybe_clear_saved_tensors()
    return saved


class FunctionMeta(type):
    """Gives each Function class the class of its nodes, `<name>Backward`."""

    def __setattr__(cls, name, value):
        super().__setattr__(name, value)
        if name == "clear_saved_tensors_on_access":
            cls._backward_cls.saved_tensors = property(_take_saved) if value else BackwardCFunction.saved_tensors

    def __init__(cls, name, bases, attrs):
        node = type(
            f"{name}Backward", (BackwardCFunction,), {"_forward_cls": cls, "__module__": attrs.get("__module__")}
        )
        node._autograd_function_id = next(_ids)
        cls._backward_cls = node
        super().__init__(name, bases, attrs)
        if getattr(cls, "clear_saved_tensors_on_access", False):
            node.saved_tensors = property(_take_saved)


class _SingleLevelFunction(_C._FunctionBase, FunctionCtx, _HookMixin, metaclass=FunctionMeta):
    @staticmethod
    def forward(*args, **kwargs):
        """Computes the outputs: `forward(ctx, *args)`, or `forward(*args)` together with `setup_context`."""
        raise NotImplementedError("You must implement the forward function for custom autograd.Function.")

    @staticmethod
    def setup_context(ctx, inputs, output):
        """Fills the context after a `forward` without one."""
        raise NotImplementedError("setup_context is not implemented.")

    @staticmethod
    def backward(ctx, *grad_outputs):
        """One gradient for each input of forward, None where there is none."""
        raise NotImplementedError(
            "You must implement either the backward or vjp method for your custom autograd.Function to use it with "
            "backward mode AD."
        )

    vjp = backward

    @staticmethod
    def jvp(ctx, *grad_inputs):
        """Forward mode: tangents of the outputs from those of the inputs."""
        raise NotImplementedError(
            "You must implement the jvp function for custom autograd.Function to use it with forward mode AD."
        )


class Function(_SingleLevelFunction):
    """Base class of custom differentiable functions; call them with `apply`.

    >>> class Exp(tessera.autograd.Function):
    ...     @staticmethod
    ...     def forward(ctx, x):
    ...         y = x.exp()
    ...         ctx.save_for_backward(y)
    ...         return y
    ...     @staticmethod
    ...     def backward(ctx, grad):
    ...         (y,) = ctx.saved_tensors
    ...         return grad * y
    >>> y = Exp.apply(tessera.zeros(1, requires_grad=True))
    >>> y.grad_fn.name()
    'ExpBackward'
    """

    generate_vmap_rule = False
    # True: `ctx.saved_tensors` gives the tensors away, so that backward can let go of each when it is done with it.
    clear_saved_tensors_on_access = False

    def __init__(self, *args, **kwargs):
        import warnings

        warnings.warn(
            f"{type(self)} should not be instantiated. Methods on autograd functions are all static, so you should "
            f"invoke them on "
            "the class itself. Instantiating an autograd function will raise an error in a future version of PyTorch.",
            DeprecationWarning,
            stacklevel=2,
        )

    def __call__(self, *args, **kwargs):
        raise RuntimeError(
            "Legacy autograd function with non-static forward method is deprecated. Please use new-style autograd "
            "function "
            "with static forward method. (Example: "
            "https://pytorch.org/docs/stable/autograd.html#torch.autograd.Function)"
        )

    @staticmethod
    def vmap(info, in_dims, *args):
        """The rule for `vmap`: returns (outputs, out_dims)."""
        raise NotImplementedError(
            "To use autograd.Function with vmap, you must either override the vmap staticmethod or set "
            "generate_vmap_rule=True."
        )

    @classmethod
    def apply(cls, *args, **kwargs):
        """Calls the function and records it."""
        if kwargs or cls.setup_context is not _SingleLevelFunction.setup_context:
            args = _bind_defaults(cls, args, kwargs)
        for arg in args:
            if getattr(arg, "is_nested", False) is True:  # its history is that of its values
                return arg._call_function(cls, args)
        return super().apply(*args)


def _is_setup_context_defined(function):
    return function is not _SingleLevelFunction.setup_context


def _bind_defaults(cls, args, kwargs):
    """All arguments of `forward` in order, defaults filled in, as `setup_context` wants its inputs. Raises: TypeError
    for arguments that `forward` does not take, or by keyword only.
    """
    import inspect

    if not kwargs and not getattr(cls.forward, "__defaults__", None):
        return args
    context = () if _is_setup_context_defined(cls.setup_context) else (None,)  # of a forward that takes it
    bound = inspect.signature(cls.forward).bind(*context, *args, **kwargs)
    bound.apply_defaults()
    if bound.kwargs:
        raise TypeError(
            f"{cls.__name__}.forward takes {', '.join(bound.kwargs)} by keyword only: every input of a Function has a "
            "place, as backward returns a gradient for each"
        )
    return bound.args[len(context) :]


class _DelayedError(Function):
    """Passes tensors on; differentiating the result raises."""

    @staticmethod
    def forward(ctx, message, *tensors):
        ctx.message = message
        return tensors

    @staticmethod
    def backward(ctx, *grads):
        raise RuntimeError(ctx.message)


def once_differentiable(fn):
    """Decorator for `backward`: it may use anything, and its result can't be differentiated again (RuntimeError)."""

    @functools.wraps(fn)
    def wrapper(ctx, *args):
        with tessera.no_grad():
            outputs = fn(ctx, *args)
        if not tessera.is_grad_enabled() or not any(
            isinstance(arg, tessera.Tensor) and arg.requires_grad for arg in args
        ):
            return outputs
        single = not isinstance(outputs, tuple)
        outputs = (outputs,) if single else outputs
        found = [i for i, output in enumerate(outputs) if output is not None]
        guarded = _DelayedError.apply(
            "trying to differentiate twice a function that was marked with @once_differentiable",
            *(outputs[i].detach().requires_grad_() for i in found),
        )
        result = list(outputs)
        for i, output in zip(found, guarded):
            result[i] = output
        return result[0] if single else tuple(result)

    return wrapper


class InplaceFunction(Function):
    """Legacy: a function with an `inplace` flag."""

    def __init__(self, inplace=False):
        super().__init__()
        self.inplace = inplace


class NestedIOFunction(Function):
    """Legacy: a function whose inputs and outputs may be nested; `forward_extended` and `backward_extended` see them
    nested.
    """

    @classmethod
    def apply(cls, *args):
        from tessera.utils._pytree import tree_flatten, tree_unflatten

        leaves, spec = tree_flatten(args)
        holder = {}

        class Flat(Function):
            @staticmethod
            def forward(ctx, *flat):
                nested = cls.forward_extended(ctx, *tree_unflatten(list(flat), spec))
                outputs, holder["spec"] = tree_flatten(nested)
                return tuple(outputs)

            @staticmethod
            def backward(ctx, *grads):
                nested = cls.backward_extended(ctx, *_as_tuple(tree_unflatten(list(grads), holder["spec"])))
                return tuple(tree_flatten(nested)[0])

        outputs = Flat.apply(*leaves)
        return tree_unflatten(list(outputs), holder["spec"])

    @staticmethod
    def forward_extended(ctx, *inputs):
        raise NotImplementedError

    @staticmethod
    def backward_extended(ctx, *grads):
        raise NotImplementedError


def _as_tuple(value):
    return value if isinstance(value, tuple) else (value,)
