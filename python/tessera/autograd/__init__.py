"""Automatic differentiation: `backward`, `grad`, custom functions, modes, gradient checks."""

import tessera
from tessera import _C
from tessera._lazy import attach as _attach, keep_functions as _keep_functions
from tessera.autograd.gradcheck import gradcheck, gradgradcheck

__all__ = [
    "Function",
    "NestedIOFunction",
    "Variable",
    "backward",
    "detect_anomaly",
    "enable_grad",
    "forward_ad",
    "functional",
    "grad",
    "grad_mode",
    "gradcheck",
    "gradgradcheck",
    "graph",
    "inference_mode",
    "no_grad",
    "set_detect_anomaly",
    "set_grad_enabled",
    "set_multithreading_enabled",
    "variable",
]


def _as_tuple(value):
    if value is None:
        return ()
    if isinstance(value, tessera.Tensor) or hasattr(value, "output_nr") or isinstance(value, str):
        return (value,)
    several = hasattr(value, "__iter__") and not hasattr(value, "__torch_function__")  # parameters() too
    return tuple(value) if several else (value,)


def _is_edge(value):
    return not isinstance(value, tessera.Tensor) and hasattr(value, "node")


def _check_ends(values, what, error):
    for value in values:
        if not isinstance(value, tessera.Tensor) and not _is_edge(value):
            raise error(f"all {what} have to be Tensors or GradientEdges, but got {type(value).__name__}")


def _implicit_grad(output):
    """Gradient 1 of a scalar output. Raises: RuntimeError for anything else."""
    if output.numel() != 1:
        raise RuntimeError("grad can be implicitly created only for scalar outputs")
    if not output.dtype.is_floating_point:
        raise RuntimeError(f"grad can be implicitly created only for real scalar outputs but got {output.dtype}")
    return tessera.ones_like(output, memory_format=tessera.preserve_format)


def _implicit_grad_of_edge(edge):
    form = edge.node._input_metadata[edge.output_nr]
    if form is None or form.shape.numel() != 1:
        raise RuntimeError("grad can be implicitly created only for scalar outputs")
    if not form.dtype.is_floating_point:
        raise RuntimeError(f"grad can be implicitly created only for real scalar outputs but got {form.dtype}")
    return tessera.ones(form.shape, dtype=form.dtype, device=form.device)


def _check_grad(position, output, grad, batched):
    shape = tuple(grad.shape)[1:] if batched else tuple(grad.shape)
    if not _is_edge(output):
        if shape != tuple(output.shape):
            batch = (
                "If `is_grads_batched=True`, we interpret the first dimension of each grad_output as the batch "
                "dimension. The sizes of the "
                "remaining dimensions are expected to match the shape of corresponding output, but a mismatch was "
                "detected: "
                if batched
                else ""
            )
            raise RuntimeError(
                f"{batch}Mismatch in shape: grad_output[{position}] has a shape of {grad.shape} and output[{position}] "
                f"has a shape "
                f"of {output.shape}."
            )
        if output.dtype.is_complex != grad.dtype.is_complex:
            raise RuntimeError(
                "For complex Tensors, both grad_output and output are required to have the same dtype. Mismatch in "
                "dtype: "
                f"grad_output[{position}] has a dtype of {grad.dtype} and output[{position}] has a dtype of "
                f"{output.dtype}."
            )


def _nameless(grad):
    """`grad` without names, of which autograd knows nothing."""
    if all(name is None for name in grad.names):
        return grad
    import warnings

    warnings.warn(
        f"Autograd was passed a named grad tensor with dims {list(grad.names)}; gradients have no names, so these are "
        "dropped. Pass grad.rename(None) to say that you mean it.",
        UserWarning,
        stacklevel=4,
    )
    return grad.rename(None)


def _make_grads(outputs, grads, batched=False):
    """The gradient with which to begin at each output."""
    if len(grads) not in (0, len(outputs)):
        raise RuntimeError(f"got {len(outputs)} tensors and {len(grads)} gradients")
    made = []
    for i, output in enumerate(outputs):
        grad = grads[i] if grads else None
        if isinstance(grad, tessera.Tensor):
            _check_grad(i, output, grad, batched)
            made.append(_nameless(grad))
        elif grad is not None:
            raise TypeError(f"gradients can be either Tensors or None, but got {type(grad).__name__}")
        elif _is_edge(output):
            made.append(_implicit_grad_of_edge(output))
        elif not output.requires_grad:
            made.append(None)
        else:
            made.append(_implicit_grad(output))
    return tuple(made)


def backward(tensors, grad_tensors=None, retain_graph=None, create_graph=False, grad_variables=None, inputs=None):
    """Adds to `.grad` of the leaves the gradient of the sum of `tensors * grad_tensors`.

    Args:
        tensors: tensors (or GradientEdges) to begin at.
        grad_tensors: gradient for each; None for scalars.
        retain_graph: keep the graph for another pass; by default `create_graph`.
        create_graph: record the pass itself, for higher derivatives.
        inputs: only these accumulate.

    Raises: RuntimeError without history, for non-scalars without gradient, wrong shapes, a graph that was freed, or
        empty `inputs`.
    """
    if grad_variables is not None:
        import warnings

        warnings.warn("`grad_variables` is deprecated. Use `grad_tensors` instead.", FutureWarning, stacklevel=2)
        if grad_tensors is not None:
            raise RuntimeError(
                "`grad_tensors` and `grad_variables` (deprecated) arguments both passed to `backward()`. Please only "
                "use "
                "`grad_tensors`."
            )
        grad_tensors = grad_variables
    inputs = None if inputs is None else _as_tuple(inputs)
    if inputs == ():
        raise RuntimeError("`inputs` argument to `backward()` cannot be empty.")
    if tensors is None:
        raise TypeError("backward() expects a tensor or a sequence of them to begin at, but got None")
    tensors = _as_tuple(tensors)
    _check_ends(tensors, "tensors", TypeError)
    grads = _make_grads(tensors, _as_tuple(grad_tensors))
    _C._run_backward(
        tensors,
        grads,
        create_graph if retain_graph is None else retain_graph,
        create_graph,
        _as_tuple(inputs),
        True,
        True,
    )


def grad(
    outputs,
    inputs,
    grad_outputs=None,
    retain_graph=None,
    create_graph=False,
    only_inputs=True,
    allow_unused=None,
    is_grads_batched=False,
    materialize_grads=False,
):
    """The gradients of the sum of `outputs * grad_outputs` with respect to `inputs`, as a tuple; `.grad` stays as it
    is.

    Args:
        allow_unused: None for an input that the outputs don't depend on, instead of an error; by default
            `materialize_grads`.
        is_grads_batched: the first dimension of each of `grad_outputs` is a batch, and of each result too.
        materialize_grads: zeros instead of None.

    Raises: RuntimeError as `backward`, and for unused inputs; ValueError for no inputs, and for allow_unused=False with
        materialize_grads.
    """
    if materialize_grads and allow_unused is False:
        raise ValueError(
            "Expected allow_unused to be True or not passed when materialize_grads=True, but got: allow_unused=False."
        )
    if isinstance(inputs, (tuple, list)) and not inputs:
        raise ValueError("grad requires non-empty inputs.")
    if allow_unused is None:
        allow_unused = materialize_grads
    if grad_outputs is None and only_inputs and not is_grads_batched and not materialize_grads:
        found = _C._plain_grad(outputs, inputs, retain_graph, create_graph, allow_unused)
        if found is not None:
            return found
    outputs, inputs = _as_tuple(outputs), _as_tuple(inputs)
    _check_ends(outputs, "outputs", TypeError)
    _check_ends(inputs, "inputs", RuntimeError)
    from tessera.overrides import handle_torch_function, has_torch_function

    overridable = tuple(v for v in outputs + inputs if not _is_edge(v))
    if has_torch_function(overridable):
        return handle_torch_function(
            grad,
            overridable,
            outputs,
            inputs,
            grad_outputs=grad_outputs,
            retain_graph=retain_graph,
            create_graph=create_graph,
            only_inputs=only_inputs,
            allow_unused=allow_unused,
            is_grads_batched=is_grads_batched,
            materialize_grads=materialize_grads,
        )
    if not only_inputs:
        import warnings

        warnings.warn(
            "only_inputs argument is deprecated and is ignored now (defaults to True). To accumulate gradient for "
            "other parts of "
            "the graph, please use torch.autograd.backward.",
            FutureWarning,
            stacklevel=2,
        )
    grads = _make_grads(outputs, _as_tuple(grad_outputs), batched=is_grads_batched)
    retain_graph = create_graph if retain_graph is None else retain_graph
    run = _batched if is_grads_batched else _C._run_backward
    result = run(outputs, grads, retain_graph, create_graph, inputs, allow_unused, False)
    if materialize_grads:
        if any(value is None and _is_edge(wanted) for value, wanted in zip(result, inputs)):
            raise RuntimeError("materialize_grads cannot be used when the given input is a GradientEdge")
        batch = (grads[0].shape[0],) if is_grads_batched else ()
        result = tuple(
            wanted.new_zeros(batch + tuple(wanted.shape), requires_grad=create_graph) if value is None else value
            for value, wanted in zip(result, inputs)
        )
    return tuple(result)


def _batched(outputs, grads, retain_graph, create_graph, inputs, allow_unused, accumulate):
    """One pass for a batch of gradients; None for inputs that the outputs don't depend on."""
    from tessera.func import vmap

    if any(g is not None and g.dim() == 0 for g in grads) or all(g is None for g in grads):
        raise ValueError(
            "is_grads_batched=True needs a batch of gradients for each of the outputs: tensors whose first dimension "
            "is the batch, but got gradients without one."
        )
    if next(g.shape[0] for g in grads if g is not None) == 0:
        return tuple(wanted.new_zeros((0, *wanted.shape)) for wanted in inputs)
    found = []

    def one(*batch):
        rest = iter(batch)
        row = tuple(None if g is None else next(rest) for g in grads)
        found[:] = _C._run_backward(outputs, row, retain_graph, create_graph, inputs, allow_unused, accumulate)
        return tuple(g for g in found if g is not None)

    batched = iter(vmap(one, randomness="different")(*(g for g in grads if g is not None)))
    return tuple(None if g is None else next(batched) for g in found)


_names = {
    "DeviceType": ":tessera.profiler._kinds",
    "ProfilerActivity": ":tessera.profiler",
    "SavedTensor": ":tessera._C _SavedTensor",
    "_disable_profiler": ":tessera.profiler._recording disable",
    "_profiler_enabled": ":tessera.profiler._recording is_recording",
    "Function": "function",
    "NestedIOFunction": "function",
    "Variable": "variable",
    "detect_anomaly": "anomaly_mode",
    "set_detect_anomaly": "anomaly_mode",
    "enable_grad": "grad_mode",
    "inference_mode": "grad_mode",
    "no_grad": "grad_mode",
    "set_grad_enabled": "grad_mode",
    "set_multithreading_enabled": "grad_mode",
}
__getattr__, __dir__ = _attach(__name__, _names)

_keep_functions(__name__, "gradcheck")
