"""Decompositions of reductions and of products of matrices."""

import math

import tessera
from tessera._decomp._registry import rule, widened
from tessera._ops import ops

aten = ops.aten


def all_dims(self, dim):
    """The dimensions of a reduction; none mean all."""
    if dim is None or (isinstance(dim, (list, tuple)) and not dim):
        return list(range(self.dim()))
    return list(dim) if isinstance(dim, (list, tuple)) else [dim]


@rule("sum")
def sum_all(self, *, dtype=None):
    return aten.sum.dim_IntList(self, [], dtype=dtype)


@rule("nansum")
def nansum(self, dim=None, keepdim=False, *, dtype=None):
    zero = aten.scalar_tensor.default(0, dtype=self.dtype, device=self.device)
    return aten.sum.dim_IntList(
        aten.where.self(tessera.isnan(self), zero, self), all_dims(self, dim), keepdim, dtype=dtype
    )


@rule("max")
def max_all(self):
    return aten.amax.default(self, list(range(self.dim())))


@rule("min")
def min_all(self):
    return aten.amin.default(self, list(range(self.dim())))


@rule("aminmax")
def aminmax(self, *, dim=None, keepdim=False):
    dims = all_dims(self, dim)
    return aten.amin.default(self, dims, keepdim), aten.amax.default(self, dims, keepdim)


@rule("all")
def all_of(self):
    return tessera.logical_not(aten.any.default(tessera.logical_not(self)))


@rule("all.dim")
def all_dim(self, dim, keepdim=False):
    return tessera.logical_not(aten.any.dim(tessera.logical_not(self), dim, keepdim))


@rule("all.dims")
def all_of_dims(self, dim=None, keepdim=False):
    return tessera.logical_not(aten.any.dims(tessera.logical_not(self), dim, keepdim))


@rule("count_nonzero.dim_IntList")
def count_nonzero(self, dim):
    return aten.sum.dim_IntList(self != 0, all_dims(self, dim))


@rule("std.correction")
def std(self, dim=None, *, correction=None, keepdim=False):
    return tessera.sqrt(aten.var.correction(self, dim, correction=correction, keepdim=keepdim))


@rule("var_mean.correction")
def var_mean(self, dim=None, *, correction=None, keepdim=False):
    return (
        aten.var.correction(self, dim, correction=correction, keepdim=keepdim),
        aten.mean.dim(self, all_dims(self, dim), keepdim),
    )


@rule("std_mean.correction")
def std_mean(self, dim=None, *, correction=None, keepdim=False):
    var, mean = var_mean(self, dim, correction=correction, keepdim=keepdim)
    return tessera.sqrt(var), mean


@rule("logsumexp")
@widened
def logsumexp(self, dim, keepdim=False):
    x = self if self.is_floating_point() or self.is_complex() else self.to(tessera.get_default_dtype())
    dims = all_dims(x, dim)
    if x.numel() == 0:
        return tessera.log(aten.sum.dim_IntList(tessera.exp(x), dims, keepdim))
    largest = aten.amax.default(x.real if x.is_complex() else x, dims, True)
    zero = aten.scalar_tensor.default(0, dtype=largest.dtype, device=x.device)
    largest = aten.where.self(tessera.abs(largest) == math.inf, zero, largest)  # inf - inf is nan
    total = tessera.log(aten.sum.dim_IntList(tessera.exp(x - largest), dims, keepdim))
    return total + (largest if keepdim else aten.squeeze.dims(largest, dims))


@rule("linalg_vector_norm")
def vector_norm(self, ord=2, dim=None, keepdim=False, *, dtype=None):
    if self.dtype in (tessera.float16, tessera.bfloat16) and dtype is None:
        return vector_norm(self, ord, dim, keepdim, dtype=tessera.float32).to(self.dtype)
    x = self if dtype is None else self.to(dtype)
    size, dims = tessera.abs(x), all_dims(x, dim)
    if ord == math.inf:
        return aten.amax.default(size, dims, keepdim)
    if ord == -math.inf:
        return aten.amin.default(size, dims, keepdim)
    if ord == 0:
        return aten.sum.dim_IntList((size != 0).to(size.dtype), dims, keepdim)
    if ord == 1:
        return aten.sum.dim_IntList(size, dims, keepdim)
    if ord == 2:
        return tessera.sqrt(aten.sum.dim_IntList(size * size, dims, keepdim))
    total = aten.sum.dim_IntList(aten.pow.Tensor_Scalar(size, ord), dims, keepdim)
    return aten.pow.Tensor_Scalar(total, 1 / ord)


# --- products


@rule("mv")
def mv(self, vec):
    return aten.squeeze.dims(aten.mm.default(self, aten.unsqueeze.default(vec, 1)), [1])


def _check_vectors(name, a, b):
    if a.dim() != 1 or a.shape != b.shape or a.dtype != b.dtype:
        raise RuntimeError(
            f"{name}: expected vectors of one length and dtype, got {tuple(a.shape)} of {a.dtype} and "
            f"{tuple(b.shape)} of {b.dtype}"
        )


@rule("dot")
def dot(self, tensor):
    _check_vectors("dot", self, tensor)
    return aten.sum.dim_IntList(self * tensor, [])


@rule("vdot")
def vdot(self, other):
    _check_vectors("vdot", self, other)
    return aten.sum.dim_IntList(self.conj() * other, [])


def _scaled_sum(self, product, beta, alpha):
    """beta * self + alpha * product, in product's dtype; beta = 0 ignores self, whatever is in it."""
    if not product.is_floating_point() and not product.is_complex():
        beta, alpha = int(beta), int(alpha)
    total = product if alpha == 1 else product * alpha
    if beta != 0:
        total = (self if beta == 1 else self * beta) + total
    return total.to(product.dtype)


@rule("addmv")
@widened
def addmv(self, mat, vec, *, beta=1, alpha=1):
    product = mv(mat, vec)
    return _scaled_sum(self, product, beta, alpha)


@rule("addr")
@widened
def addr(self, vec1, vec2, *, beta=1, alpha=1):
    return _scaled_sum(self, aten.unsqueeze.default(vec1, 1) * vec2, beta, alpha)


@rule("baddbmm")
@widened
def baddbmm(self, batch1, batch2, *, beta=1, alpha=1):
    return _scaled_sum(self, aten.bmm.default(batch1, batch2), beta, alpha)


@rule("_addmm_activation")
def addmm_activation(self, mat1, mat2, *, beta=1, alpha=1, use_gelu=False):
    sums = aten.addmm.default(self, mat1, mat2, beta=beta, alpha=alpha)
    return aten.gelu.default(sums, approximate="tanh") if use_gelu else aten.relu.default(sums)
