"""How a module is quantized: pairs of factories, one for its activations and one for its weights."""

from collections import namedtuple
from typing import Optional

import tessera
from tessera import nn

from .fake_quantize import (
    FakeQuantize,
    FusedMovingAvgObsFakeQuantize,
    default_dynamic_fake_quant,
    default_embedding_fake_quant,
    default_embedding_fake_quant_4bit,
    default_fake_quant,
    default_fused_act_fake_quant,
    default_fused_per_channel_wt_fake_quant,
    default_fused_wt_fake_quant,
    default_per_channel_weight_fake_quant,
    default_weight_fake_quant,
    fused_per_channel_wt_fake_quant_range_neg_127_to_127,
    fused_wt_fake_quant_range_neg_127_to_127,
)
from .observer import (
    HistogramObserver,
    MinMaxObserver,
    MovingAverageMinMaxObserver,
    NoopObserver,
    PlaceholderObserver,
    ReuseInputObserver,
    _PartialWrapper,
    default_debug_observer,
    default_dynamic_quant_observer,
    default_float_qparams_observer,
    default_float_qparams_observer_4bit,
    default_observer,
    default_per_channel_weight_observer,
    default_placeholder_observer,
    default_reuse_input_observer,
    default_weight_observer,
    per_channel_weight_observer_range_neg_127_to_127,
    weight_observer_range_neg_127_to_127,
)

__all__ = [
    "QConfig", "QConfigAny", "QConfigDynamic", "default_activation_only_qconfig", "default_debug_qconfig",
    "default_dynamic_qat_qconfig", "default_dynamic_qconfig", "default_embedding_qat_qconfig",
    "default_embedding_qat_qconfig_4bit", "default_per_channel_qconfig",
    "default_per_channel_symmetric_qnnpack_qat_qconfig", "default_per_channel_symmetric_qnnpack_qconfig",
    "default_qat_qconfig", "default_qat_qconfig_v2", "default_qconfig", "default_quint8_weight_qconfig",
    "default_reuse_input_qconfig", "default_symmetric_qnnpack_qat_qconfig", "default_symmetric_qnnpack_qconfig",
    "default_weight_only_qconfig", "float16_dynamic_qconfig", "float16_static_qconfig",
    "float_qparams_weight_only_qconfig", "float_qparams_weight_only_qconfig_4bit", "get_default_qat_qconfig",
    "get_default_qat_qconfig_dict", "get_default_qconfig", "get_default_qconfig_dict", "per_channel_dynamic_qconfig",
    "qconfig_equals",
]  # fmt: skip


class QConfig(namedtuple("QConfig", ["activation", "weight"])):
    """Factories (classes or `with_args`) of what watches a module's activations and its weights. ValueError for
    instances of modules.
    """

    __slots__ = ()

    def __new__(cls, activation, weight):
        if isinstance(activation, nn.Module) or isinstance(weight, nn.Module):
            raise ValueError(
                "QConfig received observer instance, please pass observer class instead. Use MyObserver.with_args(x=1) "
                "to override arguments to constructor if needed"
            )
        return super().__new__(cls, activation, weight)


class QConfigDynamic(namedtuple("QConfigDynamic", ["activation", "weight"])):
    """The older form of QConfig for dynamic quantization; activations need nothing there."""

    __slots__ = ()

    def __new__(cls, activation=nn.Identity, weight=nn.Identity):
        if isinstance(weight, nn.Module):
            raise ValueError("QConfigDynamic received observer instance, please pass observer class instead.")
        return super().__new__(cls, activation, weight)


QConfigAny = Optional[QConfig]

default_qconfig = QConfig(default_observer, default_weight_observer)
default_debug_qconfig = QConfig(default_debug_observer, default_weight_observer)
default_per_channel_qconfig = QConfig(default_observer, default_per_channel_weight_observer)
default_dynamic_qconfig = QConfig(default_dynamic_quant_observer, default_weight_observer)
per_channel_dynamic_qconfig = QConfig(default_dynamic_quant_observer, default_per_channel_weight_observer)
float16_dynamic_qconfig = QConfig(
    PlaceholderObserver.with_args(dtype=tessera.float16, is_dynamic=True),
    PlaceholderObserver.with_args(dtype=tessera.float16),
)
float16_static_qconfig = QConfig(
    PlaceholderObserver.with_args(dtype=tessera.float16), PlaceholderObserver.with_args(dtype=tessera.float16)
)
float_qparams_weight_only_qconfig = QConfig(default_placeholder_observer, default_float_qparams_observer)
float_qparams_weight_only_qconfig_4bit = QConfig(default_placeholder_observer, default_float_qparams_observer_4bit)
default_qat_qconfig = QConfig(default_fake_quant, default_weight_fake_quant)
default_dynamic_qat_qconfig = QConfig(default_dynamic_fake_quant, default_weight_fake_quant)
default_weight_only_qconfig = QConfig(nn.Identity, default_weight_fake_quant)
default_activation_only_qconfig = QConfig(default_fake_quant, nn.Identity)
default_qat_qconfig_v2 = QConfig(default_fused_act_fake_quant, default_fused_wt_fake_quant)
default_reuse_input_qconfig = QConfig(default_reuse_input_observer, NoopObserver)
default_embedding_qat_qconfig = QConfig(NoopObserver.with_args(dtype=tessera.float32), default_embedding_fake_quant)
default_embedding_qat_qconfig_4bit = QConfig(
    NoopObserver.with_args(dtype=tessera.float32), default_embedding_fake_quant_4bit
)
default_quint8_weight_qconfig = QConfig(HistogramObserver, MinMaxObserver)
_default_fp32_placeholder_qconfig = QConfig(
    PlaceholderObserver.with_args(dtype=tessera.float32), PlaceholderObserver.with_args(dtype=tessera.float32)
)
_default_quint8_placeholder_qconfig = QConfig(PlaceholderObserver.with_args(dtype=tessera.quint8), None)

_SIGNED = HistogramObserver.with_args(dtype=tessera.qint8, reduce_range=False, eps=2**-12)
_SIGNED_FAKE = FusedMovingAvgObsFakeQuantize.with_args(
    observer=MovingAverageMinMaxObserver, quant_min=-128, quant_max=127, dtype=tessera.qint8, reduce_range=False,
    eps=2**-12,
)  # fmt: skip
default_symmetric_qnnpack_qconfig = QConfig(_SIGNED, weight_observer_range_neg_127_to_127)
default_per_channel_symmetric_qnnpack_qconfig = QConfig(_SIGNED, per_channel_weight_observer_range_neg_127_to_127)
default_symmetric_qnnpack_qat_qconfig = QConfig(_SIGNED_FAKE, fused_wt_fake_quant_range_neg_127_to_127)
default_per_channel_symmetric_qnnpack_qat_qconfig = QConfig(
    _SIGNED_FAKE, fused_per_channel_wt_fake_quant_range_neg_127_to_127
)

# Engine -> (whether sums are so narrow that activations have seven bits, whether weights have a scale per channel).
_ENGINES = {"fbgemm": (True, True), "x86": (True, True), "qnnpack": (False, False), "onednn": (False, True)}


def _engine(backend, function):
    if backend not in _ENGINES:
        raise AssertionError(
            f"backend: {backend} not supported. backend must be one of {', '.join(_ENGINES)} for {function}()"
        )
    return _ENGINES[backend]


def get_default_qconfig(backend="x86", version=0):
    """The QConfig for quantization after training on an engine: fbgemm, x86, qnnpack or onednn. AssertionError for
    others, and for versions other than 0.
    """
    if version != 0:
        raise AssertionError(
            f"Version number: {version} in get_default_qconfig is not supported. Version number must be 0"
        )
    narrow, channels = _engine(backend, "get_default_qconfig")
    weight = default_per_channel_weight_observer if channels else default_weight_observer
    return QConfig(HistogramObserver.with_args(reduce_range=narrow), weight)


def get_default_qat_qconfig(backend="x86", version=1):
    """The QConfig for training with quantization in mind on an engine: version 0 with observers and rounding apart, 1
    with both in one. AssertionError for unknown engines and versions.
    """
    if version not in (0, 1):
        raise AssertionError(
            f"Version number: {version} in get_default_qat_qconfig is not supported. Version number must be 0 or 1"
        )
    narrow, channels = _engine(backend, "get_default_qat_qconfig")
    kind = FusedMovingAvgObsFakeQuantize if version else FakeQuantize
    reduced = {} if backend == "onednn" else {"reduce_range": narrow}
    activation = kind.with_args(observer=MovingAverageMinMaxObserver, quant_min=0, quant_max=255, **reduced)
    if version:
        weight = default_fused_per_channel_wt_fake_quant if channels else default_fused_wt_fake_quant
    else:
        weight = default_per_channel_weight_fake_quant if channels else default_weight_fake_quant
    return QConfig(activation, weight)


def get_default_qconfig_dict(backend="x86", version=0):
    """get_default_qconfig_mapping() as a dict."""
    return tessera.ao.quantization.get_default_qconfig_mapping(backend, version).to_dict()


def get_default_qat_qconfig_dict(backend="x86", version=1):
    """get_default_qat_qconfig_mapping() as a dict."""
    return tessera.ao.quantization.get_default_qat_qconfig_mapping(backend, version).to_dict()


def _assert_valid_qconfig(qconfig, mod):
    """AssertionError where weights of a transposed convolution would have a scale per channel of the wrong dim."""
    if qconfig is None or not isinstance(mod, (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)):
        return
    if qconfig.weight is not None and "PerChannel" in type(qconfig.weight()).__name__:
        raise AssertionError("Per channel weight observer is not supported yet for ConvTranspose{n}d.")


def _add_module_to_qconfig_obs_ctr(qconfig, module):
    """A QConfig that makes its observers on the device of `module`."""
    if module is None or qconfig is None or type(qconfig).__name__ not in ("QConfig", "QConfigDynamic"):
        return qconfig
    devices = {p.device for p in (*module.parameters(), *module.buffers())}
    if len(devices) != 1 or next(iter(devices)).type == "cpu":
        return qconfig
    device = next(iter(devices))

    def there(factory):
        return (lambda *args, **kwargs: factory(*args, **kwargs).to(device)) if factory is not None else None

    return type(qconfig)(there(qconfig.activation), there(qconfig.weight))


def _obs_or_fq_ctr_equals(one, other):
    """Whether two factories make the same."""
    if isinstance(one, _PartialWrapper) and isinstance(other, _PartialWrapper):
        if one.p.func is not other.p.func or one.callable_args != other.callable_args or one.p.args != other.p.args:
            return False
        a, b = dict(one.p.keywords), dict(other.p.keywords)
        inner = a.pop("observer", None), b.pop("observer", None)
        return a == b and (inner[0] is inner[1] or _obs_or_fq_ctr_equals(*inner))
    return one == other


def qconfig_equals(q1, q2):
    """Whether two QConfigs (or None) make the same observers."""
    if q1 is None or q2 is None:
        return q1 is q2
    try:
        return _obs_or_fq_ctr_equals(q1.activation, q2.activation) and _obs_or_fq_ctr_equals(q1.weight, q2.weight)
    except AttributeError:
        return q1 == q2


def _activation_is_memoryless(qconfig):
    """Whether what watches activations forgets from call to call."""

    def forgets(watch):
        return getattr(watch, "averaging_constant", None) == 1

    activation = qconfig.activation()
    return forgets(getattr(activation, "activation_post_process", activation))


def _is_reuse_input_qconfig(qconfig):
    """Whether activations have the scale of the input."""
    return (
        qconfig is not None
        and isinstance(qconfig.activation(), ReuseInputObserver)
        and isinstance(qconfig.weight(), NoopObserver)
    )
