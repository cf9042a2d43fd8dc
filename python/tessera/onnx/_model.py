"""From graphs that were written to the messages of a file, and passes over those."""

import re

import tessera
from tessera.onnx._build import RANDOM as _RANDOM
from tessera.onnx._build import Graph, tensor_proto
from tessera.onnx._modes import producer_name, producer_version
from tessera.onnx._types import TO_ONNX
from tessera.onnx._wire import Message

_KINDS = {"f": 1, "i": 2, "s": 3, "t": 4, "g": 5, "floats": 6, "ints": 7, "strings": 8, "tensors": 9, "graphs": 10}


def ir_version(opset):
    """The version of the format that came with a version of the operators."""
    return next(v for limit, v in ((14, 7), (18, 8), (20, 9), (22, 10), (1 << 30, 11)) if opset <= limit)


def attribute(name, value, axes):
    """The message of an attribute."""
    if isinstance(value, (bool, int)):
        kind, value = "i", int(value)
    elif isinstance(value, float):
        kind = "f"
    elif isinstance(value, (str, bytes)):
        kind, value = "s", value.encode() if isinstance(value, str) else value
    elif isinstance(value, tessera.Tensor):
        kind, value = "t", _tensor("", value)
    elif isinstance(value, Message):
        kind = {"TensorProto": "t", "GraphProto": "g"}[value.type_name]
    elif isinstance(value, Graph):
        kind, value = "g", graph_proto(value, axes)
    elif isinstance(value, (list, tuple)):
        value = list(value)
        if any(isinstance(v, str) for v in value):
            kind, value = "strings", [v.encode() for v in value]
        elif any(isinstance(v, float) for v in value):
            kind, value = "floats", [float(v) for v in value]
        else:
            kind, value = "ints", [int(v) for v in value]
    else:
        raise TypeError(
            f"attribute {name}: expected a number, text, tensor or a list of these, got {type(value).__name__}"
        )
    made = Message("AttributeProto", name=name, type=_KINDS[kind])
    setattr(made, kind, value)
    return made


def _tensor(name, tensor):
    proto, kept = tensor_proto(name, tensor)
    proto.__dict__["_tensor"] = kept  # its memory is what raw_data names
    return proto


def dimension(size, axes):
    """The message of a size; `axes` gives symbols the names of the user."""
    if isinstance(size, int):
        return Message("Dimension", dim_value=size)
    text = str(size)
    for symbol, name in axes.items():
        text = re.sub(rf"\b{symbol}\b", lambda _, n=name: n, text)
    return Message("Dimension", dim_param=text)


def value_info(value, axes):
    """The message of a value's name and type."""
    shape = value.shape
    kind = Message("TensorType", elem_type=TO_ONNX[value.dtype])
    if shape is not None:
        kind.shape = Message("TensorShapeProto", dim=[dimension(s, axes) for s in shape])
    return Message("ValueInfoProto", name=value.name, type=Message("TypeProto", tensor_type=kind))


def node_proto(node, axes):
    made = Message(
        "NodeProto", op_type=node.op, input=["" if v is None else v.name for v in node.inputs],
        output=[v.name for v in node.outputs],
    )  # fmt: skip
    made.name = "node_" + node.outputs[0].name if node.outputs else "node_" + node.op
    if node.domain:
        made.domain = node.domain
    if node.attrs:
        made.attribute = [attribute(k, v, axes) for k, v in node.attrs.items()]
    if node.metadata:
        made.metadata_props = [Message("StringStringEntryProto", key=k, value=v) for k, v in node.metadata.items()]
    return made


def graph_proto(graph, axes, name="body"):
    """The message of a graph, without initializers."""
    return Message(
        "GraphProto", name=name, node=[node_proto(n, axes) for n in graph.nodes],
        input=[value_info(v, axes) for v in graph.inputs], output=[value_info(v, axes) for v in graph.outputs],
    )  # fmt: skip


def model_proto(model, axes=None, keep_initializers_as_inputs=False, optimize=True, store=True):
    """The message of a model.

    Args:
        model: Model, whose graph has its outputs.
        axes: {symbol: name of a size}.
        keep_initializers_as_inputs: parameters are inputs as well.
        optimize: nodes that do what others do go away.
        store: whether tensors are in the file; parameters are inputs otherwise.
    """
    axes = axes or {}
    graph = graph_proto(model.graph, axes, "main_graph")
    used = _used(graph) if optimize is not None else None
    for value, tensor in model.initializers.values():
        if used is not None and value.name not in used:
            continue
        if store or value.name.startswith("const"):
            graph.initializer.append(_tensor(value.name, tensor))
        if keep_initializers_as_inputs or not (store or value.name.startswith("const")):
            graph.input.append(value_info(value, axes))
    versions = [Message("OperatorSetIdProto", domain=d, version=v) for d, v in model.domains.items()]
    made = Message("ModelProto", ir_version=ir_version(model.opset), producer_name=producer_name,
                   producer_version=producer_version, graph=graph, opset_import=versions)  # fmt: skip
    prune(graph)
    if optimize:
        merge(graph)
        prune(graph)
    return made


# --- passes over messages ---

_OPTIONAL = frozenset("Attention LSTM GRU RNN MaxPool Dropout Unique".split())  # whose later results may be left out


def _inner(node):
    return [a.g for a in node.attribute if a.g is not None]


def _used(graph):
    """Names that nodes and results of a graph read, those inside of it included."""
    found = {o.name for o in graph.output}
    for node in graph.node:
        found.update(node.input)
        for g in _inner(node):
            found |= _used(g)
    return found


def prune(graph):
    """Takes nodes and initializers away that nothing reads."""
    alive, kept = {o.name for o in graph.output}, []
    for node in reversed(graph.node):
        if alive.isdisjoint(node.output):
            continue
        while node.op_type in _OPTIONAL and node.output[-1] not in alive:
            node.output.pop()
        kept.append(node)
        alive.update(node.input)
        for g in _inner(node):
            prune(g)
            alive |= _used(g)
    graph.node = kept[::-1]
    if graph.initializer:
        graph.initializer = [t for t in graph.initializer if t.name in alive]


def merge(graph, outside=None):
    """Nodes that do what an earlier one does give way to it; casts and copies without effect go away."""
    from tessera.onnx._wire import encode

    renamed, seen, results = dict(outside or {}), {}, {o.name for o in graph.output}
    kept = []
    for node in graph.node:
        node.input = [renamed.get(n, n) for n in node.input]
        inner = _inner(node)
        for g in inner:
            merge(g, renamed)
        if node.op_type == "Identity" and node.output[0] not in results and not node.domain:
            renamed[node.output[0]] = node.input[0]
            continue
        if not inner and node.op_type not in _RANDOM and not node.domain and node.op_type != "Dropout":
            key = (node.op_type, tuple(node.input), len(node.output), tuple(encode(a) for a in node.attribute))
            other = seen.get(key)
            if other is not None and results.isdisjoint(node.output):
                renamed.update(zip(node.output, other.output))
                continue
            seen.setdefault(key, node)
        kept.append(node)
    graph.node = kept
    if outside:
        _outputs_of_inner(graph, renamed)


def _outputs_of_inner(graph, renamed):
    """Results of a graph inside of another are its own nodes' (own() saw to that): none of them is renamed."""
    clash = [o.name for o in graph.output if o.name in renamed]
    if clash:
        raise AssertionError(f"results {clash} of a graph were taken for others")


def outputs_of(graph, values):
    """Sets the results of a model's graph: each a value that one of its nodes gives, named once."""
    seen, made = set(), []
    for v in values:
        v = graph.value(v)
        if v.node is None or v.graph is not graph or id(v) in seen:
            kept, v = v, graph.Identity(v)
            v.val = kept.val
        seen.add(id(v))
        made.append(v)
    graph.outputs = made
    return made


def renamed_axes(proto, names):
    """Sets new names of sizes in inputs, results and what is known between."""
    graph = proto.graph
    for info in (*graph.input, *graph.output, *graph.value_info):
        shape = info.type.tensor_type.shape if info.type is not None and info.type.tensor_type is not None else None
        for dim in shape.dim if shape is not None else ():
            if dim.has("dim_param"):
                for old, new in names.items():
                    dim.dim_param = re.sub(rf"\b{re.escape(str(old))}\b", lambda _, n=str(new): n, dim.dim_param)
