"""Every operator on Meta tensors: shapes, dtypes, strides, offsets, histories, aliasing and argument errors are those
of the same call on the CPU.

Nobody lists operators here: they come from the registry, in all forms (functional, in-place, out=). Arguments are drawn
by rules (op_arguments.py) over shapes, dtypes and
layouts of memory, the same for every run. A call that fails on the CPU must fail alike on Meta, unless the failure
depends on values: then a call with other values goes through.
VALUE_DEPENDENT has the operators whose results cannot be told without values; they must say so.
"""

import collections
import itertools
import random
import re
import warnings
import zlib

import tessera
from linalg_arguments import LINALG
from op_arguments import (
    CONSTRAINTS,
    DOMAINS,
    SHAPES,
    Given,
    Unknown,
    candidates,
    flatten,
    floats,
    identify,
    integers,
    split_arguments,
)
from op_samples_nn import SAMPLES
from tessera._ops import FunctionSchema, ops

# Shape or result is made of values: what a call on Meta raises.
VALUE_DEPENDENT = dict.fromkeys(
    [
        "_dist_all_within",
        "_local_scalar_dense",
        "_unique2",
        "argwhere",
        "equal",
        "is_nonzero",
        "masked_select",
        "masked_select.out",
        "nonzero",
        "nonzero.out",
        "repeat_interleave.Tensor",
        "unique_consecutive",
        "unique_dim",
        "where",
    ],
    NotImplementedError,
)
# They read a number with item().
VALUE_DEPENDENT.update(
    dict.fromkeys(
        [
            "_foreach_addcdiv.Tensor",
            "_foreach_addcdiv_.Tensor",
            "_foreach_addcmul.Tensor",
            "_foreach_addcmul_.Tensor",
            "_fused_adam_.tensor_lr",
            "_fused_adamw_.tensor_lr",
            "_fused_sgd_.tensor_lr",
            "allclose",
            "bincount",
            "item",
            "linspace.Scalar_Tensor",
            "linspace.Tensor_Scalar",
            "linspace.Tensor_Tensor",
            "logspace.Scalar_Tensor",
            "logspace.Scalar_Tensor_out",
            "logspace.Tensor_Scalar",
            "logspace.Tensor_Scalar_out",
            "logspace.Tensor_Tensor",
            "logspace.Tensor_Tensor_out",
            "narrow.Tensor",
            "one_hot",
            "randint_like.Tensor",
            "repeat_interleave.self_Tensor",
            "tensor_split.tensor_indices_or_sections",
        ],
        RuntimeError,
    )
)
# Facts that are left out of the comparison: masked_fill and index_fill read a number where there is one to read, and
# compute with the tensor on Meta.
NOT_COMPARED = {
    "masked_fill.Tensor": ["grad_fn"],
    "index_fill.int_Tensor": ["grad_fn"],
    "index_fill_.int_Tensor": ["grad_fn"],
}
# Operators that take a device or somebody's memory: there is no twin of such a call.
LEFT_OUT = {"set_.source_Storage_storage_offset", "to.device", "embedding_backward", "hash_tensor.out"}
# Tables whose operators get no drawn arguments: members of sparse tensors, scales and zero points have to fit, and
# python/tests/sparse and python/tests/quantized test them.
UNDRAWN_TABLES = ("sparse/", "quantization/")

# Results whose dtype is not the arguments': (operator, result).
RESULT_DTYPES = {
    ("_fft_r2c", "out"): tessera.complex64,
    ("frexp", "exponent"): tessera.int32,
    ("hash_tensor", "out"): tessera.uint64,
    ("searchsorted", "out"): tessera.int64,
    ("_int_mm", "out"): tessera.int32,
}
RESULT_DTYPES.update(
    {
        ("_scaled_mm", "out"): tessera.float8_e4m3fn,
        ("_scaled_mm_v2", "out"): tessera.float8_e4m3fn,
        ("_scaled_grouped_mm_v2", "out"): tessera.bfloat16,
    }
)

# And what a result of that name is in all operators that have one.
RESULT_DTYPES_BY_NAME = {"info": tessera.int32, "pivots": tessera.int32}

DRAWS = 120
_IMAGE, _VOLUME = floats(1, 2, 4, 4), floats(1, 2, 4, 4, 4)
_CLASSES = Given(self=floats(3, 4), target=integers(1, 0, 3), weight=floats(4))
_PIXELS = Given(self=floats(1, 3, 2, 2), target=integers([[0, 2], [1, 1]]), weight=floats(3))


_HEADS = lambda dtype: tessera.rand(1, 2, 4, 4)  # noqa: E731


def _bytes_product(**more):
    return Given(
        self=lambda dtype: tessera.ones(2, 3, dtype=tessera.int8),
        mat2=lambda dtype: tessera.ones(3, 4, dtype=tessera.int8),
        **more,
    )


def _zeros(*shape):
    return lambda dtype: tessera.zeros(shape, dtype=tessera.int64)


def _pool(rank, **more):
    return Given(kernel_size=[2] * rank, stride=[2] * rank, padding=[0] * rank, **more)


def _activated(rank, **more):
    steps = dict(stride=[1] * rank, padding=[0] * rank, dilation=[1] * rank, groups=1)
    return Given(self=floats(1, 2, *[4] * rank), weight=floats(3, 2, *[2] * rank), bias=floats(3), **steps, **more)


def _convolution(rank, **more):
    ones, zeros = [1] * rank, [0] * rank
    return Given(
        input=floats(1, 2, *[4] * rank),
        weight=floats(3, 2, *[2] * rank),
        bias=floats(3),
        stride=ones,
        padding=zeros,
        dilation=ones,
        transposed=False,
        output_padding=zeros,
        groups=1,
        **more,
    )


_BAGS = Given(weight=floats(5, 3), indices=_zeros(4), offsets=_zeros(2), mode=0, per_sample_weights=None, padding_idx=1)


def _float32(_):
    return tessera.ones(1)


# What the test of derivatives has no need of.
FITTING = {
    "_fft_r2c": [Given(self=floats(2, 3), dim=[1], normalization=0, onesided=True)],
    "_convolution": [_convolution(1), _convolution(2)],
    "convolution": [_convolution(1), _convolution(2), _convolution(3)],
    "cudnn_convolution_relu": [_activated(1), _activated(2)],
    "cudnn_convolution_add_relu": [_activated(2, z=floats(1, 3, 3, 3), alpha=2)],
    "convolution_backward": [
        _convolution(1, grad_output=floats(1, 3, 3), bias_sizes=[3]),
        _convolution(2, grad_output=floats(1, 3, 3, 3), bias_sizes=[3]),
    ],
    "conv_transpose1d": [Given(input=floats(1, 2, 4), weight=floats(2, 3, 2), bias=floats(3))],
    "conv_transpose2d": [Given(input=_IMAGE, weight=floats(2, 3, 2, 2), bias=floats(3))],
    "conv_transpose3d": [Given(input=_VOLUME, weight=floats(2, 3, 2, 2, 2), bias=floats(3))],
    "conv_tbc": [Given(self=floats(5, 1, 2), weight=floats(2, 2, 3), bias=floats(3))],
    "_int_mm": [_bytes_product()],
    "_int_mm.out": [_bytes_product(out=lambda dtype: tessera.empty(2, 4, dtype=tessera.int32))],
    "_scaled_dot_product_flash_attention_for_cpu_backward": [
        Given(
            grad_out=_HEADS,
            query=_HEADS,
            key=_HEADS,
            value=_HEADS,
            out=_HEADS,
            logsumexp=lambda dtype: tessera.zeros(1, 2, 4),
            dropout_p=0.0,
            is_causal=False,
        )
    ],
    "_rnn_layer_backward": [
        Given(
            grad_output=floats(3, 2, 4),
            grad_h_n=floats(1, 2, 4),
            grad_c_n=None,
            h0=floats(1, 2, 4),
            c0=None,
            w_hh=floats(1, 4, 4),
            w_hr=None,
            output=floats(3, 2, 4),
            values=floats(1, 3, 2, 4),
            extra=floats(0),
            kind=2,
        )
    ],
    "_amp_foreach_non_finite_check_and_unscale_": [Given(self=[], found_inf=_float32, inv_scale=_float32)],
    "_amp_update_scale_": [
        Given(self=_float32, growth_tracker=lambda _: tessera.ones(1, dtype=tessera.int32), found_inf=_float32)
    ],
    "_fused_adam_": [Given(lr=0.1)],
    "_fused_adamw_": [Given(lr=0.1)],
    "_fused_sgd_": [Given(lr=0.1, momentum_buffer_list=[])],
    "avg_pool2d_backward": [_pool(2, grad_output=floats(1, 2, 2, 2), self=_IMAGE, ceil_mode=False)],
    "avg_pool3d_backward": [_pool(3, grad_output=floats(1, 2, 2, 2, 2), self=_VOLUME, ceil_mode=False)],
    "avg_pool3d": [_pool(3, self=_VOLUME)],
    "max_pool2d_with_indices": [_pool(2, self=_IMAGE)],
    "max_pool3d_with_indices": [_pool(3, self=_VOLUME)],
    "max_pool2d_with_indices_backward": [
        _pool(
            2, grad_output=floats(1, 2, 2, 2), self=_IMAGE, dilation=[1, 1], ceil_mode=False, indices=_zeros(1, 2, 2, 2)
        )
    ],
    "max_pool3d_with_indices_backward": [
        _pool(
            3,
            grad_output=floats(1, 2, 2, 2, 2),
            self=_VOLUME,
            dilation=[1, 1, 1],
            ceil_mode=False,
            indices=_zeros(1, 2, 2, 2, 2),
        )
    ],
    "adaptive_max_pool2d": [Given(self=_IMAGE, output_size=[2, 2])],
    "adaptive_max_pool3d": [Given(self=_VOLUME, output_size=[2, 2, 2])],
    "embedding_bag": [_BAGS],
    "_embedding_bag": [_BAGS],
    "_cdist_backward": [Given(grad=floats(2, 4), x1=floats(2, 3), x2=floats(4, 3), cdist=floats(2, 4))],
    "adaptive_max_pool2d_backward": [Given(grad_output=floats(1, 2, 2, 2), self=_IMAGE, indices=_zeros(1, 2, 2, 2))],
    "adaptive_max_pool3d_backward": [
        Given(grad_output=floats(1, 2, 2, 2, 2), self=_VOLUME, indices=_zeros(1, 2, 2, 2, 2))
    ],
    "reflection_pad1d_backward": [Given(grad_output=floats(1, 2, 6), self=floats(1, 2, 4), padding=[1, 1])],
    "reflection_pad2d_backward": [Given(grad_output=floats(1, 2, 6, 6), self=_IMAGE, padding=[1] * 4)],
    "reflection_pad3d_backward": [Given(grad_output=floats(1, 2, 6, 6, 6), self=_VOLUME, padding=[1] * 6)],
    "replication_pad1d_backward": [Given(grad_output=floats(1, 2, 6), self=floats(1, 2, 4), padding=[1, 1])],
    "replication_pad2d_backward": [Given(grad_output=floats(1, 2, 6, 6), self=_IMAGE, padding=[1] * 4)],
    "replication_pad3d_backward": [Given(grad_output=floats(1, 2, 6, 6, 6), self=_VOLUME, padding=[1] * 6)],
    **{
        name: SAMPLES[name]
        for name in (
            "_ctc_loss",
            "_ctc_loss_backward",
            "_grid_sample",
            "_grid_sample_backward",
            "grid_sampler",
            "grid_sampler_2d",
            "grid_sampler_3d",
        )
    },
    **{
        f"{name}{n}d.vec": [
            Given(input=floats(1, 2, *(2, 3, 4)[:n]), output_size=[5, 3, 2][:n], scale_factors=None, **corners)
        ]
        for name, sizes, corners in (
            ("upsample_nearest", (1, 2, 3), {}),
            ("_upsample_nearest_exact", (1, 2, 3), {}),
            ("upsample_linear", (1,), {"align_corners": True}),
            ("upsample_bilinear", (2,), {"align_corners": False}),
            ("upsample_bicubic", (2,), {"align_corners": False}),
            ("upsample_trilinear", (3,), {"align_corners": True}),
        )
        for n in sizes
    },
    **{
        f"_upsample_{name}2d_aa.vec": [
            Given(input=_IMAGE, output_size=None, align_corners=False, scale_factors=[0.5, 2.0])
        ]
        for name in ("bilinear", "bicubic")
    },
    "upsample_bicubic2d": [Given(self=_IMAGE, output_size=[5, 3], align_corners=False)],
    "upsample_trilinear3d": [Given(self=floats(1, 2, 2, 3, 4), output_size=[5, 3, 2], align_corners=True)],
    "_resample": [Given(self=_IMAGE, output_size=[1, 2, 3, 7], steps=[], mode=2, align_corners=False)],
    "_resample_backward": [
        Given(grad_output=floats(1, 2, 3, 7), input_size=[1, 2, 4, 4], steps=[], mode=2, align_corners=False)
    ],
    "im2col": [Given(self=_IMAGE, kernel_size=[2, 2], dilation=[1, 1], padding=[0, 0], stride=[1, 1])],
    "col2im": [
        Given(
            self=floats(1, 8, 9), output_size=[4, 4], kernel_size=[2, 2], dilation=[1, 1], padding=[0, 0], stride=[1, 1]
        )
    ],
    "baddbmm": [Given(self=floats(2, 3, 2), batch1=floats(2, 3, 4), batch2=floats(2, 4, 2))],
    "diagonal_backward": [Given(grad_output=floats(2), input_sizes=[2, 3], offset=0, dim1=0, dim2=1)],
    "diagonal_scatter": [Given(self=floats(2, 3), src=floats(2))],
    "select_scatter": [Given(self=floats(2, 3), src=floats(3), dim=0, index=1)],
    "histogram.bins_tensor": [
        Given(self=floats(4), bins=lambda dtype: tessera.tensor([0.0, 0.5, 1.0], dtype=tessera.float64))
    ],
    "histogram.bins_tensor_out": [
        Given(self=floats(4), bins=lambda dtype: tessera.tensor([0.0, 0.5, 1.0], dtype=tessera.float64))
    ],
    "multi_margin_loss": [Given(self=floats(3, 4), target=integers(1, 0, 3), p=1)],
    "multilabel_margin_loss": [Given(self=floats(3, 4), target=integers([1, 0, -1, 0], [3, -1, 0, 0], [2, 1, -1, 0]))],
    "narrow.Tensor": [Given(self=floats(3, 4), dim=0, start=lambda dtype: tessera.tensor(1), length=2)],
    "native_group_norm": [Given(input=floats(2, 4, 3), weight=floats(4), bias=floats(4), N=2, C=4, HxW=3, group=2)],
    "native_group_norm_backward": [
        Given(
            grad_out=floats(2, 4, 3),
            input=floats(2, 4, 3),
            mean=floats(2, 2),
            rstd=floats(2, 2),
            weight=floats(4),
            N=2,
            C=4,
            HxW=3,
            group=2,
        )
    ],
    "nll_loss": [_CLASSES],
    "nll_loss_nd": [_CLASSES, _PIXELS],
    "nll_loss_forward": [_CLASSES],
    "_smoothed_nll_loss": [Given(**{**_CLASSES.arguments, "smoothing": 0.2})],
    "nll_loss2d": [_PIXELS],
    "nll_loss2d_forward": [_PIXELS],
    "nll_loss_backward": [
        Given(**{**_CLASSES.arguments, "grad_output": floats(), "reduction": 1, "total_weight": floats()})
    ],
    "nll_loss2d_backward": [
        Given(**{**_PIXELS.arguments, "grad_output": floats(), "reduction": 1, "total_weight": floats()})
    ],
    "nanquantile": [Given(q=floats())],
    "quantile": [Given(q=floats())],
    "nanquantile.scalar": [Given(q=0.5)],
    "quantile.scalar": [Given(q=0.5)],
    "nanquantile.scalar_out": [Given(q=0.5)],
    "quantile.scalar_out": [Given(q=0.5)],
}
MORE_SHAPES = SHAPES + [(0,), (2, 0), (1,), (1, 3), (3, 1), (2, 1, 4), (2, 3, 4, 4), (2, 0, 3), (1, 2, 5), (4, 4)]
DTYPES = [tessera.float32] * 4 + [
    tessera.float64,
    tessera.float64,
    tessera.int64,
    tessera.int64,
    tessera.int32,
    tessera.uint8,
    tessera.bool,
    tessera.bfloat16,
    tessera.float16,
    tessera.complex64,
    tessera.complex64,
    tessera.int8,
    tessera.complex128,
]
STRINGS = {
    "reduce": ["sum", "amax", "mean", "prod"],
    "rounding_mode": ["floor", "trunc"],
    "equation": ["ij,jk->ik", "ij->ji", "...->..."],
    "mode": ["constant", "reflect", "replicate"],
    "indexing": ["ij", "xy"],
    "padding": ["same", "valid"],
    "ord": ["fro", "nuc"],
    "reduce=": ["add", "multiply"],
    "approximate": ["none", "tanh"],
}
# What only values can be wrong about, where no other values of that shape would be right.
VALUE_ERRORS = re.compile(
    "is out of bounds for dimension|index out of range in self|ZeroDivisionError|invalid max index|invalid multinomial "
    "distribution|"
    "offsets\\[0\\] has to be 0|offsets has to be non-decreasing|could not be completed|algorithm failed to converge|"
    "does not have full rank|has a zero on its diagonal|has an illegal value|would result in a division by zero"
)
ERRORS = (RuntimeError, TypeError, ValueError, IndexError, NotImplementedError, OverflowError)


class Twin:
    """A tensor that can be made on any device: values of a base, and how the tensor lies in it."""

    def __init__(self, rng, values, without_grad=False):
        self.base, self.geometry = values.detach().clone(), None
        self.requires_grad = False
        if rng is None:
            return
        self.requires_grad = (
            not without_grad and (values.dtype.is_floating_point or values.dtype.is_complex) and rng.random() < 0.4
        )
        kind, rank = rng.random(), values.dim()
        if kind < 0.45 or rank == 0:
            return
        view = self.base
        if kind < 0.6 and rank > 1:
            self.base = self.base.transpose(0, -1).contiguous()
            view = self.base.transpose(0, -1)
        elif kind < 0.75:
            self.base = (
                self.base.repeat_interleave(2, -1)
                if view.numel()
                else self.base.new_zeros([*view.shape[:-1], 2 * view.shape[-1]])
            )
            view = self.base[..., ::2]
        elif kind < 0.85:
            self.base = tessera.cat([self.base[:1], self.base]) if view.shape[0] else self.base
            view = self.base[-view.shape[0] :] if view.shape[0] else self.base
        elif kind < 0.93 and rank == 4:
            self.base = view = view.contiguous(memory_format=tessera.channels_last)
            return
        elif view.shape[0]:
            view = view[:1].expand(view.shape)
        self.geometry = view.size(), view.stride(), view.storage_offset()

    def make(self, device, fill=None):
        if device == "meta":
            base = tessera.empty_strided(self.base.size(), self.base.stride(), dtype=self.base.dtype, device="meta")
        else:
            base = self.base.clone() if fill is None else self.base.clone().fill_(fill)
        if self.requires_grad:
            base.requires_grad_()
        return base if self.geometry is None else base.as_strided(*self.geometry)


def made(value, device, fill=None):
    if isinstance(value, (list, tuple)):
        return [made(v, device, fill) for v in value]
    return value.make(device, fill) if isinstance(value, Twin) else value


def fitting(rng, values, dtype):
    """The values in the drawn dtype; sometimes in another one, or of a shape that still broadcasts."""
    if values.dtype == tessera.float8_e4m3fn:  # chosen for operators that take nothing else
        return values
    if values.dtype.is_floating_point or values.dtype.is_complex:
        wanted = dtype if rng.random() < 0.85 else rng.choice(DTYPES)
        values = values.detach()
        values = (
            (values * 3 if not (wanted.is_floating_point or wanted.is_complex) else values).real
            if not wanted.is_complex and values.dtype.is_complex
            else values
        )
        values = (values * 3 if not (wanted.is_floating_point or wanted.is_complex) else values).to(wanted)
        if values.dim() and rng.random() < 0.12:
            values = values[:1] if values.shape[0] and rng.random() < 0.5 else values[0] if values.shape[0] else values
    return values


def other_value(rng, argument):
    """For what the rules of the derivative test do not know."""
    kind, name = argument.type.rstrip("?"), argument.name
    if kind == "str":
        return rng.choice(
            STRINGS.get(name + "=" if argument.kwarg_only else name)
            or STRINGS.get(name, ["sum", "mean", "none", "constant"])
        )
    if kind == "Generator":
        return None
    if kind.startswith("Scalar[") or kind.startswith("float["):
        return [0.5, 2.0]
    if kind.startswith("bool["):
        return [rng.random() < 0.7 for _ in range(3)]
    if kind == "MemoryFormat":
        return tessera.contiguous_format
    if kind in ("Device", "Layout", "Dimname"):
        return None
    raise Unknown(f"{kind} {name}")


def drawn(rng, schema):
    """One list of arguments, with Twins for tensors."""
    name, full = schema.name.split("::")[1], identify(schema)
    given = next((t[n] for n in (full, name, name.rstrip("_")) for t in (FITTING, CONSTRAINTS, LINALG) if n in t), None)
    fixed = rng.choice(given) if given and rng.random() < 0.7 else None
    shape, dtype, wide = rng.choice(MORE_SHAPES), rng.choice(DTYPES), rng.random() < 0.6
    index_shape = shape if rng.random() < 0.6 else (2,)
    base = tessera.complex128 if dtype.is_complex else tessera.float64
    arguments = []
    for a in schema.arguments:
        value = fixed.arguments.get(a.name, Unknown) if fixed else Unknown
        if a.is_out and a.type == "Tensor[]":
            value = [tessera.zeros(3, dtype=dtype) for _ in range(rng.randrange(1, 4))]
            arguments.append([Twin(None, v) for v in value])
            continue
        if a.is_out:
            others = [tessera.float32, tessera.bool, tessera.int64, tessera.complex64]
            known = RESULT_DTYPES.get((name, a.name)) or RESULT_DTYPES_BY_NAME.get(a.name)
            usual = known or (tessera.int64 if "indices" in a.name else dtype)
            kind = usual if rng.random() < 0.7 or "indices" in a.name else rng.choice(others)
            value = tessera.zeros(0 if rng.random() < 0.6 else shape, dtype=kind)
            arguments.append(Twin(rng, value) if rng.random() < 0.2 else Twin(None, value))
            continue
        if value is Unknown:
            try:
                value = rng.choice(candidates(a, shape, DOMAINS.get(name, (0.3, 0.9)), base, index_shape, wide))
                if a.type in ("int", "SymInt", "int?", "SymInt?") and rng.random() < 0.25:
                    value = rng.choice([-4, -2, -1, 0, 1, 2, 3])
                value = tessera.contiguous_format if a.type == "MemoryFormat" else value
                if a.type == "ScalarType?" and rng.random() < 0.3:
                    value = rng.choice(DTYPES)
                if a.type in ("Scalar", "Scalar?") and rng.random() < 0.5:
                    value = rng.choice([2, 1.5, True, 1j, 0, -1])
            except Unknown:
                value = other_value(rng, a)
        elif isinstance(value, list) and value and callable(value[0]):
            value = [v(base) for v in value]
        elif callable(value):
            value = value(base)
        if name == "repeat_interleave" and a.name == "output_size":  # a wrong one is seen by values alone
            value = None
        if a.type == "Tensor" and a.name in ("lr",):
            value = tessera.tensor(0.1)
        plain = name.startswith("_fused")
        if isinstance(value, tessera.Tensor):
            value = Twin(rng, fitting(rng, value, dtype), plain)
        elif isinstance(value, list) and value and isinstance(value[0], tessera.Tensor):
            value = [Twin(rng, fitting(rng, v, dtype), plain) for v in value]
        arguments.append(value)
    return arguments


def described(value, arguments):
    """What must agree of a result."""
    if isinstance(value, (list, tuple)):
        return [described(v, arguments) for v in value]
    if not isinstance(value, tessera.Tensor):
        return type(value).__name__ if isinstance(value, (bool, float, complex)) else value
    memory = value.untyped_storage()
    return {
        "shape": tuple(value.shape),
        "dtype": value.dtype,
        "stride": value.stride(),
        "offset": value.storage_offset(),
        "requires_grad": value.requires_grad,
        "grad_fn": value.grad_fn and value.grad_fn.name(),
        "view": value._is_view(),
        "conj": value.is_conj(),
        "neg": value.is_neg(),
        "bytes": memory.nbytes(),
        "is": [i for i, a in enumerate(arguments) if a is value],
        "shares": [i for i, a in enumerate(arguments) if a.untyped_storage()._cdata == memory._cdata],
        "version": value._version if any(a is value for a in arguments) else None,
    }


def outcome(op, schema, arguments, device, fill=None):
    """(error or None, description of results and of the arguments afterwards)."""
    values = made(arguments, device, fill)
    tensors = [t for t in flatten(values) if isinstance(t, tessera.Tensor)]
    positional, keywords = split_arguments(schema, values)
    try:
        result = op(*positional, **keywords)
    except ERRORS as error:
        return error, None
    if any(isinstance(r, tessera.Tensor) and r.device.type != device for r in flatten(result)):
        return None, "device"
    return None, [described(result, tensors), described(tensors, tensors)]


def difference(op, schema, arguments):
    """('returned' | 'raised' | 'values' | 'kernel', what Meta raised or None, None or what differs between the CPU and
    Meta).
    """
    tessera.manual_seed(0)
    error, wanted = outcome(op, schema, arguments, "cpu")
    meta_error, got = outcome(op, schema, arguments, "meta")
    if error is None:
        if meta_error is not None:
            return "returned", meta_error, f"CPU returned; Meta {type(meta_error).__name__}: {meta_error}"
        if isinstance(wanted, str) or isinstance(got, str):
            return "returned", None, None if wanted == got else "a result is on another device"
        pairs = list(itertools.zip_longest(_leaves(wanted), _leaves(got)))
        for fact in NOT_COMPARED.get(identify(schema), ()):
            pairs = [[{**v, fact: None} if isinstance(v, dict) else v for v in pair] for pair in pairs]
        return "returned", None, "; ".join(_shown(w, g) for w, g in pairs if w != g) or None
    if type(meta_error) is type(error):
        return "raised", meta_error, None
    if isinstance(error, NotImplementedError) or "is not implemented on the CPU" in str(error):
        return "kernel", meta_error, None  # that it has no kernel is a fact about the CPU
    if VALUE_ERRORS.search(str(error)) or any(
        type(outcome(op, schema, arguments, "cpu", fill)[0]) is not type(error) for fill in (0, 1)
    ):
        return "values", meta_error, None
    return (
        "raised",
        meta_error,
        f"CPU {type(error).__name__}: {error}; Meta "
        + (f"{type(meta_error).__name__}: {meta_error}" if meta_error else "returned"),
    )


def _leaves(described_value):
    return [x for v in described_value for x in _leaves(v)] if isinstance(described_value, list) else [described_value]


def _shown(wanted, got):
    if isinstance(wanted, dict) and isinstance(got, dict):
        return ", ".join(f"{k}: CPU {wanted[k]}, Meta {got[k]}" for k in wanted if wanted[k] != got[k])
    return f"CPU {wanted}, Meta {got}"


def _schemas():
    found = []
    for text, _, _, _, source, *_ in tessera._C._operator_table():
        schema = FunctionSchema(text)
        if (
            not source.startswith(UNDRAWN_TABLES)
            and schema.name.startswith("aten::")
            and identify(schema) not in LEFT_OUT
            and any("Tensor" in a.type for a in schema.arguments)
        ):
            found.append(schema)
    return sorted(found, key=identify)


def compared(schema):
    """Outcome -> number of calls, and the differences as (arguments, text or exception)."""
    rng = random.Random(zlib.crc32(identify(schema).encode()))
    op = getattr(getattr(ops.aten, schema.name.split("::")[1]), schema.overload_name or "default")
    counts, different = collections.Counter(), []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tessera.manual_seed(0)
        for _ in range(DRAWS):
            arguments = drawn(rng, schema)
            kind, meta_error, text = difference(op, schema, arguments)
            counts[kind] += 1
            if text is not None:
                different.append((arguments, meta_error, text))
    return counts, different


def pytest_generate_tests(metafunc):
    if "schema" in metafunc.fixturenames:
        found = _schemas()
        metafunc.parametrize("schema", found, ids=[identify(s) for s in found])


def test_meta_follows_the_cpu(schema):
    counts, different = compared(schema)
    assert counts["returned"], f"no arguments that fit were drawn: {counts}"
    refusal = VALUE_DEPENDENT.get(identify(schema))
    if refusal:
        others = [d for d in different if not isinstance(d[1], refusal)]
        assert len(others) < len(different), "works on Meta: it is no exception"
        different = others
    assert not different, "\n".join(f"{made(a, 'meta')!r}: {text}" for a, _, text in different[:3])


def test_exceptions_are_operators():
    assert set(VALUE_DEPENDENT) <= {identify(s) for s in _schemas()}
