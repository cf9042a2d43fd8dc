"""Changes of whole programs."""

import tessera
from tessera.fx.node import map_aggregate

__all__ = ["move_to_device_pass"]


def move_to_device_pass(ep, location):
    """Moves a program to another device.

    Args:
        ep: ExportedProgram. location: device, its name, or {name of a device: name of another}.

    Returns: the same program: its state, constants, example inputs, the devices that nodes name, and what stands for
        values are on the new device.
    """

    def place(device):
        if not isinstance(location, dict):
            return tessera.device(location)
        found = location.get(str(device), location.get(device.type))
        return device if found is None else tessera.device(found)

    def moved(value):
        if isinstance(value, tessera.nn.Parameter):
            return tessera.nn.Parameter(value.detach().to(place(value.device)), value.requires_grad)
        return value.to(place(value.device)) if isinstance(value, tessera.Tensor) else value

    for table in (ep.state_dict, ep.constants):
        for path, value in table.items():
            table[path] = moved(value)
    if ep._example_inputs is not None:
        from tessera.utils import _pytree

        ep._example_inputs = _pytree.tree_map(moved, ep._example_inputs)
    for module in ep.graph_module.modules():
        if isinstance(module, tessera.fx.GraphModule):
            for node in module.graph.nodes:
                _move_node(node, place)
    ep.validate()
    return ep


def _move_node(node, place):
    kwargs = dict(node.kwargs)
    if "device" in kwargs and kwargs["device"] is not None:
        kwargs["device"] = place(tessera.device(kwargs["device"]))
        node.kwargs = kwargs
    schema = getattr(node.target, "_schema", None)
    if schema is not None and any(isinstance(a, tessera.device) for a in node.args):
        node.args = tuple(place(a) if isinstance(a, tessera.device) else a for a in node.args)

    def fake(value):
        if not isinstance(value, tessera.Tensor) or place(value.device) == value.device:
            return value
        mode = getattr(value, "fake_mode", None)
        if mode is None:
            return value.to(place(value.device))
        with mode:
            return value.to(place(value.device))

    if "val" in node.meta:
        node.meta["val"] = map_aggregate(node.meta["val"], fake)
