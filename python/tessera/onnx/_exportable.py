"""Modules that say themselves how they are exported, and the entry points of the first versions of the exporter."""

import contextlib

import tessera


class ExportableModule(tessera.nn.Module):
    """A module that brings what an export needs: subclasses define forward() and the methods below.

    >>> class Twice(tessera.onnx.ExportableModule):
    ...     def forward(self, x):
    ...         return x + x
    ...     def example_arguments(self):
    ...         return (tessera.ones(2),), None
    >>> Twice().to_onnx(verbose=False).model.graph.output[0].name
    'add'
    """

    def example_arguments(self):
        """(args, kwargs) of an example call; kwargs may be None."""
        raise NotImplementedError(
            f"{type(self).__name__}.example_arguments: expected (args, kwargs) of an example call"
        )

    def dynamic_shapes(self):
        """Sizes that may differ, as of tessera.onnx.export(); None: no size."""
        return None

    def input_names(self):
        """Names of the inputs; None: those of forward's parameters."""
        return None

    def output_names(self):
        """Names of the results; None: those of what makes them."""
        return None

    def to_onnx(self, **kwargs):
        """Exports the module.

        Args:
            kwargs: of tessera.onnx.export(); they go before what the module says.

        Returns: ONNXProgram.
        """
        args, named = self.example_arguments()
        settings = {
            "kwargs": named, "dynamic_shapes": self.dynamic_shapes(), "input_names": self.input_names(),
            "output_names": self.output_names(), **kwargs,
        }  # fmt: skip
        return tessera.onnx.export(self, args, **settings)


class ExportOptions:
    """Settings of dynamo_export().

    Args:
        dynamic_shapes: whether all sizes may differ (True, False), None: no size.
        fake_context, onnx_registry, diagnostic_options: of earlier versions; None is all that works.
    """

    def __init__(self, *, dynamic_shapes=None, fake_context=None, onnx_registry=None, diagnostic_options=None):
        for name, value in (("fake_context", fake_context), ("onnx_registry", onnx_registry),
                            ("diagnostic_options", diagnostic_options)):  # fmt: skip
            if value is not None:
                raise NotImplementedError(
                    f"ExportOptions: {name} is of an exporter that there is no more; leave it out"
                )
        self.dynamic_shapes = dynamic_shapes


def dynamo_export(model, /, *model_args, export_options=None, **model_kwargs):
    """tessera.onnx.export(dynamo=True) of a module and its arguments.

    Returns: ONNXProgram.
    """
    shapes = None
    if export_options is not None and export_options.dynamic_shapes:
        from tessera.utils import _pytree as pytree

        auto = tessera.export.Dim.AUTO
        of = lambda v: [auto] * v.dim() if isinstance(v, tessera.Tensor) else None  # noqa: E731
        given, named = pytree.tree_map(of, (list(model_args), dict(model_kwargs)))
        import inspect

        names = list(inspect.signature(model.forward if isinstance(model, tessera.nn.Module) else model).parameters)
        shapes = {**dict(zip(names, given)), **named}
    return tessera.onnx.export(model, model_args, kwargs=model_kwargs or None, dynamic_shapes=shapes, verbose=False)


@contextlib.contextmanager
def enable_fake_mode():
    """Context manager: tensors and modules that are made in it have sizes and no memory. Export them there with
    `export_params=False`, and give the file parameters later with ONNXProgram.apply_weights().
    """
    from tessera._subclasses.fake_tensor import FakeTensorMode

    mode = FakeTensorMode(allow_non_fake_inputs=True)
    with mode:
        yield mode
