"""Which qconfig is for what, for graphs."""

from collections import OrderedDict
from typing import Any

import tessera
from tessera import nn

from .fake_quantize import FixedQParamsFakeQuantize, default_weight_fake_quant
from .observer import (
    default_fixed_qparams_range_0to1_observer,
    default_fixed_qparams_range_neg1to1_observer,
    default_placeholder_observer,
    default_weight_observer,
)
from .qconfig import (
    QConfig,
    default_quint8_weight_qconfig,
    default_reuse_input_qconfig,
    default_symmetric_qnnpack_qat_qconfig,
    default_symmetric_qnnpack_qconfig,
    get_default_qat_qconfig,
    get_default_qconfig,
)

__all__ = ["QConfigMapping", "get_default_qat_qconfig_mapping", "get_default_qconfig_mapping"]

F: Any = nn.functional  # its names are made when it is loaded
_KEYS = ("", "object_type", "module_name_regex", "module_name", "module_name_object_type_order")
_FIXED = {
    default_fixed_qparams_range_0to1_observer: (
        F.hardsigmoid, "hardsigmoid", "hardsigmoid_", nn.Hardsigmoid, tessera.sigmoid, "sigmoid", "sigmoid_",
        nn.Sigmoid, nn.Softmax),
    default_fixed_qparams_range_neg1to1_observer: (tessera.tanh, "tanh", "tanh_", nn.Tanh),
}  # fmt: skip


class QConfigMapping:
    """From modules and operators to qconfigs (None: not quantized). What is more specific wins: a name with kind and
    index, a name, a regular expression over names, a kind, all. The setters return the mapping.
    """

    def __init__(self):
        self.global_qconfig = None
        self.object_type_qconfigs: OrderedDict = OrderedDict()
        self.module_name_regex_qconfigs: OrderedDict = OrderedDict()
        self.module_name_qconfigs: OrderedDict = OrderedDict()
        self.module_name_object_type_order_qconfigs: OrderedDict = OrderedDict()

    def set_global(self, global_qconfig):
        """For everything."""
        self.global_qconfig = global_qconfig
        return self

    def set_object_type(self, object_type, qconfig):
        """For a kind of module, a function, or the name of a method."""
        self.object_type_qconfigs[object_type] = qconfig
        return self

    def set_module_name_regex(self, module_name_regex, qconfig):
        """For modules whose whole name fits; the first expression that was set wins."""
        self.module_name_regex_qconfigs[module_name_regex] = qconfig
        return self

    def set_module_name(self, module_name, qconfig):
        """For the module of a name; "": the whole model."""
        self.module_name_qconfigs[module_name] = qconfig
        return self

    def set_module_name_object_type_order(self, module_name, object_type, index, qconfig):
        """For the index-th use of a kind in the module of a name."""
        self.module_name_object_type_order_qconfigs[module_name, object_type, index] = qconfig
        return self

    def __repr__(self):
        lines = [f"QConfigMapping (\n global_qconfig\n  {self.global_qconfig}"]
        for key in _KEYS[1:]:
            table = getattr(self, f"{key}_qconfigs")
            lines.append(f" {key}_qconfigs")
            lines += [f"  {k}: {v}" for k, v in table.items()] or ["  OrderedDict()"]
        return "\n".join(lines) + "\n)"

    def to_dict(self):
        """{"": qconfig, "object_type": [(kind, qconfig)], "module_name_regex", "module_name",
        "module_name_object_type_order": [(name, kind, index, qconfig)]}.
        """
        made = {"": self.global_qconfig}
        for key in _KEYS[1:4]:
            made[key] = list(getattr(self, f"{key}_qconfigs").items())
        made[_KEYS[4]] = [(*key, value) for key, value in self.module_name_object_type_order_qconfigs.items()]
        return made

    @classmethod
    def from_dict(cls, qconfig_dict):
        """Of such a dict."""
        made = cls()
        if "" in qconfig_dict:
            made.set_global(qconfig_dict[""])
        for key in _KEYS[1:]:
            for entry in qconfig_dict.get(key, ()):
                getattr(made, f"set_{key}")(*entry)
        return made


def _default(is_qat, backend, version):
    qconfig = (get_default_qat_qconfig if is_qat else get_default_qconfig)(backend, version)
    weight = default_weight_fake_quant if is_qat else default_weight_observer
    made = QConfigMapping().set_global(qconfig)
    # Results in the input's range, kinds with one scale for all weights, and results whose range is known.
    for kind in (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d, F.conv_transpose1d, F.conv_transpose2d,
                 F.conv_transpose3d):  # fmt: skip
        made.set_object_type(kind, QConfig(qconfig.activation, weight))
    made.set_object_type("reshape", default_reuse_input_qconfig)
    for kind in (F.layer_norm, nn.LayerNorm):
        made.set_object_type(kind, QConfig(qconfig.activation, default_placeholder_observer))
    made.set_object_type(nn.PReLU, default_quint8_weight_qconfig)
    for observer, kinds in _FIXED.items():
        factory = FixedQParamsFakeQuantize.with_args(observer=observer) if is_qat else observer
        for kind in kinds:
            made.set_object_type(kind, QConfig(factory, weight))
    return made


def get_default_qconfig_mapping(backend="x86", version=0):
    """The mapping for quantization after training on an engine: fbgemm, x86, qnnpack or onednn."""
    return _default(False, backend, version)


def get_default_qat_qconfig_mapping(backend="x86", version=1):
    """The mapping for training with quantization in mind on an engine."""
    return _default(True, backend, version)


def _get_symmetric_qnnpack_qconfig_mapping():
    """qnnpack's mapping with signed activations around 0."""
    return get_default_qconfig_mapping("qnnpack").set_global(default_symmetric_qnnpack_qconfig)


def _get_symmetric_qnnpack_qat_qconfig_mapping():
    """qnnpack's mapping for training with signed activations around 0."""
    return get_default_qat_qconfig_mapping("qnnpack").set_global(default_symmetric_qnnpack_qat_qconfig)
