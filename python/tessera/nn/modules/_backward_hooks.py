"""The mechanism behind the backward hooks of modules."""

import tessera

_identity_function = None


def _identity():
    """The autograd.Function that ties all inputs (or outputs) of a module together in one node of the graph."""
    global _identity_function
    if _identity_function is None:

        class BackwardHookFunction(tessera.autograd.Function):
            @staticmethod
            def forward(ctx, *tensors):
                ctx.set_materialize_grads(False)
                ctx.mark_non_differentiable(*[t for t in tensors if not t.requires_grad])
                return tensors

            @staticmethod
            def backward(ctx, *grads):
                return grads

        _identity_function = BackwardHookFunction
    return _identity_function


def _spread(values, index, size):
    """A tuple of `size` with values[i] at position index[i] and None elsewhere."""
    if index is None or len(values) == size:
        return tuple(values)
    out = [None] * size
    for i, v in zip(index, values):
        out[i] = v
    return tuple(out)


def _check(result, size, what):
    result = tuple(result) if isinstance(result, (tuple, list)) else (result,)
    if len(result) != size:
        raise RuntimeError(
            f"Backward {what} returned an invalid number of grad, got {len(result)}, but expected {size}"
        )
    return result


class BackwardHook:
    """Calls the full backward hooks of a module.

    The tensors among the positional inputs, and those among the outputs, pass through an identity node each. A pre-hook
    of the output's node
    has grad_output, the post-hook of the input's node has grad_input. Without an input that requires grad the hooks run
    in the former, with
    None for every grad_input.
    """

    def __init__(self, module, user_hooks, user_pre_hooks):
        self.module = module
        self.user_hooks = user_hooks
        self.user_pre_hooks = user_pre_hooks
        self.n_inputs = -1
        self.input_index = None
        self.n_outputs = -1
        self.output_index = None
        self.grad_outputs = None

    def _through_node(self, args, register):
        """Puts the tensors of the tuple `args` through one identity node. Returns the new tuple and the tensors'
        positions (None: no node).
        """
        index = [i for i, a in enumerate(args) if isinstance(a, tessera.Tensor)]
        if not tessera.is_grad_enabled() or not any(args[i].requires_grad for i in index):
            return args, None
        new = _identity().apply(*[args[i] for i in index])
        node = next((t.grad_fn for t in new if t.grad_fn is not None), None)
        if node is None:
            raise RuntimeError(
                "Error while setting up backward hooks: the inputs or outputs lost their gradient function"
            )
        register(node)
        out = list(args)
        for i, t in zip(index, new):
            out[i] = t
        return (tuple(out) if type(args) is tuple else type(args)(*out)), index

    def _run_hooks(self, grad_input, grad_output):
        for hook in self.user_hooks:
            res = hook(self.module, grad_input, grad_output)
            if res is not None:
                grad_input = _check(res, len(grad_input), "hook")
        return grad_input

    def setup_input_hook(self, args):
        """The positional arguments to call forward with."""

        def register(node):
            def on_input(grad_input, _):
                if self.grad_outputs is None:
                    return None  # the outputs did not take part in this backward pass
                grads = _spread(grad_input, self.input_index, self.n_inputs)
                res = self._run_hooks(grads, self.grad_outputs)
                self.grad_outputs = None
                return None if res is grads else tuple(res[i] for i in self.input_index)

            node.register_hook(on_input)

        self.n_inputs = len(args)
        new, self.input_index = self._through_node(args, register)
        return new

    def setup_output_hook(self, args):
        """The module's result (a tensor or a tuple), tied to the hooks."""

        def register(node):
            def on_output(grad_output):
                grads = first = _spread(grad_output, self.output_index, self.n_outputs)
                for hook in self.user_pre_hooks:
                    res = hook(self.module, grads)
                    if res is not None:
                        grads = _check(res, len(grads), "pre hook")
                self.grad_outputs = grads
                if self.input_index is None:
                    res = self._run_hooks((None,) * self.n_inputs, grads)
                    if any(g is not None for g in res):
                        raise RuntimeError(
                            "Backward hook for Modules where no input requires gradient should always return None or "
                            "None for all gradients."
                        )
                    self.grad_outputs = None
                return None if grads is first else tuple(grads[i] for i in self.output_index)

            node.register_prehook(on_output)

        single = not isinstance(args, tuple)
        values = (args,) if single else args
        self.n_outputs = len(values)
        new, self.output_index = self._through_node(values, register)
        return new[0] if single else new
