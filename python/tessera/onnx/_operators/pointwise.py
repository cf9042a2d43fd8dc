"""Translations of elementwise operators, and of those that make tensors."""

import math

import tessera
from tessera.onnx._build import Value, alike_in_shape
from tessera.onnx._table import TABLE, aten, rows
from tessera.onnx._types import BOOL, FLOAT, INT64


def work(b, *xs):
    """The values in the dtype of the result, or in one that floating functions take."""
    dtype = b.out_dtype or b.promoted(*xs)
    return [b.to(x, dtype) for x in xs]


def _unary(op):
    def translate(b, self):
        (x,) = work(b, self)
        return x if x.dtype == BOOL else b.op(op, x)  # a truth's sign, size ...

    return translate


rows(
    "abs acos acosh asin asinh atan atanh ceil cos cosh erf exp floor log neg reciprocal relu sigmoid sign sgn=Sign "
    "sin sinh sqrt tan tanh arccos=Acos arcsin=Asin arctan=Atan arccosh=Acosh arcsinh=Asinh arctanh=Atanh "
    "absolute=Abs negative=Neg softsign",
    _unary,
)  # fmt: skip


@aten("relu")
def relu(b, self):
    return b.Relu(self) if b.opset >= 14 or self.dtype.is_floating_point else b.Max(self, 0)


# Formulas of one tensor of floating dtype.
_FORMULAS = {
    "expm1": lambda b, x: b.Exp(x) - 1,
    "log1p": lambda b, x: b.Log(x + 1),
    "log2": lambda b, x: b.Log(x) / math.log(2),
    "log10": lambda b, x: b.Log(x) / math.log(10),
    "exp2": lambda b, x: b.Pow(b.value(2.0, x.dtype), x),
    "rsqrt": lambda b, x: b.Reciprocal(b.Sqrt(x)),
    "square": lambda b, x: x * x,
    "erfc": lambda b, x: 1 - b.Erf(x),
    "frac": lambda b, x: x - _trunc(b, x),
    "trunc": lambda b, x: _trunc(b, x),
    "fix": lambda b, x: _trunc(b, x),
    "sinc": lambda b, x: b.Where(b.Equal(x, 0), 1, b.Sin(x * math.pi) / b.Where(b.Equal(x, 0), 1, x * math.pi)),
    "silu": lambda b, x: x * b.Sigmoid(x),
    "mish": lambda b, x: b.Mish(x) if b.opset >= 18 else x * b.Tanh(b.Softplus(x)),
    "relu6": lambda b, x: b.Clip(x, 0, 6),
    "hardswish": lambda b, x: b.HardSwish(x) if b.opset >= 14 else x * b.Clip(x / 6 + 0.5, 0, 1),
    "hardsigmoid": lambda b, x: b.HardSigmoid(x, alpha=1 / 6, beta=0.5),
    "log_sigmoid": lambda b, x: -b.Softplus(-x),
    "tanhshrink": lambda b, x: x - b.Tanh(x),
    "selu": lambda b, x: b.Selu(x),
    "deg2rad": lambda b, x: x * (math.pi / 180),
    "rad2deg": lambda b, x: x * (180 / math.pi),
    "angle": lambda b, x: _angle(b, x),
    "special_expit": lambda b, x: b.Sigmoid(x),
    "special_entr": lambda b, x: b.Where(
        b.Greater(x, 0), -x * b.Log(x), b.Where(b.Equal(x, 0), 0, b.Where(b.IsNaN(x), x, -math.inf))
    ),
}


def _angle(b, x):
    turned = b.Where(b.Less(x, 0), b.value(math.pi, x.dtype), b.value(0.0, x.dtype))
    return b.Where(b.IsNaN(x), x, turned)


def _trunc(b, x):
    if not x.dtype.is_floating_point:
        return x
    return b.Where(b.Less(x, 0), b.Ceil(x), b.Floor(x))


def _formula(f):
    return lambda b, self: f(b, *work(b, self))


TABLE.update({"aten::" + name: _formula(f) for name, f in _FORMULAS.items()})
for _name in "exp2 expm1 erfc log1p sinc".split():
    TABLE["aten::special_" + _name] = TABLE["aten::" + _name]

_IDENTITIES = (
    "clone contiguous detach alias lift lift_fresh lift_fresh_copy positive view_as_real_copy dropout feature_dropout "
    "alpha_dropout feature_alpha_dropout detach_copy alias_copy conj resolve_conj resolve_neg "
    "_conj_physical conj_physical "
    "real requires_grad_"
)


@aten(_IDENTITIES.replace(" dropout feature_dropout alpha_dropout feature_alpha_dropout", ""))
def identity(b, self, memory_format=None, requires_grad=True):
    return self


@aten("dropout feature_dropout alpha_dropout feature_alpha_dropout")
def dropout(b, input, p=0.5, train=False):
    if train is not True or p == 0:
        return input
    return b.op("Dropout", input, b.value(float(p), FLOAT), b.value(True), outputs=2)[0]


@aten("native_dropout")
def native_dropout(b, input, p, train=False):
    if not train or p == 0:
        return input, b.full(b.Shape(input), True, BOOL)
    kept, mask = b.op("Dropout", input, b.value(float(p), FLOAT), b.value(True), outputs=2)
    mask.dtype = BOOL
    return kept, mask


# --- parameters beside the tensor ---


@aten("round special_round")
def round_(b, self, decimals=0):
    if not self.dtype.is_floating_point:
        return self
    scale = 10.0**decimals
    return b.Round(self) if decimals == 0 else b.Round(self * scale) / scale


@aten("gelu")
def gelu(b, self, approximate="none"):
    if b.opset >= 20:
        return b.Gelu(self, approximate=approximate)
    if approximate == "tanh":
        inner = (self + self * self * self * 0.044715) * math.sqrt(2 / math.pi)
        return self * 0.5 * (b.Tanh(inner) + 1)
    return self * 0.5 * (b.Erf(self / math.sqrt(2)) + 1)


@aten("leaky_relu")
def leaky_relu(b, self, negative_slope=0.01):
    return b.LeakyRelu(self, alpha=float(negative_slope))


@aten("elu")
def elu(b, self, alpha=1.0, scale=1.0, input_scale=1.0):
    if input_scale == 1 and self.dtype == FLOAT:  # all that runtimes have
        made = b.Elu(self, alpha=float(alpha))
    else:
        made = b.Where(b.Greater(self, 0), self, (b.Exp(self * float(input_scale)) - 1) * float(alpha))
    return made if scale == 1 else made * float(scale)


@aten("celu")
def celu(b, self, alpha=1.0):
    if self.dtype != FLOAT:  # all that Celu takes
        return elu(b, self, alpha, 1.0, 1 / alpha)
    return b.Celu(self, alpha=float(alpha))


@aten("rrelu")
def rrelu(b, self, lower=0.125, upper=1 / 3, training=False, generator=None):
    if training:
        raise NotImplementedError("rrelu in training mode draws numbers that ONNX cannot draw alike; use eval()")
    return b.LeakyRelu(self, alpha=(lower + upper) / 2)


@aten("prelu _prelu_kernel")
def prelu(b, self, weight):
    if weight.shape not in (None, ()) and len(weight.shape) == 1 and self.rank > 2:
        weight = b.reshape(weight, [-1] + [1] * (self.rank - 2))
    return b.PRelu(self, weight if self.rank else b.reshape(weight, []))


@aten("threshold")
def threshold(b, self, threshold, value):
    return b.Where(b.LessOrEqual(self, _fitted(threshold, self.dtype)), _fitted(value, self.dtype), self)


@aten("hardtanh")
def hardtanh(b, self, min_val=-1.0, max_val=1.0):
    return b.Clip(self, *[b.value(_fitted(v, self.dtype), self.dtype) for v in (min_val, max_val)])


@aten("hardshrink")
def hardshrink(b, self, lambd=0.5):
    return b.Where(b.LessOrEqual(b.Abs(self), float(lambd)), 0, self)


@aten("softshrink")
def softshrink(b, self, lambd=0.5):
    return b.Shrink(self, bias=float(lambd), lambd=float(lambd))


@aten("softplus")
def softplus(b, self, beta=1.0, threshold=20.0):
    made = b.Softplus(self * float(beta)) / float(beta) if beta != 1 else b.Softplus(self)
    return made if threshold >= 20 else b.Where(b.Greater(self * float(beta), float(threshold)), self, made)


@aten("logit special_logit")
def logit(b, self, eps=None):
    (x,) = work(b, self)
    x = x if eps is None else b.Clip(x, float(eps), 1 - float(eps))
    return b.Log(x / (1 - x))


@aten("glu")
def glu(b, self, dim=-1):
    n = b.dim(self, dim)
    if isinstance(n, int):
        one, two = b.split(self, [n // 2, n // 2], dim)
    else:
        one, two = b.op("Split", self, axis=dim, outputs=2, **({"num_outputs": 2} if b.opset >= 18 else {}))
    return one * b.Sigmoid(two)


@aten("clamp clip")
def clamp(b, self, min=None, max=None):
    dtype = b.out_dtype or b.promoted(self, min, max)
    self = b.to(self, dtype)
    plain = dtype != BOOL and not any(isinstance(v, Value) and v.shape != () for v in (min, max))
    if plain and dtype.is_floating_point:  # without a limit runtimes make infinities finite
        min, max = -math.inf if min is None else min, math.inf if max is None else max
    if plain:
        limits = [None if v is None else b.to(v, dtype) if isinstance(v, Value) else b.const(_fitted(v, dtype), dtype)
                  for v in (min, max)]  # fmt: skip
        return b.Clip(self, *limits)
    self = self if min is None else b.Max(self, b.to(min, dtype))
    return self if max is None else b.Min(self, b.to(max, dtype))


def _fitted(number, dtype):
    return float(number) if dtype.is_floating_point else int(number)


@aten("clamp_min")
def clamp_min(b, self, min):
    return clamp(b, self, min)


@aten("clamp_max")
def clamp_max(b, self, max):
    return clamp(b, self, None, max)


@aten("nan_to_num")
def nan_to_num(b, self, nan=None, posinf=None, neginf=None):
    if not self.dtype.is_floating_point:
        return self
    limits = tessera.finfo(self.dtype)
    made = b.Where(b.IsNaN(self), 0.0 if nan is None else float(nan), self)
    made = b.Where(b.IsInf(self, detect_negative=0), limits.max if posinf is None else float(posinf), made)
    return b.Where(b.IsInf(self, detect_positive=0), limits.min if neginf is None else float(neginf), made)


def _of_floats(op, otherwise, **attrs):
    def translate(b, self):
        if not self.dtype.is_floating_point:
            return b.full(b.Shape(self), otherwise, BOOL)
        return b.op(op, self, **attrs)

    return translate


TABLE["aten::isnan"] = _of_floats("IsNaN", False)
TABLE["aten::isinf"] = _of_floats("IsInf", False)
TABLE["aten::isposinf"] = _of_floats("IsInf", False, detect_negative=0)
TABLE["aten::isneginf"] = _of_floats("IsInf", False, detect_positive=0)


@aten("isfinite")
def isfinite(b, self):
    if not self.dtype.is_floating_point:
        return b.full(b.Shape(self), True, BOOL)
    return b.Not(b.Or(b.IsNaN(self), b.IsInf(self)))


@aten("signbit")
def signbit(b, self):
    return b.Less(self, 0)


# --- two tensors ---


def _scaled(b, other, alpha, dtype):
    if not isinstance(alpha, Value) and alpha == 1:
        return b.to(other, dtype)
    if not isinstance(other, Value) and not isinstance(alpha, Value):
        return b.value(other * alpha, dtype)
    return b.to(other, dtype) * (b.to(alpha, dtype) if isinstance(alpha, Value) else _fitted(alpha, dtype))


def _number(x):
    return not isinstance(x, Value)


@aten("add")
def add(b, self, other, alpha=1):
    dtype = b.out_dtype or b.promoted(self, other)
    if dtype == BOOL:
        return b.Or(*b.alike(self, other, dtype=BOOL))
    return b.Add(b.to(self, dtype), _scaled(b, other, alpha, dtype))


@aten("sub subtract")
def sub(b, self, other, alpha=1):
    dtype = b.out_dtype or b.promoted(self, other)
    return b.Sub(b.to(self, dtype), _scaled(b, other, alpha, dtype))


@aten("rsub")
def rsub(b, self, other, alpha=1):
    dtype = b.out_dtype or b.promoted(self, other)
    return b.Sub(b.to(other, dtype), _scaled(b, self, alpha, dtype))


@aten("mul multiply")
def mul(b, self, other):
    one, two = work(b, self, other)
    return b.And(one, two) if one.dtype == BOOL else b.Mul(one, two)


@aten("div divide true_divide")
def div(b, self, other, rounding_mode=None):
    one, two = work(b, self, other)
    if rounding_mode is None:
        return b.Div(one, two)
    if one.dtype.is_floating_point:
        return b.Floor(b.Div(one, two)) if rounding_mode == "floor" else _trunc(b, b.Div(one, two))
    quotient = b.Div(one, two)  # of whole numbers: towards zero
    if rounding_mode == "trunc" or not one.dtype.is_signed:
        return quotient
    rest = one - quotient * two
    lower = b.And(b.Not(b.Equal(rest, 0)), b.Xor(b.Less(rest, 0), b.Less(two, 0)))
    return b.Sub(quotient, b.to(lower, one.dtype))


@aten("floor_divide")
def floor_divide(b, self, other):
    return div(b, self, other, "floor")


@aten("remainder")
def remainder(b, self, other):
    one, two = work(b, self, other)
    if one.dtype.is_floating_point:
        return one - b.Floor(one / two) * two
    return b.Mod(one, two)


@aten("fmod")
def fmod(b, self, other):
    return b.Mod(*work(b, self, other), fmod=1)


@aten("pow")
def pow_(b, self, exponent):
    dtype = b.out_dtype or b.promoted(self, exponent)
    if _number(exponent) and exponent == 2:
        one = b.to(self, dtype)
        return one * one
    return b.Pow(b.to(self, dtype), b.to(exponent, dtype))


@aten("float_power")
def float_power(b, self, exponent):
    return b.Pow(*b.alike(self, exponent, dtype=tessera.float64))


def _pair(op):
    def translate(b, self, other):
        return b.op(op, *work(b, self, other))

    return translate


rows("maximum=Max minimum=Min", _pair)


def _ignoring_nan(op):
    def translate(b, self, other):
        one, two = work(b, self, other)
        made = b.op(op, one, two)
        if not one.dtype.is_floating_point:
            return made
        return b.Where(b.IsNaN(one), two, b.Where(b.IsNaN(two), one, made))

    return translate


rows("fmax=Max fmin=Min", _ignoring_nan)


def _comparison(op, negated=False):
    def translate(b, self, other):
        one, two = b.alike(self, other)
        if one.dtype == BOOL and op != "Equal":
            one, two = b.to(one, tessera.int32), b.to(two, tessera.int32)
        made = b.op(op, one, two)
        return b.Not(made) if negated else made

    return translate


rows(
    "eq=Equal lt=Less le=LessOrEqual gt=Greater ge=GreaterOrEqual less=Less less_equal=LessOrEqual greater=Greater "
    "greater_equal=GreaterOrEqual",
    _comparison,
)
TABLE["aten::ne"] = TABLE["aten::not_equal"] = _comparison("Equal", True)


def truth(b, x):
    """Whether numbers are not zero."""
    return b.to(x, BOOL)


def _logical(op):
    return lambda b, self, other: b.op(op, truth(b, self), truth(b, other))


rows("logical_and=And logical_or=Or logical_xor=Xor", _logical)
TABLE["aten::logical_not"] = lambda b, self: b.Not(truth(b, self))


def _bitwise(op):
    def translate(b, self, other):
        one, two = work(b, self, other)
        if one.dtype == BOOL:
            return b.op(op, one, two)
        if b.opset < 18:
            raise NotImplementedError(f"bitwise operators of whole numbers need opset_version 18, not {b.opset}")
        return b.op("Bitwise" + op, one, two)

    return translate


rows("bitwise_and=And __and__=And bitwise_or=Or __or__=Or bitwise_xor=Xor __xor__=Xor", _bitwise)


@aten("bitwise_not")
def bitwise_not(b, self):
    if self.dtype == BOOL:
        return b.Not(self)
    return b.BitwiseNot(self) if b.opset >= 18 else -self - 1


def _power_of_two(b, places, dtype, bits):
    """(2 ** places, whether all bits go away by a shift of so many places)."""
    beyond = b.to(b.GreaterOrEqual(places, bits), BOOL)
    if dtype.is_signed:
        beyond = b.Or(b.Less(places, 0), beyond)
    power = b.Pow(b.value(2.0, tessera.float64), b.to(b.Where(beyond, 0, places), tessera.float64))
    return b.to(power, dtype), beyond


@aten("bitwise_left_shift __lshift__")
def left_shift(b, self, other):
    one, two = work(b, self, other)
    power, beyond = _power_of_two(b, two, one.dtype, tessera.iinfo(one.dtype).bits)
    return b.Where(beyond, 0, one * power)


@aten("bitwise_right_shift __rshift__")
def right_shift(b, self, other):
    one, two = work(b, self, other)
    power, beyond = _power_of_two(b, two, one.dtype, tessera.iinfo(one.dtype).bits - one.dtype.is_signed)
    rest = b.Where(b.Less(one, 0), -1, b.value(0, one.dtype)) if one.dtype.is_signed else 0
    return b.Where(beyond, rest, div(b, one, power, "floor"))


@aten("atan2 arctan2")
def atan2(b, self, other):
    y, x = work(b, self, other)
    # of two infinities the signs say the direction
    angle = b.Atan(b.Where(b.And(b.IsInf(y), b.IsInf(x)), b.Sign(y) * b.Sign(x), y / x))
    turned = b.Where(b.Less(y, 0), angle - math.pi, angle + math.pi)
    made = b.Where(b.Less(x, 0), turned, angle)
    return b.Where(b.Equal(x, 0), b.Sign(y) * (math.pi / 2), made)


def _apart(b, x, y):
    """How far two numbers lie apart; two equal infinities do not."""
    return b.Where(b.Equal(x, y), 0, b.Abs(x - y))


# Formulas of two tensors.
_OF_TWO = {
    "hypot": lambda b, x, y: b.Sqrt(x * x + y * y),
    "logaddexp": lambda b, x, y: b.Max(x, y) + b.Log(b.Exp(-_apart(b, x, y)) + 1),
    "logaddexp2": lambda b, x, y: b.Max(x, y) + b.Log(b.Pow(b.value(2.0, x.dtype), -_apart(b, x, y)) + 1) / math.log(2),
    "xlogy": lambda b, x, y: b.Where(b.And(b.Equal(x, 0), b.Not(b.IsNaN(y))), 0, x * b.Log(y)),
    "special_xlog1py": lambda b, x, y: b.Where(b.And(b.Equal(x, 0), b.Not(b.IsNaN(y))), 0, x * b.Log(y + 1)),
    "copysign": lambda b, x, y: b.Where(b.Less(y, 0), -b.Abs(x), b.Abs(x)),
}
TABLE.update({"aten::" + n: lambda b, self, other, f=f: f(b, *work(b, self, other)) for n, f in _OF_TWO.items()})
TABLE["aten::heaviside"] = lambda b, self, values: b.Where(
    b.Equal(self, 0), values, b.to(b.Greater(self, 0), self.dtype)
)
TABLE["aten::__rpow__"] = lambda b, self, other: pow_(b, other, self)
TABLE["aten::__rsub__"] = lambda b, self, other: rsub(b, self, other)
TABLE["aten::special_xlogy"] = TABLE["aten::xlogy"]


@aten("lerp")
def lerp(b, self, end, weight):
    self, end, weight = work(b, self, end, weight)
    return self + weight * (end - self)


@aten("addcmul")
def addcmul(b, self, tensor1, tensor2, value=1):
    self, one, two = work(b, self, tensor1, tensor2)
    return self + (one * two if value == 1 else one * two * _fitted(value, self.dtype))


@aten("addcdiv")
def addcdiv(b, self, tensor1, tensor2, value=1):
    self, one, two = work(b, self, tensor1, tensor2)
    return self + (one / two if value == 1 else one / two * _fitted(value, self.dtype))


@aten("where")
def where(b, condition, self=None, other=None):
    if self is None:
        return TABLE["aten::nonzero_numpy"](b, condition)
    dtype = b.out_dtype or b.promoted(self, other)
    return b.Where(truth(b, condition), b.to(self, dtype), b.to(other, dtype))


@aten("_where")
def _where(b, condition, self, other):
    return where(b, condition, self, other)


@aten("masked_fill")
def masked_fill(b, self, mask, value):
    return b.Where(truth(b, mask), b.to(value, self.dtype), self)


@aten("isclose")
def isclose(b, self, other, rtol=1e-05, atol=1e-08, equal_nan=False):
    one, two = b.alike(self, other)
    if not one.dtype.is_floating_point:
        one, two = b.to(one, tessera.float64), b.to(two, tessera.float64)
    near = b.Or(b.LessOrEqual(b.Abs(one - two), b.Abs(two) * rtol + atol), b.Equal(one, two))
    return b.Or(near, b.And(b.IsNaN(one), b.IsNaN(two))) if equal_nan else near


# --- copies into other dtypes ---


@aten("to _to_copy")
def to(b, self, *_, **kwargs):
    dtype = kwargs.get("dtype")
    if isinstance(kwargs.get("other"), Value):
        dtype = kwargs["other"].dtype
    return b.to(self, b.out_dtype or dtype or self.dtype)


to.takes_all = True


@aten("type_as")
def type_as(b, self, other):
    return b.to(self, other.dtype)


@aten("copy")
def copy(b, self, src, non_blocking=False):
    return expanded(b, b.to(src, self.dtype), self)


def expanded(b, x, like):
    """A value in the sizes of another one."""
    if alike_in_shape(x, like):
        return x
    return b.Expand(x, b.cached("Shape", like))


for _kind, _dtype in (("float", FLOAT), ("int", tessera.int32), ("long", INT64), ("double", tessera.float64),
                      ("half", tessera.float16), ("bool", BOOL)):  # fmt: skip
    TABLE["aten::_cast_" + _kind.capitalize()] = lambda b, self, non_blocking=False, d=_dtype: b.to(self, d)


# --- tensors out of nothing ---


def _made(b, sizes, number, dtype):
    dtype = b.out_dtype or dtype or FLOAT
    return b.full(
        sizes, _fitted(number, dtype) if not isinstance(number, (Value, bool)) else b.to(number, dtype), dtype
    )


def _fill_sizes(number):
    def translate(b, size, dtype=None, **_):
        return _made(b, size, number, dtype)

    translate.takes_all = True
    return translate


def _fill_like(number):
    def translate(b, self, dtype=None, **_):
        return _made(b, b.cached("Shape", self), number, dtype or self.dtype)

    translate.takes_all = True
    return translate


def _fill_new(number):
    def translate(b, self, size, dtype=None, **_):
        return _made(b, size, number, dtype or self.dtype)

    translate.takes_all = True
    return translate


for _name, _filled in (("zeros", 0), ("ones", 1), ("empty", 0)):
    TABLE["aten::" + _name] = _fill_sizes(_filled)
    TABLE[f"aten::{_name}_like"] = _fill_like(_filled)
    TABLE["aten::new_" + _name] = _fill_new(_filled)


@aten("empty_strided empty_permuted new_empty_strided")
def empty_strided(b, size, dtype=None, **_):
    return _made(b, size, 0, dtype)


@aten("full")
def full(b, size, fill_value, dtype=None, **_):
    return _made(b, size, fill_value, dtype)


@aten("full_like")
def full_like(b, self, fill_value, dtype=None, **_):
    return _made(b, b.cached("Shape", self), fill_value, dtype or self.dtype)


@aten("new_full")
def new_full(b, self, size, fill_value, dtype=None, **_):
    return _made(b, size, fill_value, dtype or self.dtype)


@aten("scalar_tensor")
def scalar_tensor(b, s, dtype=None, **_):
    return b.to(s, b.out_dtype or dtype or FLOAT)


@aten("arange")
def arange(b, end, start=0, step=1, dtype=None, **_):
    dtype = b.out_dtype or dtype or b.promoted(start, end, step)
    inner = dtype if dtype in (FLOAT, INT64, tessera.int32, tessera.float64) else FLOAT
    return b.to(b.op("Range", *[b.to(v, inner) for v in (start, end, step)], dtype=inner), dtype)


@aten("linspace")
def linspace(b, start, end, steps, dtype=None, **_):
    dtype = b.out_dtype or dtype or FLOAT
    if isinstance(steps, Value):
        raise NotImplementedError("linspace with a number of steps that may differ")
    if _number(start) and _number(end):
        return b.const(_plain_list(start, end, steps, dtype), dtype)
    at = b.op("Range", b.value(0.0, dtype), b.value(float(steps), dtype), b.value(1.0, dtype))
    return b.to(start, dtype) + at * ((b.to(end, dtype) - b.to(start, dtype)) / max(steps - 1, 1))


def _plain_list(start, end, steps, dtype):
    from tessera.onnx._build import _plain

    with _plain():
        return tessera.linspace(start, end, steps, dtype=dtype).tolist()


@aten("eye")
def eye(b, n, m=None, dtype=None, **_):
    dtype = b.out_dtype or dtype or FLOAT
    rows_ = b.unsqueeze(b.op("Range", *[b.to(v, INT64) for v in (0, n, 1)]), 1)
    columns = b.unsqueeze(b.op("Range", *[b.to(v, INT64) for v in (0, n if m is None else m, 1)]), 0)
    return b.to(b.Equal(rows_, columns), dtype)


for _f in (empty_strided, full, full_like, new_full, scalar_tensor, arange, linspace, eye):
    _f.takes_all = True


@aten("fill")
def fill(b, self, value):
    return _made(b, b.cached("Shape", self), value, self.dtype)


@aten("zero")
def zero(b, self):
    return _made(b, b.cached("Shape", self), 0, self.dtype)


# --- random numbers: those of the runtime ---


def _random(op, like):
    def translate(b, *, dtype=None, self=None, size=None, **_):
        dtype = b.out_dtype or dtype or (self.dtype if like else FLOAT)
        shaped = self if like else _made(b, size, 0, FLOAT)
        return b.to(b.op(op + "Like", b.to(shaped, FLOAT)), dtype)

    translate.takes_all = True
    return translate


for _name, _op in (("rand", "RandomUniform"), ("randn", "RandomNormal")):
    TABLE["aten::" + _name] = _random(_op, False)
    TABLE[f"aten::{_name}_like"] = _random(_op, True)


@aten("normal normal_functional")
def normal(b, self=None, mean=0.0, std=1.0, generator=None, size=None, **_):
    like = self if self is not None else next((v for v in (mean, std) if isinstance(v, Value)), None)
    like = _made(b, size, 0, FLOAT) if like is None else like
    drawn = b.RandomNormalLike(like, dtype=like.dtype)
    return drawn * (b.to(std, like.dtype)) + b.to(mean, like.dtype)


@aten("uniform")
def uniform(b, self, **kwargs):
    low, high = kwargs.get("from", 0.0), kwargs.get("to", 1.0)
    return b.RandomUniformLike(self, low=float(low), high=float(high), dtype=self.dtype)


normal.takes_all = uniform.takes_all = True


@aten("bernoulli")
def bernoulli(b, self, p=None, generator=None):
    chance = self if p is None else b.to(p, self.dtype)
    return b.to(b.Less(b.RandomUniformLike(self, dtype=self.dtype), chance), self.dtype)


@aten("multinomial")
def multinomial(b, self, num_samples, replacement=False, generator=None):
    if not replacement and num_samples != 1:
        raise NotImplementedError(
            "multinomial without replacement of more than one sample: ONNX draws with replacement"
        )
    logs = b.Log(self if self.rank == 2 else b.unsqueeze(self, 0))
    drawn = b.to(b.op("Multinomial", logs, dtype=tessera.int32, sample_size=num_samples), INT64)
    return drawn if self.rank == 2 else b.squeeze(drawn, 0)
