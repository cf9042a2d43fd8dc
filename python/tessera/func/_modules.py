"""Modules as functions of their parameters."""

import tessera

__all__ = ["functional_call", "replace_all_batch_norm_modules_", "stack_module_state"]


def _merged(parameter_and_buffer_dicts):
    if isinstance(parameter_and_buffer_dicts, dict):
        return parameter_and_buffer_dicts
    if not isinstance(parameter_and_buffer_dicts, (tuple, list)):
        raise ValueError(
            "Expected parameter_and_buffer_dicts to be a dict, or a list/tuple of dicts, but got "
            f"{type(parameter_and_buffer_dicts)}"
        )
    merged = {}
    for tensors in parameter_and_buffer_dicts:
        if not isinstance(tensors, dict):
            raise ValueError(
                "Expected all elements of parameter_and_buffer_dicts to be dictionaries, but got "
                f"{type(tensors).__name__}"
            )
        repeated = sorted(merged.keys() & tensors.keys())
        if repeated:
            raise ValueError(f"{repeated} appeared in multiple dictionaries; behavior of functional call is ambiguous")
        merged.update(tensors)
    return merged


def functional_call(module, parameter_and_buffer_dicts, args=None, kwargs=None, *, tie_weights=True, strict=False):
    """module(*args, **kwargs) with other tensors in place of its parameters and buffers.

    Args:
        parameter_and_buffer_dicts: {dotted name: tensor}, or a tuple of such dictionaries with different names. What
            is not named stays the module's own.
        args: a tuple, or the only argument.
        tie_weights: what replaces one name of a tied tensor replaces all of its names.
        strict: all names of the module, and no others.

    The module is as before afterwards, also after an exception. What it assigns to its buffers in place is in the
    tensors that were given; a buffer that it replaces by a new tensor is in the dictionary.

    Raises: RuntimeError with strict=True for missing or unexpected names; ValueError for names in several dictionaries,
        and for different values of tied tensors.
    """
    from tessera.nn.utils.stateless import _functional_call

    merged = _merged(parameter_and_buffer_dicts)
    result = _functional_call(module, merged, args, kwargs, tie_weights=tie_weights, strict=strict)
    if merged is not parameter_and_buffer_dicts:
        for tensors in parameter_and_buffer_dicts:
            for name in tensors:
                tensors[name] = merged[name]
    return result


def _stacked(tensors):
    same = all(t.requires_grad == tensors[0].requires_grad for t in tensors)
    if not same:
        raise RuntimeError("Expected parameters from different models to have the same .requires_grad")
    return tessera.stack([t.detach() for t in tensors]).requires_grad_(tensors[0].requires_grad)


def stack_module_state(models):
    """(parameters, buffers) of several modules of one class, as dictionaries of stacked tensors: `vmap` over them
    together with `functional_call` runs all modules at once.

    Args:
        models: at least one module; all of one class, with parameters of the same shapes, all training or none.

    The stacked parameters are leaves that require grad as the modules' do.

    Raises: RuntimeError.
    """
    models = list(models)
    if not models:
        raise RuntimeError("stack_module_state: Expected at least one model, got 0.")
    if not (all(m.training for m in models) or all(not m.training for m in models)):
        raise RuntimeError("stack_module_state: Expected all models to have the same training/eval mode.")
    if any(type(m) is not type(models[0]) for m in models):
        raise RuntimeError("stack_module_state: Expected all models to be of the same class.")
    parameters = [dict(m.named_parameters()) for m in models]
    buffers = [dict(m.named_buffers()) for m in models]
    return (
        {name: _stacked([p[name] for p in parameters]) for name in parameters[0]},
        {name: tessera.stack([b[name] for b in buffers]) for name in buffers[0]},
    )


def replace_all_batch_norm_modules_(root):
    """Makes all batch norm layers of a module work without running statistics, as transforms need; returns the module.

    It is changed in place: `running_mean`, `running_var` and `num_batches_tracked` become None, and
    `track_running_stats` False.
    """
    from tessera.nn.modules.batchnorm import _BatchNorm

    for module in root.modules():
        if isinstance(module, _BatchNorm):
            module.running_mean = module.running_var = module.num_batches_tracked = None
            module.track_running_stats = False
    return root
