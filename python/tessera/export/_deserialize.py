"""Programs from JSON. Nothing that a file says is trusted: names are checked before they become part of generated code,
operators are looked up and never imported, and the result is verified."""

import keyword
import operator
import re

import tessera
from tessera.export import _serialize as forms
from tessera.export.exported_program import ExportedProgram, ModuleCallEntry, ModuleCallSignature
from tessera.export.graph_signature import (
    ConstantArgument, ExportGraphSignature, InputKind, InputSpec, OutputKind, OutputSpec, SymBoolArgument,
    SymFloatArgument, SymIntArgument, TensorArgument,
)  # fmt: skip
from tessera.fx.graph import Graph
from tessera.fx.graph_module import GraphModule
from tessera.utils import _pytree as pytree

_PATH = re.compile(r"[^\s\"'\\(){}\[\];=]+")
_SYMBOL = re.compile(r"[a-z]+\d+")


def _identifier(name):
    if not isinstance(name, str) or not name.isidentifier() or keyword.iskeyword(name):
        raise ValueError(f"{name!r} is no name of a value")
    return name


def _path(path):
    if not isinstance(path, str) or not _PATH.fullmatch(path):
        raise ValueError(f"{path!r} is no path of a parameter or buffer")
    return path


def _target(name):
    """The operator of a name."""
    if name in forms.FUNCTIONS:
        return forms.FUNCTIONS[name]
    parts = name.split(".")
    if parts[:2] != ["torch", "ops"] or len(parts) not in (4, 5):
        raise ValueError(f"{name!r} is no operator")
    found = getattr(tessera.ops, _identifier(parts[2]))
    for part in parts[3:]:
        found = getattr(found, _identifier(part))
    is_higher = getattr(found, "namespace", None) == "higher_order" and parts[2] == "higher_order"
    if not isinstance(found, tessera._ops.OpOverload) and not is_higher:
        raise ValueError(f"{name!r} is no operator")
    return found


class _Values:
    """What stands for tensors and symbols of a program's graphs."""

    def __init__(self, ranges):
        from tessera.export._loaded_symbols import LoadedSymbols

        self.symbols = LoadedSymbols(ranges)
        self.mode = self.symbols.mode

    def tensor(self, data):
        size = self.symbols.size
        sizes, strides = [size(n) for n in data["sizes"]], [size(n) for n in data["strides"]]
        offset = data["storage_offset"]
        dtype, device = forms.dtype_of(data["dtype"]), forms.read_device(data["device"])
        layout = forms.layout_of(data["layout"])
        with self.mode:
            if layout is not tessera.strided:
                return tessera.empty(sizes, dtype=dtype, device=device, layout=layout)
            made = self.symbols.tensor(sizes, strides, size(offset), dtype, device)
            if made is not None:
                return made.requires_grad_() if data["requires_grad"] and dtype.is_floating_point else made
            made = tessera.empty_strided(sizes, strides, dtype=dtype, device=device)
            fixed = all(type(n) is int for n in (*sizes, *strides))
            if offset != {"as_int": 0} and "as_int" in offset and fixed and all(sizes):
                extent = size(offset) + 1 + sum((n - 1) * s for n, s in zip(sizes, strides))
                whole = tessera.empty(extent, dtype=dtype, device=device)
                made = whole.as_strided(sizes, strides, size(offset))
        return made.requires_grad_() if data["requires_grad"] and dtype.is_floating_point else made


class _GraphReader:
    """One graph."""

    def __init__(self, data, values, names):
        self.data, self.values = data, values
        self.graph, self.root = Graph(), tessera.nn.Module()
        self.nodes, self.names = {}, names

    def read(self):
        """The GraphModule of the graph."""
        data = self.data
        for name, item in zip(self.names, data["inputs"]):
            node = self.graph.placeholder(_identifier(name))
            node.target = node.name
            self._define(name, node, self._input(item))
        for item in data["nodes"]:
            self._node(item)
        results = [self.argument(item) for item in data["outputs"]]
        self.graph.output(results[0] if data["is_single_tensor_return"] else tuple(results))
        return GraphModule(self.root, self.graph)

    def _define(self, name, node, value):
        if node.name != name or name in self.nodes:
            raise ValueError(f"two values have the name {name!r}")
        self.nodes[name] = node
        node.meta["val"] = value
        if isinstance(value, tessera.Tensor):
            from tessera.fx.passes.shape_prop import _extract_tensor_metadata

            node.meta["tensor_meta"] = _extract_tensor_metadata(value)

    def _input(self, item):
        return self._known(item) if next(iter(item)) in _NAMED else forms.read_plain_argument(item)

    def _known(self, item):
        """What stands for a value that a reference names."""
        ((kind, reference),) = item.items()
        data, symbols = self.data, self.values.symbols
        if kind == "as_tensor":
            return self.values.tensor(data["tensor_values"][reference["name"]])
        if kind == "as_none":
            return None
        table = {"as_sym_int": "sym_int_values", "as_sym_bool": "sym_bool_values", "as_sym_float": "sym_float_values"}
        return symbols.value(data[table[kind]][reference["as_name"]], kind)

    def argument(self, item):
        """A node's argument."""
        ((kind, value),) = item.items()
        if kind == "as_tensor":
            return self.nodes[value["name"]]
        if kind in ("as_sym_int", "as_sym_bool", "as_sym_float"):
            return self._symbolic(value)
        if kind == "as_tensors":
            return [self.nodes[v["name"]] for v in value]
        if kind in ("as_optional_tensors", "as_list"):
            return [self.argument(v) for v in value]
        if kind in ("as_sym_ints", "as_sym_floats", "as_sym_bools"):
            return [self._symbolic(v) for v in value]
        if kind in _LISTS:
            if not all(type(v) in _LISTS[kind] for v in value):
                raise ValueError(f"expected {kind}, got {value!r}")
            return list(value)
        if kind == "as_int_lists":
            return [self.argument({"as_ints": v}) for v in value]
        if kind == "as_string_to_argument":
            return {str(key): self.argument(v) for key, v in value.items()}
        if kind == "as_operator":
            return _target(value)
        if kind == "as_graph":
            return self._inner(value)
        return forms.read_plain_argument(item)

    def _symbolic(self, value):
        if "as_name" in value:
            return self.nodes[value["as_name"]]
        return forms.read_plain_argument(value)

    def _inner(self, value):
        name, data = _identifier(value["name"]), value["graph"]
        names = [
            next(iter(item.values())).get("name") or next(iter(item.values()))["as_name"] for item in data["inputs"]
        ]
        self.root.add_module(name, _GraphReader(data, self.values, names).read())
        return self.graph.get_attr(name)

    def _node(self, item):
        target = _target(item["target"])
        args = tuple(self.argument(i["arg"]) for i in item["inputs"] if i["kind"] != 2)
        kwargs = {_identifier(i["name"]): self.argument(i["arg"]) for i in item["inputs"] if i["kind"] == 2}
        _check_call(target, args, kwargs)
        if getattr(target, "namespace", None) == "higher_order":
            args = tuple(tuple(a) if isinstance(a, list) else a for a in args)
        name = _identifier(item["name"])
        node = self.graph.call_function(target, args, kwargs, name=name)
        node.meta.update(_read_metadata(item["metadata"]))
        outputs = item["outputs"]
        parts = self._parts(target, outputs)
        if parts is None:
            self._define(name, node, self._known(outputs[0]) if outputs else None)
            return
        if node.name != name:
            raise ValueError(f"two values have the name {name!r}")
        node.meta["val"] = tuple(map(self._known, parts))
        for i, part in enumerate(parts):
            self._part(node, i, part)

    def _parts(self, target, outputs):
        """References of the parts of what an operator returns, or None if it is no tuple."""
        schema = getattr(target, "_schema", None)
        if outputs and "as_tensors" in outputs[0]:
            return [{"as_tensor": reference} for reference in outputs[0]["as_tensors"]]
        several = len(outputs) > 1 or getattr(target, "namespace", None) == "higher_order"
        return list(outputs) if several and not (schema is not None and len(schema.returns) < 2) else None

    def _part(self, node, i, item):
        ((kind, reference),) = item.items()
        if kind == "as_none":
            return
        name = reference.get("name") or reference.get("as_name")
        if "_unused_" in name:
            return
        made = self.graph.create_node("call_function", operator.getitem, (node, i), {}, _identifier(name))
        for key in ("stack_trace", "nn_module_stack", "custom"):
            if key in node.meta:
                made.meta[key] = node.meta[key]
        self._define(name, made, node.meta["val"][i])


def _check_call(target, args, kwargs):
    schema = getattr(target, "_schema", None)
    if schema is None:
        return
    if len(args) > len(schema.arguments) or not set(kwargs) <= {a.name for a in schema.arguments}:
        raise ValueError(f"{target} does not take {len(args)} arguments and {sorted(kwargs)}")


_NAMED = ("as_tensor", "as_sym_int", "as_sym_bool", "as_sym_float")
_LISTS = {"as_ints": (int,), "as_bools": (bool,), "as_floats": (float, int), "as_strings": (str,)}


def _read_metadata(data):
    found = {}
    if "stack_trace" in data:
        found["stack_trace"] = str(data["stack_trace"])
    if data.get("nn_module_stack"):
        rows = [row.split(",") for row in data["nn_module_stack"].split(";")]
        found["nn_module_stack"] = {row[0]: (row[1], ",".join(row[2:])) for row in rows if len(row) > 2}
    return found | forms.read_custom(data)


def _spec_argument(item):
    ((kind, value),) = item.items()
    by = {"as_sym_int": SymIntArgument, "as_sym_float": SymFloatArgument, "as_sym_bool": SymBoolArgument}
    if kind == "as_tensor":
        return TensorArgument(_identifier(value["name"]))
    if kind in by and "as_name" in value:
        return by[kind](_identifier(value["as_name"]))
    return ConstantArgument("", forms.read_plain_argument(value if kind in by else item))


_INPUT_KINDS = {kind: (of, target) for of, (kind, target) in forms._INPUTS.items()}
_OUTPUT_KINDS = {kind: (of, target) for of, (kind, target) in forms._OUTPUTS.items()}


def _input_spec(item):
    ((kind, value),) = item.items()
    if kind == "user_input":
        return InputSpec(InputKind.USER_INPUT, _spec_argument(value["arg"]), None)
    if kind == "constant_input":
        arg = ConstantArgument(_identifier(value["name"]), forms.read_plain_argument(value["value"]))
        return InputSpec(InputKind.USER_INPUT, arg, None)
    of, target = _INPUT_KINDS[kind]
    persistent = bool(value["persistent"]) if of is InputKind.BUFFER else None
    return InputSpec(of, TensorArgument(_identifier(value["arg"]["name"])), _path(value[target]), persistent)


def _output_spec(item):
    ((kind, value),) = item.items()
    of, target = _OUTPUT_KINDS[kind]
    if target is None:
        return OutputSpec(of, _spec_argument(value["arg"]), None)
    checked = _identifier if of is OutputKind.USER_INPUT_MUTATION else _path
    return OutputSpec(of, TensorArgument(_identifier(value["arg"]["name"])), checked(value[target]))


def _call_entry(item):
    fqn, s = item["fqn"], item["signature"]
    if fqn != "":
        _path(fqn)
    if s is None:
        return ModuleCallEntry(fqn, None)
    arguments = s["forward_arg_names"]
    in_spec = pytree.treespec_loads(s["in_spec"])
    positional, keywords = in_spec.children()
    if positional.type is not tuple or keywords.type is not dict:
        raise ValueError(f"expected the structure of (args, kwargs), got {in_spec}")
    for name in (*keywords.context, *(arguments or ())):
        _identifier(name)
    return ModuleCallEntry(fqn, ModuleCallSignature(
        [_spec_argument(a) for a in s["inputs"]], [_spec_argument(a) for a in s["outputs"]], in_spec,
        pytree.treespec_loads(s["out_spec"]), None if arguments is None else list(arguments),
    ))  # fmt: skip


def program_of_dict(data, state_dict, constants, example_inputs):
    """The program of program_to_dict, with its tensors. Errors of many kinds if the data are no program."""
    if data["schema_version"]["major"] != forms.SCHEMA_VERSION["major"]:
        raise RuntimeError(
            f"the program is of schema version {data['schema_version']}; this version reads {forms.SCHEMA_VERSION}"
        )
    for path in (*state_dict, *constants):
        _path(path)
    inner = data["graph_module"]
    signature = ExportGraphSignature(
        [_input_spec(s) for s in inner["signature"]["input_specs"]],
        [_output_spec(s) for s in inner["signature"]["output_specs"]],
    )
    values = _Values(data["range_constraints"])
    if len(signature.input_specs) != len(inner["graph"]["inputs"]):
        raise ValueError("the signature has another number of inputs than the graph")
    module = _GraphReader(inner["graph"], values, [s.arg.name for s in signature.input_specs]).read()
    module.meta.update(forms.read_custom(inner.get("metadata") or {}))
    program = ExportedProgram(
        module, module.graph, signature, state_dict, values.symbols.ranges(),
        [_call_entry(e) for e in inner["module_call_graph"]],
        example_inputs, constants, verifiers=[tessera._export.verifier.load_verifier(d) for d in data["verifiers"]],
    )  # fmt: skip
    program._guards_code = [values.symbols.condition(text) for text in data["guards_code"]]
    return program
