"""Graphs of TorchScript, traced or scripted, into graphs of ONNX.

While nodes are written, the operators run on tensors without numbers: that gives shapes and dtypes.
"""

import functools
import math
import operator
import re

import tessera
from tessera.onnx import _model
from tessera.onnx._build import Value
from tessera.onnx._control import condition, loop
from tessera.onnx._translate import CHECKS, Cell, number, read, traits
from tessera.onnx._types import FLOAT, INT64
from tessera.onnx.errors import OnnxExporterError

_DTYPES = (
    "uint8 int8 int16 int32 int64 float16 float32 float64 complex32 complex64 complex128 bool "
    "qint8 quint8 qint32 bfloat16"
).split()  # as TorchScript numbers them
_LONGEST = 1024  # rounds of a loop of a known count that are written one after the other

_PLAIN = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "div": operator.truediv, "neg": operator.neg,
    "floordiv": operator.floordiv, "remainder": operator.mod, "pow": operator.pow, "eq": operator.eq,
    "ne": operator.ne, "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
    "__not__": operator.not_, "__and__": operator.and_, "__or__": operator.or_, "__xor__": operator.xor,
    "Int": int, "Float": float, "Bool": bool, "IntImplicit": int, "FloatImplicit": float, "ScalarImplicit": lambda x: x,
    "len": len, "__contains__": lambda c, x: x in c, "__getitem__": operator.getitem, "str": str, "abs": abs,
    "floor": math.floor, "ceil": math.ceil, "sqrt": math.sqrt, "exp": math.exp, "log": math.log, "round": round,
    "max": max, "min": min, "keys": lambda d: list(d), "values": lambda d: list(d.values()),
    "items": lambda d: list(d.items()), "format": lambda text, *a: text.format(*a), "list": list, "copy": list,
    "__is__": operator.is_, "__isnot__": operator.is_not, "slice": lambda x, a, b, s=1: x[a:b:s],
    "truediv": operator.truediv,
}  # fmt: skip
_SYMBOLIC = frozenset("add sub mul div neg floordiv remainder eq ne lt le gt ge".split())
_RENAMED = {"div": "truediv", "remainder": "mod", "__not__": "not_", "__and__": "and_", "__or__": "or_"}


@functools.lru_cache(maxsize=1024)
def _schema(text):
    from tessera._ops import FunctionSchema

    return FunctionSchema(text)


_OF_SIZES = {"add": "add", "sub": "sub", "mul": "mul", "floor_divide": "floordiv", "remainder": "remainder"}


class _Size(Cell):
    """A number that the program has as a tensor without dimensions: a size of a trace, or what was made of such."""

    __slots__ = ("number",)

    def __init__(self, value, number):
        super().__init__(value)
        self.number = number


class _Block:
    """A block of a graph: its nodes as pairs (node, blocks inside of it), names of its inputs and of its results."""

    def __init__(self, nodes, inputs, outputs):
        self.nodes, self.inputs, self.outputs = nodes, inputs, outputs


_HEADER = re.compile(r"^\s*block\d+\((.*)\):$")
_RETURN = re.compile(r"^\s*-> \((.*)\)$")
_NAME = re.compile(r"%([\w.]+)")


def _tree(graph):
    """A graph as blocks. What goes into inner blocks and comes out of them is known from the graph's text alone."""
    headers, returns, opened = [], {}, []
    for line in str(graph).splitlines():
        found = _HEADER.match(line)
        if found:
            opened.append(len(headers))
            headers.append(_NAME.findall(found[1]))
            continue
        found = _RETURN.match(line)
        if found and opened:
            returns[opened.pop()] = _NAME.findall(found[1])
    number = iter(range(len(headers)))

    def of(nodes):
        made = []
        for node in nodes:
            blocks = []
            for inner in node.blocks():
                i = next(number)
                blocks.append(_Block(of(inner.nodes()), headers[i], returns[i]))
            made.append((node, blocks))
        return made

    return _Block(of(graph.nodes()), [v.debugName() for v in graph.inputs()], [v.debugName() for v in graph.outputs()])


class _Object:
    """A module or other object of the program, by its path from the root."""

    def __init__(self, value, path):
        self.value, self.path = value, path

    def attribute(self, name):
        for kept in ("_modules", "_parameters", "_buffers"):  # before properties of the same name
            if name in getattr(self.value, kept, ()):
                return getattr(self.value, kept)[name], f"{self.path}.{name}" if self.path else name
        value = getattr(self.value, name)
        return value, f"{self.path}.{name}" if self.path else name


class Scripts:
    """Writes blocks of a TorchScript graph.

    Args:
        translator: Translator.
        graph: Graph to write into.
        mode: FakeTensorMode of the tensors that stand for values.
        env: {name of a TorchScript value: tree of cells and plain values}, shared with the blocks inside.
        made: {path: cell} of the parameters so far.
    """

    def __init__(self, translator, graph, mode, env, made):
        self.translator, self.graph, self.mode, self.env, self.made = translator, graph, mode, env, made
        self.model = translator.model

    def inside(self, graph):
        return Scripts(self.translator, graph, self.mode, self.env, self.made)

    def block(self, block):
        """Writes the nodes of a block or graph; its results."""
        for node, inner in block.nodes:
            before, self.model.origin = self.model.origin, self._origin(node)
            try:
                self._outputs(node, self._node(node, inner))
            finally:
                self.model.origin = before
        return [self.env[name] for name in block.outputs]

    def _origin(self, node):
        return f"{node.sourceRange()}\nnode {node.kind()}".strip()

    def _outputs(self, node, made):
        names = [v.debugName() for v in node.outputs()]
        if len(names) == 1:
            self.env[names[0]] = made
        else:
            for name, value in zip(names, made or ()):
                self.env[name] = value

    def _node(self, node, inner):
        kind = node.kind()
        space, _, name = kind.partition("::")
        args = [self.env[v.debugName()] for v in node.inputs()]
        if inner:
            return self._if(inner, args) if name == "If" else self._loop(*inner, args)
        if kind == "prim::SetAttr":
            raise self.translator.unsupported(kind, "the program assigns to an attribute of a module")
        if kind == "prim::RaiseException":
            raise OnnxExporterError(f"export: the program raises an error: {args[0]}\n{self.model.origin}")
        if space == "prim":
            special = getattr(self, "_prim_" + name, None)
            if special is not None:
                return special(node, args)
        if name in CHECKS or name.startswith("_record_function"):
            return None
        special = getattr(self, "_aten_" + name, None)
        if special is not None:
            made = special(*args)
            if made is not NotImplemented:
                return made
        text = str(node.schema())
        if text.startswith("(no"):
            return self._of_numbers(name, args)
        schema = _schema(text)
        returned = [str(r.type) for r in schema.returns]
        if not any("Tensor" in t for t in returned) or not self._tensors(args):
            return self._of_numbers(name, args)
        if name in _OF_SIZES and all(isinstance(a, (_Size, int)) for a in args[:2]) and args[2:] in ([], [1]):
            numbers = [a.number if isinstance(a, _Size) else a for a in args[:2]]
            return self._size_tensor(self._of_numbers(_OF_SIZES[name], numbers))
        sizes = [a for a in args if isinstance(a, _Size)]
        if sizes and not any(isinstance(a.number, Value) for a in sizes) and len(returned) == 1:
            plain = [tessera.tensor(a.number) if isinstance(a, _Size) else a for a in args]
            if not any(isinstance(a, (Cell, list)) for a in plain):
                return self._known(kind, schema, plain)
        return self._operator(kind, schema, args)

    def _known(self, kind, schema, args):
        """What an operator makes of numbers that are known."""
        named = {a.name: v for a, v in zip(schema.arguments, args)}
        for a in schema.arguments:
            if isinstance(named.get(a.name), int) and "ScalarType" in str(a.type):
                named[a.name] = getattr(tessera, _DTYPES[named[a.name]])
        made = self._op(kind, schema)(**named)
        return _Size(self._constant(made).read(), made.item())

    def _tensors(self, tree):
        if isinstance(tree, (list, tuple)):
            return any(self._tensors(t) for t in tree)
        if isinstance(tree, Value):
            return True
        return isinstance(tree, (Cell, tessera.Tensor)) or not isinstance(tree, (dict, _Object))

    def _of_numbers(self, name, args):
        values = read(args)
        if not any(isinstance(v, Value) for v in values):
            function = _PLAIN.get(name)
            if function is not None:
                return function(*args)
        elif name in ("__is__", "__isnot__"):
            return name == "__isnot__"
        elif name == "__getitem__" and not isinstance(values[1], Value):
            return args[0][values[1]]
        elif name in ("len",):
            return len(args[0])
        else:
            made = number(self.graph, _RENAMED.get(name, name), [v for v in values])
            if made is not None:
                made.val = self._number_val(name, values)
                return made
        raise self.translator.unsupported(f"prim::{name}" if name not in _PLAIN else f"aten::{name}")

    def _number_val(self, name, values):
        """What is known of a number: a symbol."""
        known = [v.val if isinstance(v, Value) else v for v in values]
        if name in ("Int", "IntImplicit", "ScalarImplicit"):
            return known[0]
        if name in _SYMBOLIC and not any(v is None or isinstance(v, tessera.Tensor) for v in known):
            return _PLAIN[name](*known)
        return None

    def _operator(self, kind, schema, args):
        named = {}
        for argument, value in zip(schema.arguments, args):
            if isinstance(value, int) and "ScalarType" in str(argument.type):
                value = getattr(tessera, _DTYPES[value])
            elif isinstance(value, int) and "MemoryFormat" in str(argument.type):
                value = (tessera.contiguous_format, tessera.preserve_format, tessera.channels_last,
                         tessera.channels_last_3d)[value]  # fmt: skip
            named[argument.name] = value
        out = self._fake(kind, schema, named)
        mutable, view = traits(schema)
        positional = [named[a.name] for a in schema.arguments if a.name in named]
        return self.translator.apply(self.graph, kind, named, out, mutable=mutable, view=view,
                                     op=self._op(kind, schema), positional=(positional, {}))  # fmt: skip

    def _op(self, kind, schema):
        space, _, name = kind.partition("::")
        try:
            return getattr(getattr(getattr(tessera.ops, space), name), schema.overload_name or "default")
        except AttributeError:
            return None

    def _fake(self, kind, schema, named):
        """The result on tensors without numbers; None if it cannot be had."""
        op = self._op(kind, schema)
        if op is None:
            return None
        unknown = object()

        def known(v):
            if isinstance(v, (Value, Cell)):
                found = v.known if isinstance(v, Cell) else v.val
                return unknown if found is None else found
            if isinstance(v, (list, tuple)):
                made = [known(e) for e in v]
                return unknown if any(m is unknown for m in made) else made
            return v

        values = {k: known(v) for k, v in named.items()}
        if any(v is unknown for v in values.values()):
            return None

        keywords = {a.name for a in schema.arguments if a.kwarg_only}

        def run():
            with self.mode, tessera.no_grad():
                return op(*[v for k, v in values.items() if k not in keywords],
                          **{k: v for k, v in values.items() if k in keywords})  # fmt: skip

        try:
            return run()
        except IndexError:  # an index that is a number of the graph: any one will do
            values = {k: 0 if isinstance(v, tessera.SymInt) else v for k, v in values.items()}
            return run()

    # --- prim ---

    def _prim_Constant(self, node, args):
        value = node.output().toIValue()
        return self._constant(value)

    def _constant(self, value):
        if isinstance(value, tessera.Tensor):
            fake = self.mode.from_tensor(value.detach(), static_shapes=True)
            return Cell(self.model.initializer("const", value.detach(), fake))
        if isinstance(value, (list, tuple)):
            return type(value)(self._constant(v) for v in value)
        return value

    def _prim_GetAttr(self, node, args):
        value, path = args[0].attribute(node.s("name"))
        if isinstance(value, tessera.Tensor):
            if path not in self.made:
                fake = self.mode.from_tensor(value.detach(), static_shapes=True)
                self.made[path] = Cell(self.model.initializer(path, value.detach(), fake))
            return self.made[path]
        plain = isinstance(value, (bool, int, float, str, list, tuple, dict, type(None)))
        return self._constant(value) if plain else _Object(value, path)

    def _prim_ListConstruct(self, node, args):
        return list(args)

    def _prim_TupleConstruct(self, node, args):
        return tuple(args)

    def _prim_DictConstruct(self, node, args):
        return dict(zip(args[::2], args[1::2]))

    def _prim_ListUnpack(self, node, args):
        return args[0] if len(list(node.outputs())) > 1 else args[0][0]

    _prim_TupleUnpack = _prim_ListUnpack

    def _prim_TupleIndex(self, node, args):
        return args[0][args[1]]

    def _prim_Uninitialized(self, node, args):
        return None

    def _prim_Print(self, node, args):
        return None

    def _same(self, node, args):
        return args[0]

    _prim_unchecked_cast = _prim_unchecked_unwrap_optional = _prim_Guard = _prim_data = _same

    def _prim_NumToTensor(self, node, args):
        return self._size_tensor(read(args[0]))

    def _size_tensor(self, number):
        if not isinstance(number, Value):
            return _Size(self._constant(tessera.tensor(number)).read(), number)
        with self.mode:
            fake = tessera.empty((), dtype=number.dtype)
        made = self.graph.Identity(number)
        made.val = fake
        return _Size(made, number)

    def _prim_dtype(self, node, args):
        return _DTYPES.index(str(read(args[0]).dtype).rpartition(".")[2])

    def _prim_device(self, node, args):
        return tessera.device("cpu")

    def _prim_layout(self, node, args):
        return 0

    def _prim_shape(self, node, args):
        return self._aten_size(args[0])

    def _prim_max(self, node, args):
        return self._of_numbers("max", args)

    def _prim_min(self, node, args):
        return self._of_numbers("min", args)

    def _prim_is_cuda(self, node, args):
        return False

    _prim_requires_grad = _prim_is_sparse = _prim_is_quantized = _prim_is_mkldnn = _prim_is_cuda

    def _if(self, blocks, args):
        pred = read(args[0])
        raising = [any(n.kind() == "prim::RaiseException" for n, _ in b.nodes) for b in blocks]
        if isinstance(pred, Value) and any(raising) and not all(raising):
            pred = raising[1]
        if not isinstance(pred, Value):
            return self._alone(self.block(blocks[0] if pred else blocks[1]))
        plain = [None, None]

        def branch(i):
            def write(graph):
                found = read(self.inside(graph).block(blocks[i]))
                plain[i] = found
                return [graph.value(v) if isinstance(v, (Value, bool, int, float)) else graph.value(0) for v in found]

            return write

        kept = dict(self.env)
        values = condition(self.graph, pred, branch(0), branch(1))
        self.env = kept
        made = []
        for value, one, two in zip(values, *plain):
            if any(isinstance(v, (list, tuple, dict, str)) for v in (one, two)):
                raise self.translator.unsupported("prim::If", "its branches give lists or texts")
            both_plain = not isinstance(one, Value) and not isinstance(two, Value)
            if both_plain and one == two:
                made.append(one)
            else:
                tensor = any(isinstance(v, Value) and isinstance(v.val, tessera.Tensor) for v in (one, two))
                made.append(Cell(value) if tensor else value)
        return self._alone(made)

    def _alone(self, values):
        return values[0] if len(values) == 1 else values

    def _loop(self, body, args):
        names, (count, going, *carried) = body.inputs, args
        count, going = read(count), read(going)
        if not isinstance(count, Value) and not isinstance(going, Value) and (count <= _LONGEST or _while(count)):
            return self._unrolled(body, names, count, going, carried)
        values = [self.graph.value(v) for v in read(carried)]
        kept = dict(self.env)

        def write(graph, step, states):
            inner = self.inside(graph)
            self.env[names[0]] = step
            step.val = self.mode.shape_env.create_unbacked_symint()
            for name, state, old in zip(names[1:], states, carried):
                self.env[name] = Cell(state) if isinstance(old, Cell) else state
            go_on, *after = inner.block(body)
            go_on = read(go_on)
            return (None if go_on is True else graph.value(go_on)), [graph.value(v) for v in read(after)]

        limit = None if not isinstance(count, Value) and _while(count) else count
        made = loop(self.graph, limit, going, values, write)
        self.env = kept
        return self._alone([Cell(m) if isinstance(c, Cell) else m for m, c in zip(made, carried)])

    def _unrolled(self, body, names, count, going, carried):
        i = 0
        while i < count and going:
            self.env[names[0]] = i
            self.env.update(zip(names[1:], carried))
            going, *carried = self.block(body)
            going, i = read(going), i + 1
            if isinstance(going, Value) or i > _LONGEST:
                raise self.translator.unsupported("prim::Loop", "it ends by a condition that depends on tensors, after "
                                                  "rounds that do not")  # fmt: skip
        return self._alone(list(carried))

    # --- aten that is no operator on tensors ---

    def _aten_size(self, x, dim=None):
        if not isinstance(x, Cell):
            return NotImplemented
        value = x.read()
        found = [self._sized(value, i) for i in ([read(dim)] if dim is not None else range(value.rank))]
        return found if dim is None else found[0]

    def _sized(self, x, dim):
        found = self.graph.dim(x, dim)
        if isinstance(found, Value) and found.val is None:
            found.val = x.shape[dim]
        return found

    def _aten_dim(self, x):
        return x.read().rank

    def _aten_numel(self, x):
        return (
            math.prod(x.read().shape) if all(isinstance(s, int) for s in x.read().shape) else self.graph.Size(x.read())
        )

    def _aten_is_floating_point(self, x):
        return x.read().dtype.is_floating_point

    def _aten_append(self, items, item):
        items.append(item)
        return items

    def _aten_item(self, x):
        value = x.read()
        made = self.graph.Identity(value if value.shape == () else self.graph.reshape(value, []))
        if value.dtype in (INT64, FLOAT):
            with self.mode:
                made.val = tessera.ops.aten.item.default(value.val)
        return made

    def _aten_tensor(self, data, *rest):
        dtype = None if not rest or rest[0] is None else getattr(tessera, _DTYPES[rest[0]])
        data = read(data)
        flat = data if isinstance(data, list) else [data]
        if not any(isinstance(v, Value) for v in flat):
            return self._constant(tessera.tensor(data, dtype=dtype))
        made = self.graph.ints(data) if isinstance(data, list) else data
        dtype = made.dtype if dtype is None else dtype
        with self.mode:
            fake = tessera.empty((len(data),) if isinstance(data, list) else (), dtype=dtype)
        made = self.graph.Identity(self.graph.to(made, dtype))
        made.val = fake
        return Cell(made)

    _aten_as_tensor = _aten_tensor

    def _aten_narrow(self, x, dim, start, length):
        if not isinstance(start, _Size):
            return NotImplemented
        schema = _schema("aten::narrow(Tensor(a) self, int dim, SymInt start, SymInt length) -> Tensor(a)")
        return self._operator("aten::narrow", schema, [x, dim, start.number, length])

    def _aten_Int(self, x):
        if isinstance(x, _Size):
            return x.number
        return self._aten_item(x) if isinstance(x, Cell) else NotImplemented

    def _aten_Float(self, x):
        return float(x.number) if isinstance(x, _Size) and isinstance(x.number, int) else self._aten_Bool(x)

    _aten_IntImplicit = _aten_ScalarImplicit = _aten_Int
    _aten_FloatImplicit = _aten_Float

    def _aten_Bool(self, x):
        return self._aten_item(x) if isinstance(x, Cell) else NotImplemented


def _while(count):
    return count >= 2**31 - 1


def write(translator, model, args, kwargs, input_names, dynamic_axes):
    """Writes a scripted or traced module or function, and its inputs and results. Returns {symbol: name of a size}."""
    from tessera._subclasses.fake_tensor import FakeTensorMode
    from tessera.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv, StatelessSymbolicContext

    script = model.inlined_graph if hasattr(model, "inlined_graph") else model.graph
    mode = FakeTensorMode(shape_env=ShapeEnv(), allow_non_fake_inputs=True)
    inputs, env, axes = list(script.inputs()), {}, {}
    if isinstance(model, tessera.nn.Module):
        env[inputs.pop(0).debugName()] = _Object(model, "")
    given = list(args) + [kwargs[v.debugName()] for v in inputs[len(args) :] if v.debugName() in kwargs]
    if len(given) < len(inputs):
        given += [None] * (len(inputs) - len(given))
    graph, place = translator.model.graph, 0

    def entered(name, value):
        nonlocal place
        if isinstance(value, tessera.Tensor):
            known = input_names[place] if input_names and place < len(input_names) else name
            place += 1
            spec = (dynamic_axes or {}).get(known, (dynamic_axes or {}).get(name, ()))
            kinds = [DimDynamic.DYNAMIC if i in spec or i - value.dim() in spec else DimDynamic.STATIC
                     for i in range(value.dim())]  # fmt: skip
            fake = mode.from_tensor(value.detach(), symbolic_context=StatelessSymbolicContext(dynamic_sizes=kinds))
            for i in spec:
                named = spec[i] if isinstance(spec, dict) else f"{known}_dynamic_axes_{i}"
                axes.setdefault(str(fake.shape[i]), named)
            return Cell(graph.input(name, value.dtype, fake))
        if isinstance(value, (list, tuple)):
            return type(value)(entered(f"{name}_{i}", v) for i, v in enumerate(value))
        if isinstance(value, dict):
            return {k: entered(f"{name}_{k}", v) for k, v in value.items()}
        return value

    for v, value in zip(inputs, given):
        env[v.debugName()] = entered(v.debugName(), value)
    results = Scripts(translator, graph, mode, env, {}).block(_tree(script))
    _model.outputs_of(graph, [v for v in _leaves(read(results)) if v is not None])
    return axes


def _leaves(tree):
    if isinstance(tree, dict):
        tree = list(tree.values())
    if isinstance(tree, (list, tuple)):
        return [v for t in tree for v in _leaves(t)]
    return [tree]
