"""Small things about exported programs that other packages use."""

import contextlib

import tessera

__all__ = [
    "is_param", "get_param", "is_buffer", "get_buffer", "is_lifted_tensor_constant", "get_lifted_tensor_constant",
]  # fmt: skip


def is_param(program, node):
    """Whether a node of a program is a parameter's placeholder."""
    return node.name in program.graph_signature.inputs_to_parameters


def get_param(program, node):
    """The parameter of a placeholder, or None."""
    return (
        program.state_dict[program.graph_signature.inputs_to_parameters[node.name]] if is_param(program, node) else None
    )


def is_buffer(program, node):
    """Whether a node of a program is a buffer's placeholder."""
    return node.name in program.graph_signature.inputs_to_buffers


def get_buffer(program, node):
    """The buffer of a placeholder, or None."""
    if not is_buffer(program, node):
        return None
    path = program.graph_signature.inputs_to_buffers[node.name]
    return program.state_dict[path] if path in program.state_dict else program.constants[path]


def is_lifted_tensor_constant(program, node):
    """Whether a node of a program is a constant tensor's placeholder."""
    return node.name in program.graph_signature.inputs_to_lifted_tensor_constants


def get_lifted_tensor_constant(program, node):
    """The constant tensor of a placeholder, or None."""
    if not is_lifted_tensor_constant(program, node):
        return None
    return program.constants[program.graph_signature.inputs_to_lifted_tensor_constants[node.name]]


def _is_cia_op(op):
    """Whether an operator is composite: made of others, without a derivative of its own."""
    name = op.name()
    return tessera._C._has_op_kernel(name, "CompositeImplicitAutograd") and not tessera._C._has_op_kernel(
        name, "CompositeExplicitAutograd"
    )


def _get_shape_env_from_gm(gm):
    """The ShapeEnv of a graph's values, or None if none of them is symbolic."""
    for node in gm.graph.nodes:
        value = node.meta.get("val")
        for size in getattr(value, "shape", ()):
            if hasattr(size, "node"):
                return size.node.shape_env
    return None


@contextlib.contextmanager
def _disable_aten_to_metadata_assertions():
    """Context manager for those who would not have checks of dtypes and devices before conversions in graphs: graphs of
    this library have none."""
    yield


def register_dataclass_as_pytree_node(
    cls, flatten_fn=None, unflatten_fn=None, *, serialized_type_name=None, to_dumpable_context=None,
    from_dumpable_context=None, return_none_fields=False,
):  # fmt: skip
    """Makes a dataclass a container of trees.

    Args:
        flatten_fn, unflatten_fn, to_dumpable_context, from_dumpable_context: as of register_pytree_node; None: by
        field.
        serialized_type_name: its name in saved programs.
        return_none_fields: fields that are None are leaves, too.
    """
    import dataclasses

    from tessera.utils import _pytree

    if not dataclasses.is_dataclass(cls):
        raise AssertionError(f"Only dataclasses can be registered with this function: {cls}")
    if flatten_fn is None and unflatten_fn is None and not return_none_fields:
        _pytree.register_dataclass(cls, serialized_type_name=serialized_type_name)
        return
    names = [f.name for f in dataclasses.fields(cls)]
    _pytree.register_pytree_node(
        cls, flatten_fn or (lambda obj: ([getattr(obj, n) for n in names], names)),
        unflatten_fn or (lambda values, context: cls(**dict(zip(context, values)))),
        serialized_type_name=serialized_type_name, to_dumpable_context=to_dumpable_context,
        from_dumpable_context=from_dumpable_context,
    )  # fmt: skip
