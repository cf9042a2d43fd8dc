"""Arguments by the names that the documents give them where the schemas of operators have others, and by those."""

import re

import pytest
import tessera
from tessera import ones, tensor  # noqa: F401

M = tensor([[4.0, 1.0], [1.0, 3.0]])
V = tensor([1.0, 2.0])
B = M.expand(2, 2, 2)
N = tensor([1, 0])
S = M.to_sparse()
R = tensor([True, False])
MASK = tensor([[True, False], [False, True]])
_REFLECTIONS, TAU = tessera.geqrf(M)
LU, PIVOTS = tessera.linalg.lu_factor(M)

# The call by documented names; the schema's names where they differ, in the same order ("-": the same name).
CALLS = """
linalg.cholesky(A=M) self
linalg.cholesky_ex(A=M) self
linalg.cond(A=M, p=1) self -
linalg.cond(A=M, p="fro") self -
linalg.eig(A=M) self
linalg.eigh(A=M, UPLO="U") self -
linalg.eigvals(A=M) self
linalg.eigvalsh(A=M, UPLO="U") self -
linalg.householder_product(A=M, tau=TAU) input -
linalg.ldl_factor(A=M) self
linalg.ldl_factor_ex(A=M) self
linalg.lstsq(A=M, B=M, rcond=0.1) self b -
linalg.matrix_exp(A=M) self
linalg.matrix_norm(A=M, ord="fro") self -
linalg.matrix_norm(A=M, ord=1) self -
linalg.matrix_power(A=M, n=2) self -
linalg.matrix_rank(A=M) self
linalg.matrix_rank(A=M, tol=0.5) self -
linalg.norm(A=M, ord=1) self -
linalg.norm(A=M, ord="nuc") self -
linalg.pinv(A=M) self
linalg.pinv(A=M, rcond=0.1) self -
linalg.tensorinv(A=2 * tessera.eye(4).reshape(4, 2, 2), ind=1) self -
linalg.tensorsolve(A=M, B=V) self other
linalg.vander(x=V, N=3) - -
linalg.vector_norm(x=V, ord=3) self -
cholesky_inverse(L=M) self
cholesky_solve(B=M, L=M, upper=True) self input2 -
lu_solve(b=M, LU_data=LU, LU_pivots=PIVOTS) self - -
matrix_exp(A=M) self
orgqr(input=M, tau=TAU) self input2
ormqr(input=M, tau=TAU, other=M) self input2 input3
triangular_solve(b=M, A=M, upper=False) self - -
searchsorted(sorted_sequence=V, values=M) - self
searchsorted(sorted_sequence=V, values=1.5) - self
true_divide(dividend=M, divisor=V) self other
true_divide(dividend=M, divisor=2) self other
broadcast_to(input=V, shape=(2, 2)) self size
concatenate(tensors=[M, M], axis=1) - dim
tensor_split(input=M, indices_or_sections=2, dim=1) self sections -
tensor_split(input=M, indices_or_sections=[1], dim=1) self indices -
tensor_split(input=M, indices_or_sections=tensor(2)) self tensor_indices_or_sections
hsplit(input=M, indices_or_sections=2) self sections
vsplit(input=M, indices_or_sections=[1]) self indices
dsplit(input=B, indices_or_sections=2) self sections
unsafe_split(tensor=M, split_size_or_sections=1, dim=1) self split_size -
smm(input=S, mat=M) self mat2
nn.functional.gelu(input=M, approximate="tanh") self -
nn.functional.one_hot(tensor=N, num_classes=3) self -
special.chebyshev_polynomial_t(input=V, n=V) x -
special.hermite_polynomial_h(input=V, n=2) x -
special.legendre_polynomial_p(input=2.0, n=V) x -
special.shifted_chebyshev_polynomial_w(input=V, n=3) x -
Tensor.mul(self=M, value=V) - other
Tensor.mul(self=M, value=2) - other
Tensor.multiply(self=M, value=V) - other
Tensor.div(self=M, value=V) - other
Tensor.divide(self=M, value=2) - other
Tensor.true_divide(self=M, value=V) - other
Tensor.floor_divide(self=M, value=V) - other
Tensor.floor_divide_(self=M.clone(), value=2) - other
Tensor.fmod(self=M, divisor=V) - other
Tensor.fmod_(self=M.clone(), divisor=3) - other
Tensor.remainder(self=M, divisor=V) - other
Tensor.bmm(self=B, batch2=B) - mat2
Tensor.dot(self=V, other=V) - tensor
Tensor.matmul(self=M, tensor2=V) - other
Tensor.smm(self=S, mat=M) - mat2
Tensor.take(self=M, indices=N) - index
Tensor.index_copy_(self=M.clone(), dim=0, index=N, tensor=M) - - - source
Tensor.masked_scatter(self=M, mask=MASK, tensor=V) - - source
Tensor.narrow(self=M, dimension=0, start=0, length=1) - dim - -
Tensor.narrow(self=M, dimension=0, start=tensor(1), length=1) - dim - -
Tensor.narrow_copy(self=M, dimension=1, start=0, length=1) - dim - -
Tensor.broadcast_to(self=V, shape=(2, 2)) - size
Tensor.tensor_split(self=M, indices_or_sections=2, dim=1) - sections -
Tensor.hsplit(self=M, split_size_or_sections=2) - sections
Tensor.vsplit(self=M, split_size_or_sections=[1]) - indices
Tensor.dsplit(self=B, split_size_or_sections=2) - sections
Tensor.type_as(self=M, tensor=N) - other
Tensor.resize_as_(self=M.clone(), tensor=V, memory_format=tessera.contiguous_format) - the_template -
Tensor.contiguous(self=M, memory_format=tessera.contiguous_format) - -
Tensor.cumsum(self=M, dim=0, dtype=tessera.float64) - - -
Tensor.cumprod(self=M, dim=0, dtype=tessera.float64) - - -
Tensor.sum(self=M, dim=0, keepdim=True, dtype=tessera.float64) - - - -
Tensor.prod(self=M, dim=0, keepdim=True, dtype=tessera.float64) - - - -
Tensor.nansum(self=M, dim=None, keepdim=True, dtype=tessera.float64) - - - -
Tensor.round(self=M / 3, decimals=1) - -
Tensor.flip(self=M, dims=(0,)) - -
Tensor.tile(self=M, dims=(2,)) - -
Tensor.new_zeros(self=M, size=(2, 3)) - -
Generator.manual_seed(self=tessera.Generator(), seed=3) - -
Generator.set_state(self=tessera.Generator(), new_state=tessera.Generator().get_state()) - -
mm(input=M, mat2=M, out_dtype=tessera.float32) self - -
bmm(input=B, mat2=B, out_dtype=tessera.float32) self - -
addmm(input=M, mat1=M, mat2=M, out_dtype=tessera.float32) self - - -
baddbmm(input=B, batch1=B, batch2=B, out_dtype=tessera.float32) self - - -
""".strip().splitlines()


def called(path):
    found = tessera
    for name in path.split("."):
        found = getattr(found, name)
    return found


def equal(a, b):
    if isinstance(a, (tuple, list)):
        assert len(a) == len(b)
        for x, y in zip(a, b):
            equal(x, y)
    elif isinstance(a, tessera.Tensor):
        assert tessera.equal(a.to_dense(), b.to_dense()) and a.dtype == b.dtype
    else:
        assert type(a) is type(b)


@pytest.mark.parametrize("line", CALLS)
def test_documented_names(line):
    path, keywords, own = re.fullmatch(r"([\w.]+)\((.*)\) ([\w\- ]+)", line).groups()
    function = called(path)
    given = eval(f"dict({keywords})")
    rest = {k: v for k, v in given.items() if k != "self"}
    first = [given["self"]] if "self" in given else []
    got = function(*first, **rest)
    names = own.split()
    assert len(names) == len(given)
    schema = {k if n == "-" else n: v for n, (k, v) in zip(names, given.items()) if k != "self"}
    given = eval(f"dict({keywords})")  # in-place operators have written
    first = [given["self"]] if "self" in given else []
    equal(got, function(*first, **schema))
    given = eval(f"dict({keywords})")
    if path not in ("linalg.matrix_rank", "linalg.pinv", "searchsorted"):
        equal(got, function(*given.values()))
    if not path.startswith("Generator"):
        with pytest.raises(TypeError):
            function(*first, **rest, zz=1)


@pytest.mark.parametrize("path", sorted({line.split("(")[0] for line in CALLS}))
def test_signatures_show_them(path):
    """Of each call: all names stand in one of the signatures that begin the documentation."""
    function = called(path)
    if path.startswith("Generator"):
        shown = [function.__text_signature__]
    else:
        shown = [s for s in function.__doc__.split("\n\n")[0].splitlines() if "(" in s]
    for line in CALLS:
        if line.split("(")[0] != path:
            continue
        wanted = [k for k in eval(f"dict({line.split('(', 1)[1].rsplit(')', 1)[0]})") if k != "self"]
        assert any(all(re.search(rf"\b{name}\b", s) for name in wanted) for s in shown), (wanted, shown)


def test_both_names_are_one_argument_too_many():
    with pytest.raises(TypeError):
        tessera.linalg.eig(A=M, input=M)
    with pytest.raises(TypeError):
        M.mul(value=2, other=2)


def test_schemas_keep_their_own_names():
    names = [a.name for a in tessera.ops.aten.linalg_eig.default._schema.arguments]
    assert names == ["self"]
    assert [a.name for a in tessera.ops.aten.mul.Tensor._schema.arguments] == ["self", "other"]


# Documented defaults that are None: the call without the argument.
NONES = """
M.max(dim=None) M.max()
M.min(dim=None) M.min()
M.median(dim=None) M.median()
M.nanmedian(dim=None) M.nanmedian()
M.prod(dim=None) M.prod()
M.squeeze(dim=None) M.squeeze()
M.mode(dim=None) M.mode()
M.kthvalue(1,dim=None) M.kthvalue(1)
M.topk(1,dim=None) M.topk(1)
M.amax(dim=None) M.amax()
tessera.eye(2,m=None) tessera.eye(2)
tessera.trapezoid(V,x=None,dx=None,dim=-1) tessera.trapezoid(V)
tessera.cumulative_trapezoid(V,x=None,dx=2) tessera.cumulative_trapezoid(V,dx=2)
tessera.mm(M,M,out_dtype=None) tessera.mm(M,M)
tessera.addmm(M,M,M,out_dtype=None,beta=2) tessera.addmm(M,M,M,beta=2)
tessera.zeros(2,2).scatter_(0,N[None],M,reduce=None) tessera.zeros(2,2).scatter_(0,N[None],M)
tessera.nn.functional.avg_pool2d(M[None],2,stride=None) tessera.nn.functional.avg_pool2d(M[None],2)
""".strip().splitlines()


@pytest.mark.parametrize("line", NONES)
def test_none_is_the_documented_default(line):
    with_none, without = line.split(" ")
    equal(eval(with_none), eval(without))


def test_none_elsewhere_is_refused():
    with pytest.raises(TypeError):
        M.unbind(dim=None)
    with pytest.raises(TypeError):
        M.cumsum(dim=None)
    with pytest.raises(TypeError):
        M.max(other=None)


@pytest.mark.parametrize("half", [tessera.float16, tessera.bfloat16])
def test_out_dtype_of_products(half):
    """2049 is no number of a half type, but one of float32."""
    a, b = tensor([[2048.0, 1.0]], dtype=half), ones(2, 1, dtype=half)
    want = tensor([[2049.0]])
    got = tessera.mm(a, b, out_dtype=tessera.float32)
    assert got.dtype == tessera.float32 and tessera.equal(got, want)
    assert tessera.mm(a, b, out_dtype=half).dtype == half
    out = tessera.empty(1, 1)
    assert tessera.mm(a, b, tessera.float32, out=out) is out and tessera.equal(out, want)
    assert tessera.equal(tessera.bmm(a[None], b[None], out_dtype=tessera.float32), want[None])
    add = tessera.ones(1, 1, dtype=half)
    got = tessera.addmm(add, a, b, out_dtype=tessera.float32, beta=3, alpha=2)
    assert got.dtype == tessera.float32 and tessera.equal(got, 3 + 2 * want)
    got = tessera.baddbmm(add.float(), a[None], b[None], out_dtype=tessera.float32)
    assert tessera.equal(got, 1 + want[None])
    x = a.clone().requires_grad_()
    tessera.mm(x, b, out_dtype=tessera.float32).backward(ones(1, 1))
    assert x.grad.dtype == half and tessera.equal(x.grad, b.T)


def test_out_dtype_refusals():
    with pytest.raises(RuntimeError, match="out_dtype must be the dtype of the matrices"):
        tessera.mm(M, M, out_dtype=tessera.float64)
    with pytest.raises(RuntimeError, match="the same dtype"):
        tessera.mm(M, M.half(), out_dtype=tessera.float32)
    with pytest.raises(RuntimeError, match="what is added"):
        tessera.addmm(M.double(), M.half(), M.half(), out_dtype=tessera.float32)
    with pytest.raises(RuntimeError):
        tessera.mm(M.half(), M.half(), out_dtype=tessera.float32, out=tessera.empty(2, 2, dtype=tessera.float16))


def test_sort_by_place_with_stable():
    x = tensor([3.0, 1.0, 3.0])
    assert tessera.sort(x, 0, True, stable=True).indices.tolist() == [0, 2, 1]
    assert x.sort(0, stable=True)[1].tolist() == [1, 0, 2]
    assert tessera.argsort(x, -1, True, stable=True).tolist() == [0, 2, 1]
    with pytest.raises(TypeError):
        tessera.sort(x, 0, dim=0, stable=True)


def test_python_functions():
    f = tessera.enable_grad(orig_func=lambda: tessera.is_grad_enabled())
    with tessera.no_grad():
        assert f() and not tessera.is_grad_enabled()
    points = tessera.rand(20, 2, generator=tessera.Generator().manual_seed(1))
    hist, edges = tessera.histogramdd(points, [3, 2])
    out = (tessera.empty(0), [tessera.empty(0), tessera.empty(0)])
    got = tessera.histogramdd(points, [3, 2], range=None, weight=None, density=False, out=out)
    assert got.hist is out[0] and tessera.equal(out[0], hist) and all(map(tessera.equal, out[1], edges))
    with pytest.raises(RuntimeError, match="tensors for edges"):
        tessera.histogramdd(points, [3, 2], out=(tessera.empty(0), []))
    keys = tessera.utils.weak.WeakIdKeyDictionary()
    keys.update(dict={M: 1})
    assert keys[M] == 1


def test_out_dtype_through_transforms():
    """Batches, sparse operands and autocast see out_dtype as well."""
    a, b = tensor([[[2048.0, 1.0]], [[1.0, 1.0]]]).half(), ones(2, 1).half()
    want = tensor([[[2049.0]], [[2.0]]])
    got = tessera.vmap(lambda x: tessera.mm(x, b, out_dtype=tessera.float32))(a)
    assert got.dtype == tessera.float32 and tessera.equal(got, want)
    got = tessera.vmap(lambda x: tessera.addmm(ones(1, 1).half(), x, b, out_dtype=tessera.float32, beta=2))(a)
    assert got.dtype == tessera.float32 and tessera.equal(got, want + 2)
    got = tessera.mm(a[0].to_sparse(), b, out_dtype=tessera.float32)
    assert got.dtype == tessera.float32 and got.to_dense().tolist() == [[2049.0]]
    with tessera.autocast("cpu", dtype=tessera.bfloat16):
        got = tessera.mm(a[0].bfloat16(), b.bfloat16(), out_dtype=tessera.float32)
    assert got.dtype == tessera.float32 and got.tolist() == [[2049.0]]
    made = tessera.fx.experimental.proxy_tensor.make_fx(lambda x: tessera.mm(x, b, out_dtype=tessera.float32))(a[0])
    assert tessera.equal(made(a[1]), want[1])
