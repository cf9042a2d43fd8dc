"""Derivatives of functions: jacobian, hessian and products with them."""

import tessera

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]


def _grad(*args, **kwargs):
    from tessera.autograd import grad

    return grad(*args, **kwargs)


def _as_tuple(value, argument, function):
    """(was it a tuple, the tuple). Raises: TypeError for anything but tensors."""
    single = not isinstance(value, tuple)
    values = (value,) if single else value
    for i, entry in enumerate(values):
        if not isinstance(entry, tessera.Tensor):
            if single:
                raise TypeError(
                    f"The {argument} given to {function} must be either a Tensor or a tuple of Tensors but the given "
                    f"{argument} has "
                    f"type {type(entry)}."
                )
            raise TypeError(
                f"The {argument} given to {function} must be either a Tensor or a tuple of Tensors but the value at "
                f"index {i} has "
                f"type {type(entry)}."
            )
    return not single, values


def _prepare(inputs, create_graph, need_graph=True):
    """Copies of the inputs that the function is recorded on: views under create_graph, so that the outer graph goes
    on.
    """
    if create_graph:
        return tuple(
            value.view_as(value) if value.requires_grad else value.detach().requires_grad_(need_graph)
            for value in inputs
        )
    return tuple(value.detach().requires_grad_(need_graph) for value in inputs)


def _finish(values, create_graph):
    """Cuts the graph unless it is wanted."""
    if create_graph or values is None:
        return values
    if isinstance(values, tuple):
        return tuple(_finish(value, create_graph) for value in values)
    return values.detach()


def _check_vectors(vectors, likes, takes):
    """Raises: RuntimeError unless the vectors have the shapes of `likes`, one each."""
    given, wanted = ([t.shape for t in tensors] for tensors in (vectors, likes))
    if given == wanted:
        return
    if len(given) != len(wanted):
        raise RuntimeError(
            f"Expected v to have the same number of {takes} but got {len(given)} instead of {len(wanted)}"
        )
    place = next(i for i, pair in enumerate(zip(given, wanted)) if pair[0] != pair[1])
    raise RuntimeError(f"Entry {place} in v has invalid size: should be {wanted[place]} but got {given[place]}.")


def _need_scalar(outputs, was_tuple, name):
    if was_tuple:
        raise RuntimeError(f"The function given to {name} should return a single Tensor")
    if outputs[0].numel() != 1:
        raise RuntimeError(f"The Tensor returned by the function given to {name} should contain a single element")
    return outputs[0]


def _call(func, inputs, name):
    result = func(*inputs)
    return _as_tuple(result, "outputs of the user-provided function", name)


def _need_connection(outputs, strict, name):
    if strict:
        for i, output in enumerate(outputs):
            if not output.requires_grad:
                raise RuntimeError(
                    f"Output {i} of the user-provided function does not require gradients. The outputs must be "
                    f"computed in a "
                    f"differentiable manner from the input when running in strict mode. ({name})"
                )


def _derivative(outputs, inputs, seeds, create_graph, strict, name):
    """grad() that gives zeros for what is not connected, or raises in strict mode."""
    connected = [i for i, output in enumerate(outputs) if output.requires_grad]
    if connected:
        grads = _grad(
            tuple(outputs[i] for i in connected),
            inputs,
            tuple(seeds[i] for i in connected) if seeds is not None else None,
            retain_graph=True,
            create_graph=create_graph,
            allow_unused=True,
        )
    else:
        grads = (None,) * len(inputs)
    result = []
    for i, (grad, value) in enumerate(zip(grads, inputs)):
        if grad is None and strict:
            raise RuntimeError(
                f"The output of the user-provided function is independent of input {i}. This is not allowed in strict "
                f"mode when "
                f"running {name}."
            )
        if grad is not None and strict and create_graph and not grad.requires_grad:
            raise RuntimeError(
                f"The {name} of the user-provided function is independent of input {i}. This is not allowed in strict "
                f"mode when "
                "create_graph=True."
            )
        result.append(tessera.zeros_like(value) if grad is None else grad)
    return tuple(result)


def _unwrap(was_tuple, values):
    return values if was_tuple else values[0]


def vjp(func, inputs, v=None, create_graph=False, strict=False):
    """(outputs of func, product of the vector `v` with its Jacobian).

    Args:
        func: tensors -> tensor or tuple of tensors.
        inputs: tensor or tuple.
        v: like the outputs; may be left out for a single scalar.
        create_graph: keep the result differentiable.
        strict: raise if an output does not depend on an input, instead of zeros.

    Raises: RuntimeError for a wrong `v`, TypeError for values that are no tensors.
    """
    with tessera.enable_grad():
        inputs_tuple, inputs = _as_tuple(inputs, "inputs", "vjp")
        inputs = _prepare(inputs, create_graph)
        outputs_tuple, outputs = _call(func, inputs, "vjp")
        _need_connection(outputs, strict, "vjp")
        if v is not None:
            _, v = _as_tuple(v, "v", "vjp")
            v = _prepare(v, create_graph, need_graph=False)
            _check_vectors(v, outputs, "outputs")
        elif len(outputs) != 1 or outputs[0].numel() != 1:
            raise RuntimeError(
                "The vector v can only be None if the user-provided function returns a single Tensor with a single "
                "element."
            )
    with tessera.set_grad_enabled(create_graph or tessera.is_grad_enabled()):
        result = _derivative(outputs, inputs, v, create_graph, strict, "vjp")
    return _unwrap(outputs_tuple, _finish(outputs, create_graph)), _unwrap(inputs_tuple, _finish(result, create_graph))


def jvp(func, inputs, v=None, create_graph=False, strict=False):
    """(outputs of func, product of its Jacobian with the vector `v`), by differentiating the backward pass. Arguments
    as `vjp`; `v` is like
    the inputs."""
    with tessera.enable_grad():
        inputs_tuple, inputs = _as_tuple(inputs, "inputs", "jvp")
        inputs = _prepare(inputs, create_graph)
        if v is not None:
            _, v = _as_tuple(v, "v", "jvp")
            v = _prepare(v, create_graph, need_graph=False)
            _check_vectors(v, inputs, "inputs")
        elif len(inputs) != 1 or inputs[0].numel() != 1:
            raise RuntimeError(
                "The vector v can only be None if the input to the user-provided function is a single Tensor with a "
                "single "
                "element."
            )
        outputs_tuple, outputs = _call(func, inputs, "jvp")
        _need_connection(outputs, strict, "jvp")
        # grad_inputs is linear in u, and its derivative with respect to u, applied to v, is the product.
        u = tuple(tessera.zeros_like(output, requires_grad=True) for output in outputs)
        grads = _derivative(outputs, inputs, u, True, strict, "jvp")
        seeds = v if v is not None else tuple(tessera.ones_like(g) for g in grads)
        result = _derivative(grads, u, seeds, create_graph, strict, "jvp")
    return _unwrap(outputs_tuple, _finish(outputs, create_graph)), _unwrap(outputs_tuple, _finish(result, create_graph))


def _rows(output, inputs, create_graph, strict, vectorize):
    """For each input the Jacobian of one output, shape output.shape + input.shape."""
    numel = output.numel()
    if not output.requires_grad or numel == 0:
        if strict and not output.requires_grad:
            _need_connection((output,), True, "jacobian")
        return tuple(value.new_zeros((*output.shape, *value.shape)) for value in inputs)
    if vectorize:
        seeds = tessera.eye(numel, dtype=output.dtype, device=output.device).reshape(numel, *output.shape)
        grads = _grad(
            (output,),
            inputs,
            (seeds,),
            retain_graph=True,
            create_graph=create_graph,
            allow_unused=True,
            is_grads_batched=True,
        )
        return tuple(
            value.new_zeros((*output.shape, *value.shape))
            if grad is None
            else grad.reshape((*output.shape, *value.shape))
            for grad, value in zip(grads, inputs)
        )
    rows = [[] for _ in inputs]
    for k in range(numel):
        seed = tessera.zeros_like(output, memory_format=tessera.contiguous_format).detach()
        seed.view(-1)[k] = 1
        for row, grad in zip(rows, _derivative((output,), inputs, (seed,), create_graph, strict, "jacobian")):
            row.append(grad)
    return tuple(tessera.stack(row).reshape((*output.shape, *value.shape)) for row, value in zip(rows, inputs))


def _forward_columns(func, inputs):
    """(outputs were a tuple, for each output a tuple of Jacobians), all columns in one batch of tangents."""
    from tessera.func import jacfwd

    structure = []

    def outputs_of(*values):
        was_tuple, outputs = _call(func, values, "jacobian")
        structure[:] = [was_tuple]
        return outputs

    result = jacfwd(outputs_of, argnums=tuple(range(len(inputs))))(*inputs)
    return structure[0], result


def jacobian(func, inputs, create_graph=False, strict=False, vectorize=False, strategy="reverse-mode"):
    """The Jacobian of `func`.

    Args:
        func: tensors -> tensor or tuple of tensors.
        inputs: tensor or tuple.
        create_graph: keep the result differentiable.
        strict: raise RuntimeError if an output does not depend on an input, instead of zeros.
        vectorize: compute all rows as one batch.
        strategy: "reverse-mode" or "forward-mode" (which needs `vectorize`).

    Returns: for single input and output a tensor of shape output.shape + input.shape, else tuples, outputs outside.
    """
    if strategy not in ("forward-mode", "reverse-mode"):
        raise AssertionError(
            'Expected strategy to be either "forward-mode" or "reverse-mode". Hint: If your function has more outputs '
            "than "
            'inputs, "forward-mode" tends to be more performant. Otherwise, prefer to use "reverse-mode".'
        )
    if strategy == "forward-mode":
        if create_graph:
            raise NotImplementedError(
                'torch.autograd.functional.jacobian: `create_graph=True` and `strategy="forward-mode"` are not '
                "supported "
                "together (yet)."
            )
        if strict:
            raise RuntimeError(
                'torch.autograd.functional.jacobian: `strict=True` and `strategy="forward-mode"` are not supported '
                "together"
            )
        if not vectorize:
            raise NotImplementedError(
                "Computing Jacobian using forward-AD or forward-over-reverse Hessian is only implemented for "
                "`vectorize=True`."
            )
        inputs_tuple, values = _as_tuple(inputs, "inputs", "jacobian")
        outputs_tuple, result = _forward_columns(func, tuple(v.detach() for v in values))
        return _unwrap(outputs_tuple, tuple(_unwrap(inputs_tuple, row) for row in result))
    with tessera.enable_grad():
        inputs_tuple, values = _as_tuple(inputs, "inputs", "jacobian")
        values = _prepare(values, create_graph)
        outputs_tuple, outputs = _call(func, values, "jacobian")
        _need_connection(outputs, strict, "jacobian")
        if strict and vectorize:
            raise RuntimeError(
                "torch.autograd.functional.jacobian: `strict=True` and `vectorized=True` are not supported together. "
                "Please "
                "either set `strict=False` or `vectorize=False`."
            )
        result = tuple(_rows(output, values, create_graph, strict, vectorize) for output in outputs)
    result = _finish(result, create_graph)
    return _unwrap(outputs_tuple, tuple(_unwrap(inputs_tuple, row) for row in result))


def hessian(func, inputs, create_graph=False, strict=False, vectorize=False, outer_jacobian_strategy="reverse-mode"):
    """The matrix of second derivatives of a function with one scalar output; arguments as `jacobian`.

    Returns: for a single input a tensor of shape input.shape + input.shape, else a tuple of tuples of such blocks.
    """
    inputs_tuple, values = _as_tuple(inputs, "inputs", "hessian")
    if outer_jacobian_strategy not in ("forward-mode", "reverse-mode"):
        raise AssertionError('Expected strategy to be either "forward-mode" or "reverse-mode".')

    def scalar(*args):
        outputs_tuple, outputs = _call(func, args, "hessian")
        _need_connection(outputs, strict, "hessian")
        return _need_scalar(outputs, outputs_tuple, "hessian").squeeze()

    def gradient(*args):
        if outer_jacobian_strategy == "forward-mode":
            args = tuple(arg.requires_grad_(True) if not arg.requires_grad else arg for arg in args)
        result = jacobian(scalar, args, create_graph=True, strict=strict)
        return result if isinstance(result, tuple) else (result,)

    result = jacobian(
        gradient,
        values,
        create_graph=create_graph,
        strict=strict,
        vectorize=vectorize,
        strategy=outer_jacobian_strategy,
    )
    return result if inputs_tuple else result[0][0]


def vhp(func, inputs, v=None, create_graph=False, strict=False):
    """(output of func, product of the vector `v` with its Hessian); func has one scalar output, `v` is like the
    inputs.
    """
    with tessera.enable_grad():
        inputs_tuple, inputs = _as_tuple(inputs, "inputs", "vhp")
        inputs = _prepare(inputs, create_graph)
        v = _hessian_vector(v, inputs, create_graph, "vhp")
        outputs_tuple, outputs = _call(func, inputs, "vhp")
        _need_connection(outputs, strict, "vhp")
        output = _need_scalar(outputs, outputs_tuple, "vhp")
        grads = _derivative(
            (output,), inputs, None if output.dim() == 0 else (tessera.ones_like(output),), True, strict, "vhp"
        )
        result = _derivative(grads, inputs, v, create_graph, strict, "vhp")
    return _finish(output, create_graph), _unwrap(inputs_tuple, _finish(result, create_graph))


def hvp(func, inputs, v=None, create_graph=False, strict=False):
    """(output of func, product of its Hessian with the vector `v`). `vhp` gives the same for real functions, with less
    work.
    """
    with tessera.enable_grad():
        inputs_tuple, inputs = _as_tuple(inputs, "inputs", "hvp")
        inputs = _prepare(inputs, create_graph)
        v = _hessian_vector(v, inputs, create_graph, "hvp")
        outputs_tuple, outputs = _call(func, inputs, "hvp")
        _need_connection(outputs, strict, "hvp")
        output = _need_scalar(outputs, outputs_tuple, "hvp")
        grads = _derivative(
            (output,), inputs, None if output.dim() == 0 else (tessera.ones_like(output),), True, strict, "hvp"
        )
        u = tuple(tessera.zeros_like(value, requires_grad=True) for value in inputs)
        double = _derivative(grads, inputs, u, True, strict, "hvp")
        seeds = v if v is not None else tuple(tessera.ones_like(d) for d in double)
        result = _derivative(double, u, seeds, create_graph, strict, "hvp")
    return _finish(output, create_graph), _unwrap(inputs_tuple, _finish(result, create_graph))


def _hessian_vector(v, inputs, create_graph, name):
    if v is not None:
        _, v = _as_tuple(v, "v", name)
        v = _prepare(v, create_graph, need_graph=False)
        _check_vectors(v, inputs, "inputs")
        return v
    if len(inputs) != 1 or inputs[0].numel() != 1:
        raise RuntimeError(
            "The vector v can only be None if the input to the user-provided function is a single Tensor with a single "
            "element."
        )
    return None
