"""Programs with complex numbers as programs of real ones, which are all that ONNX's operators know: a complex tensor is
its real and its imaginary part. What comes in or goes out has a last dimension of 2, as view_as_real() gives it.
"""

import functools
import math

import tessera
from tessera.onnx.errors import OnnxExporterError
from tessera.utils import _pytree as pytree


class Pair:
    """A complex tensor: the real and the imaginary part, of one shape."""

    __slots__ = ("re", "im")

    def __init__(self, re, im):
        self.re, self.im = re, im


# Operators on the parts, each for itself: what moves elements about, and sums.
_EACH = frozenset(
    "view _unsafe_view reshape permute transpose t numpy_T unsqueeze squeeze expand expand_as slice select narrow "
    "index_select index gather flip roll repeat clone contiguous alias detach detach_ lift_fresh_copy flatten "
    "unflatten movedim tril triu diagonal sum mean cumsum cat stack split split_with_sizes chunk unbind where "
    "as_strided constant_pad_nd pad neg add sub lift_fresh resolve_neg".split()
)
_OPERATORS = {}
# Where and how a tensor lies, which files of ONNX do not say.
_PLACES = frozenset("layout device pin_memory non_blocking copy memory_format".split())


def _operator(*names, told=False):
    """A form of operators; `told`: it is given the operator's name first."""

    def add(function):
        _OPERATORS.update({n: functools.partial(function, n) if told else function for n in names})
        return function

    return add


def _parts(x):
    """Real and imaginary part; None for the latter of what is real."""
    if isinstance(x, Pair):
        return x.re, x.im
    return (x.real, x.imag) if isinstance(x, complex) else (x, None)


def _shaped(x, like):
    """A number, or a part that is missing, as a tensor beside another one."""
    return tessera.full_like(like, x or 0) if x is None or isinstance(x, (int, float)) else x


def _each(op, args, kwargs):
    """An operator on real parts, then on imaginary ones."""

    def take(which):
        def part(x):
            if isinstance(x, Pair):
                return x.re if which == 0 else x.im
            return (x.real if which == 0 else x.imag) if isinstance(x, complex) else x

        return op(*pytree.tree_map(part, args), **pytree.tree_map(part, kwargs))

    re, im = take(0), take(1)
    if isinstance(re, (list, tuple)):
        return [Pair(a, b) for a, b in zip(re, im)]
    return Pair(re, im)


@_operator("add", "sub", "rsub", told=True)
def _sum(name, a, b, alpha=1):
    if name == "rsub":
        a, b = b, a
    sign = -1 if name != "add" else 1
    (ar, ai), (br, bi) = _parts(a), _parts(b)
    scale = sign * alpha
    re = ar + br * scale
    if ai is None:
        return Pair(re, _spread(bi * scale, re))
    return Pair(re, _spread(ai if bi is None else ai + bi * scale, re))


def _spread(part, like):
    """A part of the shape that both parts have."""
    part = _shaped(part, like)
    return part if part.shape == like.shape else part + tessera.zeros_like(like)


@_operator("mul")
def _mul(a, b):
    (ar, ai), (br, bi) = _parts(a), _parts(b)
    if ai is None or bi is None:
        return Pair(ar * br, ar * bi if ai is None else ai * br)
    return Pair(ar * br - ai * bi, ar * bi + ai * br)


@_operator("div", "reciprocal", told=True)
def _div(name, a, b=None):
    if name == "reciprocal":
        a, b = 1.0, a
    (ar, ai), (br, bi) = _parts(a), _parts(b)
    if bi is None:
        return Pair(ar / br, ai / br)
    size = br * br + bi * bi
    top = _mul(a, Pair(br, -bi))
    return Pair(top.re / size, top.im / size)


@_operator("square")
def _square(a):
    return _mul(a, a)


@_operator("pow")
def _pow(a, b):
    if isinstance(a, Pair) and isinstance(b, int) and 1 <= b <= 8:
        return functools.reduce(_mul, [a] * b)
    return _exp(_mul(_log(a), b))


@_operator("_conj", "conj", "_conj_physical", "conj_physical", "_neg_view", told=True)
def _conj(name, a):
    return Pair(-a.re if name == "_neg_view" else a.re, -a.im)


@_operator("resolve_conj")
def _same(a):
    return a


@_operator("real", "imag", told=True)
def _part(name, a):
    return getattr(a, name[:2])


@_operator("abs")
def _abs(a):
    return (a.re * a.re + a.im * a.im).sqrt()


@_operator("angle")
def _angle(a):
    return tessera.atan2(a.im, a.re)


@_operator("sgn")
def _sgn(a):
    size = _abs(a)
    safe = tessera.where(size == 0, 1.0, size)
    return Pair(a.re / safe, a.im / safe)


@_operator("exp")
def _exp(a):
    return _polar(a.re.exp(), a.im)


@_operator("log")
def _log(a):
    return Pair(_abs(a).log(), _angle(a))


@_operator("sqrt")
def _sqrt(a):
    return _polar(_abs(a).sqrt(), _angle(a) * 0.5)


@_operator("polar")
def _polar(size, angle):
    return Pair(size * angle.cos(), size * angle.sin())


@_operator("complex")
def _complex(re, im):
    return Pair(re + im * 0, im + re * 0) if re.shape != im.shape else Pair(re, im)


@_operator("view_as_complex")
def _from_real(x):
    return Pair(x.select(-1, 0), x.select(-1, 1))


@_operator("view_as_real", "view_as_real_copy")
def _to_real(a):
    return tessera.stack([a.re, a.im], -1)


@_operator("eq", "ne", told=True)
def _compare(name, a, b):
    (ar, ai), (br, bi) = _parts(a), _parts(b)
    same = (ar == br).logical_and(_shaped(ai, ar) == (0 if bi is None else bi))
    return same if name == "eq" else same.logical_not()


@_operator("mm", "bmm", "matmul", "mv", "dot")
def _product(a, b):
    (ar, ai), (br, bi) = _parts(a), _parts(b)
    if ai is None or bi is None:
        return Pair(ar @ br, ar @ bi if ai is None else ai @ br)
    return Pair(ar @ br - ai @ bi, ar @ bi + ai @ br)


@_operator("linear")
def _linear(x, weight, bias=None):
    turned = Pair(weight.re.t(), weight.im.t()) if isinstance(weight, Pair) else weight.t()
    made = _product(x, turned)
    return made if bias is None else _sum("add", made, bias)


@_operator("addmm", "baddbmm", "addmv")
def _addmm(c, a, b, beta=1, alpha=1):
    return _sum("add", _mul(c, beta), _mul(_product(a, b), alpha))


@_operator("_to_copy", "to")
def _to(a, *args, dtype=None):
    for x in args:
        dtype = x if isinstance(x, tessera.dtype) else dtype
    if dtype is None:
        return a
    part = dtype.to_real() if dtype.is_complex else dtype
    re, im = _parts(a)
    re = re.to(part)
    return Pair(re, tessera.zeros_like(re) if im is None else im.to(part)) if dtype.is_complex else re


@_operator("zeros_like", "ones_like", "full_like", told=True)
def _like(name, a, *value, dtype=None):
    re, im = _parts({"zeros_like": 0.0, "ones_like": 1.0}[name] if not value else value[0])
    part = dtype.to_real() if dtype else a.re.dtype
    return Pair(tessera.full_like(a.re, re, dtype=part), tessera.full_like(a.re, im or 0.0, dtype=part))


def _made(target, args, kwargs, val):
    """What an operator makes of numbers alone: the real part, then the imaginary one of what it is filled with."""
    numbers = [a for a in args if isinstance(a, complex)]
    kwargs = {**kwargs, "dtype": val.dtype.to_real()}
    re = target(*(a.real if isinstance(a, complex) else a for a in args), **kwargs)
    return Pair(re, tessera.full_like(re, numbers[0].imag if numbers else 0.0))


@functools.lru_cache(maxsize=64)
def _matrix(n, sign, dtype):
    """exp(sign 2 pi i j k / n), its parts: angles are reduced in whole numbers first."""
    rows = [[(j * k) % n for k in range(n)] for j in range(n)]
    angles = tessera.tensor(rows, dtype=tessera.float64) * (2.0 * math.pi / n)
    return angles.cos().to(dtype), (sign * angles.sin()).to(dtype)


def _norm(mode, n):
    """The factor of a normalization: 0 none, 1 by the root, 2 by the number of elements."""
    return {0: 1.0, 1: n**-0.5, 2: 1.0 / n}[mode]


def _transform(x, dim, forward):
    """A discrete Fourier transform along one dimension, as products with its matrix."""
    n = x.re.shape[dim]
    if not str(n).isdecimal():
        raise OnnxExporterError("export: a Fourier transform along a dimension of a size that may differ")
    n = int(n)
    c, s = _matrix(n, -1 if forward else 1, x.re.dtype)
    turned = Pair(x.re.transpose(dim, -1), x.im.transpose(dim, -1))
    made = _product(turned, Pair(c, s))
    return Pair(made.re.transpose(dim, -1), made.im.transpose(dim, -1))


def _scaled(x, factor):
    return x if factor == 1.0 else Pair(x.re * factor, x.im * factor)


@_operator("_fft_c2c")
def _c2c(x, dims, mode, forward):
    n = 1
    for dim in dims:
        n, x = n * x.re.shape[dim], _transform(x, dim, forward)
    return _scaled(x, _norm(mode, n))


@_operator("_fft_r2c")
def _r2c(x, dims, mode, onesided):
    made = _c2c(Pair(x, tessera.zeros_like(x)), dims, mode, True)
    if onesided:
        half = x.shape[dims[-1]] // 2 + 1
        made = Pair(made.re.narrow(dims[-1], 0, half), made.im.narrow(dims[-1], 0, half))
    return made


@_operator("_fft_c2r")
def _c2r(x, dims, mode, size):
    """The other half of the last dimension is the conjugate of the first, from behind."""
    if not isinstance(x, Pair):
        x = Pair(x, tessera.zeros_like(x))
    for dim in dims[:-1]:
        x = _transform(x, dim, False)
    last, n = dims[-1], size
    for dim in dims[:-1]:
        n = n * x.re.shape[dim]
    have = x.re.shape[last]
    mirrored = size - have
    index = tessera.arange(mirrored, 0, -1)
    whole = Pair(
        tessera.cat([x.re, x.re.index_select(last, index)], last),
        tessera.cat([x.im, -x.im.index_select(last, index)], last),
    )
    return _transform(whole, last, False).re * _norm(mode, n)


# --- programs ---


def _is_complex(val):
    return isinstance(val, tessera.Tensor) and val.is_complex()


# Operators that compute with complex numbers although they may be given real ones.
_MAKERS = frozenset("view_as_complex complex polar stft istft _fft_r2c _fft_c2c _fft_c2r".split())
_REAL = frozenset("fft_fftfreq fft_rfftfreq fft_fftshift fft_ifftshift".split())


def _makes_complex(name):
    return name in _MAKERS or name.startswith("fft_") and name not in _REAL


def may_make_complex(graph, tensors):
    """Whether a traced graph has complex tensors among those that it is given, or makes some."""
    return any(map(_is_complex, tensors)) or any(
        _makes_complex(n.kind().rpartition("::")[2])
        or (n.kind() == "prim::Constant" and "complex" in str(n))
        or "Complex" in str(n)
        for n in graph.nodes()
    )


def has_complex(program):
    """Whether an exported program computes with complex numbers."""
    return any(
        _makes_complex(_name(n.target)) or any(map(_is_complex, pytree.tree_leaves(n.meta.get("val"))))
        for n in program.graph.nodes
    )


_MADE = frozenset("ones zeros full scalar_tensor eye".split())
_OF_SIZES = frozenset(("sym_size", "sym_stride"))


def _name(target):
    name = getattr(getattr(target, "_schema", None), "name", getattr(target, "__name__", str(target)))
    return name.rpartition("::")[2]


class _Parts:
    """Runs graph modules in parts."""

    def __init__(self, module):
        self.inner = {}  # node without a form -> (what it is made of, which leaves of its arguments that takes)
        self._find(module)

    def _find(self, module):
        for node in module.graph.nodes:
            values = [a.meta.get("val") for a in node.all_input_nodes] + [node.meta.get("val")]
            name = _name(node.target)
            if (
                node.op == "call_function"
                and (_makes_complex(name) or any(map(_is_complex, pytree.tree_leaves(values))))
                and not (name in _OPERATORS or name in _EACH or name in _MADE or name in _OF_SIZES or name == "getitem")
            ):
                self._take_apart(node, name)

    def _take_apart(self, node, name):
        from tessera._decomp import get_decompositions
        from tessera.fx.experimental.proxy_tensor import make_fx

        function = get_decompositions([node.target]).get(node.target)
        if function is None:
            raise OnnxExporterError(f"export: aten::{name} of complex numbers has no form in real ones")
        leaves, spec = pytree.tree_flatten((node.args, node.kwargs))
        places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, tessera.fx.Node)]

        def run(*given):
            filled = list(leaves)
            for i, t in zip(places, given):
                filled[i] = t
            positional, named = pytree.tree_unflatten(filled, spec)
            return function(*positional, **named)

        made = make_fx(run)(*(leaves[i].meta["val"] for i in places))
        self.inner[node] = made, places
        self._find(made)

    def run(self, module, env):
        """The results of a graph module."""
        look = lambda a: env[a] if isinstance(a, tessera.fx.Node) else a
        for node in module.graph.nodes:
            args, kwargs = (pytree.tree_map(look, x) for x in (node.args, node.kwargs))
            if node.op == "call_function":
                env[node] = self._call(node, args, kwargs)
            elif node.op == "get_attr":
                value = functools.reduce(getattr, node.target.split("."), module)
                env[node] = Pair(value.real, value.imag) if _is_complex(value) else value
            elif node.op == "output":
                return args[0]
        return None

    def _call(self, node, args, kwargs):
        if node in self.inner:
            made, places = self.inner[node]
            given = pytree.tree_leaves((args, kwargs))
            inputs = [n for n in made.graph.nodes if n.op == "placeholder"]
            return self.run(made, dict(zip(inputs, (given[i] for i in places))))
        target, out, name = node.target, node.meta.get("val"), _name(node.target)
        given = any(isinstance(x, (Pair, complex)) for x in pytree.tree_leaves((args, kwargs)))
        if not (given or _makes_complex(name) or any(map(_is_complex, pytree.tree_leaves(out)))):
            return target(*args, **kwargs)
        if name in _MADE:
            return _made(target, args, kwargs, out)
        if name == "getitem":
            return args[0][args[1]]
        if name in _OF_SIZES:
            return target(args[0].re, *args[1:])
        function = _OPERATORS.get(name)
        if function is not None and not (name in _EACH and all(isinstance(x, Pair) for x in args[:2])):
            return function(*args, **{k: v for k, v in kwargs.items() if k not in _PLACES})
        if name in _EACH:
            return _each(target, args, kwargs)
        raise OnnxExporterError(f"export: aten::{name} of complex numbers has no form in real ones")


class _RealProgram(tessera.nn.Module):
    """An exported program, node by node, over real numbers."""

    def __init__(self, program):
        super().__init__()
        self._program, self._specs = (program,), program.graph_signature.input_specs
        self._parts = _Parts(program.graph_module)
        state = {**program.constants, **program.state_dict}
        for spec in self._specs:
            if spec.kind.name not in ("PARAMETER", "BUFFER", "CONSTANT_TENSOR"):
                continue
            *path, name = spec.target.split(".")
            owner, tensor = self, state[spec.target]
            for part in path:
                if part not in owner._modules:
                    owner.add_module(part, tessera.nn.Module())
                owner = owner._modules[part]
            if tensor.is_complex():
                tensor = tessera.view_as_real(tensor.detach().resolve_conj()).clone()
            if isinstance(tensor, tessera.nn.Parameter):
                owner.register_parameter(name, tensor)
            else:
                owner.register_buffer(name, tensor.detach())

    def forward(self, *inputs):
        (program,) = self._program
        given, env = iter(inputs), {}
        placeholders = [n for n in program.graph.nodes if n.op == "placeholder"]
        for node, spec in zip(placeholders, self._specs):
            if spec.kind.name == "USER_INPUT":
                value = next(given)
            else:
                value = functools.reduce(getattr, spec.target.split("."), self)
            if _is_complex(node.meta.get("val")):
                value = _from_real(value)
            env[node] = value
        results = zip(self._parts.run(program.graph_module, env), program.graph_signature.output_specs)
        kept = [r for r, s in results if s.kind.name == "USER_OUTPUT"]
        return tuple(_to_real(r) if isinstance(r, Pair) else r for r in kept)


def real_program(program):
    """(the program over real numbers, {symbol of a size: that of the given program}).

    Errors: OnnxExporterError for operators without a form in parts.
    """
    if program.example_inputs is None:
        raise OnnxExporterError("export: a program with complex numbers needs its example inputs")
    args, kwargs = program.example_inputs
    leaves = pytree.tree_leaves((args, kwargs))
    inputs = [n.meta.get("val") for n, s in zip(program.graph.nodes, program.graph_signature.input_specs)
              if s.kind.name == "USER_INPUT"]  # fmt: skip
    dims, shapes, real = {}, [], []
    for value, val in zip(leaves, inputs):
        real.append(tessera.view_as_real(value.resolve_conj()) if _is_complex(value) else value)
        axes = {}
        if isinstance(val, tessera.Tensor):
            for i, size in enumerate(val.shape):
                text = str(size)
                if not isinstance(size, int):
                    named = text.isidentifier()
                    axes[i] = dims.setdefault(text, tessera.export.Dim(text)) if named else tessera.export.Dim.AUTO
        shapes.append(axes or None)
    made = tessera.export.export(_RealProgram(program), tuple(real), dynamic_shapes=(tuple(shapes),), strict=False)
    new = [n.meta.get("val") for n, s in zip(made.graph.nodes, made.graph_signature.input_specs)
           if s.kind.name == "USER_INPUT"]  # fmt: skip
    symbols = {}
    for before, after in zip(inputs, new):
        if isinstance(before, tessera.Tensor):
            symbols.update({str(b): str(a) for a, b in zip(before.shape, after.shape) if not isinstance(a, int)})
    return made, symbols
