"""Arguments of operators, made from their schemas by rules: what the tests that go over all operators of the tables
share.

CONSTRAINTS has what the rules cannot know: arguments that have to fit each other.
"""

import math

import tessera


class Given:
    """Arguments of one call by name; what is not named follows the rules."""

    def __init__(self, /, **arguments):
        self.arguments = arguments
        self.narrow = None
        self.real = False
        self.maps = {}
        self.view = None

    def computed_in(self, dtype):
        """The call is made with its tensors in this narrower dtype."""
        self.narrow = dtype
        return self

    def only_real(self):
        """The operator takes complex numbers, this call does not."""
        self.real = True
        return self

    def through(self, /, **maps):
        """These arguments are functions of the tensors that are differentiated: {name: function}."""
        self.maps = maps
        return self

    def seen(self, view):
        """Derivatives are those of `view(*results)`, a list: of results that are determined up to a sign, say."""
        self.view = view
        return self


class Computed:
    """An argument that is a function of the others (a dict by name): where they change, it does."""

    def __init__(self, of):
        self.of = of


def floats(*shape, low=0.3, high=0.9):
    return lambda dtype: _values(shape, dtype, low, high)


def integers(*values):
    return lambda dtype: tessera.tensor(values)


# Domains of functions that are not defined, or not smooth, between 0.3 and 0.9: (lowest, highest) value of all tensors.
DOMAINS = {
    "acosh": (1.2, 2.5),
    "arccosh": (1.2, 2.5),
    "polygamma": (1.2, 2.5),
    "_polygamma": (1.2, 2.5),
    "mvlgamma": (1.2, 2.5),
    "special_zeta": (1.2, 2.5),
}


def _recurrent(kind, gates, directions=1, rows=(3, 2), outputs=3, **more):
    width = 3 * gates
    given = {"c0": floats(directions, 2, 3) if kind == 0 else None, "b_hh": None, "w_hr": None, **more}
    return Given(
        gates=floats(*rows, directions * width),
        h0=floats(directions, 2, outputs),
        w_hh=floats(directions, width, outputs),
        kind=kind,
        **given,
    )


def _recurrent_weights(gates, directions):
    return [floats(3 * gates, 3), floats(3 * gates, 3), floats(3 * gates), floats(3 * gates)] * directions


def _float8(*shape):
    return lambda dtype: _values(shape, tessera.float64, 0.3, 0.9).detach().to(tessera.float8_e4m3fn)


def _scales(*shape):
    return lambda dtype: tessera.ones(shape)


_NUMBERS = lambda dtype: tessera.tensor([0.5, 0.7])
_SCALED = dict(self=_float8(2, 3), mat2=_float8(3, 4), bias=None, out_dtype=None)
_SCALED_GROUPS = dict(self=_float8(2, 2, 3), mat2=_float8(2, 3, 4), offs=None, bias=None, out_dtype=None)

# Arguments that have to fit each other.
CONSTRAINTS = {
    "_fft_c2r": [
        Given(self=floats(2, 3), dim=[1], normalization=0, last_dim_size=4),
        Given(self=floats(2, 3), dim=[0, 1], normalization=1, last_dim_size=5),
    ],
    "stft.center": [
        Given(self=floats(9), n_fft=4, hop_length=2, win_length=None, window=floats(4), return_complex=True),
        Given(
            self=floats(2, 6), n_fft=4, hop_length=1, win_length=3, window=floats(3), center=False, return_complex=True
        ),
    ],
    "istft": [
        Given(self=floats(3, 4), n_fft=4, hop_length=2, win_length=None, window=lambda dtype: tessera.ones(4).double()),
        Given(self=floats(4, 3), n_fft=4, hop_length=2, win_length=None, window=None, return_complex=True),
    ],
    "special_zeta.self_scalar": [Given(self=2.5)],
    "_softmax": [Given(half_to_float=False)],
    "_log_softmax": [Given(half_to_float=False)],
    "scatter.src": [Given(self=floats(3, 3), dim=0, index=integers([0, 1, 2], [1, 2, 0], [2, 0, 1]), src=floats(3, 3))],
    "mv": [Given(self=floats(2, 3), vec=floats(3))],
    "addmv": [Given(self=floats(2), mat=floats(2, 3), vec=floats(3))],
    "addr": [Given(self=floats(2, 3), vec1=floats(2), vec2=floats(3))],
    "addmm": [Given(self=floats(2, 4), mat1=floats(2, 3), mat2=floats(3, 4))],
    "_addmm_activation": [
        Given(self=floats(2, 4), mat1=floats(2, 3), mat2=floats(3, 4)),
        Given(self=floats(4), mat1=floats(2, 3), mat2=floats(3, 4), use_gelu=True),
    ],
    "_scaled_mm": [
        Given(scale_a=_scales(), scale_b=_scales(), scale_result=None, **_SCALED),
        Given(scale_a=_scales(2, 1), scale_b=_scales(1, 4), scale_result=None, **_SCALED),
    ],
    "_scaled_mm_v2": [
        Given(
            scale_a=[_scales()],
            recipe_a=[0],
            swizzle_a=[],
            scale_b=[_scales()],
            recipe_b=[0],
            swizzle_b=[],
            contraction_dim=[],
            **_SCALED,
        )
    ],
    "_scaled_grouped_mm": [Given(scale_a=_scales(2, 2), scale_b=_scales(2, 4), scale_result=None, **_SCALED_GROUPS)],
    "_scaled_grouped_mm_v2": [
        Given(
            scale_a=[_scales(2, 2)],
            recipe_a=[1],
            swizzle_a=[],
            scale_b=[_scales(2, 4)],
            recipe_b=[1],
            swizzle_b=[],
            contraction_dim=[],
            **_SCALED_GROUPS,
        )
    ],
    "_grouped_mm": [Given(self=floats(2, 3, 4), mat2=floats(2, 4, 3), offs=None, bias=None, out_dtype=None)],
    **{f"_foreach_{name}.Tensor": [Given(scalars=_NUMBERS)] for name in ("addcmul", "addcmul_", "addcdiv", "addcdiv_")},
    "addbmm": [Given(self=floats(3, 3), batch1=floats(2, 3, 4), batch2=floats(2, 4, 3))],
    "mm": [Given(self=floats(2, 3), mat2=floats(3, 4))],
    "bmm": [Given(self=floats(2, 3, 2), mat2=floats(2, 2, 4))],
    "linear": [
        Given(input=floats(2, 3), weight=floats(4, 3)),
        Given(input=floats(2, 3), weight=floats(4, 3), bias=floats(4)),
    ],
    "bilinear": [Given(input1=floats(2, 3), input2=floats(2, 4), weight=floats(2, 3, 4), bias=floats(2))],
    "chain_matmul": [Given(matrices=[floats(2, 3), floats(3, 4), floats(4, 2)])],
    "linalg_multi_dot": [Given(tensors=[floats(2, 3), floats(3, 4), floats(4, 2)])],
    "einsum": [Given(equation="ij,jk->ki", tensors=[floats(2, 3), floats(3, 4)])],
    "tensordot": [Given(self=floats(2, 3), other=floats(3, 4), dims_self=[1], dims_other=[0])],
    "view_as_complex": [Given(self=floats(3, 2))],
    "unflatten.int": [Given(self=floats(2, 4), dim=1, sizes=[2, 2])],
    "take": [Given(self=floats(2, 3), index=integers(0, 5, 2))],
    "put": [Given(self=floats(2, 3), index=integers(0, 5, 2), source=floats(3))],
    "as_strided": [Given(self=floats(6), size=[2, 2], stride=[2, 1])],
    "as_strided_backward": [
        Given(
            grad=floats(2, 2),
            input_sizes=[6],
            input_strides=[1],
            input_offset=0,
            sizes=[2, 2],
            strides=[2, 1],
            storage_offset=0,
        )
    ],
    "repeat_interleave.self_Tensor": [Given(self=floats(2, 3), repeats=integers(2, 1), dim=0)],
    "split_with_sizes": [Given(self=floats(3), split_sizes=[1, 2])],
    "unsafe_split_with_sizes": [Given(self=floats(3), split_sizes=[1, 2])],
    "split.sizes": [Given(self=floats(3), split_size=[1, 2])],
    "_masked_reduce": [Given(kind=kind) for kind in ("amax", "prod", "norm", "logsumexp", "var")],
    "masked_scatter": [Given(source=floats(6))],
    "as_strided_scatter": [Given(self=floats(6), src=floats(2, 2), size=[2, 2], stride=[2, 1])],
    "max_unpool2d": [
        Given(self=floats(1, 1, 2, 2), indices=lambda dtype: tessera.tensor([[[[0, 3], [9, 14]]]]), output_size=[4, 4])
    ],
    "_rnn_layer": [
        _recurrent(0, 4),
        _recurrent(1, 3, b_hh=floats(1, 9)),
        _recurrent(2, 1),
        _recurrent(3, 1),
        _recurrent(0, 4, 2, outputs=2, w_hr=floats(2, 2, 3)),
        _recurrent(1, 3, 2, rows=(4,), batch_sizes=[2, 1, 1], b_hh=floats(2, 9)),
    ],
    "_rnn_layers": [
        Given(
            input=floats(2, 2, 3),
            hx=[floats(2, 2, 3), floats(2, 2, 3)],
            params=_recurrent_weights(4, 2),
            kind=0,
            has_biases=True,
            dropout=0.0,
            bidirectional=True,
        ),
        Given(
            input=floats(3, 3),
            hx=[floats(2, 2, 3)],
            params=_recurrent_weights(3, 2),
            kind=1,
            has_biases=True,
            dropout=0.0,
            bidirectional=False,
            batch_sizes=[2, 1],
        ),
    ],
    "_rnn_cell": [
        Given(
            input=floats(2, 4),
            hx=[floats(2, 3)],
            w_ih=floats(9, 4),
            w_hh=floats(9, 3),
            b_ih=floats(9),
            b_hh=floats(9),
            kind=1,
        ),
        Given(
            input=floats(2, 4), hx=[floats(2, 3)], w_ih=floats(3, 4), w_hh=floats(3, 3), b_ih=None, b_hh=None, kind=2
        ),
    ],
    "conv1d": [Given(input=floats(1, 2, 5), weight=floats(3, 2, 2), bias=floats(3))],
    "conv2d": [Given(input=floats(1, 2, 4, 4), weight=floats(2, 2, 3, 2), bias=floats(2), padding=[1, 0])],
    "conv3d": [Given(input=floats(1, 1, 3, 3, 3), weight=floats(2, 1, 2, 2, 2), bias=floats(2))],
}
CONSTRAINTS |= {
    "split_copy.Tensor_out": [Given(self=floats(3, 2), split_size=2, dim=0)],
    "split_with_sizes_copy.out": [Given(self=floats(3), split_sizes=[1, 2], dim=0)],
    "unbind_copy.int_out": [Given(self=floats(2, 3), dim=0)],
}
CONSTRAINTS |= {f"{view}_copy": CONSTRAINTS[view] for view in ("as_strided", "split_with_sizes", "view_as_complex")}


def _values(shape, dtype, low, high):
    t = tessera.rand(shape, dtype=tessera.float64) * (high - low) + low
    if dtype.is_complex:
        t = tessera.complex(t, tessera.rand(shape, dtype=tessera.float64) * (high - low) + low)
    return t.requires_grad_()


SHAPES = [(2, 3), (3,), (3, 3), (), (2, 3, 3), (1, 2, 4, 4), (1, 2, 4), (1, 2, 3, 4, 4)]
INT_NAMES = {
    "dim": [-1, 0],
    "dim0": [0],
    "dim1": [-1],
    "axis0": [0],
    "axis1": [-1],
    "k": [1, 2],
    "n": [2],
    "chunks": [2],
    "sections": [1],
    "split_size": [1],
    "index": [0],
    "repeats": [2],
    "start": [0],
    "length": [1],
    "end": [2],
    "step": [1],
    "size": [2],
    "dimension": [0],
    "correction": [1],
    "decimals": [1],
    "shifts": [1],
}


class Unknown(Exception):
    """No rule for an argument."""


def candidates(argument, shape, bounds, dtype, index_shape, wide):
    """Possible values of one argument."""
    kind, name = argument.type, argument.name
    if kind in ("Tensor", "Tensor?"):
        if kind == "Tensor?" and not wide:
            return [None]
        if "mask" in name or name == "condition":
            return [tessera.arange(math.prod(shape)).reshape(shape) % 2 == 0]
        if name in ("index", "indices", "repeats"):
            top = min(shape[-1], shape[0]) if shape else 1
            return [(tessera.arange(math.prod(index_shape)) % max(top, 1)).reshape(index_shape)]
        return [_values(shape, dtype, *bounds)]
    if kind == "Tensor[]":
        return [[_values(shape, dtype, *bounds) for _ in range(2)]]
    if kind == "Tensor?[]":
        return [[tessera.arange(2) % max(shape[0] if shape else 1, 1)]]
    if argument.has_default_value():
        return [argument.default_value] + ([not argument.default_value] if wide and kind == "bool" else [])
    if kind.endswith("?"):
        return [None]
    if kind in ("int", "SymInt"):
        return INT_NAMES.get(name, [1])
    if kind in ("float", "Scalar"):
        return [0.7]
    if kind == "Scalar[]":
        return [[0.7, 0.4]]
    if kind == "bool":
        return [False, True]
    if kind == "ScalarType":
        return [dtype]
    if kind.startswith(("int[", "SymInt[", "int1[")):
        if name in ("size", "sizes", "shape", "other_size"):
            return [list(shape)]
        if name in ("dims", "dim", "permutation") and shape:
            return [list(range(len(shape)))[::-1], [0], [0, 1]]
        return [[1] * max(len(shape), 1), [0], [1]]
    raise Unknown(f"{kind} {name}")


def flatten(value):
    if isinstance(value, (list, tuple)):
        return [x for v in value for x in flatten(v)]
    return [value]


def split_arguments(schema, arguments):
    positional = [v for a, v in zip(schema.arguments, arguments) if not a.kwarg_only]
    return positional, {a.name: v for a, v in zip(schema.arguments, arguments) if a.kwarg_only}


def identify(schema):
    return schema.name.split("::")[1] + ("." + schema.overload_name if schema.overload_name else "")
