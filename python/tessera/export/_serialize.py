"""Programs as JSON: the graph, its signature and what is known of its values, in the documented schema."""

import builtins
import json
import math
import operator

import tessera
from tessera.export._symbols import is_symbolic, text_of
from tessera.export.graph_signature import (
    ConstantArgument, CustomObjArgument, InputKind, OutputKind, SymBoolArgument, SymFloatArgument, SymIntArgument,
    TensorArgument, TokenArgument,
)  # fmt: skip
from tessera.fx.node import Node
from tessera.utils import _pytree as pytree

SCHEMA_VERSION = {"major": 8, "minor": 20}
OPSET_VERSION = {"aten": 10}
# Numbers of dtypes, layouts and memory formats in files.
DTYPES = dict(
    uint8=1, int8=2, int16=3, int32=4, int64=5, float16=6, float32=7, float64=8, complex32=9, complex64=10,
    complex128=11, bool=12, bfloat16=13, uint16=28, float8_e4m3fn=29, float8_e5m2=30, float8_e4m3fnuz=31,
    float8_e5m2fnuz=32, float8_e8m0fnu=33, uint32=34, uint64=35,
)  # fmt: skip
LAYOUTS = {"sparse_coo": 1, "sparse_csr": 2, "sparse_csc": 3, "sparse_bsr": 4, "sparse_bsc": 5, "strided": 7}
FORMATS = {"contiguous_format": 1, "channels_last": 2, "channels_last_3d": 3, "preserve_format": 4}

# Functions of numbers that nodes may call, by their names in files.
FUNCTIONS = {
    f"_operator.{name}": getattr(operator, name)
    for name in "add sub mul truediv floordiv mod pow neg pos eq ne lt le gt ge and_ or_ not_ xor getitem".split()
}
FUNCTIONS.update(
    (f"torch.{n}", getattr(tessera, n)) for n in "sym_float sym_int sym_ite sym_max sym_min sym_not sym_sqrt".split()
)
FUNCTIONS.update((f"math.{n}", getattr(math, n)) for n in ("floor", "ceil", "trunc"))
FUNCTIONS.update((f"builtins.{n}", getattr(builtins, n)) for n in ("abs", "round", "int", "float", "bool"))
_NAME_OF = {function: name for name, function in FUNCTIONS.items()}
_GETITEM = operator.getitem


def _short(value):
    return str(value).rpartition(".")[2]


def sym(value):
    """A size in a file: a number, or an expression with its value in the example."""
    if not is_symbolic(value):
        return {"as_int": int(value)}
    hint = getattr(value.node, "hint", None)
    return {"as_expr": {"expr_str": text_of(value.node.expr), "hint": None if hint is None else {"as_int": int(hint)}}}


def device_of(device):
    return {"type": device.type, "index": device.index}


def tensor_meta(tensor):
    """What is known of a tensor."""
    strided = tensor.layout is tessera.strided
    return {
        "dtype": DTYPES[_short(tensor.dtype)], "sizes": [sym(n) for n in tensor.shape],
        "requires_grad": tensor.requires_grad, "device": device_of(tensor.device),
        "strides": [sym(n) for n in tensor.stride()] if strided else [],
        "storage_offset": sym(tensor.storage_offset() if strided else 0), "layout": LAYOUTS[_short(tensor.layout)],
    }  # fmt: skip


def read_tensor_meta(data):
    """(sizes, strides, offset, dtype, device, requires_grad) of a tensor with fixed sizes. ValueError for others."""
    whole = lambda item: _whole(item["as_int"])  # noqa: E731
    sizes, strides = [whole(n) for n in data["sizes"]], [whole(n) for n in data["strides"]]
    if len(sizes) != len(strides) or data["layout"] != LAYOUTS["strided"]:
        raise ValueError(f"expected a strided tensor, got sizes {sizes}, strides {strides}, layout {data['layout']}")
    return sizes, strides, whole(data["storage_offset"]), dtype_of(data["dtype"]), read_device(data["device"]), bool(
        data["requires_grad"])  # fmt: skip


def _whole(n):
    if type(n) is not int or not 0 <= n < 1 << 62:
        raise ValueError(f"expected a size, got {n!r}")
    return n


def _of_table(table, number, owner):
    name = next((n for n, known in table.items() if known == number), None)
    if name is None or not hasattr(tessera, name):
        raise ValueError(f"{number!r} is no {owner} that is known")
    return getattr(tessera, name)


def layout_of(number):
    """The layout of a number in a file. ValueError for others."""
    return _of_table(LAYOUTS, number, "layout")


def dtype_of(number):
    return _of_table(DTYPES, number, "dtype")


def read_device(data):
    return tessera.device(data["type"]) if data["index"] is None else tessera.device(data["type"], data["index"])


_PLAIN = {
    type(None): lambda v: {"as_none": True}, bool: lambda v: {"as_bool": v}, int: lambda v: {"as_int": v},
    float: lambda v: {"as_float": v if v - v == 0 else str(v)}, str: lambda v: {"as_string": v},
    complex: lambda v: {"as_complex": {"real": v.real, "imag": v.imag}},
    tessera.dtype: lambda v: {"as_scalar_type": DTYPES[_short(v)]},
    tessera.layout: lambda v: {"as_layout": LAYOUTS[_short(v)]},
    tessera.memory_format: lambda v: {"as_memory_format": FORMATS[_short(v)]},
    tessera.device: lambda v: {"as_device": device_of(v)},
}  # fmt: skip


def plain_argument(value):
    """A value without nodes. TypeError for types that files have no form of."""
    if isinstance(value, tessera._ops.OpOverload):
        return {"as_operator": _target_name(value)}
    if type(value) not in _PLAIN:
        raise TypeError(f"save: a {type(value).__name__} has no form in files: {value!r}")
    return _PLAIN[type(value)](value)


def _number(value):
    return float(value) if isinstance(value, str) else value


def read_plain_argument(data):
    """The value of plain_argument."""
    ((kind, value),) = data.items()
    types = {"as_bool": bool, "as_int": int, "as_string": str}
    if kind in types and type(value) is not types[kind]:
        raise ValueError(f"expected {kind} to be a {types[kind].__name__}, got {value!r}")
    readers = {
        "as_none": lambda v: None, "as_bool": bool, "as_int": int, "as_string": str,
        "as_float": lambda v: float(_number(v)), "as_complex": lambda v: complex(v["real"], v["imag"]),
        "as_scalar_type": dtype_of, "as_layout": layout_of,
        "as_memory_format": lambda v: _of_table(FORMATS, v, "memory format"), "as_device": read_device,
    }  # fmt: skip
    if kind not in readers:
        raise ValueError(f"unknown kind of value {kind!r}")
    return readers[kind](value)


class _GraphWriter:
    """One graph as a dict."""

    def __init__(self, module):
        self.module = module
        self.tensors, self.ints, self.bools, self.floats = {}, {}, {}, {}

    def write(self):
        """The graph's dict."""
        nodes, inputs, outputs = [], [], []
        for node in self.module.graph.nodes:
            if node.op == "placeholder":
                inputs.append(self._placeholder(node))
            elif node.op == "call_function" and not self._is_part(node):
                nodes.append(self._node(node))
            elif node.op == "output":
                values = node.args[0] if isinstance(node.args[0], (tuple, list)) else (node.args[0],)
                outputs = [self.argument(v) for v in values]
                single = not isinstance(node.args[0], (tuple, list))
        return {
            "inputs": inputs, "outputs": outputs, "nodes": nodes, "tensor_values": self.tensors,
            "sym_int_values": self.ints, "sym_bool_values": self.bools, "sym_float_values": self.floats,
            "is_single_tensor_return": single, "custom_obj_values": {},
        }  # fmt: skip

    def _placeholder(self, node):
        value = node.meta.get("val")
        if isinstance(value, tessera.Tensor) or is_symbolic(value):
            return self._value(node.name, value)
        return plain_argument(value)

    @staticmethod
    def _is_part(node):
        """Whether a node takes a part of what an operator returned."""
        return node.target is _GETITEM and isinstance(node.args[0].meta.get("val"), (tuple, list))

    def _value(self, name, value):
        """A reference to a value of a node, which the tables describe."""
        if isinstance(value, tessera.Tensor):
            self.tensors[name] = tensor_meta(value)
            return {"as_tensor": {"name": name}}
        if is_symbolic(value):
            kind = type(value).__name__
            table = {"SymInt": self.ints, "SymBool": self.bools, "SymFloat": self.floats}[kind]
            table[name] = {"as_expr": {"expr_str": text_of(value.node.expr), "hint": None}}
            return {
                {"SymInt": "as_sym_int", "SymBool": "as_sym_bool", "SymFloat": "as_sym_float"}[kind]: {"as_name": name}
            }
        if value is None:
            return {"as_none": True}
        raise TypeError(f"save: the node {name!r} gives a {type(value).__name__}, which has no form in files")

    def argument(self, value):
        """A node's argument."""
        if isinstance(value, Node):
            if value.op == "get_attr":
                return self._graph(value)
            return self._value(value.name, value.meta.get("val"))
        if isinstance(value, (list, tuple)):
            return self._list(list(value))
        if isinstance(value, dict):
            return {"as_string_to_argument": {key: self.argument(v) for key, v in value.items()}}
        return plain_argument(value)

    def _graph(self, node):
        inner = getattr(self.module, node.target)
        return {"as_graph": {"name": node.target, "graph": _GraphWriter(inner).write()}}

    def _list(self, values):
        kinds = {type(v) for v in values}
        for kind, name in ((int, "as_ints"), (bool, "as_bools"), (float, "as_floats"), (str, "as_strings")):
            if kinds <= {kind} and (kind is not float or all(v - v == 0 for v in values)):
                return {name: values}
        items = [self.argument(v) for v in values]
        forms = {next(iter(item)) for item in items}
        if forms == {"as_tensor"}:
            return {"as_tensors": [item["as_tensor"] for item in items]}
        if forms == {"as_tensor", "as_none"}:
            return {"as_optional_tensors": items}
        if forms <= {"as_int", "as_sym_int"}:
            return {"as_sym_ints": [item.get("as_sym_int", item) for item in items]}
        if forms == {"as_ints"}:
            return {"as_int_lists": values}
        return {"as_list": items}

    def _node(self, node):
        target = node.target
        return {
            "target": _target_name(target), "inputs": self._inputs(node), "outputs": self._outputs(node),
            "metadata": _metadata(node), "is_hop_single_tensor_return": None, "name": node.name,
        }  # fmt: skip

    def _inputs(self, node):
        schema = getattr(node.target, "_schema", None)
        known = [a.name for a in schema.arguments] if schema is not None else []
        found = [
            {"name": known[i] if i < len(known) else "", "arg": self.argument(a), "kind": 1}
            for i, a in enumerate(node.args)
        ]
        return found + [{"name": n, "arg": self.argument(a), "kind": 2} for n, a in node.kwargs.items()]

    def _outputs(self, node):
        value = node.meta.get("val")
        if not isinstance(value, (tuple, list)):
            return [] if value is None else [self._value(node.name, value)]
        parts = {n.args[1]: n.name for n in node.users if n.target is _GETITEM}
        named = [self._value(parts.get(i, f"{node.name}_unused_{i}"), v) for i, v in enumerate(value)]
        schema = getattr(node.target, "_schema", None)
        if schema is not None and len(schema.returns) == 1:
            return [{"as_tensors": [item["as_tensor"] for item in named]}]
        return named


def _target_name(target):
    if target in _NAME_OF:
        return _NAME_OF[target]
    if isinstance(target, tessera._ops.OpOverload):
        return f"torch.ops.{target.namespace}.{target.__name__}"
    if getattr(target, "namespace", None) == "higher_order":
        return f"torch.ops.higher_order.{target.__name__}"
    raise TypeError(f"save: a node calls {target!r}, which has no name in files")


def _metadata(node):
    found = {}
    if node.stack_trace:
        found["stack_trace"] = node.stack_trace
    stack = node.meta.get("nn_module_stack")
    if stack:
        found["nn_module_stack"] = ";".join(f"{key},{path},{kind}" for key, (path, kind) in stack.items())
    return found | custom_form(node.meta)


def custom_form(meta):
    """{"custom": text} of what a program has noted in meta["custom"] of a node or GraphModule."""
    if not meta.get("custom"):
        return {}
    try:
        return {"custom": json.dumps(meta["custom"])}
    except (TypeError, ValueError) as error:
        raise TypeError(f"save: meta['custom'] has to be made of JSON's types, but got {meta['custom']!r}") from error


def read_custom(data):
    """What custom_form has written, as an entry of meta."""
    return {"custom": json.loads(data["custom"])} if "custom" in data else {}


_INPUTS = {
    InputKind.PARAMETER: ("parameter", "parameter_name"), InputKind.BUFFER: ("buffer", "buffer_name"),
    InputKind.CONSTANT_TENSOR: ("tensor_constant", "tensor_constant_name"),
}  # fmt: skip
_OUTPUTS = {
    OutputKind.USER_OUTPUT: ("user_output", None), OutputKind.LOSS_OUTPUT: ("loss_output", None),
    OutputKind.BUFFER_MUTATION: ("buffer_mutation", "buffer_name"),
    OutputKind.PARAMETER_MUTATION: ("parameter_mutation", "parameter_name"),
    OutputKind.GRADIENT_TO_PARAMETER: ("gradient_to_parameter", "parameter_name"),
    OutputKind.GRADIENT_TO_USER_INPUT: ("gradient_to_user_input", "user_input_name"),
    OutputKind.USER_INPUT_MUTATION: ("user_input_mutation", "user_input_name"),
}  # fmt: skip


def _spec_argument(arg):
    """An argument class in a signature."""
    if isinstance(arg, ConstantArgument):
        return plain_argument(arg.value)
    by = {TensorArgument: "as_tensor", SymIntArgument: "as_sym_int", SymFloatArgument: "as_sym_float",
          SymBoolArgument: "as_sym_bool"}  # fmt: skip
    if type(arg) not in by:
        raise NotImplementedError(f"save: {type(arg).__name__} has no form in files")
    kind = by[type(arg)]
    return {kind: {"name" if kind == "as_tensor" else "as_name": arg.name}}


def _input_spec(spec):
    if spec.kind is InputKind.USER_INPUT:
        if isinstance(spec.arg, ConstantArgument):
            return {"constant_input": {"name": spec.arg.name, "value": plain_argument(spec.arg.value)}}
        return {"user_input": {"arg": _spec_argument(spec.arg)}}
    if spec.kind not in _INPUTS:
        raise NotImplementedError(f"save: inputs of kind {spec.kind.name} have no form in files")
    kind, target = _INPUTS[spec.kind]
    more = {"persistent": spec.persistent} if spec.kind is InputKind.BUFFER else {}
    return {kind: {"arg": {"name": spec.arg.name}, target: spec.target, **more}}


def _output_spec(spec):
    if spec.kind not in _OUTPUTS:
        raise NotImplementedError(f"save: outputs of kind {spec.kind.name} have no form in files")
    kind, target = _OUTPUTS[spec.kind]
    if target is None:
        return {kind: {"arg": _spec_argument(spec.arg)}}
    return {kind: {"arg": {"name": spec.arg.name}, target: spec.target}}


def _call_entry(entry):
    s = entry.signature
    if s is None:
        return {"fqn": entry.fqn, "signature": None}
    return {"fqn": entry.fqn, "signature": {
        "inputs": [_spec_argument(a) for a in s.inputs], "outputs": [_spec_argument(a) for a in s.outputs],
        "in_spec": pytree.treespec_dumps(s.in_spec), "out_spec": pytree.treespec_dumps(s.out_spec),
        "forward_arg_names": s.forward_arg_names,
    }}  # fmt: skip


def _range(vr):
    low, high = str(vr.lower), str(vr.upper)
    return {"min_val": None if "oo" in low else int(vr.lower), "max_val": None if "oo" in high else int(vr.upper)}


def program_to_dict(program, opset_version=None):
    """A program without its tensors as a dict of JSON's types."""
    if any(isinstance(s.arg, CustomObjArgument) for s in program.graph_signature.input_specs):
        raise NotImplementedError("save: objects of registered classes have no form in files")
    if any(isinstance(s.arg, TokenArgument) for s in program.graph_signature.input_specs):
        raise NotImplementedError("save: tokens have no form in files")
    signature = program.graph_signature
    return {
        "graph_module": {
            "graph": _GraphWriter(program.graph_module).write(),
            "signature": {
                "input_specs": [_input_spec(s) for s in signature.input_specs],
                "output_specs": [_output_spec(s) for s in signature.output_specs],
            },
            "module_call_graph": [_call_entry(e) for e in program.module_call_graph],
            "metadata": custom_form(program.graph_module.meta),
            "treespec_namedtuple_fields": {},
        },
        "opset_version": {**OPSET_VERSION, **(opset_version or {})},
        "range_constraints": {text_of(symbol): _range(vr) for symbol, vr in program.range_constraints.items()},
        "schema_version": SCHEMA_VERSION,
        "verifiers": [v.dialect for v in program.verifiers],
        "torch_version": str(tessera.__version__),
        "guards_code": list(program._guards_code),
    }
