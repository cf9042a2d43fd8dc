"""Calls random operators with random arguments, and prints how many calls returned and how many raised what.

    python random_calls.py --calls N --seed S [--only REGEX] [--namespace NAME ...] [--forward]
                           [--transforms vmap|jvp|nested]

--namespace takes the operators of fft, special, signal ... alone, and gives their tensors floating dtypes more often;
those of linalg get matrices for the most part: square, Hermitian, positive definite, triangular, singular, in batches,
with right sides, pivots and reflections that fit.
With --forward half of the tensors that can have a tangent have one. With --transforms each call runs inside of vmap
(some tensors get a batch) or jvp, a part of them in a second transform, or inside of two or three of all kinds.

Every exception must be one that the documents name; anything else is an AssertionError that shows the call. A crash
shows itself: test_random_calls.py runs this in
processes of their own. The last call is in the file --log (default: none), so that a crash can be repeated.
"""

import argparse
import collections
import random
import re
import resource
import signal
import warnings

import tessera
import tessera.autograd.forward_ad as fwAD
from tessera._ops import FunctionSchema, ops
from tessera.func import functionalize, jvp, linearize, vjp, vmap

ALLOWED = (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError, OverflowError)
# Operators that work on the process or other people's memory rather than on values.
LEFT_OUT = re.compile(r"^(set_|resize|_resize|record_stream|_fused|as_strided_$|_local_scalar)")
# What the operators of a Python namespace, and of its older twins, are called.
NAMESPACES = {
    "fft": r"^_?fft_|^i?stft$",
    "special": r"^special_|^(igammac?|polygamma|mvlgamma|digamma|lgamma|erf(c|inv)?|sinc|i0|logit|xlogy)_?$",
    "signal": r"^windows_|_window$",
    "linalg": r"^_?linalg_|^(cholesky.*|lu_.*|qr|svd|geqrf|or[gm]qr|triangular_solve|s?logdet|det|p?inverse|matrix_.*)",
}
SIZES = (0, 1, 1, 2, 2, 3, 3, 4, 5, 7)
DTYPES = [tessera.float32] * 6 + [
    tessera.float64,
    tessera.int64,
    tessera.int64,
    tessera.int32,
    tessera.uint8,
    tessera.bool,
    tessera.bfloat16,
    tessera.float16,
    tessera.complex64,
    tessera.int8,
    tessera.uint16,
    tessera.complex128,
]
INTS = (-(2**63), -(2**31), -7, -3, -2, -1, -1, 0, 0, 0, 1, 1, 1, 2, 2, 3, 4, 5, 17, 64, 65, 2**31, 2**62, 2**63 - 1)
FLOATS = (0.0, -0.0, 0.5, 1.0, -1.0, 2.0, 1e-30, 1e30, -1e300, float("inf"), float("-inf"), float("nan"))


class Maker:
    """Random arguments; tensors of one call like to have shapes and dtypes that fit."""

    def __init__(self, rng, duals, floating=False):
        self.rng = rng
        self.duals = duals
        self.shape = self.new_shape()
        self.dtype = rng.choice(DTYPES)
        if floating and rng.random() < 0.7:
            self.dtype = rng.choice((tessera.float32, tessera.float64, tessera.complex64, tessera.complex128))
        self.extreme = floating and rng.random() < 0.3

    def new_shape(self):
        return tuple(self.rng.choice(SIZES) for _ in range(self.rng.choice((0, 1, 1, 2, 2, 2, 3, 3, 4, 4, 5))))

    def tensor(self, name):
        rng = self.rng
        shape = self.shape if rng.random() < 0.7 else self.new_shape()
        dtype = self.dtype if rng.random() < 0.8 else rng.choice(DTYPES)
        if name in ("index", "indices", "target", "offsets", "repeats") and rng.random() < 0.9:
            dtype = tessera.int64
        if name in ("mask", "condition") and rng.random() < 0.9:
            dtype = tessera.bool
        low, high = (-3, 8) if dtype.is_signed else (0, 8)
        if dtype.is_floating_point or dtype.is_complex:
            t = tessera.randn(
                shape, dtype=dtype if dtype not in (tessera.float16, tessera.bfloat16) else tessera.float32
            ).to(dtype)
            if self.extreme and not dtype.is_complex:
                values = tessera.tensor((*FLOATS, 1e300, 5e-324, 2.0**31, -17.5), dtype=tessera.float64)
                t = values[tessera.randint(0, len(values), shape)].to(dtype)
        else:
            t = tessera.randint(low, high, shape).to(dtype)
        return self.arranged(t)

    def arranged(self, t):
        """The same kind of tensor in another form of memory."""
        rng = self.rng
        kind = rng.random()
        if kind < 0.5 or t.dim() == 0:
            pass
        elif kind < 0.6:
            t = t.transpose(0, -1)
        elif kind < 0.7:
            t = t[..., ::2]
        elif kind < 0.75:
            t = t[:1].expand(t.shape) if t.shape[0] else t
        elif kind < 0.8:
            t = t.flip(0)[1:]
        elif kind < 0.84 and t.dtype.is_complex:
            t = t.conj()
        elif kind < 0.87:
            t = tessera.empty(t.shape, dtype=t.dtype, device="meta")
        elif kind < 0.9:
            t = tessera.cat([t, t]).detach()[: t.shape[0]]
        if (t.dtype.is_floating_point or t.dtype.is_complex) and rng.random() < 0.2:
            t = t.detach().requires_grad_()
        if self.duals and (t.dtype.is_floating_point or t.dtype.is_complex) and rng.random() < 0.5:
            tangent = tessera.ones_like(t.detach())
            if rng.random() < 0.3:
                tangent = (
                    tangent.T.contiguous().T if t.dim() == 2 else tangent[:1].expand(t.shape) if t.dim() else tangent
                )
            t = fwAD.make_dual(
                t, tangent if tangent.shape == t.shape else tessera.ones(t.shape, dtype=t.dtype, device=t.device)
            )
        return t

    def written(self, inputs):
        """An out= tensor: often an input, a part of one, or its memory seen otherwise."""
        rng = self.rng
        given = [t for v in inputs for t in (v if isinstance(v, list) else [v]) if isinstance(t, tessera.Tensor)]
        if not given or rng.random() < 0.4:
            return tessera.empty(0, dtype=self.dtype) if rng.random() < 0.5 else self.tensor("out")
        t = rng.choice(given)
        kind = rng.random()
        if kind < 0.4:
            return t
        t = t.detach()
        if kind < 0.5:
            return t.view_as(t)
        if kind < 0.6:
            return t.transpose(0, -1) if t.dim() else t
        if kind < 0.8:
            return t[1:] if t.dim() and rng.random() < 0.5 else t[..., :-1] if t.dim() else t
        if kind < 0.9:
            return t[:0] if t.dim() else t
        return t.as_strided((t.numel(),), (1,)) if t.is_contiguous() and t.numel() else t.unsqueeze(0)

    def value(self, kind, name):
        rng = self.rng
        if kind.endswith("?"):
            return None if rng.random() < 0.4 else self.value(kind[:-1], name)
        if kind == "Tensor":
            return self.tensor(name)
        if kind in ("Tensor[]", "Tensor?[]"):
            return [
                None if "?" in kind and rng.random() < 0.2 else self.tensor("index" if "?" in kind else name)
                for _ in range(rng.randrange(4))
            ]
        if kind in ("int", "SymInt"):
            return rng.choice(INTS) if rng.random() < 0.5 else rng.randrange(-2, 4)
        if kind == "float":
            return rng.choice(FLOATS)
        if kind == "Scalar":
            return rng.choice((rng.choice(INTS), rng.choice(FLOATS), True, 1.5 + 2j, 2))
        if kind == "bool":
            return rng.random() < 0.5
        if kind == "str":
            return rng.choice(
                (
                    "mean",
                    "sum",
                    "none",
                    "floor",
                    "trunc",
                    "constant",
                    "reflect",
                    "ij",
                    "xy",
                    "ij,jk->ik",
                    "...",
                    "same",
                    "valid",
                    "",
                    "linear",
                    "tanh",
                    "ortho",
                    "forward",
                    "backward",
                    "circular",
                    "replicate",
                )
            )
        if kind == "ScalarType":
            return rng.choice(DTYPES)
        if kind == "Layout":
            return tessera.strided
        if kind == "Device":
            return rng.choice(("cpu", "meta", "cpu"))
        if kind == "MemoryFormat":
            return rng.choice((tessera.contiguous_format, tessera.preserve_format, tessera.channels_last))
        if kind == "Generator":
            return tessera.Generator().manual_seed(1)
        if "int" in kind.lower() and "[" in kind:
            return (
                list(self.shape) if rng.random() < 0.3 else [self.value("int", name) for _ in range(rng.randrange(5))]
            )
        if kind.startswith(("float[", "Scalar[")):
            return [rng.choice(FLOATS) for _ in range(rng.randrange(4))]
        if kind.startswith("bool["):
            return [rng.random() < 0.5 for _ in range(rng.choice((2, 3, 3, 4)))]
        return None


class MatrixMaker(Maker):
    """Arguments of linear algebra: most tensors are matrices of a kind, or fit those."""

    BATCHES = ((), (), (), (1,), (2,), (3,), (17,), (0,), (2, 3), (4, 1))
    ROWS = (0, 1, 1, 2, 2, 3, 3, 4, 5, 7, 8, 16, 17, 33, 40, 65, 130)
    WORDS = (
        *("fro", "nuc", "reduced", "complete", "r", "L", "U", "u", "inf", "", "linalg.inv"),
        *("gels", "gelsy", "gelsd", "gelss", "gesvd", "gesvdj", "gesvda"),
    )
    ORDERS = (None, 0, 1, -1, 2, -2, 3, 0.5, float("inf"), float("-inf"), float("nan"))
    # What stands for the right side, or has a row for each row of the matrix.
    BESIDE = ("B", "b", "other", "input2", "input3")

    def new_shape(self):
        rng = self.rng
        if rng.random() < 0.1:
            return super().new_shape()
        rows = rng.choice(self.ROWS)
        columns = rows if rng.random() < 0.85 else rng.choice(self.ROWS)
        return (*rng.choice(self.BATCHES if rows < 65 else self.BATCHES[:5]), rows, columns)

    def tensor(self, name):
        rng = self.rng
        if len(self.shape) < 2 or rng.random() < 0.08:
            return super().tensor(name)
        batch, (rows, columns) = self.shape[:-2], self.shape[-2:]
        if rng.random() < 0.1:
            batch = batch[1:]
        least = min(rows, columns)
        if name in ("pivots", "LU_pivots", "LU_data") and rng.random() < 0.9:
            if name != "LU_data":
                return tessera.randint(-1 if rng.random() < 0.3 else 1, least + 2, (*batch, least)).to(tessera.int32)
        elif name == "info":
            return tessera.randint(-1, 3, batch).to(tessera.int32)
        elif name in ("tau", "input2") and rng.random() < 0.4:
            return self.arranged(self.noise((*batch, rng.choice((least, least, max(0, least - 1), least + 1)))))
        elif name in ("atol", "rtol", "tol", "rcond"):
            return tessera.rand(batch if rng.random() < 0.5 else ())
        elif name in self.BESIDE and rng.random() < 0.8:
            width = rng.choice((0, 1, 2, 5, 33))
            return self.arranged(
                self.noise(rng.choice(((*batch, rows, width), (*batch, width, columns), (*batch, rows))))
            )
        return self.arranged(self.matrix((*batch, rows, columns)))

    def arranged(self, t):
        """In other memory, but most often of the same shape."""
        rng = self.rng
        if t.dim() < 2 or rng.random() < 0.15:
            return super().arranged(t)
        kind = rng.random()
        if kind < 0.2:
            t = t.mT.contiguous().mT
        elif kind < 0.3:
            t = tessera.stack([t, t], -1)[..., 1]
        elif kind < 0.4:
            t = t.flip(-1).conj()
        elif kind < 0.45:
            t = t[..., :1].expand(t.shape) if t.shape[-1] else t
        if t.dtype.is_floating_point or t.dtype.is_complex:
            t = t.detach().requires_grad_(rng.random() < 0.2)
        return t

    def noise(self, shape):
        is_number = self.dtype in (tessera.float32, tessera.float64, tessera.complex64, tessera.complex128)
        return tessera.randn(shape, dtype=self.dtype if is_number else tessera.float32).to(self.dtype)

    def matrix(self, shape):
        rng, a = self.rng, self.noise(shape)
        if not (a.dtype.is_floating_point or a.dtype.is_complex) or a.dtype.itemsize < 4:
            return a
        kind = rng.choice(("plain", "hermitian", "definite", "triangle", "singular", "zero", "extreme", "scaled"))
        if shape[-1] == shape[-2] and kind == "hermitian":
            a = a + a.mH
        elif shape[-1] == shape[-2] and kind == "definite":
            a = a @ a.mH + tessera.eye(shape[-1], dtype=a.dtype)
        elif kind == "triangle":
            a = a.triu() if rng.random() < 0.5 else a.tril()
        elif kind == "singular" and shape[-1] > 1:
            a[..., -1] = a[..., 0]
        elif kind == "zero":
            a = a * 0
        elif kind == "extreme" and a.numel():
            values = tessera.tensor((*FLOATS, 1e300, 5e-324, 1e-160, -17.5), dtype=tessera.float64)
            spots = tessera.rand(shape) < rng.choice((0.02, 0.3, 1.0))
            a = tessera.where(spots, values[tessera.randint(0, len(values), shape)].to(a.dtype), a)
        elif kind == "scaled":
            a = a * rng.choice((1e-300, 1e-160, 1e-40, 1e-30, 1e30, 1e150, 1e300))
        return a

    def value(self, kind, name):
        rng = self.rng
        if kind == "str" and rng.random() < 0.9:
            return rng.choice(self.WORDS)
        if name in ("ord", "p") and rng.random() < 0.8:
            order = rng.choice(self.ORDERS)
            return 2 if order is None and not kind.endswith("?") else order
        return super().value(kind, name)


def operators(only):
    """(operator, schema) of everything registered."""
    found = []
    for name in sorted(dir(ops.aten)):
        if (
            name.startswith("__")
            and not name.endswith("__")
            or LEFT_OUT.search(name)
            or (only and not re.search(only, name))
        ):
            continue
        packet = getattr(ops.aten, name)
        if not hasattr(packet, "overloads"):
            continue
        for overload in packet.overloads():
            op = getattr(packet, overload)
            if isinstance(op._schema, FunctionSchema):
                found.append((op, op._schema))
    return found


KINDS = ("vmap", "jvp", "vjp", "linearize", "functionalize")


def chosen_kinds(rng, mode):
    """The transforms of one call, the outermost first."""
    if mode == "nested":
        return rng.choices(KINDS, k=rng.choice((2, 2, 3)))
    return [mode] if rng.random() < 0.7 else [mode, rng.choice(KINDS[2:])]


def in_transforms(rng, kinds, op, positional, keywords):
    """The call, as a function of its tensors, inside of these transforms."""
    tensors = [v.detach() for v in (*positional, *keywords.values()) if isinstance(v, tessera.Tensor)]
    if not tensors:
        raise ValueError("nothing to transform")
    return _transformed(rng, kinds, _results_of(op, positional, keywords), tensors)


def _transformed(rng, kinds, function, tensors):
    if not kinds:
        return function(*tensors)
    inner = lambda *t: _transformed(rng, kinds[1:], function, t)
    if kinds[0] == "vmap":
        dims = [rng.randrange(-t.dim() - 1, t.dim() + 1) if rng.random() < 0.7 else None for t in tensors]
        batch = [t if dim is None else tessera.stack([t] * 2, dim) for t, dim in zip(tensors, dims)]
        randomness = rng.choice(("error", "same", "different"))
        return vmap(inner, tuple(dims), randomness=randomness)(*batch)
    if kinds[0] == "functionalize":
        return functionalize(inner, remove=rng.choice(("mutations", "mutations_and_views")))(*tensors)
    floats = [i for i, t in enumerate(tensors) if t.is_floating_point() or t.is_complex()]
    moved = [i for i in floats if rng.random() < 0.7] or floats[:1]

    def of_moved(*x):
        full = list(tensors)
        for i, t in zip(moved, x):
            full[i] = t
        return inner(*full)

    primals = tuple(tensors[i] for i in moved)
    tangents = tuple(tessera.ones_like(t) for t in primals)
    if kinds[0] == "jvp":
        return jvp(of_moved, primals, tangents, strict=rng.random() < 0.1)[1]
    if kinds[0] == "linearize":
        return linearize(of_moved, *primals)[1](*tangents)
    result, pull = vjp(lambda *x: _first(of_moved(*x)), *primals)
    return pull(tessera.ones_like(result))


def _results_of(op, positional, keywords):
    def call(*tensors):
        fresh = iter(tensors)
        put = lambda v: next(fresh) if isinstance(v, tessera.Tensor) else v
        args = [put(v) for v in positional]
        return op(*args, **{k: put(v) for k, v in keywords.items()})

    return call


def _first(result):
    return _first(result[0]) if isinstance(result, (tuple, list)) and result else result


def run(calls, seed, only, log, forward=False, transforms=None, namespaces=()):
    rng = random.Random(seed)
    tessera.manual_seed(seed)
    table = operators(only)
    counts = collections.Counter()
    for _ in range(calls):
        op, schema = rng.choice(table)
        if forward:
            fwAD.enter_dual_level()
        of_matrices = "linalg" in namespaces and re.search(NAMESPACES["linalg"], schema.name.split("::")[-1])
        maker = (MatrixMaker if of_matrices else Maker)(rng, forward, bool(namespaces))
        positional, keywords = [], {}
        for argument in schema.arguments:
            if argument.has_default_value() and rng.random() < 0.5:
                if argument.kwarg_only:
                    continue
                value = argument.default_value
            elif argument.is_out and str(argument.type) == "Tensor":
                value = maker.written([*positional, *keywords.values()])
            else:
                value = maker.value(str(argument.type), argument.name)
            if argument.kwarg_only:
                keywords[argument.name] = value
            else:
                positional.append(value)
        kinds = chosen_kinds(rng, transforms) if transforms else []
        if log:
            with open(log, "w") as file:
                file.write(f"{schema}\n{positional!r}\n{keywords!r}\n{kinds}\n")
        signal.alarm(60)
        result = None
        try:
            result = in_transforms(rng, kinds, op, positional, keywords) if kinds else op(*positional, **keywords)
            counts["returned"] += 1
            if rng.random() < 0.05:
                repr(result)
            first = result[0] if isinstance(result, (tuple, list)) and result else result
            if (
                isinstance(first, tessera.Tensor)
                and first.requires_grad
                and first.numel()
                and not first.is_meta
                and rng.random() < 0.5
            ):
                first.sum().backward()
                counts["differentiated"] += 1
        except ALLOWED as error:
            counts[type(error).__name__] += 1
        except MemoryError:
            counts["MemoryError"] += 1
        if forward:
            counts["tangents"] += any(
                isinstance(t, tessera.Tensor) and fwAD.unpack_dual(t).tangent is not None
                for t in (result if isinstance(result, (tuple, list)) else [result])
            )
            fwAD.exit_dual_level()
        signal.alarm(0)
        assert not tessera._C._func._levels() and not (kinds and not tessera.is_grad_enabled())
    return counts


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("--calls", type=int, default=2000)
    ap.add_argument("--seed", type=int, default=0)
    ap.add_argument("--only")
    ap.add_argument("--namespace", nargs="+", choices=NAMESPACES)
    ap.add_argument("--log")
    ap.add_argument("--forward", action="store_true")
    ap.add_argument("--transforms", choices=("vmap", "jvp", "nested"))
    opts = ap.parse_args()
    warnings.simplefilter("ignore")
    resource.setrlimit(
        resource.RLIMIT_AS, (4 << 30, 4 << 30)
    )  # what asks for more memory is refused, not granted slowly
    only = "|".join(NAMESPACES[name] for name in opts.namespace) if opts.namespace else opts.only
    counts = run(opts.calls, opts.seed, only, opts.log, opts.forward, opts.transforms, opts.namespace or ())
    for name, count in counts.most_common():
        print(name, count)


if __name__ == "__main__":
    main()
