"""From an operator's call to nodes: the table of translations, views and writes to memory, and what is left over."""

import functools
import inspect

import tessera
from tessera.onnx import _all
from tessera.onnx._build import Missing, Value, _meta, _plain
from tessera.onnx._types import BOOL, FLOAT, INT64
from tessera.onnx.errors import UnsupportedOperatorError

# Arguments that say where and how a tensor lies, which files of ONNX do not.
_PLACES = frozenset("layout device pin_memory memory_format non_blocking copy generator".split())
# Operators that check, and give nothing.
CHECKS = frozenset(
    "_assert_scalar _assert_async _assert_tensor_metadata sym_constrain_range sym_constrain_range_for_size warn "
    "_functional_sym_constrain_range _functional_assert_async _print record_stream".split()
)


@functools.lru_cache(maxsize=1024)
def _parameters(function):
    found = inspect.signature(function).parameters.values()
    return frozenset(p.name for p in found), any(p.kind is p.VAR_KEYWORD for p in found)


class Cell:
    """What stands for a tensor of the program, whose value changes when the program writes to it.

    A view knows what it is a view of: `remake` gives its value anew, `put` a value of the base with it written in.
    """

    __slots__ = ("value", "base", "remake", "put", "seen", "known")

    def __init__(self, value, base=None, remake=None, put=None, known=None):
        self.value, self.base, self.remake, self.put = value, base, remake, put
        self.known = value.val if known is None else known  # the program's own tensor, of the trace
        self.seen = None if base is None else base.value

    def read(self):
        if self.base is not None:
            now = self.base.read()
            if now is not self.seen:
                self.value, self.seen = self.remake(now), now
        return self.value

    def write(self, value):
        if self.base is not None:
            self.base.write(self.put(self.base.read(), value))
            self.seen = self.base.value
        self.value = value


def read(tree):
    """Arguments with the values of cells."""
    if isinstance(tree, Cell):
        return tree.read()
    if isinstance(tree, (list, tuple)):
        made = [read(t) for t in tree]
        return tuple(made) if type(tree) is tuple else made
    if isinstance(tree, dict):
        return {k: read(v) for k, v in tree.items()}
    return tree


def cells_of(tree, out=None):
    """Results with a cell for each tensor; `out` is what the trace knows of them."""
    if isinstance(tree, Value):
        return Cell(tree, known=out)
    if isinstance(tree, (list, tuple)):
        outs = out if isinstance(out, (list, tuple)) and len(out) == len(tree) else [None] * len(tree)
        return tuple(cells_of(t, o) for t, o in zip(tree, outs))
    return tree


def _first(tree):
    """The first value of a tree that is not a list."""
    while isinstance(tree, (list, tuple)):
        tree = tree[0] if tree else None
    return tree


# --- what writes to a view means for what it is a view of ---


def _reshaped_back(b, base, piece, named, i):
    return b.op("Reshape", piece, b.cached("Shape", base))


def _turned_back(name):
    def put(b, base, piece, named, i):
        if name in ("permute", "movedim", "moveaxis"):
            n = base.rank
            dims = named.get("dims")
            if dims is None:
                return _all.TABLE["aten::movedim"](b, piece, named["destination"], named["source"])
            dims = [d % n for d in dims]
            return b.transpose(piece, [dims.index(j) for j in range(n)])
        return _all.TABLE["aten::" + name](b, **{**named, "self": piece})

    return put


def _piece_back(b, base, piece, named, i):
    dim = named.get("dim", 0)
    sizes = named.get("split_sizes", named.get("split_size"))
    n = b.dim(base, dim)
    if "chunks" in named:
        sizes = -(-n // named["chunks"])
    start = i * sizes if isinstance(sizes, int) else sum(sizes[:i])
    end = start + (sizes if isinstance(sizes, int) else sizes[i])
    return _all.TABLE["aten::slice_scatter"](b, base, piece, dim, start, end)


def _put_with(name, *keys):
    def put(b, base, piece, named, i):
        return _all.TABLE["aten::" + name](b, base, piece, *[named[k] for k in keys if k in named])

    return put


_PUT = {
    **dict.fromkeys("view reshape _unsafe_view flatten unflatten squeeze unsqueeze ravel view_as reshape_as".split(),
                    _reshaped_back),
    **{n: _turned_back(n) for n in
       "transpose t numpy_T mT adjoint swapaxes swapdims permute movedim moveaxis".split()},
    **dict.fromkeys("alias detach contiguous to positive lift_fresh view_as_real".split(),
                    lambda b, base, piece, named, i: b.to(piece, base.dtype)),
    **dict.fromkeys("split split_with_sizes chunk".split(), _piece_back),
    "diagonal": _put_with("diagonal_scatter", "offset", "dim1", "dim2"),
    "select": _put_with("select_scatter", "dim", "index"),
    "slice": _put_with("slice_scatter", "dim", "start", "end", "step"),
    "narrow": lambda b, base, piece, named, i: _all.TABLE["aten::slice_scatter"](
        b, base, piece, named["dim"], named["start"], named["start"] + named["length"]),
    "unbind": lambda b, base, piece, named, i: _all.TABLE["aten::select_scatter"](
        b, base, piece, named.get("dim", 0), i),
}  # fmt: skip


def _left_out(graph, name, which, out):
    """A result that a translation does not make; one without elements is made here."""
    sizes = [s for s in out.shape if isinstance(s, int)]
    if 0 not in sizes or len(sizes) != len(out.shape):
        return Missing(name, which)
    made = graph.full(sizes, 0, out.dtype)
    made.val = out
    return made


def _called(function, op, named):
    """A function's result for arguments by the names of the operator's schema."""
    first = [named.pop(a.name) for a in op._schema.arguments if not a.kwarg_only and a.name in named]
    return function(*first, **named)


class Translator:
    """Writes operators into the graphs of a model.

    Args:
        model: Model.
        walk: the class Walk, for what operators are made of.
        custom: {operator (OpOverload), or "namespace::name": function(graph, arguments...)}, asked before the table.
    """

    def __init__(self, model, walk, custom=None):
        self.model, self.walk = model, walk
        self.table = _all.TABLE
        self.custom = custom or {}
        self.translated = {}  # name -> how often

    def find(self, name, op=None):
        """The translation of an operator; None if there is none."""
        for key in (op, getattr(op, "overloadpacket", None), name):
            if key is not None and key in self.custom:
                return self.custom[key]
        found = self.table.get(name)
        if found is None and name.endswith("_") and not name.endswith("__"):
            found = self.find(name[:-1])
        return found

    def call(self, graph, name, named, out, op=None, positional=None):
        """The results of an operator.

        Args:
            graph: Graph to write into.
            name: such as "aten::add".
            named: {argument: Value or plain value}.
            out: what the trace knows of the result.
            op: the OpOverload, if known.
            positional: arguments as custom functions get them: (args, kwargs).

        Errors: UnsupportedOperatorError.
        """
        function = self.find(name, op)
        self.model.out = out
        if function is None:
            made = self._taken_apart(graph, name, named, op)
        else:
            try:
                if getattr(function, "custom", False):
                    made = function(graph, *positional[0], **positional[1])
                else:
                    made = function(graph, **self._fitting(function, named))
            except NotImplementedError as error:
                try:
                    made = self._taken_apart(graph, name, named, op)
                except UnsupportedOperatorError:
                    raise self.unsupported(name, str(error)) from None
        self.translated[name] = self.translated.get(name, 0) + 1
        made = self.finished(graph, made, out)
        if isinstance(made, tuple) and isinstance(out, (list, tuple)):
            made = tuple(
                _left_out(graph, name, i, o) if m is None and isinstance(o, tessera.Tensor) else m
                for i, (m, o) in enumerate(zip(made, out))
            )
        return made

    def unsupported(self, name, why=None):
        """The error of an operator."""
        return UnsupportedOperatorError(name, self.model.opset, None, why=why, where=self.model.origin)

    def _fitting(self, function, named):
        if getattr(function, "takes_all", False):
            return named
        accepted, everything = _parameters(function)
        given = {}
        for key, value in named.items():
            if everything or key in accepted:
                given[key] = value
            elif key not in _PLACES:
                if value in (None, False) if not isinstance(value, Value) else False:
                    continue
                raise NotImplementedError(f"argument {key}={value}")
        return given

    def finished(self, graph, made, out):
        """Results in the dtypes of the trace, with what it knows of them."""
        if isinstance(made, (list, tuple)):
            outs = out if isinstance(out, (list, tuple)) else [None] * len(made)
            return tuple(self.finished(graph, m, o) for m, o in zip(made, outs))
        if isinstance(out, (list, tuple)) and len(out) == 1:
            return (self.finished(graph, made, out[0]),)
        if not isinstance(made, Value):
            if made is None or out is None or not isinstance(out, tessera.Tensor):
                return made
            made = graph.value(made, out.dtype)
        if isinstance(out, tessera.Tensor):
            if made.node is not None and made.node.domain:  # whose types nobody told
                made.dtype = out.dtype
            made = graph.to(made, out.dtype)
            if made.val is None or made.val is _shared_line():
                made.val = out
        elif made.val is None and out is not None:
            made.val = out
        return made

    def _taken_apart(self, graph, name, named, op):
        """An operator without a translation, as what it is made of."""
        if op is None or not name.startswith("aten::"):
            raise self.unsupported(name)
        from tessera._decomp import get_decompositions
        from tessera.utils import _pytree as pytree

        leaves, spec = pytree.tree_flatten(named)
        places = [i for i, v in enumerate(leaves) if isinstance(v, Value)]
        if not places and tessera.Tag.nondeterministic_seeded not in op.tags:
            return self._constant(graph, op, named)
        function = get_decompositions([op]).get(op)
        if function is None and op.has_kernel_for_dispatch_key("CompositeImplicitAutograd"):
            function = op.decompose
        if function is None:
            raise self.unsupported(name)
        from tessera.fx.experimental.proxy_tensor import make_fx

        known = [leaves[i].val for i in places]

        def run(*given):
            filled = list(leaves)
            for i, v in zip(places, given):
                filled[i] = v
            return _called(function, op, pytree.tree_unflatten(filled, spec))

        try:
            program = make_fx(run)(*known)
        except Exception as error:
            raise self.unsupported(name, f"its decomposition cannot be traced: {error}") from error
        inputs = [n for n in program.graph.nodes if n.op == "placeholder"]
        env = {n: cells_of(leaves[i]) for n, i in zip(inputs, places)}
        return read(self.walk(self, graph, program, env).run())

    def _constant(self, graph, op, named):
        """The results of an operator of plain values alone."""
        from tessera.utils import _pytree as pytree

        with _plain():
            return pytree.tree_map_only(tessera.Tensor, graph.value, _called(op, op, dict(named)))

    # --- calls of programs ---

    def apply(self, graph, name, named, out, *, mutable=False, view=False, op=None, positional=None):
        """The results of an operator of a program, whose arguments hold cells: a tree of cells.

        Args:
            named: {argument: tree of cells, Values and plain values}.
            mutable: the operator writes to its first argument.
            view: its result may be a view of its first argument.
            others: as of call().
        """
        plain = name.partition("::")[2]
        values = read(named)
        made = self.call(graph, name, values, out, op, None if positional is None else read(positional))
        cell = _first(list(named.values())) if named else None
        if mutable and isinstance(cell, Cell) and plain.endswith("_"):
            held = cell.read()
            value = graph.to(made, held.dtype)
            cell.write(_as(value, held))
            return cell
        if not view or not isinstance(cell, Cell) or not _shares(out, cell.known):
            return cells_of(made, out)
        key = next(iter(named))

        def remake(i):
            def again(base):
                result = self.call(graph, name, {**values, key: base}, out, op)
                return result if i is None else result[i]

            return again

        def put(i):
            def back(base, piece):
                function = _PUT.get(plain)
                if function is None:
                    raise self.unsupported(name, "the program writes to a view that it made")
                self.model.out = None
                return _as(function(graph, base, piece, values, i or 0), base)

            return back

        if isinstance(made, tuple):
            outs = out if isinstance(out, (list, tuple)) else [None] * len(made)
            return tuple(Cell(m, cell, remake(i), put(i), o) if isinstance(m, Value) else m
                         for i, (m, o) in enumerate(zip(made, outs)))  # fmt: skip
        return Cell(made, cell, remake(None), put(None), out)


def _as(value, like):
    """A value that takes another one's place."""
    if value.val is None or value.val is like.val:
        value.val = like.val
    return value


def _shared_line():
    return _meta(INT64, 1)  # what indexing gives vectors of any length


def _shares(out, base):
    """Whether a result lies in the memory of its argument, as far as the trace knows."""
    out = _first(out)
    if not isinstance(out, tessera.Tensor) or not isinstance(base, tessera.Tensor):
        return True
    try:
        return out.untyped_storage()._cdata == base.untyped_storage()._cdata
    except (RuntimeError, NotImplementedError):
        return True


@functools.lru_cache(maxsize=2048)
def traits(schema):
    """(mutable, view) of a schema."""
    view = any(r.alias_info is not None and not r.alias_info.is_write for r in schema.returns)
    mutable = any(a.alias_info is not None and a.alias_info.is_write for a in schema.arguments)
    return mutable, view and not mutable


_OF_NUMBERS = {
    "add": "Add", "sub": "Sub", "mul": "Mul", "floordiv": "Div", "truediv": "Div", "mod": "Mod", "pow": "Pow",
    "eq": "Equal", "lt": "Less", "le": "LessOrEqual", "gt": "Greater", "ge": "GreaterOrEqual", "sym_max": "Max",
    "sym_min": "Min", "max": "Max", "min": "Min", "and_": "And", "or_": "Or", "neg": "Neg", "not_": "Not",
    "sym_not": "Not", "pos": "Identity", "prim_max": "Max", "prim_min": "Min", "abs": "Abs", "sqrt": "Sqrt",
}  # fmt: skip


def number(graph, name, args):
    """The result of a function of numbers, of which some are Values; None if there is no such function."""
    name = name.removeprefix("sym_") if name in ("sym_sqrt", "_sym_sqrt") else name
    if name in ("sym_float", "float", "Float", "FloatImplicit"):
        return graph.to(args[0], FLOAT)
    if name in ("sym_int", "int", "Int", "IntImplicit", "trunc"):
        return graph.to(args[0], INT64)
    if name in ("Bool", "bool"):
        return graph.to(args[0], BOOL)
    if name in ("floor", "ceil", "round"):
        x = args[0]
        return x if x.dtype == INT64 else graph.to(graph.op(name.capitalize(), x), INT64)
    if name == "ne":
        return graph.Not(graph.Equal(*_in_one_dtype(graph, args)))
    op = _OF_NUMBERS.get(name)
    if op is None:
        return None
    values = _in_one_dtype(graph, args, FLOAT if name in ("truediv", "sqrt") else None)
    made = graph.op(op, *values)
    if name == "floordiv" and values[0].dtype == FLOAT:
        made = graph.Floor(made)
    return made


def _in_one_dtype(graph, args, dtype=None):
    if dtype is None:
        kinds = [a.dtype if isinstance(a, Value) else FLOAT if isinstance(a, float) else INT64 for a in args]
        kinds = [k for a, k in zip(args, kinds) if not isinstance(a, bool)]
        dtype = FLOAT if any(k.is_floating_point for k in kinds) else kinds[0] if len(set(kinds)) == 1 else INT64
    return [graph.to(a, dtype) if isinstance(a, Value) else graph.value(a, dtype) for a in args]
