"""Arguments of the core operators that have to fit each other: lists of calls, by operator."""

import tessera
from op_arguments import Given, floats, integers

F, I = floats, integers
CPU = tessera.device("cpu")


def _scattered(**more):
    # Places that are met twice, once and never.
    return dict(self=F(3, 3), dim=0, index=I([0, 1, 2], [0, 2, 0]), src=F(2, 3), **more)


def _plain(*values):
    return lambda dtype: tessera.tensor(values, dtype=tessera.float64)


def _complex(*shape):
    return lambda dtype: floats(*shape)(tessera.complex128)


REDUCTIONS = ("sum", "prod", "mean", "amax", "amin")
_KNOWN = [[True, False, True], [True, True, True]]


def _reductions(names, **given):
    calls = [(name, Given(reduce=name, include_self=i, **given)) for name in names for i in (True, False)]
    return [call.only_real() if name in ("amax", "amin", 3, 4) else call for name, call in calls]


INDEXING = {
    "gather": [Given(self=F(3, 3), dim=0, index=I([0, 1, 2], [0, 2, 0]))],
    "scatter_add": [Given(**_scattered())],
    "scatter.value": [Given(self=F(3, 3), dim=1, index=I([0], [2], [1]), value=0.5)],
    "scatter.reduce": [Given(**_scattered(reduce=r)) for r in ("add", "multiply")],
    "scatter.value_reduce": [
        Given(self=F(3, 3), dim=0, index=I([0, 1, 2], [0, 2, 0]), value=0.5, reduce=r) for r in ("add", "multiply")
    ],
    "scatter_reduce.two": _reductions(REDUCTIONS, **_scattered()),
    "_scatter_reduce": _reductions(range(5), **_scattered()),
    "index_reduce": _reductions(REDUCTIONS[1:], self=F(3, 2), dim=0, index=I(0, 2, 0), source=F(3, 2)),
    "index_select": [Given(self=F(3, 2), dim=0, index=I(0, 2, 0))],
    "index_add": [Given(self=F(3, 2), dim=0, index=I(0, 2, 0), source=F(3, 2), alpha=0.7)],
    "index_copy": [Given(self=F(3, 2), dim=0, index=I(2, 0), source=F(2, 2))],
    "index_fill.int_Scalar": [Given(self=F(3, 2), dim=0, index=I(2, 0), value=0.5)],
    "index_fill.int_Tensor": [Given(self=F(3, 2), dim=0, index=I(2, 0), value=F())],
    "index.Tensor": [Given(self=F(3, 2), indices=[I(0, 2, 0), I(1, 0, 1)])],
    "index_put": [
        Given(self=F(3, 2), indices=[I(0, 2)], values=F(2, 2), accumulate=False),
        Given(self=F(3, 2), indices=[I(0, 2, 0)], values=F(3, 2), accumulate=True),
    ],
    "_index_put_impl_": [Given(self=F(3, 2), indices=[I(0, 2, 0)], values=F(3, 2), accumulate=True)],
    "take": [Given(self=F(2, 3), index=I(0, 5, 2, 0))],
    "put": [
        Given(self=F(2, 3), index=I(0, 5, 2), source=F(3)),
        Given(self=F(2, 3), index=I(0, 5, 0), source=F(3), accumulate=True),
    ],
    "take_along_dim": [
        Given(self=F(3, 2), indices=I([0, 1], [2, 0]), dim=0),
        Given(self=F(3, 2), indices=I(0, 5, 2)),
    ],
    "masked_fill.Tensor": [Given(self=F(2, 3), mask=lambda dtype: tessera.tensor([True, False, True]), value=F())],
    "masked_scatter": [
        Given(self=F(2, 3), mask=lambda dtype: tessera.tensor([[True, False, True], [False, True, False]]), source=F(4))
    ],
    "_masked_reduce": [
        Given(self=F(2, 3), mask=lambda dtype: tessera.tensor(_KNOWN), kind=kind, dim=dim, keepdim=keep, param=param)
        for kind, dim, keep, param in (
            ("amax", [1], False, 0.0),
            ("amin", [0, 1], True, 0.0),
            ("prod", [1], False, 0.0),
            ("norm", [0], False, 2.0),
            ("norm", [1], True, 3.0),
            ("logsumexp", [1], False, 0.0),
            ("var", [1], False, 0.0),
            ("var", [0, 1], True, 1.0),
        )
    ],
    "_softmax_under": [
        Given(self=F(2, 3), mask=lambda dtype: tessera.tensor(_KNOWN), dim=1, log=False),
        Given(self=F(2, 3), mask=lambda dtype: tessera.ones(2, 3, dtype=tessera.bool), dim=0, log=True),
    ],
    "select_scatter": [Given(self=F(2, 3), src=F(2), dim=1, index=1)],
    "slice_scatter": [Given(self=F(4, 2), src=F(2, 2), dim=0, start=0, end=4, step=2)],
    "diagonal_scatter": [Given(self=F(2, 3), src=F(2), offset=1)],
    "as_strided_scatter": [Given(self=F(6), src=F(2, 2), size=[2, 2], stride=[2, 1])],
    "repeat_interleave.self_Tensor": [Given(self=F(2, 3), repeats=I(2, 1), dim=0)],
    "tile": [Given(self=F(2, 3), dims=[2, 1]), Given(self=F(2, 3), dims=[2])],
    "repeat": [Given(self=F(2, 3), repeats=[2, 1])],
    "narrow.Tensor": [Given(self=F(3, 2), dim=0, start=lambda dtype: tessera.tensor(1), length=2)],
    "meshgrid.indexing": [Given(tensors=[F(2), F(3)], indexing=i) for i in ("ij", "xy")],
    "meshgrid": [Given(tensors=[F(2), F(3)])],
    "trace": [Given(self=F(3, 3))],
    "diff": [Given(self=F(2, 3), n=1, dim=-1), Given(self=F(2, 3), n=2, dim=0, prepend=F(1, 3), append=F(1, 3))],
    "where.self": [
        Given(
            condition=lambda dtype: tessera.tensor([[True, False, True], [False, True, False]]),
            self=F(2, 3),
            other=F(2, 3),
        )
    ],
}

VIEWS = {
    "as_strided": [
        Given(self=F(6), size=[2, 2], stride=[2, 1], storage_offset=1),
        Given(self=F(6), size=[2, 2], stride=[1, 1]),
    ],
    "as_strided_backward": [
        Given(grad=F(2, 2), base_size=[6], base_stride=[1], base_offset=0, size=[2, 2], stride=[1, 1], offset=1)
    ],
    "as_strided_gather": [
        Given(base=F(6), base_size=[6], base_stride=[1], base_offset=0, size=[2, 2], stride=[1, 1], offset=1)
    ],
    "diagonal_backward": [Given(grad_output=F(2), input_sizes=[2, 3], offset=1, dim1=0, dim2=1)],
    "unfold_backward": [Given(grad_in=F(2, 2, 2), input_sizes=[2, 3], dim=1, size=2, step=1)],
    "unfold": [Given(self=F(2, 4), dimension=1, size=2, step=1)],
    "tensor_split.tensor_indices_or_sections": [
        Given(self=F(3, 2), tensor_indices_or_sections=I(1, 2)),
        Given(self=F(3, 2), tensor_indices_or_sections=lambda dtype: tessera.tensor(2)),
    ],
    "tensor_split.indices": [Given(self=F(3, 2), indices=[1, 2])],
    "tensor_split.sections": [Given(self=F(3, 2), sections=2)],
    "view_as_complex": [Given(self=F(3, 2))],
    "contiguous": [Given(self=F(2, 3), memory_format=tessera.contiguous_format)],
    "select_backward": [Given(grad_output=F(2), input_sizes=[2, 3], dim=1, index=1)],
    "slice_backward": [Given(grad_output=F(2, 2), input_sizes=[4, 2], dim=0, start=0, end=4, step=2)],
    "dsplit.int": [Given(self=F(1, 2, 4), sections=2)],
    "dsplit.array": [Given(self=F(1, 2, 4), indices=[1, 3])],
    "fill.Tensor": [Given(self=F(2, 3), value=F())],
    "to.device": [
        Given(self=F(2, 3), device=CPU, dtype=tessera.complex128),
        Given(self=F(2, 3), device=CPU, dtype=tessera.float64, copy=True),
    ],
    "unflatten.int": [Given(self=F(2, 4), dim=1, sizes=[2, 2])],
    "split_with_sizes": [Given(self=F(3, 2), split_sizes=[1, 2])],
    "unsafe_split_with_sizes": [Given(self=F(3, 2), split_sizes=[1, 2])],
    "split.sizes": [Given(self=F(3, 2), split_size=[1, 2])],
}

REDUCING = {
    "quantile": [Given(self=F(2, 3), q=F(2), dim=d) for d in (None, 1)],
    "nanquantile": [Given(self=F(2, 3), q=F(2), dim=d) for d in (None, 1)],
    "nanquantile.scalar": [
        Given(self=F(2, 3), q=0.3, dim=1, interpolation=i) for i in ("linear", "lower", "higher", "midpoint", "nearest")
    ],
    "cov": [
        Given(self=F(2, 4)),
        Given(self=F(2, 4), correction=0, fweights=I(1, 2, 1, 3)),
        Given(self=F(2, 4), aweights=F(4)).only_real(),
    ],
    "__matmul__": [Given(self=F(2, 3), other=F(3, 2))],
    "__rmatmul__": [Given(self=F(2, 3), other=F(3, 2))],
    "linalg_matmul": [Given(self=F(2, 3), other=F(3, 2))],
    "_foreach_mm": [Given(self=[F(2, 3), F(1, 2)], mat2=[F(3, 2), F(2, 2)])],
    "vander": [Given(x=F(3)), Given(x=F(3), N=2, increasing=True)],
    "linalg_vander": [Given(x=F(3))],
    **{
        f"_foreach_{name}{s}.Tensor": [Given(self=[F(2, 3), F(3)], **{"other": F()})]
        for name in ("add", "div", "mul")
        for s in ("", "_")
    },
    "quantile.scalar": [
        Given(self=F(2, 3), q=0.3, dim=1, interpolation=i) for i in ("linear", "lower", "higher", "midpoint", "nearest")
    ],
    "clamp": [Given(self=F(2, 3), min=0.5, max=0.7), Given(self=F(2, 3), min=0.6), Given(self=F(2, 3), max=0.6)],
    "clip": [Given(self=F(2, 3), min=0.5, max=0.7)],
    "clamp.Tensor": [
        Given(self=F(2, 3), min=F(2, 3, low=0.3, high=0.5), max=F(2, 3, low=0.6, high=0.7)),
        Given(self=F(2, 3), min=F(2, 3)),
        Given(self=F(2, 3), max=F(2, 3)),
    ],
    "clip.Tensor": [Given(self=F(2, 3), min=F(2, 3, low=0.3, high=0.5), max=F(2, 3, low=0.6, high=0.7))],
    "linalg_vector_norm": [
        Given(self=F(2, 3), ord=o, dim=d, keepdim=k)
        for o in (2, 1, 3, 0.5, 1.5, float("inf"), float("-inf"))
        for d, k in ((None, False), ([1], True))
    ],
    "einsum": [
        Given(equation="ij,jk->ki", tensors=[F(2, 3), F(3, 2)]),
        Given(equation="iij->j", tensors=[F(2, 2, 3)]),
    ],
    "cross": [Given(self=F(2, 3), other=F(2, 3))],
    "linalg_cross": [Given(self=F(2, 3), other=F(2, 3))],
    "cdist": [Given(x1=F(2, 3), x2=F(4, 3), p=p) for p in (2.0, 1.0, 3.0)]
    + [Given(x1=F(2, 3), x2=F(4, 3), compute_mode=1)],
    "_cdist_forward": [Given(x1=F(2, 3), x2=F(4, 3), p=p, compute_mode=None) for p in (2.0, 1.0, 3.0, float("inf"))]
    + [Given(x1=F(2, 3), x2=F(4, 3), p=2.0, compute_mode=1)],
    "_cdist_backward": [Given(grad=F(2, 4), x1=F(2, 3), x2=F(4, 3), p=2.0, cdist=F(2, 4))],
    "addmm": [
        Given(self=F(2, 4), mat1=F(2, 3), mat2=F(3, 4), beta=0.7, alpha=0.4),
        Given(self=F(4), mat1=F(2, 3), mat2=F(3, 4)),
    ],
    "addmv": [Given(self=F(2), mat=F(2, 3), vec=F(3), beta=0.7, alpha=0.4)],
    "addr": [Given(self=F(2, 3), vec1=F(2), vec2=F(3), beta=0.7, alpha=0.4)],
    "addbmm": [Given(self=F(2, 4), batch1=F(2, 2, 3), batch2=F(2, 3, 4), beta=0.7, alpha=0.4)],
    "baddbmm": [Given(self=F(2, 2, 4), batch1=F(2, 2, 3), batch2=F(2, 3, 4), beta=0.7, alpha=0.4)],
    "dot": [Given(self=F(3), tensor=F(3))],
    "vdot": [Given(self=F(3), other=F(3))],
    "mv": [Given(self=F(2, 3), vec=F(3))],
    "matmul": [
        Given(self=F(*a), other=F(*b))
        for a, b in (
            ((2, 3), (3, 2)),
            ((3,), (3,)),
            ((2, 3), (3,)),
            ((3,), (3, 2)),
            ((2, 2, 3), (3, 2)),
            ((2, 1, 2, 3), (2, 3, 2)),
        )
    ],
    "outer": [Given(self=F(2), vec2=F(3))],
    "ger": [Given(self=F(2), vec2=F(3))],
    "bincount": [Given(self=I(0, 2, 2), weights=F(3))],
    "polar": [Given(abs=F(2, 3), angle=F(2, 3))],
    "pow.Tensor_Scalar": [Given(self=F(2, 3), exponent=e) for e in (0, 1, 2, 3, 0.5, -1, 2.7)],
    "trapezoid.x": [Given(y=F(2, 3), x=F(3))],
    "normal.float_Tensor": [Given(mean=0.5, std=F(2, 3))],
    "_standard_gamma": [Given(self=F(2, 3, low=1.2, high=2.5))],
}

VIEWS["unfold_copy"] = VIEWS["unfold"]

SAMPLES = {**INDEXING, **VIEWS, **REDUCING}
