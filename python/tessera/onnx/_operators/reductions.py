"""Translations of reductions, sorts, scans and products of matrices."""

import math

import tessera
from tessera.onnx._build import Value, alike_in_shape
from tessera.onnx._operators.pointwise import truth, work
from tessera.onnx._table import TABLE, aten, rows
from tessera.onnx._types import BOOL, INT64


def axes_of(dim, x):
    """Dimensions of a reduction of x: None for all, and for a tensor that has none."""
    if dim is None or x.shape == () or (isinstance(dim, (list, tuple)) and not dim):
        return None
    return [dim] if isinstance(dim, int) else list(dim)


def _sums(op):
    def translate(b, self, dim=None, keepdim=False, dtype=None):
        wanted = b.out_dtype or dtype or (self.dtype if self.dtype.is_floating_point else INT64)
        x = b.to(self, wanted)
        return x if self.shape == () else b.reduce(op, x, axes_of(dim, self), keepdim)

    return translate


rows("sum=ReduceSum mean=ReduceMean prod=ReduceProd", _sums)
for _name, _of in (("nansum", "sum"), ("nanmean", "mean")):

    def _no_nan(b, self, dim=None, keepdim=False, dtype=None, of=_of):
        x = b.to(self, b.out_dtype or dtype or self.dtype)
        if not self.dtype.is_floating_point:
            return _sums("ReduceSum" if of == "sum" else "ReduceMean")(b, self, dim, keepdim, dtype)
        held = b.Where(b.IsNaN(x), 0, x)
        total = b.reduce("ReduceSum", held, axes_of(dim, self), keepdim)
        if of == "sum":
            return total
        return total / b.reduce("ReduceSum", b.to(b.Not(b.IsNaN(x)), x.dtype), axes_of(dim, self), keepdim)

    TABLE["aten::" + _name] = _no_nan


def extreme(b, op, self, dim, keepdim):
    if self.shape == ():
        return self
    if self.dtype == BOOL:
        return b.to(b.reduce(op, b.to(self, tessera.int32), axes_of(dim, self), keepdim), BOOL)
    return b.reduce(op, self, axes_of(dim, self), keepdim)


def _extremes(op):
    return lambda b, self, dim=None, keepdim=False: extreme(b, op, self, dim, keepdim)


rows("amax=ReduceMax amin=ReduceMin", _extremes)


def index_of(b, op, self, dim, keepdim):
    if self.shape == ():
        return b.value(0)
    return b.op(op, b.to(self, tessera.int32) if self.dtype == BOOL else self, axis=dim, keepdims=int(keepdim))


def _max_min(reduction, index, pointwise):
    def translate(b, self, dim=None, keepdim=False, other=None):
        if other is not None:
            return b.op(pointwise, *work(b, self, other))
        if dim is None:
            return extreme(b, reduction, self, None, False)
        return extreme(b, reduction, self, dim, keepdim), index_of(b, index, self, dim, keepdim)

    return translate


TABLE["aten::max"] = _max_min("ReduceMax", "ArgMax", "Max")
TABLE["aten::min"] = _max_min("ReduceMin", "ArgMin", "Min")


@aten("aminmax")
def aminmax(b, self, dim=None, keepdim=False):
    return extreme(b, "ReduceMin", self, dim, keepdim), extreme(b, "ReduceMax", self, dim, keepdim)


def _arg(op):
    def translate(b, self, dim=None, keepdim=False):
        if dim is not None:
            return index_of(b, op, self, dim, keepdim)
        made = index_of(b, op, b.Reshape(self, [-1]), 0, False)
        return made if not keepdim else b.Reshape(made, [1] * self.rank)

    return translate


rows("argmax=ArgMax argmin=ArgMin", _arg)


def _quantified(op):
    def translate(b, self, dim=None, keepdim=False):
        x = b.to(truth(b, self), tessera.int32)
        return truth(b, x if self.shape == () else b.reduce(op, x, axes_of(dim, self), keepdim))

    return translate


rows("all=ReduceMin any=ReduceMax", _quantified)


@aten("count_nonzero")
def count_nonzero(b, self, dim=None):
    return b.reduce("ReduceSum", b.to(truth(b, self), INT64), axes_of(dim, self))


@aten("logsumexp special_logsumexp")
def logsumexp(b, self, dim, keepdim=False):
    return b.reduce("ReduceLogSumExp", work(b, self)[0], axes_of(dim, self), keepdim)


def count(b, x, dim):
    """How many elements a reduction takes together: a number or a Value of x's dtype."""
    axes = axes_of(dim, x)
    axes = range(x.rank) if axes is None else axes
    sizes = [b.dim(x, a) for a in axes]
    if not any(isinstance(s, Value) for s in sizes):
        return math.prod(sizes)
    return b.to(b.reduce("ReduceProd", b.ints(sizes), None), x.dtype)


def moments(b, self, dim, correction, keepdim):
    """(variance, mean)."""
    axes = axes_of(dim, self)
    kept = b.reduce("ReduceMean", self, axes, True)
    off = self - kept
    var = b.reduce("ReduceMean", off * off, axes, keepdim)
    if correction:
        n = count(b, self, dim)
        factor = (
            n / (n - correction) if isinstance(n, Value) else (n / (n - correction) if n != correction else math.nan)
        )
        var = var * factor
    return var, kept if keepdim else b.reduce("ReduceMean", self, axes, False)


def _variances(root, with_mean):
    def translate(b, self, dim=None, unbiased=True, keepdim=False, correction=None):
        if isinstance(dim, bool):  # var(unbiased)
            dim, unbiased = None, dim
        correction = int(unbiased) if correction is None else correction
        var, mean = moments(b, self, dim, correction, keepdim)
        var = b.Sqrt(var) if root else var
        return (var, mean) if with_mean else var

    return translate


for _name, _root, _mean in (("var", 0, 0), ("std", 1, 0), ("var_mean", 0, 1), ("std_mean", 1, 1)):
    TABLE["aten::" + _name] = _variances(_root, _mean)


@aten("linalg_norm")
def linalg_norm(b, self, ord=None, dim=None, keepdim=False, dtype=None):
    axes = axes_of(dim, self)
    if ord is not None and (self.rank if axes is None else len(axes)) != 1:
        raise NotImplementedError(f"norms of matrices of order {ord!r}")
    return norm(b, self, 2, dim, keepdim, dtype, ord)


@aten("norm linalg_vector_norm frobenius_norm")
def norm(b, self, p=2, dim=None, keepdim=False, dtype=None, ord=None):
    p = p if ord is None else ord
    p = 2 if p is None or p == "fro" else p
    dtype = b.out_dtype or dtype
    x = self if dtype is None else b.to(self, dtype)
    axes = axes_of(dim, self)
    if isinstance(p, str):
        raise NotImplementedError(f"norms of order {p!r}")
    if p == 2:
        return b.reduce("ReduceL2", x, axes, keepdim)
    x = b.Abs(x)
    if p == 1:
        return b.reduce("ReduceSum", x, axes, keepdim)
    if abs(p) == math.inf:
        return b.reduce("ReduceMax" if p > 0 else "ReduceMin", x, axes, keepdim)
    if p == 0:
        return b.reduce("ReduceSum", b.to(b.Not(b.Equal(x, 0)), x.dtype), axes, keepdim)
    return b.reduce("ReduceSum", x ** float(p), axes, keepdim) ** (1 / float(p))


@aten("cumsum")
def cumsum(b, self, dim, dtype=None):
    x = b.to(self, b.out_dtype or dtype or (self.dtype if self.dtype.is_floating_point else INT64))
    return x if self.shape == () else b.CumSum(x, b.value(dim))


@aten("logcumsumexp")
def logcumsumexp(b, self, dim):
    if self.shape == ():
        return self
    top = b.reduce("ReduceMax", self, [dim], True)
    return b.Log(b.CumSum(b.Exp(self - top), b.value(dim))) + top


@aten("cumprod")
def cumprod(b, self, dim, dtype=None):
    """As a scan over the dimension."""
    x = b.to(self, b.out_dtype or dtype or self.dtype)
    return b.Identity(x) if nothing_to_scan(self) else _scanned(b, x, dim % self.rank, "Mul", 1)


def nothing_to_scan(x):
    """Whether a tensor has no dimension or no element, of which a scan is itself (runtimes refuse to scan those)."""
    return not x.rank or 0 in [s for s in x.shape if isinstance(s, int)]


def _scanned(b, x, dim, op, first):
    start = b.op("Expand", b.value(first, x.dtype), b.Shape(b.op("Gather", x, b.value(0), axis=dim)), dtype=x.dtype)
    body = b.inner()
    state, element = body.input("state", x.dtype), body.input("element", x.dtype)
    made = body.op(op, state, element)
    body.outputs = [made, body.Identity(made)]
    return b.op("Scan", start, x, body=body, num_scan_inputs=1, scan_input_axes=[dim], scan_output_axes=[dim],
                outputs=2)[1]  # fmt: skip


def _cumulative_extreme(op, compare):
    def translate(b, self, dim):
        if nothing_to_scan(self):
            return b.Identity(self), b.full(b.Shape(self), 0, INT64)
        dim %= self.rank
        start = b.op("Gather", self, b.value(0), axis=dim)
        zeros = b.full(b.Shape(start), 0, INT64)
        body = b.inner()
        best, at, i = body.input("best", self.dtype), body.input("at", INT64), body.input("i", INT64)
        element = body.input("element", self.dtype)
        newer = body.Not(body.op(compare, best, element))
        now, where = body.op(op, best, element), body.Where(newer, i, at)
        body.outputs = [now, where, body.Add(i, body.value(1)), body.Identity(now), body.Identity(where)]
        made = b.op("Scan", start, zeros, b.value(0), self, body=body, num_scan_inputs=1, scan_input_axes=[dim],
                    scan_output_axes=[dim, dim], outputs=5)  # fmt: skip
        made[4].dtype = INT64
        return made[3], made[4]

    return translate


TABLE["aten::cummax"] = _cumulative_extreme("Max", "Greater")
TABLE["aten::cummin"] = _cumulative_extreme("Min", "Less")


@aten("diff")
def diff(b, self, n=1, dim=-1, prepend=None, append=None):
    given = [v for v in (prepend, self, append) if v is not None]
    x = given[0] if len(given) == 1 else b.op("Concat", *given, axis=dim)
    for _ in range(n):
        x = b.slice(x, dim, 1, 2**62) - b.slice(x, dim, 0, -1)
    return x


@aten("trace")
def trace(b, self):
    return b.reduce("ReduceSum", TABLE["aten::diagonal"](b, self), None)


# --- sorting ---


def top(b, self, k, dim, largest, in_order=True):
    if self.shape == ():
        return self, b.value(0)
    x = b.to(self, tessera.int32) if self.dtype == BOOL else self
    values, at = b.op("TopK", x, [k], axis=dim, largest=int(largest), sorted=int(in_order), outputs=2)
    return b.to(values, self.dtype), at


@aten("topk")
def topk(b, self, k, dim=-1, largest=True, sorted=True):
    return top(b, self, k, dim, largest, sorted)


@aten("sort")
def sort(b, self, stable=None, dim=-1, descending=False):
    return top(b, self, b.dim(self, dim) if self.rank else 1, dim, descending)


@aten("argsort")
def argsort(b, self, dim=-1, descending=False, stable=False):
    return sort(b, self, stable, dim, descending)[1]


@aten("msort")
def msort(b, self):
    return sort(b, self, None, 0)[0]


@aten("kthvalue")
def kthvalue(b, self, k, dim=-1, keepdim=False):
    if self.shape == ():
        return self, b.value(0)
    return _picked(b, top(b, self, k, dim, False), k - 1, dim, keepdim)


def _picked(b, found, at, dim, keepdim):
    return tuple(b.op("Gather", v, b.const([at] if keepdim else at, INT64), axis=dim) for v in found)


@aten("median")
def median(b, self, dim=None, keepdim=False):
    if self.shape == ():
        return self if dim is None else (self, b.value(0))
    x = b.Reshape(self, [-1]) if dim is None else self
    n = b.dim(self, dim) if dim is not None else count(b, self, None)
    if isinstance(n, Value):
        raise NotImplementedError("median over a dimension whose size may differ")
    found = _picked(b, top(b, x, (n + 1) // 2, 0 if dim is None else dim, False), (n + 1) // 2 - 1,
                    0 if dim is None else dim, keepdim)  # fmt: skip
    return found[0] if dim is None else found


# --- products ---


def _product(b, self, mat2):
    return b.MatMul(*work(b, self, mat2))


for _name in ("mm", "bmm"):
    TABLE["aten::" + _name] = _product
TABLE["aten::mv"] = lambda b, self, vec: b.MatMul(self, vec)
TABLE["aten::dot"] = TABLE["aten::vdot"] = lambda b, self, tensor=None, other=None: b.MatMul(
    self, other if tensor is None else tensor
)


@aten("matmul __matmul__ linalg_matmul")
def matmul(b, self, other):
    return b.MatMul(*work(b, self, other))


@aten("linear")
def linear(b, input, weight, bias=None):
    if input.shape is not None and len(input.shape) == 2 and bias is not None and input.dtype.is_floating_point:
        made = b.Gemm(input, weight, bias, transB=1)
    else:
        flat = weight.shape is not None and len(weight.shape) == 1
        made = b.MatMul(input, weight if flat else b.transpose(weight, [1, 0]))
        made = made if bias is None else made + bias
    made.note = ("linear", input, weight, bias)
    return made


def _accumulated(self, product, beta, alpha):
    fit = float if product.dtype.is_floating_point else int
    product = product if alpha == 1 else product * fit(alpha)
    return product if beta == 0 else product + (self if beta == 1 else self * fit(beta))


@aten("addmm")
def addmm(b, self, mat1, mat2, beta=1, alpha=1):
    if mat1.dtype.is_floating_point and b.dim(mat1, 1) != 0:  # runtimes' Gemm forgets beta where there is no product
        return b.Gemm(mat1, mat2, self, alpha=float(alpha), beta=float(beta))
    return _accumulated(self, b.MatMul(mat1, mat2), beta, alpha)


@aten("baddbmm")
def baddbmm(b, self, batch1, batch2, beta=1, alpha=1):
    return _accumulated(self, b.MatMul(batch1, batch2), beta, alpha)


@aten("addbmm")
def addbmm(b, self, batch1, batch2, beta=1, alpha=1):
    return _accumulated(self, b.reduce("ReduceSum", b.MatMul(batch1, batch2), [0]), beta, alpha)


@aten("addmv")
def addmv(b, self, mat, vec, beta=1, alpha=1):
    return _accumulated(self, b.MatMul(mat, vec), beta, alpha)


@aten("addr")
def addr(b, self, vec1, vec2, beta=1, alpha=1):
    return _accumulated(self, outer(b, vec1, vec2), beta, alpha)


@aten("outer ger")
def outer(b, self, vec2):
    return b.Mul(b.unsqueeze(self, 1), b.unsqueeze(vec2, 0))


@aten("inner")
def inner(b, self, other):
    if () in (self.shape, other.shape):
        return self * other
    return b.MatMul(self, b.transpose(other, [*range(other.rank - 2), other.rank - 1, other.rank - 2])
                    if other.rank > 1 else other)  # fmt: skip


@aten("einsum")
def einsum(b, equation, tensors, path=None):
    equation = _letters(equation, [x.rank for x in tensors])
    left, _, right = equation.partition("->")
    if len(tensors) == 1 and "." not in left and len(set(left)) == len(left):  # sums and an order alone
        x = tensors[0]
        rest = [c for c in left if c in right]
        if len(rest) < len(left):
            x = b.reduce("ReduceSum", x, [i for i, c in enumerate(left) if c not in right])
        return b.transpose(x, [rest.index(c) for c in right])
    return b.op("Einsum", *b.alike(*tensors), equation=equation)


def _letters(equation, ranks):
    """An equation in small letters, with its result and what its dots stand for written out."""
    equation = equation.replace(" ", "")
    names = sorted(set(equation) - set(".,->"))
    free = [c for c in "abcdefghijklmnopqrstuvwxyz" if c not in names]
    table = {c: free.pop() for c in names if c.isupper() and free}
    left, arrow, right = equation.partition("->")
    if not arrow:
        right = ("..." if "..." in left else "") + "".join(c for c in names if left.count(c) == 1)
    parts = left.split(",")
    missing = [rank - len(part) + 3 if "..." in part else 0 for part, rank in zip(parts, ranks)]
    dots = "".join(free[: max(missing)])
    spell = lambda text, n: "".join(table.get(c, c) for c in text.replace("...", dots[len(dots) - n :]))  # noqa: E731
    return ",".join(map(spell, parts, missing)) + "->" + spell(right, len(dots))


@aten("tensordot")
def tensordot(b, self, other, dims_self, dims_other):
    dims_self, dims_other = [d % self.rank for d in dims_self], [d % other.rank for d in dims_other]
    letters = "abcdefghijklmnopqrstuvwxyz"
    one = list(letters[: self.rank])
    two = list(letters[self.rank : self.rank + other.rank])
    for i, j in zip(dims_self, dims_other):
        two[j] = one[i]
    left = [c for i, c in enumerate(one) if i not in dims_self]
    left += [c for j, c in enumerate(two) if j not in dims_other]
    return b.op("Einsum", self, other, equation=f"{''.join(one)},{''.join(two)}->{''.join(left)}")


@aten("bilinear")
def bilinear(b, input1, input2, weight, bias=None):
    made = b.op("Einsum", input1, weight, input2, equation="...i,kij,...j->...k")
    return made if bias is None else made + bias


@aten("cross linalg_cross")
def cross(b, self, other, dim=None):
    one, two = work(b, self, other)
    if dim is None:
        dim = -1 if self.rank and self.shape[-1] == 3 else next(i for i, s in enumerate(self.shape) if s == 3)
    turn = lambda x, order: b.op("Gather", x, b.const(order, INT64), axis=dim)  # noqa: E731
    return turn(one, [1, 2, 0]) * turn(two, [2, 0, 1]) - turn(one, [2, 0, 1]) * turn(two, [1, 2, 0])


@aten("cosine_similarity")
def cosine_similarity(b, x1, x2, dim=1, eps=1e-8):
    x1, x2 = work(b, x1, x2)
    if not alike_in_shape(x1, x2):
        whole = b.Shape(x1 * x2)
        x1, x2 = b.Expand(x1, whole), b.Expand(x2, whole)
    elif x1.shape == ():
        x1, x2 = b.unsqueeze(x1, 0), b.unsqueeze(x2, 0)
    length = lambda x: b.Max(b.reduce("ReduceL2", x, [dim], True), b.value(float(eps), x.dtype))  # noqa: E731
    return b.reduce("ReduceSum", (x1 / length(x1)) * (x2 / length(x2)), [dim])


@aten("pairwise_distance")
def pairwise_distance(b, x1, x2, p=2.0, eps=1e-6, keepdim=False):
    one, two = work(b, x1, x2)
    return norm_free(b, one - two + float(eps), p, [-1], keepdim)


def norm_free(b, x, p, axes, keepdim):
    """A norm of what a translation made itself."""
    if p == 2:
        return b.reduce("ReduceL2", x, axes, keepdim)
    if p == math.inf:
        return b.reduce("ReduceMax", b.Abs(x), axes, keepdim)
    if p == -math.inf:
        return b.reduce("ReduceMin", b.Abs(x), axes, keepdim)
    if p == 0:
        return b.reduce("ReduceSum", b.to(b.Not(b.Equal(x, 0)), x.dtype), axes, keepdim)
    x = b.Abs(x)
    total = b.reduce("ReduceSum", x if p == 1 else x ** float(p), axes, keepdim)
    return total if p == 1 else total ** (1 / float(p))


@aten("cdist _cdist_forward")
def cdist(b, x1, x2, p=2.0, compute_mode=None):
    return norm_free(b, b.unsqueeze(x1, -2) - b.unsqueeze(x2, -3), p, [-1], False)


@aten("det linalg_det")
def det(b, self=None, A=None):
    return b.Det(A if self is None else self)


@aten("linalg_inv inverse")
def inverse(b, A=None, self=None):
    return b.op("Inverse", A if self is None else self, domain="com.microsoft")


# --- losses ---


def reduced(b, x, reduction):
    if reduction == 0:
        return x
    return b.reduce("ReduceMean" if reduction == 1 else "ReduceSum", x, None)


@aten("mse_loss")
def mse_loss(b, self, target, reduction=1):
    off = self - target
    return reduced(b, off * off, reduction)


@aten("l1_loss")
def l1_loss(b, self, target, reduction=1):
    return reduced(b, b.Abs(self - target), reduction)


@aten("smooth_l1_loss")
def smooth_l1_loss(b, self, target, reduction=1, beta=1.0):
    off = b.Abs(self - target)
    if beta == 0:
        return reduced(b, off, reduction)
    return reduced(b, b.Where(b.Less(off, float(beta)), off * off * (0.5 / beta), off - 0.5 * beta), reduction)


@aten("huber_loss")
def huber_loss(b, self, target, reduction=1, delta=1.0):
    off = b.Abs(self - target)
    return reduced(b, b.Where(b.LessOrEqual(off, float(delta)), off * off * 0.5, (off - 0.5 * delta) * float(delta)),
                   reduction)  # fmt: skip


@aten("binary_cross_entropy")
def binary_cross_entropy(b, self, target, weight=None, reduction=1):
    low = lambda x: b.Max(b.Log(x), b.value(-100.0, x.dtype))  # noqa: E731
    made = -(target * low(self) + (1 - target) * low(1 - self))
    return reduced(b, made if weight is None else made * weight, reduction)


@aten("binary_cross_entropy_with_logits")
def binary_cross_entropy_with_logits(b, self, target, weight=None, pos_weight=None, reduction=1):
    more = b.Softplus(-self)
    if pos_weight is None:
        made = (1 - target) * self + more
    else:
        made = (1 - target) * self + ((pos_weight - 1) * target + 1) * more
    return reduced(b, made if weight is None else made * weight, reduction)


@aten("kl_div")
def kl_div(b, self, target, reduction=1, log_target=False):
    if log_target:
        made = b.Exp(target) * (target - self)
    else:
        made = b.Where(b.Greater(target, 0), target * (b.Log(target) - self), 0)
    return reduced(b, made, reduction)


_WAYS = {0: "none", 1: "mean", 2: "sum"}


@aten("nll_loss nll_loss_nd nll_loss2d")
def nll_loss(b, self, target, weight=None, reduction=1, ignore_index=-100):
    alone = self.rank == 1
    if alone:
        self, target = b.unsqueeze(self, 0), b.unsqueeze(target, 0)
    made = b.op("NegativeLogLikelihoodLoss", self, target, weight, reduction=_WAYS[reduction],
                ignore_index=ignore_index)  # fmt: skip
    return b.squeeze(made, 0) if alone and reduction == 0 else made


@aten("cross_entropy_loss")
def cross_entropy_loss(b, self, target, weight=None, reduction=1, ignore_index=-100, label_smoothing=0.0):
    if label_smoothing or target.dtype.is_floating_point:
        raise NotImplementedError("cross_entropy with probabilities as targets or label_smoothing")
    alone = self.rank == 1
    if alone:
        self, target = b.unsqueeze(self, 0), b.unsqueeze(target, 0)
    made = b.op("SoftmaxCrossEntropyLoss", self, target, weight, reduction=_WAYS[reduction], ignore_index=ignore_index)
    return b.squeeze(made, 0) if alone and reduction == 0 else made


@aten("bincount")
def bincount(b, self, weights=None, minlength=0):
    dtype = INT64 if weights is None else b.out_dtype or weights.dtype
    top_ = b.Max(b.reduce("ReduceMax", self, None) + 1, b.value(int(minlength), self.dtype))
    zeros = b.full(b.ints([top_]), 0, dtype)
    ones = b.full(b.Shape(self), 1, INT64) if weights is None else b.to(weights, dtype)
    return b.op("ScatterElements", zeros, b.to(self, INT64), ones, axis=0, reduction="add")


# --- under masks: the private operators of this library's torch.masked ---


def _under(b, self, mask, otherwise):
    """(what is read, and `otherwise` where nothing is; the mask in the shape of both)."""
    whole = b.And(mask, b.full(b.Shape(self), True, BOOL))
    return b.Where(whole, self, b.value(otherwise, self.dtype)), whole


@aten("_masked_sum")
def masked_sum(b, self, mask, dim, keepdim=False, mean=False, dtype=None):
    held, whole = _under(b, b.to(self, b.out_dtype or dtype or self.dtype), mask, 0)
    axes = list(dim) or None
    total = b.reduce("ReduceSum", held, axes, keepdim)
    return total / b.reduce("ReduceSum", b.to(whole, held.dtype), axes, keepdim) if mean else total


@aten("_masked_reduce")
def masked_reduce(b, self, mask, kind, dim, keepdim=False, param=0.0):
    axes, floating = list(dim) or None, self.dtype.is_floating_point
    limits = tessera.finfo(self.dtype) if floating else tessera.iinfo(self.dtype)
    if kind in ("amax", "amin"):
        least = kind == "amax"
        edge = (-math.inf if least else math.inf) if floating else limits.min if least else limits.max
        return b.reduce("ReduceMax" if least else "ReduceMin", _under(b, self, mask, edge)[0], axes, keepdim)
    if kind == "prod":
        return b.reduce("ReduceProd", _under(b, self, mask, 1)[0], axes, keepdim)
    if kind == "logsumexp":
        return b.reduce("ReduceLogSumExp", _under(b, self, mask, -math.inf)[0], axes, keepdim)
    if kind == "norm":
        edge = math.inf if param == -math.inf else 0
        return norm_free(b, _under(b, b.Abs(self), mask, edge)[0], param, axes, keepdim)
    x = b.to(self, b.out_dtype or self.dtype)  # var
    held, whole = _under(b, x, mask, 0)
    n = lambda keep: b.reduce("ReduceSum", b.to(whole, x.dtype), axes, keep)  # noqa: E731
    off = b.Where(whole, x - b.reduce("ReduceSum", held, axes, True) / n(True), b.value(0, x.dtype))
    return b.reduce("ReduceSum", off * off, axes, keepdim) / b.Max(n(keepdim) - float(param), b.value(0, x.dtype))


@aten("_softmax_under")
def softmax_under(b, self, mask, dim, log=False):
    return b.op("LogSoftmax" if log else "Softmax", _under(b, self, mask, -math.inf)[0], axis=dim)
