"""Arguments of the operators of nn that have to fit each other: lists of calls, by operator."""

import tessera
from op_arguments import Computed, Given, floats, integers

F, I = floats, integers
EACH_REDUCTION = (0, 1, 2)


def _signs(*shape):
    return lambda dtype: (tessera.arange(tessera.Size(shape).numel()) % 2 * 2 - 1).reshape(shape).to(tessera.float64)


def _zeros_and_ones(*shape):
    return lambda dtype: (tessera.arange(tessera.Size(shape).numel()) % 2).reshape(shape).to(tessera.float64)


def _mask(*shape):
    return lambda dtype: tessera.arange(tessera.Size(shape).numel()).reshape(shape) % 3 != 0


# --- Convolution. Strides, padding, dilation and groups that are not the defaults, in one or two dimensions.

_PLAIN = dict(
    input=F(2, 2, 5),
    weight=F(4, 1, 2),
    bias=F(4),
    stride=[2],
    padding=[1],
    dilation=[2],
    transposed=False,
    output_padding=[0],
    groups=2,
)
_PLANE = dict(
    input=F(1, 2, 4, 3),
    weight=F(2, 2, 2, 3),
    bias=None,
    stride=[1, 2],
    padding=[0, 1],
    dilation=[1, 1],
    transposed=False,
    output_padding=[0, 0],
    groups=1,
)
_ADJOINT = dict(
    input=F(2, 2, 3),
    weight=F(2, 2, 2),
    bias=F(4),
    stride=[2],
    padding=[1],
    dilation=[1],
    transposed=True,
    output_padding=[1],
    groups=2,
)
_FLAGS = dict(benchmark=False, deterministic=False, cudnn_enabled=False, allow_tf32=False)


def _backward(grad_output, forward, bias_sizes):
    rest = {k: v for k, v in forward.items() if k != "bias"}
    return Given(grad_output=F(*grad_output), bias_sizes=bias_sizes, output_mask=[True, True, True], **rest)


def _conv(n):
    return [
        Given(input=F(1, 2, *[5, 4, 3][:n]), weight=F(2, 2, *[2] * n), bias=F(2)),
        Given(input=F(2, *[4] * n), weight=F(2, 1, *[2] * n), stride=[2] * n, padding=[1] * n, groups=2),
    ]


def _named_padding(n):
    return [
        Given(input=F(1, 2, *[3] * n), weight=F(2, 2, *[2] * n), bias=F(2), padding="same"),
        Given(input=F(1, 2, *[3] * n), weight=F(2, 1, *[2] * n), padding="valid", groups=2),
    ]


def _conv_transpose(n):
    return [
        Given(input=F(1, 2, *[3, 2, 2][:n]), weight=F(2, 2, *[2] * n), bias=F(2)),
        Given(
            input=F(2, *[2] * n),
            weight=F(2, 1, *[2] * n),
            stride=[2] * n,
            padding=[1] * n,
            output_padding=[1] * n,
            groups=2,
        ),
    ]


# With a batch and without.
_ACTIVATED = [
    dict(self=F(2, 4, 5), weight=F(4, 2, 3), bias=F(4), stride=[1], padding=[1], dilation=[1], groups=2),
    dict(self=F(2, 3, 2), weight=F(3, 2, 2, 2), bias=None, stride=[1, 2], padding=[0, 1], dilation=[1, 1], groups=1),
]


CONVOLUTIONS = {
    "cudnn_convolution_relu": [Given(**call) for call in _ACTIVATED],
    "cudnn_convolution_add_relu": [
        Given(**_ACTIVATED[0], z=F(2, 4, 5), alpha=0.5),
        Given(**_ACTIVATED[1], z=F(3, 2, 2), alpha=None),
    ],
    "convolution": [Given(**_PLAIN), Given(**_PLANE), Given(**_ADJOINT)],
    "_convolution": [Given(**_PLAIN, **_FLAGS), Given(**_ADJOINT, **_FLAGS)],
    "convolution_backward": [
        _backward((2, 4, 3), _PLAIN, [4]),
        _backward((1, 2, 3, 2), _PLANE, [2]),
        _backward((2, 4, 5), _ADJOINT, [4]),
    ],
    "conv1d": _conv(1),
    "conv2d": _conv(2),
    "conv3d": _conv(3)[:1],
    "conv1d.padding": _named_padding(1),
    "conv2d.padding": _named_padding(2),
    "conv3d.padding": _named_padding(3)[1:],
    "conv_transpose1d": _conv_transpose(1),
    "conv_transpose2d.input": _conv_transpose(2),
    "conv_transpose3d.input": _conv_transpose(3)[:1],
    "conv_tbc": [Given(self=F(4, 2, 2), weight=F(2, 2, 3), bias=F(3), pad=1)],
    "im2col": [Given(self=F(1, 2, 3, 4), kernel_size=[2, 2], dilation=[1, 2], padding=[1, 0], stride=[2, 1])],
    "col2im": [
        Given(self=F(1, 8, 4), output_size=[3, 4], kernel_size=[2, 2], dilation=[1, 2], padding=[1, 0], stride=[2, 1])
    ],
}

# --- Normalisation. The backwards take the statistics of the input that they are given: their own derivatives know it.


def _computed(shape, dims, which, out):
    def of(a):
        variance, mean = tessera.var_mean(a["input"].reshape(shape), dims, correction=0)
        return (mean, (variance + 1e-5).rsqrt())[which].reshape(out)

    return Computed(of)


_BATCH = dict(input=F(3, 2, 2), weight=F(2), bias=F(2))
_GIVEN_STATISTICS = dict(
    running_mean=lambda dtype: tessera.tensor([0.1, 0.2], dtype=tessera.float64),
    running_var=lambda dtype: tessera.tensor([1.1, 0.7], dtype=tessera.float64),
)
_NO_STATISTICS = dict(running_mean=None, running_var=None)
_BATCH_BACKWARD = dict(grad_out=F(3, 2, 2), input=F(3, 2, 2), weight=F(2), eps=1e-5, output_mask=[True, True, True])


def _batch_statistic(which):
    def of(a):
        variance, mean = tessera.var_mean(a["input"], [0, 2], correction=0)
        return mean if which == 0 else (variance + 1e-5).rsqrt()

    return Computed(of)


NORMS = {
    "batch_norm": [
        Given(**_BATCH, **_NO_STATISTICS, training=True, momentum=0.1, eps=1e-5, cudnn_enabled=False),
        Given(**_BATCH, **_GIVEN_STATISTICS, training=False, momentum=0.1, eps=1e-5, cudnn_enabled=False),
    ],
    "native_batch_norm": [
        Given(**_BATCH, **_NO_STATISTICS, training=True, momentum=0.1, eps=1e-5),
        Given(**_BATCH, **_GIVEN_STATISTICS, training=False, momentum=0.1, eps=1e-5),
    ],
    "_batch_norm": [
        Given(**_BATCH, **_NO_STATISTICS, mean=None, var=None, training=True, momentum=0.1, eps=1e-5),
        Given(
            **_BATCH,
            mean=_GIVEN_STATISTICS["running_mean"],
            var=_GIVEN_STATISTICS["running_var"],
            **_NO_STATISTICS,
            training=False,
            momentum=0.1,
            eps=1e-5,
        ),
    ],
    "native_batch_norm_backward": [
        Given(
            **_BATCH_BACKWARD,
            **_NO_STATISTICS,
            save_mean=_batch_statistic(0),
            save_invstd=_batch_statistic(1),
            train=True,
        ),
        Given(**_BATCH_BACKWARD, **_GIVEN_STATISTICS, save_mean=None, save_invstd=None, train=False),
    ],
    "instance_norm": [
        Given(
            input=F(2, 2, 3),
            weight=F(2),
            bias=F(2),
            **_NO_STATISTICS,
            use_input_stats=True,
            momentum=0.1,
            eps=1e-5,
            cudnn_enabled=False,
        ),
        Given(
            input=F(2, 2, 3),
            weight=F(2),
            bias=F(2),
            **_GIVEN_STATISTICS,
            use_input_stats=False,
            momentum=0.1,
            eps=1e-5,
            cudnn_enabled=False,
        ),
    ],
    "layer_norm": [
        Given(input=F(2, 2, 3), normalized_shape=[2, 3], weight=F(2, 3), bias=F(2, 3)),
        Given(input=F(2, 3), normalized_shape=[3]),
    ],
    "native_layer_norm": [Given(input=F(2, 3), normalized_shape=[3], weight=F(3), bias=F(3), eps=1e-5)],
    "_native_layer_norm": [
        Given(input=F(2, 2, 3), normalized_shape=[2, 3], weight=F(2, 3), bias=F(2, 3), eps=1e-5),
        Given(input=F(2, 3), normalized_shape=[3], eps=1e-5),
    ],
    "native_layer_norm_backward": [
        Given(
            grad_out=F(2, 3),
            input=F(2, 3),
            normalized_shape=[3],
            mean=_computed((2, 3), 1, 0, (2, 1)),
            rstd=_computed((2, 3), 1, 1, (2, 1)),
            weight=F(3),
            bias=F(3),
            output_mask=[True, True, True],
        )
    ],
    "rms_norm": [
        Given(input=F(2, 2, 3), normalized_shape=[2, 3], weight=F(2, 3)),
        Given(input=F(2, 3), normalized_shape=[3], eps=0.1),
    ],
    "_rms_norm": [
        Given(input=F(2, 2, 3), normalized_shape=[2, 3], weight=F(2, 3), eps=0.1),
        Given(input=F(2, 3), normalized_shape=[3], weight=None, eps=0.1),
    ],
    "group_norm": [
        Given(input=F(2, 4, 3), num_groups=2, weight=F(4), bias=F(4)),
        Given(input=F(1, 4, 2), num_groups=4),
    ],
    "native_group_norm": [Given(input=F(2, 4, 3), weight=F(4), bias=F(4), N=2, C=4, HxW=3, group=2, eps=1e-5)],
    "native_group_norm_backward": [
        Given(
            grad_out=F(2, 4, 3),
            input=F(2, 4, 3),
            mean=_computed((2, 2, 6), 2, 0, (2, 2)),
            rstd=_computed((2, 2, 6), 2, 1, (2, 2)),
            weight=F(4),
            N=2,
            C=4,
            HxW=3,
            group=2,
            output_mask=[True, True, True],
        )
    ],
}

# --- Losses, with targets of their own kind, for each reduction.

_CLASSES = dict(self=F(3, 4, low=-1.2, high=-0.2), target=I(1, 3, 0))
_PIXELS = dict(self=F(2, 3, 1, 2, low=-1.2, high=-0.2), target=I([[0, 2]], [[1, 0]]))
_CLASS_WEIGHT = lambda n: lambda dtype: tessera.arange(1, n + 1).to(tessera.float64) / 3  # noqa: E731


def _reductions(shape=None, **given):
    return [Given(reduction=r, **given) for r in EACH_REDUCTION]


def _total(a):
    return (
        tessera.ones_like(a["target"], dtype=tessera.float64).sum()
        if a.get("weight") is None
        else a["weight"][a["target"]].sum()
    )


def _nll(given, classes, weighted=True, **more):
    return _reductions(**given, weight=_CLASS_WEIGHT(classes), **more) + [
        Given(**given, reduction=1, **{"weight": None, **more})
    ]


def _nll_backward(given, classes, shape):
    return [
        Given(
            **given,
            grad_output=F(*(shape if r == 0 else ())),
            weight=_CLASS_WEIGHT(classes),
            reduction=r,
            ignore_index=-100,
            total_weight=Computed(_total),
        )
        for r in EACH_REDUCTION
    ]


LOSSES = {
    "nll_loss": _nll(_CLASSES, 4),
    "nll_loss2d": _nll(_PIXELS, 3),
    "nll_loss_nd": _nll(_CLASSES, 4) + _nll(_PIXELS, 3),
    "nll_loss_forward": _nll(_CLASSES, 4, ignore_index=3),
    "nll_loss2d_forward": _nll(_PIXELS, 3, ignore_index=2),
    "_smoothed_nll_loss": _nll(_CLASSES, 4, ignore_index=3, smoothing=0.2)
    + _nll(_PIXELS, 3, ignore_index=-100, smoothing=0.2),
    "nll_loss_backward": _nll_backward(_CLASSES, 4, (3,)),
    "nll_loss2d_backward": _nll_backward(_PIXELS, 3, (2, 1, 2)),
    "cross_entropy_loss": _nll(dict(self=F(3, 4), target=I(1, 3, 0)), 4, label_smoothing=0.1)
    + [
        Given(self=F(3, 4), target=F(3, 4)),
        Given(self=F(3, 4), target=F(3, 4), weight=F(4)),
        Given(self=F(2, 3, 2), target=I([0, 2], [1, 0])),
    ],
    "multi_margin_loss": [
        Given(self=F(3, 4), target=I(1, 3, 0), p=p, margin=0.3, reduction=r) for p in (1, 2) for r in EACH_REDUCTION
    ]
    + [Given(self=F(3, 4), target=I(1, 3, 0), margin=0.3, weight=_CLASS_WEIGHT(4))],
    "multilabel_margin_loss": _reductions(self=F(2, 4), target=I([3, 0, -1, 1], [1, -1, 0, 2])),
    "cosine_embedding_loss": _reductions(input1=F(4, 3), input2=F(4, 3), target=_signs(4), margin=0.1),
    "margin_ranking_loss": _reductions(input1=F(4), input2=F(4), target=_signs(4), margin=0.1),
    "hinge_embedding_loss": _reductions(self=F(2, 3), target=_signs(2, 3), margin=1.0),
    "soft_margin_loss": _reductions(self=F(2, 3), target=_signs(2, 3)),
}

# --- Pooling.


def _places(shape, *values):
    return lambda dtype: tessera.tensor(values).reshape(shape)


POOLS = {
    "avg_pool2d_backward": [
        Given(
            grad_output=F(1, 2, 3, 3),
            self=F(1, 2, 4, 4),
            kernel_size=[2, 2],
            stride=[2, 2],
            padding=[1, 1],
            ceil_mode=False,
            count_include_pad=c,
            divisor_override=d,
        )
        for c, d in ((True, None), (False, None), (False, 3))
    ],
    "avg_pool3d_backward": [
        Given(
            grad_output=F(1, 1, 2, 2, 2),
            self=F(1, 1, 3, 3, 2),
            kernel_size=[2, 2, 2],
            stride=[2, 2, 2],
            padding=[1, 1, 1],
            ceil_mode=False,
            count_include_pad=c,
            divisor_override=None,
        )
        for c in (True, False)
    ],
    "max_pool2d_with_indices_backward": [
        Given(
            grad_output=F(1, 1, 2, 2),
            self=F(1, 1, 4, 4),
            kernel_size=[2, 2],
            stride=[2, 2],
            padding=[0, 0],
            dilation=[1, 1],
            ceil_mode=False,
            indices=_places((1, 1, 2, 2), 0, 3, 9, 14),
        )
    ],
    "max_pool3d_with_indices_backward": [
        Given(
            grad_output=F(1, 1, 1, 2, 2),
            self=F(1, 1, 2, 4, 4),
            kernel_size=[2, 2, 2],
            stride=[2, 2, 2],
            padding=[0, 0, 0],
            dilation=[1, 1, 1],
            ceil_mode=False,
            indices=_places((1, 1, 1, 2, 2), 0, 3, 9, 30),
        )
    ],
    "adaptive_max_pool2d_backward": [
        Given(grad_output=F(1, 1, 2, 2), self=F(1, 1, 4, 4), indices=_places((1, 1, 2, 2), 0, 3, 9, 14))
    ],
    "adaptive_max_pool3d_backward": [
        Given(grad_output=F(1, 1, 1, 2, 2), self=F(1, 1, 2, 4, 4), indices=_places((1, 1, 1, 2, 2), 0, 3, 9, 30))
    ],
    "max_unpool2d": [Given(self=F(1, 1, 2, 2), indices=_places((1, 1, 2, 2), 0, 3, 9, 14), output_size=[4, 4])],
    "max_unpool3d": [
        Given(
            self=F(1, 1, 1, 2, 2),
            indices=_places((1, 1, 1, 2, 2), 0, 3, 9, 30),
            output_size=[2, 4, 4],
            stride=[2, 2, 2],
            padding=[0, 0, 0],
        )
    ],
    "max_pool2d": [Given(self=F(1, 1, 4, 4), kernel_size=[2, 2], stride=[1, 2], padding=[1, 0], dilation=[1, 1])],
    "adaptive_avg_pool3d": [Given(self=F(1, 1, 3, 2, 2), output_size=[2, 1, 2])],
    "_adaptive_avg_pool3d": [Given(self=F(1, 1, 3, 2, 2), output_size=[2, 1, 2])],
    "_adaptive_avg_pool3d_backward": [Given(grad_output=F(1, 1, 2, 1, 2), self=F(1, 1, 3, 2, 2))],
    "adaptive_max_pool3d": [Given(self=F(1, 1, 3, 2, 2), output_size=[2, 1, 2])],
    "avg_pool3d": [
        Given(self=F(1, 1, 3, 2, 2), kernel_size=[2, 2, 2], stride=[1, 1, 1], padding=[1, 1, 1], count_include_pad=c)
        for c in (True, False)
    ],
    "max_pool3d": [Given(self=F(1, 1, 3, 2, 2), kernel_size=[2, 2, 2], stride=[1, 1, 1])],
    "max_pool3d_with_indices": [Given(self=F(1, 1, 3, 2, 2), kernel_size=[2, 2, 2], stride=[1, 1, 1])],
}

# --- Padding: the last dimensions by pairs, left and right different.

_PADDED = {
    1: ([1, 2], (1, 2, 3), (1, 2, 6)),
    2: ([1, 2, 0, 1], (1, 1, 2, 3), (1, 1, 3, 6)),
    3: ([1, 2, 0, 1, 1, 0], (1, 1, 2, 2, 3), (1, 1, 3, 3, 6)),
}
PADS = {
    **{
        f"{kind}_pad{n}d": [Given(self=F(*shape), padding=padding)]
        for kind in ("reflection", "replication")
        for n, (padding, shape, _) in _PADDED.items()
    },
    **{
        f"{kind}_pad{n}d_backward": [Given(self=F(*shape), padding=padding, grad_output=F(*padded))]
        for kind in ("reflection", "replication")
        for n, (padding, shape, padded) in _PADDED.items()
    },
    "constant_pad_nd": [Given(self=F(2, 3), pad=[1, -1, 0, 2], value=0.3)],
    "pad": [Given(self=F(1, 2, 4), pad=[1, 2], mode=mode) for mode in ("constant", "reflect", "replicate", "circular")],
    "_pad_circular": [Given(self=F(1, 2, 4), pad=[1, 2])],
    "_pad_enum": [Given(self=F(1, 2, 4), pad=[1, 2], mode=mode) for mode in range(4)],
}

# --- Embeddings.

_TABLE = dict(weight=F(4, 2), indices=I(0, 2, 1, 2, 3), offsets=I(0, 2, 2))
_BAGS = [Given(**_TABLE, mode=mode) for mode in (0, 1, 2)] + [
    Given(**_TABLE, mode=0, per_sample_weights=F(5)),
    Given(**_TABLE, mode=1, padding_idx=2, scale_grad_by_freq=False),
    Given(**{**_TABLE, "offsets": I(0, 2, 5)}, include_last_offset=True),
]
EMBEDDINGS = {
    "embedding": [
        Given(weight=F(4, 2), indices=I([0, 2], [2, 1])),
        Given(weight=F(4, 2), indices=I(0, 2, 2), padding_idx=1),
    ],  # the row of padding has no gradient
    "embedding_backward": [
        Given(grad=F(3, 2), indices=I(0, 2, 2), num_weights=4, padding_idx=0, scale_grad_by_freq=s, sparse=False)
        for s in (False, True)
    ],
    "embedding_dense_backward": [
        Given(grad_output=F(3, 2), indices=I(0, 2, 2), num_weights=4, padding_idx=-1, scale_grad_by_freq=s)
        for s in (False, True)
    ],
    "embedding_bag": _BAGS,
    "_embedding_bag": _BAGS,
}

# --- Attention, recurrent layers, resizing, products.

_HEADS = dict(query=F(1, 2, 3, 2), key=F(1, 2, 4, 2), value=F(1, 2, 4, 2))


def _bias(*shape):
    return lambda dtype: tessera.arange(tessera.Size(shape).numel()).reshape(shape) / tessera.tensor(10, dtype=dtype)


def _attention(which):
    return Computed(
        lambda a: tessera.ops.aten._scaled_dot_product_flash_attention_for_cpu(
            a["query"], a["key"], a["value"], 0.0, a["is_causal"], scale=a.get("scale")
        )[which]
    )


ATTENTION = {
    "scaled_dot_product_attention": [
        Given(**_HEADS),
        Given(**_HEADS, is_causal=True, scale=0.4),
        Given(**_HEADS, attn_mask=F(3, 4)),
        Given(**_HEADS, attn_mask=_mask(3, 4)),
        Given(**_HEADS, dropout_p=0.3),
        Given(query=F(1, 4, 3, 2), key=F(1, 2, 3, 2), value=F(1, 2, 3, 2), enable_gqa=True),
    ],
    "_scaled_dot_product_attention_math": [
        Given(**_HEADS),
        Given(**_HEADS, attn_mask=F(3, 4)),
        Given(**_HEADS, is_causal=True),
        Given(**_HEADS, dropout_p=0.3),
    ],
    "_scaled_dot_product_flash_attention_for_cpu": [
        Given(**_HEADS),
        Given(**_HEADS, is_causal=True, scale=0.4),
        Given(**_HEADS, attn_mask=_bias(3, 4)),
    ],
    "_attention_dropout": [
        Given(**_HEADS, attn_mask=mask, dropout_p=0.3, is_causal=causal, scale=None)
        for mask, causal in ((None, False), (None, True), (_bias(3, 4), False))
    ],
    "_scaled_dot_product_flash_attention_for_cpu_backward": [
        Given(**_HEADS, grad_out=F(1, 2, 3, 2), out=_attention(0), logsumexp=_attention(1), dropout_p=0.0, is_causal=c)
        for c in (False, True)
    ],
}
# Nearest, exactly nearest, linear, cubic.
RESAMPLED = ((0, False), (1, False), (2, False), (2, True), (3, False), (3, True), (4, False), (5, False))
# Linear and cubic, with all ways to go on beyond the image; places are inside, beyond an edge and far outside.
_PLACES = lambda dtype: tessera.tensor(
    [[[[-0.7, 0.45], [0.2, -0.15]], [[1.3, 0.55], [-1.1, -2.3]]]], dtype=dtype, requires_grad=True
)
_ROOMS = lambda dtype: tessera.tensor([[[[[-0.7, 0.45, 0.1], [0.2, -0.15, 1.35]]]]], dtype=dtype, requires_grad=True)
_PLANES = [
    dict(input=F(1, 2, 3, 4), grid=_PLACES, interpolation_mode=m, padding_mode=p, align_corners=a)
    for m in (0, 2)
    for p, a in ((0, False), (1, True), (2, False))
]
_ROOM = dict(input=F(1, 2, 2, 3, 4), grid=_ROOMS, interpolation_mode=0, padding_mode=2, align_corners=True)
_SEQUENCES = dict(targets=I([1, 2, 2], [3, 1, 0]), input_lengths=[6, 5], target_lengths=[3, 2])


def _ctc(dtype, which):
    scores = tessera.randn(6, 2, 4, dtype=tessera.float64, generator=tessera.Generator().manual_seed(1))
    found = tessera._ctc_loss(scores.log_softmax(-1), _SEQUENCES["targets"](dtype), [6, 5], [3, 2])
    return (scores.log_softmax(-1), *found)[which].to(dtype).requires_grad_()


def _resizing():
    """{operator of resizing: samples}: to sizes, and by scales."""
    found = {}
    for name, sizes, corners in (
        *[(f"{part}{n}d", n, ()) for part in ("upsample_nearest", "_upsample_nearest_exact") for n in (1, 2, 3)],
        ("upsample_linear1d", 1, (False, True)), ("upsample_bilinear2d", 2, (False, True)),
        ("upsample_trilinear3d", 3, (False, True)), ("upsample_bicubic2d", 2, (False, True)),
        ("_upsample_bilinear2d_aa", 2, (False, True)), ("_upsample_bicubic2d_aa", 2, (False, True)),
    ):  # fmt: skip
        x, size = F(1, 1, *(3, 4, 3)[:sizes]), [5, 3, 2][:sizes]
        ways = [{"align_corners": a} for a in corners] or [{}]
        found[name] = [Given(self=x, output_size=size, **way) for way in ways]
        found[name + ".vec"] = [Given(input=x, output_size=size, scale_factors=None, **way) for way in ways] + [
            Given(input=x, output_size=None, scale_factors=[2.0, 0.7, 1.0][:sizes], **way) for way in ways
        ]
    return found


RESAMPLING = {
    **_resizing(),
    "_resample": [
        Given(self=F(1, 1, 3, 4), output_size=[1, 1, 5, 3], steps=[0.0, 0.0], mode=mode, align_corners=a)
        for mode, a in RESAMPLED
    ],
    "_resample_backward": [
        Given(grad_output=F(1, 1, 5, 3), input_size=[1, 1, 3, 4], steps=[0.0, 0.0], mode=mode, align_corners=a)
        for mode, a in RESAMPLED
    ],
    "_grid_sample": [Given(**g, order=[0, 0]) for g in _PLANES]
    + [Given(**_PLANES[3], order=[1, 0]), Given(**_ROOM, order=[0, 0, 0])],
    "_grid_sample_backward": [
        Given(**g, grad_output=F(1, 2, 2, 2), order=[0, 0], output_mask=[True, True]) for g in _PLANES
    ]
    + [Given(**_ROOM, grad_output=F(1, 2, 1, 1, 2), order=[0, 0, 0], output_mask=[True, True])],
    "grid_sampler": [Given(**_PLANES[4]), Given(**_ROOM)],
    "grid_sampler_2d": [Given(**_PLANES[0])],
    "grid_sampler_3d": [Given(**_ROOM)],
    "_ctc_loss": [
        Given(log_probs=F(6, 2, 4), **_SEQUENCES).through(log_probs=lambda x: x.log_softmax(-1)),
        Given(log_probs=F(3, 1, 4), targets=I(0, 2), input_lengths=[3], target_lengths=[2], blank=1).through(
            log_probs=lambda x: x.log_softmax(-1)
        ),
    ],
    "_ctc_loss_backward": [
        Given(
            grad=F(2),
            log_probs=lambda dtype: _ctc(dtype, 0),
            neg_log_likelihood=lambda dtype: _ctc(dtype, 1),
            log_alpha=lambda dtype: _ctc(dtype, 2),
            blank=0,
            **_SEQUENCES,
        )
    ],
    "glu": [Given(self=F(2, 4)), Given(self=F(2, 3), dim=0)],
    "glu_backward": [Given(grad_output=F(2, 2), self=F(2, 4), dim=-1)],
    "prelu": [Given(self=F(2, 3, low=-0.7), weight=F(3)), Given(self=F(2, 3, low=-0.7), weight=F(1))],
    "_grouped_mm": [
        Given(self=F(2, 3, 4), mat2=F(2, 4, 3)).computed_in(tessera.float32),
        Given(
            self=F(4, 4), mat2=F(2, 4, 4), offs=lambda dtype: tessera.tensor([1, 4], dtype=tessera.int32)
        ).computed_in(tessera.float32),
    ],
}

SAMPLES = {**CONVOLUTIONS, **NORMS, **LOSSES, **POOLS, **PADS, **EMBEDDINGS, **ATTENTION, **RESAMPLING}
