"""Graphs of ONNX while they are written: values with their types, and a function for every operator of ONNX."""

import tessera
from tessera.onnx import _wire
from tessera.onnx._types import BOOL, FLOAT, INT64, TO_ONNX
from tessera.onnx.errors import UnsupportedOperatorError

_OF_BOOL = frozenset(
    "Equal Less Greater LessOrEqual GreaterOrEqual Not And Or Xor IsNaN IsInf StringNormalizer".split()
)
_OF_INT64 = frozenset("Shape Size NonZero ArgMax ArgMin".split())
# What operators of numbers are for truths, which ONNX's own do not take: another one, or themselves on whole numbers.
_OF_TRUTHS = {"Mul": "And", "Min": "And", "Add": "Or", "Max": "Or"}
_ORDERS = frozenset("Less Greater LessOrEqual GreaterOrEqual".split())
# Operators without whole numbers of 8 and 16 bits (before operator set 14 the second ones, too), and those without any.
_WIDE = frozenset("MatMul Gemm CumSum Pow ReduceSum ReduceProd ReduceMean ReduceL1 ReduceL2 ReduceSumSquare".split())
_WIDE_BEFORE_14 = frozenset("Add Sub Mul Div".split())
_NARROW = frozenset((tessera.int8, tessera.uint8, tessera.int16))
_OF_FLOATS = frozenset(
    "Conv ConvTranspose AveragePool InstanceNormalization BatchNormalization LayerNormalization LRN Softmax LogSoftmax "
    "Exp Log Sqrt Erf Sigmoid Tanh GridSample".split()
)
_ROUNDINGS = frozenset("Ceil Floor Round".split())
RANDOM = frozenset("RandomNormal RandomNormalLike RandomUniform RandomUniformLike Bernoulli Multinomial".split())


class Value:
    """A value of a graph.

    Attributes:
        graph: the Graph that makes it.
        name: unique in the model.
        dtype: of its elements.
        val: what the trace knows of it: a tensor (of which shape and dtype are read), or a symbolic number; None for
            what a translation makes on the way.
        node: the Node that gives it; None for inputs and initializers.
        note: what translations of later operators may want to know of its origin.
    """

    __slots__ = ("graph", "name", "dtype", "val", "node", "note")

    def __init__(self, graph, name, dtype, val=None, node=None):
        self.graph, self.name, self.dtype, self.val, self.node, self.note = graph, name, dtype, val, node, None

    @property
    def shape(self):
        """Sizes (numbers, symbolic where they may differ), None if not known."""
        if isinstance(self.val, tessera.Tensor):
            return tuple(self.val.shape)
        return None if self.val is None else ()

    @property
    def rank(self):
        shape = self.shape
        if shape is None:
            raise RuntimeError(f"the number of dimensions of {self.name!r} is not known here")
        return len(shape)

    def __repr__(self):
        return f"%{self.name}"

    def type(self):
        """The value's type, as symbolic functions of the older exporter ask for it."""
        return _ValueType(self)

    def __neg__(self):
        return self.graph.op("Neg", self)


class Missing:
    """What stands for a result of an operator that its translation does not make."""

    __slots__ = ("operator", "which")

    def __init__(self, operator, which):
        self.operator, self.which = operator, which


def _arithmetic(op, swap):
    def method(self, other):
        if not isinstance(other, (Value, int, float)):
            return NotImplemented
        return self.graph.op(op, *((other, self) if swap else (self, other)), dtype=self.dtype)

    return method


for _sign, _op in (("add", "Add"), ("sub", "Sub"), ("mul", "Mul"), ("truediv", "Div"), ("pow", "Pow")):
    setattr(Value, f"__{_sign}__", _arithmetic(_op, False))
    setattr(Value, f"__r{_sign}__", _arithmetic(_op, True))


class _ValueType:
    def __init__(self, value):
        self._value = value

    def sizes(self):
        shape = self._value.shape
        return None if shape is None else [d if isinstance(d, int) else None for d in shape]

    def dim(self):
        return None if self._value.shape is None else len(self._value.shape)

    def dtype(self):
        return self._value.dtype

    def scalarType(self):
        from tessera.onnx._types import JitScalarType

        return JitScalarType.from_dtype(self._value.dtype).scalar_name()


def alike_in_shape(one, two):
    """Whether two values have the same sizes whatever those are that may differ."""
    if one.shape is None or two.shape is None or len(one.shape) != len(two.shape):
        return False
    return all(type(p) is type(q) and str(p) == str(q) for p, q in zip(one.shape, two.shape))


class Node:
    __slots__ = ("op", "domain", "inputs", "outputs", "attrs", "origin", "metadata")

    def __init__(self, op, domain, inputs, outputs, attrs, origin):
        self.op, self.domain, self.inputs, self.outputs = op, domain, inputs, outputs
        self.attrs, self.origin, self.metadata = attrs, origin, None


class Model:
    """What the graphs of a model share: names, constants, initializers and the versions of operator sets."""

    def __init__(self, opset, custom=None):
        self.opset = opset
        self.domains = {"": opset}
        self.names, self._counts = {}, {}
        self.initializers = {}  # name -> (Value, tensor); tensor None: not stored
        self._constants = {}
        self.origin = None  # text about the program's operator that is being translated
        self.custom = custom or {}
        self.functions = {}  # (domain, name) -> FunctionProto, as bytes or Message
        self.graph = Graph(self)

    def unique(self, hint):
        """A name that no value of the model has."""
        if hint not in self.names:
            return hint
        n = self._counts.get(hint, 0)
        while True:
            n += 1
            if f"{hint}_{n}" not in self.names:
                self._counts[hint] = n
                return f"{hint}_{n}"

    def rename(self, value, name):
        """Gives a value this very name; another one that has it gets a new one."""
        other = self.names.get(name)
        if other is value:
            return
        if other is not None:
            other.name = self.unique(name)
            self.names[other.name] = other
            self._moved(name, other)
        if self.names.get(value.name) is value:
            del self.names[value.name]
        before, value.name = value.name, name
        self.names[name] = value
        self._moved(before, value)

    def _moved(self, before, value):
        found = self.initializers.get(before)
        if found is not None and found[0] is value:
            self.initializers = {v.name: (v, t) for v, t in self.initializers.values()}

    def initializer(self, name, tensor, val=None, dtype=None):
        """A named tensor of the model."""
        value = Value(self.graph, self.unique(name), tensor.dtype if dtype is None else dtype, val)
        if val is None:
            value.val = tensor
        self.names[value.name] = value
        self.initializers[value.name] = (value, tensor)
        return value

    def constant(self, data, dtype):
        """A constant of numbers (a number or a list of numbers)."""
        key = (repr(data), dtype)  # repr: 0.0 and -0.0 differ, 1 and True do
        found = self._constants.get(key)
        if found is None:
            with _plain():
                tensor = tessera.tensor(data, dtype=dtype)
            found = self._constants[key] = self.initializer("const", tensor)
        return found


def _plain():
    from tessera.utils._python_dispatch import _disable_current_modes

    return _disable_current_modes()


class Graph:
    """A graph that is being written; `graph.Relu(x)` adds a node and returns its output.

    Inputs are Values, None (left out), numbers (of the dtype of the first Value among the inputs), lists of whole
    numbers and values of such (tensors of int64), and tensors. Attributes are keywords.
    """

    def __init__(self, model, parent=None):
        self.model, self.parent = model, parent
        self.nodes, self.inputs, self.outputs = [], [], []
        self._seen = {}

    @property
    def opset(self):
        return self.model.opset

    @property
    def out(self):
        """What the trace knows of the result of the operator that is being translated; None if nothing."""
        return self.model.__dict__.get("out")

    @property
    def out_dtype(self):
        """The dtype of that result, of the first one if there are several."""
        out = self.out
        if isinstance(out, (list, tuple)):
            out = next((v for v in out if isinstance(v, tessera.Tensor)), None)
        return out.dtype if isinstance(out, tessera.Tensor) else None

    def input(self, name, dtype, val=None):
        value = Value(self, self.model.unique(name), dtype, val)
        self.model.names[value.name] = value
        self.inputs.append(value)
        return value

    def inner(self):
        """A graph inside of this one, whose nodes may read what this one has made so far."""
        return Graph(self.model, self)

    def __getattr__(self, op):
        if not op[:1].isupper():
            raise AttributeError(op)

        def call(*inputs, **attrs):
            return self.op(op, *inputs, **attrs)

        return call

    def op(self, op, *inputs, outputs=1, domain="", dtype=None, **attrs):
        """Adds a node.

        Args:
            op: name of the operator of ONNX.
            inputs: see Graph.
            outputs: how many results.
            dtype: of the (first) result, where it does not follow from the operator.
            attrs: attributes; None: left out.

        Returns: a Value, or a tuple of Values if outputs is not 1.
        """
        if isinstance(dtype, int):
            attrs["dtype"], dtype = dtype, None
        values = self._lift(op, inputs)
        while values and values[-1] is None:
            values.pop()
        if values and values[0] is not None and not (domain or values[0].dtype.is_floating_point):
            if op in _ROUNDINGS:
                return values[0]
            if values[0].dtype == BOOL:
                op = _OF_TRUTHS.get(op, op)
            narrow = values[0].dtype in _NARROW and (op in _WIDE or (op in _WIDE_BEFORE_14 and self.opset < 14))
            if narrow or (values[0].dtype == BOOL and (op in _ORDERS or op in _WIDE)):
                before = values[0].dtype
                wide = [self.to(v, tessera.int32) if v is not None and v.dtype == before else v for v in values]
                made = self.op(op, *wide, **attrs)
                return made if op in _ORDERS else self.to(made, before)
            if op in _OF_FLOATS:
                raise NotImplementedError(f"ONNX's {op} takes floating numbers, no {values[0].dtype}")
        if op == "IsInf" and self.opset < 20 and values[0].dtype not in (FLOAT, tessera.float64):
            values[0] = self.to(values[0], FLOAT)
        self._check_version(op, attrs)
        attrs = {
            k: TO_ONNX[v] if isinstance(v, tessera.dtype) else v for k, v in attrs.items() if v is not None
        }  # fmt: skip
        if domain and domain not in self.model.domains:
            self.model.domains[domain] = 1
        node = Node(op, domain, values, [], attrs, self.model.origin)
        made = self._result_dtypes(op, values, outputs, dtype, attrs)
        for kind in made:
            name = self.model.unique(f"{op.lower()}")
            value = Value(self, name, kind, None, node)
            self.model.names[name] = value
            node.outputs.append(value)
        self.nodes.append(node)
        return node.outputs[0] if outputs == 1 else tuple(node.outputs)

    def _check_version(self, op, attrs):
        how = attrs.get("reduction")
        if how and op.startswith("Scatter") and self.opset < (18 if how in ("max", "min") else 16):
            needed = 18 if how in ("max", "min") else 16
            raise NotImplementedError(f"{op} with the reduction {how!r} needs opset_version {needed}, not {self.opset}")

    def _lift(self, op, inputs):
        candidates = inputs[1:] if op == "Where" else inputs
        like = next((v.dtype for v in candidates if isinstance(v, Value)), None)
        return [None if v is None else self.value(v, like) for v in inputs]

    def value(self, x, dtype=None):
        """A Value of a Value, number, list or tensor; numbers are of `dtype` (by default as tensors of them are)."""
        if isinstance(x, Value):
            return x
        if isinstance(x, tessera.Tensor):
            return self.model.initializer("const", x.detach())
        if isinstance(x, (list, tuple)):
            return self.ints(x)
        if isinstance(x, Missing):
            why = f"its result {x.which} is read, which no operator of ONNX gives"
            raise UnsupportedOperatorError(x.operator, self.opset, None, why=why, where=self.model.origin)
        if isinstance(x, (tessera.SymInt, tessera.SymFloat, tessera.SymBool)):
            raise NotImplementedError(f"the symbolic number {x} has no value in the graph")
        if dtype is None:
            dtype = BOOL if isinstance(x, bool) else INT64 if isinstance(x, int) else FLOAT
        if not (dtype.is_floating_point or dtype.is_complex) and isinstance(x, float):
            dtype = FLOAT
        return self.model.constant(x, dtype)

    def _result_dtypes(self, op, values, outputs, dtype, attrs):
        first = next((v.dtype for v in values if v is not None), FLOAT)
        if dtype is None:
            if op in _OF_BOOL:
                dtype = BOOL
            elif op in _OF_INT64:
                dtype = INT64
            elif op == "Where":
                dtype = values[1].dtype
            elif "to" in attrs or ("dtype" in attrs and isinstance(attrs["dtype"], int)):
                code = attrs.get("to", attrs.get("dtype"))
                dtype = next(d for d, c in TO_ONNX.items() if c == code)
            else:
                dtype = first
        if op in ("TopK", "MaxPool", "Unique"):
            return [dtype, *[INT64] * (outputs - 1)]
        return [dtype] * outputs

    # --- what translations are made of ---

    def to(self, x, dtype):
        """A value in another dtype."""
        x = self.value(x, dtype)
        return x if dtype is None or x.dtype == dtype else self.op("Cast", x, to=dtype, dtype=dtype)

    def const(self, data, dtype=None):
        """A constant of a number or of a (nested) list of numbers."""
        first = data
        while isinstance(first, (list, tuple)):
            first = first[0] if first else 0
        if dtype is None:
            dtype = BOOL if isinstance(first, bool) else INT64 if isinstance(first, int) else FLOAT
        return self.model.constant(list(data) if isinstance(data, tuple) else data, dtype)

    def ints(self, items):
        """A vector of int64 of whole numbers and Values of one number each."""
        items = [int(i) if isinstance(i, bool) else i for i in items]
        if not any(isinstance(i, Value) for i in items):
            bad = [i for i in items if not isinstance(i, int)]
            if bad:
                return self.const([float(i) for i in items], FLOAT)
            return self.const(items, INT64)
        parts, run = [], []
        for item in items:
            if isinstance(item, Value):
                if run:
                    parts.append(self.const(run, INT64))
                    run = []
                parts.append(self.cached("Reshape", self.to(item, INT64), self.const([1], INT64)))
            else:
                run.append(item)
        if run:
            parts.append(self.const(run, INT64))
        return parts[0] if len(parts) == 1 else self.op("Concat", *parts, axis=0)

    def cached(self, op, *inputs, **attrs):
        """A node that need not be there twice."""
        key = (op, tuple(map(id, inputs)), tuple(sorted(attrs.items())))
        graph = self
        while graph is not None:
            if key in graph._seen:
                return graph._seen[key][0]
            graph = graph.parent
        made = self.op(op, *inputs, **attrs)
        self._seen[key] = made, inputs  # inputs stay alive, so that their ids are theirs
        return made

    def dim(self, x, axis):
        """Size of a dimension: a number, or a Value if it may differ."""
        shape = x.shape
        if shape is not None:
            axis %= len(shape)
            if isinstance(shape[axis], int):
                return shape[axis]
        return self.cached("Gather", self.cached("Shape", x), self.const(axis, INT64), axis=0)

    def dims(self, x):
        """Sizes: a list of numbers and Values."""
        return [self.dim(x, i) for i in range(x.rank)]

    def reshape(self, x, sizes, known=True):
        """A value in another shape; one size that may differ is left to be found."""
        sizes = list(sizes)
        open_ones = [i for i, s in enumerate(sizes) if isinstance(s, Value)]
        zero = any(isinstance(s, int) and s == 0 for s in sizes)
        if known and len(open_ones) == 1 and -1 not in [s for s in sizes if isinstance(s, int)] and not zero:
            sizes[open_ones[0]] = -1
        extra = {"allowzero": 1} if zero and self.opset >= 14 else {}
        return self.op("Reshape", x, self.ints(sizes), **extra)

    def squeeze(self, x, *axes):
        return self.op("Squeeze", x, self.ints(axes))

    def unsqueeze(self, x, *axes):
        return self.op("Unsqueeze", x, self.ints(axes)) if axes else x

    def transpose(self, x, order):
        order = list(order)
        return x if order == sorted(order) else self.op("Transpose", x, perm=order)

    def reduce(self, op, x, axes=None, keep=False):
        """A reduction of ONNX over some (None: all) dimensions."""
        axes = None if axes is None else [axes] if isinstance(axes, int) else list(axes)
        if self.opset >= 18 or op == "ReduceSum":
            return self.op(op, x, axes and self.ints(axes), keepdims=int(keep))
        return self.op(op, x, axes=axes or None, keepdims=int(keep))

    def slice(self, x, axis, start, end, step=1):
        return self.op("Slice", x, [start], [end], [axis], [step])

    def split(self, x, sizes, axis):
        """Pieces of the given sizes."""
        if len(sizes) == 1:
            return (x,)
        return self.op("Split", x, self.ints(sizes), axis=axis, outputs=len(sizes))

    def expand(self, x, sizes):
        return self.op("Expand", x, sizes if isinstance(sizes, Value) else self.ints(sizes))

    def full(self, sizes, number, dtype):
        """A tensor of one number."""
        sizes = sizes if isinstance(sizes, Value) else self.ints(sizes)
        return self.op("Expand", self.value(number, dtype), sizes, dtype=dtype)

    def promoted(self, *xs):
        """The dtype that an operator works in for these values and numbers."""
        made = [_stand_in(x) for x in xs if x is not None]
        kinds = made[0]
        if len(made) == 1:
            return tessera.result_type(kinds, kinds)
        for other in made[1:]:
            kinds = tessera.result_type(kinds, other)
            if other is not made[-1]:
                kinds = _meta(kinds, 1)
        return kinds

    def alike(self, *xs, dtype=None):
        """The values in one dtype, by default the one that they are promoted to."""
        dtype = self.promoted(*xs) if dtype is None else dtype
        return [self.to(x, dtype) for x in xs]


def _meta(dtype, rank, _made={}):  # noqa: B006 - one for all calls
    found = _made.get((dtype, rank))
    if found is None:
        with _plain():
            found = _made[dtype, rank] = tessera.empty((1,) * rank, dtype=dtype, device="meta")
    return found


def _stand_in(x):
    if not isinstance(x, Value):
        return x if isinstance(x, (bool, int, float, complex)) else _meta(x.dtype, int(x.dim() > 0))
    if isinstance(x.val, tessera.Tensor) or x.val is None:
        return _meta(x.dtype, 0 if x.shape == () else 1)
    return False if x.dtype == BOOL else 1 if x.dtype == INT64 else 1.0


def tensor_proto(name, tensor):
    """The message of a tensor, whose bytes lie where the tensor's are, and the tensor that has to live as long."""
    import ctypes

    tensor = tensor.detach()
    if tensor.is_conj() or tensor.is_neg() or not tensor.is_contiguous() or tensor.device.type != "cpu":
        tensor = tensor.cpu().resolve_conj().resolve_neg().contiguous()
    n = tensor.numel() * tensor.element_size()
    raw = memoryview((ctypes.c_char * n).from_address(tensor.data_ptr())).cast("B") if n else b""
    proto = _wire.Message(
        "TensorProto", name=name, data_type=TO_ONNX[tensor.dtype], dims=list(tensor.shape), raw_data=raw
    )
    return proto, tensor
