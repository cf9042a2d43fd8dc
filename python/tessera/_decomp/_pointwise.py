"""Decompositions of elementwise operators."""

import math

import tessera
from tessera._decomp._registry import promoted, rule, widened
from tessera._ops import ops

aten = ops.aten
where, exp = tessera.where, tessera.exp


def number(x, value):
    """The value as a tensor of no dimensions, of x's dtype."""
    return tessera.scalar_tensor(value, dtype=x.dtype, device=x.device)


# --- what the tables of the extension make documented operators of


@rule("_where", "where.ScalarSelf", "where.ScalarOther")
def _where(condition, self, other):
    dtype = tessera.result_type(self, other)  # two tensors: a number would make where.ScalarOther of this again
    self, other = (
        v if isinstance(v, tessera.Tensor) else condition.new_full((), v, dtype=dtype) for v in (self, other)
    )
    return aten.where.self(condition, self, other)


def _check_mask(mask):
    if mask.dtype != tessera.bool:
        raise RuntimeError(f"masked_fill only supports boolean masks, but got mask with dtype {mask.dtype}")


@rule("_masked_fill", "masked_fill.Scalar")
def masked_fill(self, mask, value):
    _check_mask(mask)
    if isinstance(value, complex) and not self.is_complex():
        raise RuntimeError(f"value cannot be converted to type {self.dtype} without overflow")
    return aten.where.self(mask, number(self, value), self)


@rule("masked_fill.Tensor")
def masked_fill_tensor(self, mask, value):
    _check_mask(mask)
    if value.dim():
        raise RuntimeError(
            f"masked_fill only supports a 0-dimensional value tensor, got one of {value.dim()} dimensions"
        )
    if value.is_complex() and not self.is_complex():
        raise RuntimeError(f"masked_fill: a value of {value.dtype} cannot be converted to {self.dtype}")
    return aten.where.self(mask, value.to(self.dtype), self)


@rule("_clamp_scalar")
def _clamp_scalar(self, min, max):
    low = None if isinstance(min, float) and math.isnan(min) else min
    return aten.clamp.default(self, low, max)


@rule("_clamp_tensor")
def _clamp_tensor(self, min, max):
    return aten.clamp.Tensor(self, min, max)


@rule("clamp_min.Tensor", "clamp_min")
def clamp_min(self, min):
    return (aten.clamp.Tensor if isinstance(min, tessera.Tensor) else aten.clamp.default)(self, min)


@rule("clamp_max.Tensor", "clamp_max")
def clamp_max(self, max):
    return (aten.clamp.Tensor if isinstance(max, tessera.Tensor) else aten.clamp.default)(self, None, max)


@rule("_div_trunc")
def _div_trunc(self, other):
    return aten.div.Tensor_mode(self, other, rounding_mode="trunc")


@rule("floor_divide")
def floor_divide(self, other):
    return aten.div.Tensor_mode(self, other, rounding_mode="floor")


@rule("_gelu_erf")
def _gelu_erf(self):
    return aten.gelu.default(self)


@rule("_gelu_tanh")
def _gelu_tanh(self):
    return aten.gelu.default(self, approximate="tanh")


# --- activations


@rule("silu")
@widened
def silu(self):
    return self * tessera.sigmoid(self)


@rule("silu_backward")
@widened
def silu_backward(grad_output, self):
    s = tessera.sigmoid(self)
    return grad_output * s * (1 + self * (1 - s))


@rule("mish")
@widened
def mish(self):
    return self * tessera.tanh(softplus(self))


@rule("mish_backward")
@widened
def mish_backward(grad_output, self):
    t = tessera.tanh(softplus(self))
    return grad_output * (t + self * tessera.sigmoid(self) * (1 - t * t))


@rule("softplus")
@widened
def softplus(self, beta=1, threshold=20):
    scaled = self * beta
    return where(scaled > threshold, self, tessera.log1p(exp(scaled)) / beta)


@rule("softplus_backward")
@widened
def softplus_backward(grad_output, self, beta, threshold):
    scaled = self * beta
    return where(scaled > threshold, grad_output, grad_output * tessera.sigmoid(scaled))


@rule("log_sigmoid")
@widened
def log_sigmoid(self):
    return aten.minimum.default(self, number(self, 0)) - tessera.log1p(exp(-tessera.abs(self)))


@rule("_log_sigmoid_backward")
@widened
def log_sigmoid_backward(grad_output, self):
    return grad_output * tessera.sigmoid(-self)


@rule("hardsigmoid")
@widened
def hardsigmoid(self):
    return aten.clamp.default(self + 3, 0, 6) / 6


@rule("hardsigmoid_backward")
@widened
def hardsigmoid_backward(grad_output, self):
    return where((self > -3) & (self < 3), grad_output / 6, number(grad_output, 0))


@rule("hardswish")
@widened
def hardswish(self):
    return self * aten.clamp.default(self + 3, 0, 6) / 6


@rule("hardswish_backward")
@widened
def hardswish_backward(grad_output, self):
    inside = grad_output * (self / 3 + 0.5)
    return where(self <= -3, number(grad_output, 0), where(self < 3, inside, grad_output))


@rule("relu6")
def relu6(self):
    return aten.hardtanh.default(self, 0, 6)


@rule("hardtanh_backward")
def hardtanh_backward(grad_output, self, min_val, max_val):
    return where((self <= min_val) | (self >= max_val), number(grad_output, 0), grad_output)


@rule("hardshrink")
def hardshrink(self, lambd=0.5):
    return where((self >= -lambd) & (self <= lambd), number(self, 0), self)


@rule("hardshrink_backward", "softshrink_backward")
def shrink_backward(grad_output, self, lambd):
    return where((self >= -lambd) & (self <= lambd), number(grad_output, 0), grad_output)


@rule("softshrink")
def softshrink(self, lambd=0.5):
    if lambd < 0:
        raise RuntimeError(f"lambda must be greater or equal to 0, but found to be {lambd}.")
    return where(self > lambd, self - lambd, where(self < -lambd, self + lambd, self * 0))


@rule("threshold")
def threshold(self, threshold, value):
    return where(self <= threshold, number(self, value), self)


@rule("threshold_backward")
def threshold_backward(grad_output, self, threshold):
    return where(self <= threshold, number(grad_output, 0), grad_output)


@rule("celu")
@widened
def celu(self, alpha=1.0):
    return where(self > 0, self, alpha * tessera.expm1(self / alpha))


@rule("selu")
@widened
def selu(self):
    alpha, scale = 1.6732632423543772848170429916717, 1.0507009873554804934193349852946
    return where(self > 0, scale * self, scale * alpha * tessera.expm1(self))


@rule("_elu_backward_self")
@widened
def elu_backward_self(grad_output, self, alpha, scale, input_scale):
    below = grad_output * (input_scale * alpha * scale) * exp(self * input_scale)
    return where(self <= 0, below, grad_output * scale)


@rule("_elu_backward_result")
@widened
def elu_backward_result(grad_output, self, alpha, scale, input_scale):
    return where(self <= 0, grad_output * input_scale * (self + alpha * scale), grad_output * scale)


@rule("leaky_relu_backward")
@widened
def leaky_relu_backward(grad_output, self, negative_slope, self_is_result):
    if self_is_result and negative_slope < 0:
        raise RuntimeError(f"leaky_relu_backward: the sign of a result says nothing for a slope of {negative_slope}")
    return where(self > 0, grad_output, grad_output * negative_slope)


@rule("_prelu_kernel")
def prelu(self, weight):
    return where(self > 0, self, weight * self)


@rule("_gelu_erf_backward")
@widened
def gelu_erf_backward(grad_output, self):
    density = exp(-0.5 * self * self) / math.sqrt(2 * math.pi)
    return grad_output * (0.5 * (1 + tessera.erf(self / math.sqrt(2))) + self * density)


@rule("_gelu_tanh_backward")
@widened
def gelu_tanh_backward(grad_output, self):
    root = math.sqrt(2 / math.pi)
    squared = self * self
    t = tessera.tanh(root * self * (1 + 0.044715 * squared))
    slope = root * (1 + 3 * 0.044715 * squared)
    return grad_output * (0.5 * (1 + t) + 0.5 * self * (1 - t * t) * slope)


@rule("sigmoid_backward")
def sigmoid_backward(grad_output, output):
    return grad_output * (output * (1 - output)).conj()


@rule("tanh_backward")
def tanh_backward(grad_output, output):
    return grad_output * (1 - output * output).conj()


@rule("logit")
def logit(self, eps=None):
    (x,), dtype = promoted(self)
    x = x if eps is None else aten.clamp.default(x, eps, 1 - eps)
    return tessera.log(x / (1 - x)).to(dtype)


@rule("logit_backward")
@widened
def logit_backward(grad_output, self, eps=None):
    slope = grad_output / (self * (1 - self))
    low, outside = (0.0, math.nan) if eps is None else (eps, 0.0)
    return where((self >= low) & (self <= 1 - low), slope, number(grad_output, outside))


# --- arithmetic


@rule("addcmul")
@widened
def addcmul(self, tensor1, tensor2, *, value=1):
    product = tensor1 * tensor2
    return self + (product if value == 1 else product * value)


@rule("addcdiv")
@widened
def addcdiv(self, tensor1, tensor2, *, value=1):
    ratio = tensor1 / tensor2
    return self + (ratio if value == 1 else ratio * value)


@rule("rsub.Tensor", "rsub.Scalar")
def rsub(self, other, *, alpha=1):
    return aten.sub.Tensor(other, self, alpha=alpha)


@rule("lerp.Scalar")
@widened
def lerp_scalar(self, end, weight):
    """From the nearer end, so that a weight of 1 gives `end` itself."""
    return self + weight * (end - self) if abs(weight) < 0.5 else end - (end - self) * (1 - weight)


@rule("lerp.Tensor")
@widened
def lerp_tensor(self, end, weight):
    return where(tessera.abs(weight) < 0.5, self + weight * (end - self), end - (end - self) * (1 - weight))


@rule("frac")
def frac(self):
    return self - tessera.trunc(self)


@rule("sgn")
def sgn(self):
    if not self.is_complex():
        return tessera.sign(self)
    size = tessera.abs(self)
    return where(size == 0, number(self, 0), self / size)


@rule("heaviside")
def heaviside(self, values):
    if self.dtype != values.dtype or self.is_complex():
        raise RuntimeError(f"heaviside: expected real tensors of one dtype, got {self.dtype} and {values.dtype}")
    step = where(self < 0, number(self, 0), number(self, 1))
    return where(self == 0, values, where(tessera.isnan(self), number(self, 0), step))


@rule("nan_to_num")
def nan_to_num(self, nan=None, posinf=None, neginf=None):
    if not self.is_floating_point():
        return tessera.clone(self)
    info = tessera.finfo(self.dtype)
    x = where(tessera.isnan(self), number(self, 0.0 if nan is None else nan), self)
    x = where(self == math.inf, number(self, info.max if posinf is None else posinf), x)
    return where(self == -math.inf, number(self, info.min if neginf is None else neginf), x)


@rule("isfinite")
def isfinite(self):
    if not self.is_floating_point() and not self.is_complex():
        return tessera.full_like(self, True, dtype=tessera.bool)
    return tessera.abs(self) < math.inf


@rule("isposinf")
def isposinf(self):
    return self == math.inf


@rule("isneginf")
def isneginf(self):
    return self == -math.inf


def _log_of_sum(self, other, exponential, base):
    (x, y), dtype = promoted(self, other)
    if x.is_complex():
        larger, smaller = where(x.real >= y.real, x, y), where(x.real >= y.real, y, x)
        return (larger + tessera.log(1 + exponential(smaller - larger)) / base).to(dtype)
    sums = aten.maximum.default(x, y) + tessera.log1p(exponential(-tessera.abs(x - y))) / base
    return where((x == y) & tessera.isinf(x), x, sums).to(dtype)


@rule("logaddexp")
def logaddexp(self, other):
    return _log_of_sum(self, other, exp, 1)


@rule("logaddexp2")
def logaddexp2(self, other):
    return _log_of_sum(self, other, lambda x: aten.pow.Scalar(2, x), math.log(2))


def _times_log(self, other, logarithm):
    """0 where self is 0, unless other is nan."""
    (x, y), dtype = promoted(self, other)
    product = where(x == 0, number(x, 0), x * logarithm(y))
    return where(tessera.isnan(y), number(x, math.nan), product).to(dtype)


@rule("xlogy.Tensor")
def xlogy(self, other):
    return _times_log(self, other, tessera.log)


@rule("special_xlog1py")
def xlog1py(self, other):
    return _times_log(self, other, tessera.log1p)


@rule("special_entr")
def entr(self):
    (x,), dtype = promoted(self)
    below = where(x == 0, number(x, 0), number(x, -math.inf))
    inside = where(x > 0, -x * tessera.log(x), below)
    return where(tessera.isnan(x), x, inside).to(dtype)


@rule("erfc")
@widened
def erfc(self):
    return 1 - tessera.erf(self)


@rule("exp2")
def exp2(self):
    (x,), dtype = promoted(self)
    return aten.pow.Scalar(2.0, x).to(dtype)


@rule("sinc")
def sinc(self):
    (x,), dtype = promoted(self)
    x = x * math.pi
    return where(x == 0, number(x, 1), tessera.sin(x) / x).to(dtype)


@rule("copysign.Tensor")
def copysign(self, other):
    (size, _), dtype = promoted(self, other)
    size = tessera.abs(size)
    minus = tessera.signbit(other) if isinstance(other, tessera.Tensor) else math.copysign(1, other) < 0
    return (where(minus, -size, size) if isinstance(minus, tessera.Tensor) else -size if minus else size).to(dtype)


# --- losses, each element


@rule("_mse_elements")
@widened
def mse_elements(self, target):
    difference = self - target
    return difference * difference


@rule("_mse_slope")
@widened
def mse_slope(grad_output, self, target):
    return grad_output * 2 * (self - target)


@rule("_bce_elements")
@widened
def bce_elements(self, target):
    low = -100.0
    own, other = aten.clamp.default(tessera.log(self), low), aten.clamp.default(tessera.log1p(-self), low)
    return (target - 1) * other - target * own


@rule("_bce_logits_elements")
@widened
def bce_logits_elements(self, target):
    return (1 - target) * self - log_sigmoid(self)


@rule("_huber_elements")
@widened
def huber_elements(self, target, delta):
    if delta <= 0:
        raise RuntimeError(f"huber_loss does not support non-positive values for delta, got {delta}")
    size = tessera.abs(self - target)
    return where(size < delta, 0.5 * size * size, delta * (size - 0.5 * delta))


@rule("_huber_slope")
@widened
def huber_slope(grad_output, self, target, delta):
    return grad_output * aten.clamp.default(self - target, -delta, delta)


@rule("_smooth_l1_elements")
@widened
def smooth_l1_elements(self, target, beta):
    size = tessera.abs(self - target)
    return size if beta == 0 else where(size < beta, 0.5 * size * size / beta, size - 0.5 * beta)


@rule("_smooth_l1_slope")
@widened
def smooth_l1_slope(grad_output, self, target, beta):
    difference = self - target
    signs = grad_output * tessera.sign(difference)
    return signs if beta == 0 else where(tessera.abs(difference) < beta, grad_output * difference / beta, signs)
