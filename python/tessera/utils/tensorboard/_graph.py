"""Graphs for TensorBoard: what operators a call of a module runs, seen from below autograd."""

import contextlib

import tessera
from tensorboard.compat.proto import (
    attr_value_pb2,
    config_pb2,
    graph_pb2,
    node_def_pb2,
    step_stats_pb2,
    tensor_shape_pb2,
    versions_pb2,
)

from tessera.utils._python_dispatch import TorchDispatchMode
from tessera.utils._pytree import tree_leaves


def _node(name, kind, inputs=(), tensors=(), **texts):
    """A node; `tensors` are its results, whose shapes it shows."""
    shapes = [
        tensor_shape_pb2.TensorShapeProto(dim=[tensor_shape_pb2.TensorShapeProto.Dim(size=n) for n in tensor.shape])
        for tensor in tensors
    ]
    attributes = {key: attr_value_pb2.AttrValue(s=str(value).encode()) for key, value in texts.items()}
    if shapes:
        listed = attr_value_pb2.AttrValue.ListValue(shape=shapes)
        attributes["_output_shapes"] = attr_value_pb2.AttrValue(list=listed)
    return node_def_pb2.NodeDef(name=name, op=kind, input=list(inputs), attr=attributes)


def _tensors(tree):
    return [leaf for leaf in tree_leaves(tree) if isinstance(leaf, tessera.Tensor)]


class _Recorder(TorchDispatchMode):
    """Makes a node of each operator. Tensors are kept while it works, so that each is known by itself."""

    def __init__(self, model, inputs):
        super().__init__()
        self.nodes = []
        self.names = {}  # id of a tensor that is kept -> the node that it comes from
        self.kept = []
        self.scopes = [type(model).__name__]
        modules = dict(model.named_modules())
        self.labels = {path: f"{type(module).__name__}[{path.rpartition('.')[2]}]" for path, module in modules.items()}
        self.paths = {id(module): path for path, module in modules.items()}
        self.states = {}
        for path, tensor in [*model.named_parameters(), *model.named_buffers()]:
            self.states[id(tensor)] = path, tensor
        for i, tensor in enumerate(_tensors(inputs)):
            self.define(tensor, f"input/{i}", "IO Node")

    def define(self, tensor, name, kind):
        self.nodes.append(_node(name, kind, tensors=[tensor]))
        self.result(tensor, name)

    def result(self, tensor, name):
        self.names[id(tensor)] = name
        self.kept.append(tensor)

    def source(self, tensor):
        """The name of the node that a tensor comes from; parameters and constants get one when they are first met."""
        if id(tensor) not in self.names:
            path, _ = self.states.get(id(tensor), (None, None))
            name = self._within_modules(path) if path else f"constant/{len(self.nodes)}"
            self.define(tensor, name, "Parameter" if path else "Constant")
        return self.names[id(tensor)]

    def _within_modules(self, path):
        """The name of a parameter's node, in the group of its module."""
        *parts, own = path.split(".")
        labels = [self.labels[".".join(parts[: i + 1])] for i in range(len(parts))]
        return "/".join([self.scopes[0], *labels, own])

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        sources = [self.source(tensor) for tensor in _tensors((args, kwargs))]
        out = func(*args, **kwargs)
        kind = func._schema.name
        name = f"{'/'.join(self.scopes)}/{kind}_{len(self.nodes)}"
        numbers = [value for value in tree_leaves((args, kwargs)) if not isinstance(value, tessera.Tensor)]
        results = _tensors(out)
        self.nodes.append(_node(name, kind, sources, results, attr=numbers))
        for tensor in results:
            self.result(tensor, name)
        return out

    def enter(self, module, _args):
        path = self.paths.get(id(module))
        if path:
            self.scopes.append(self.labels[path])

    def leave(self, module, _args, _out):
        if self.paths.get(id(module)):
            self.scopes.pop()


@contextlib.contextmanager
def _hooked(model, recorder):
    handles = []
    for module in model.modules():
        handles.append(module.register_forward_pre_hook(recorder.enter))
        handles.append(module.register_forward_hook(recorder.leave, always_call=True))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def of_module(model, inputs, strict):
    """The GraphDef of a call of a module.

    Args:
        model: a Module.
        inputs: its argument, or a tuple of them; None for none.
        strict: refuse results other than tensors, lists and tuples.

    Raises: TypeError for what is no module and for refused results.
    """
    if not isinstance(model, tessera.nn.Module):
        raise TypeError(f"add_graph: expected a Module, but got {type(model).__name__}")
    arguments = () if inputs is None else tuple(inputs) if isinstance(inputs, (tuple, list)) else (inputs,)
    recorder = _Recorder(model, arguments)
    with tessera.no_grad(), _hooked(model, recorder), recorder:
        out = model(*arguments)
    if strict and not isinstance(out, (tessera.Tensor, list, tuple)):
        raise TypeError(
            f"add_graph: the module returns a {type(out).__name__}; pass use_strict_trace=False to show it nevertheless"
        )
    for i, tensor in enumerate(_tensors(out)):
        recorder.nodes.append(_node(f"output/{i}", "IO Node", [recorder.source(tensor)], [tensor]))
    return graph_pb2.GraphDef(node=recorder.nodes, versions=versions_pb2.VersionDef(producer=22))


def run_metadata(graph):
    """The RunMetadata message of a graph: its nodes are on one device."""
    stats = [step_stats_pb2.NodeExecStats(node_name=node.name) for node in graph.node]
    device = step_stats_pb2.DeviceStepStats(device="/device:CPU:0", node_stats=stats)
    return config_pb2.RunMetadata(step_stats=step_stats_pb2.StepStats(dev_stats=[device]))


def as_text(graph):
    """A graph, a line for each node."""
    return "\n".join(f"{node.name} = {node.op}({', '.join(node.input)})" for node in graph.node)


def of_onnx(path):
    """The GraphDef of a file of ONNX."""
    import onnx

    graph = onnx.load(path).graph
    nodes = []
    for value in [*graph.input, *graph.output]:
        dims = [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        shape = tensor_shape_pb2.TensorShapeProto(dim=[tensor_shape_pb2.TensorShapeProto.Dim(size=n) for n in dims])
        attributes = {"_output_shapes": attr_value_pb2.AttrValue(list={"shape": [shape]})}
        nodes.append(node_def_pb2.NodeDef(name=value.name, op="Variable", attr=attributes))
    for i, node in enumerate(graph.node):
        attributes = ", ".join(onnx.helper.printable_attribute(attribute) for attribute in node.attribute)
        nodes.append(_node(node.output[0] if node.output else f"node_{i}", node.op_type, node.input, attr=attributes))
    return graph_pb2.GraphDef(node=nodes, versions=versions_pb2.VersionDef(producer=22))
