"""What the steps of graph quantization are told besides qconfigs."""

from dataclasses import dataclass
from typing import Any

from ..qconfig_mapping import QConfigMapping
from ..quant_type import QuantType, _get_quant_type_to_str, _quant_type_from_str

__all__ = ["ConvertCustomConfig", "FuseCustomConfig", "PrepareCustomConfig", "StandaloneModuleConfigEntry"]


@dataclass
class StandaloneModuleConfigEntry:
    """How a module is prepared that is quantized as a whole of its own."""

    qconfig_mapping: Any
    example_inputs: Any
    prepare_custom_config: Any
    backend_config: Any


class _Preserving:
    _MAPPED: tuple = ()  # the key of classes by kind, and the attribute that holds it: a dict
    _PLAIN: dict = {}  # key of the dict -> attribute, a list

    def __init__(self):
        for attribute in self._PLAIN.values():
            setattr(self, attribute, [])
        for attribute in self._MAPPED[1:]:
            setattr(self, attribute, {})

    def set_preserved_attributes(self, attributes):
        """Attributes of the model that the result has, too. Returns self."""
        self.preserved_attributes = attributes
        return self

    def to_dict(self):
        """As a dict; what is empty is left out."""
        made: dict = {}
        for key, attribute in self._PLAIN.items():
            if getattr(self, attribute):
                made[key] = getattr(self, attribute)
        key, attribute = self._MAPPED if self._MAPPED else ("", "")
        if key and getattr(self, attribute):
            made[key] = {_get_quant_type_to_str(kind): dict(t) for kind, t in getattr(self, attribute).items()}
        return made

    @classmethod
    def _of_dict(cls, given):
        made = cls()
        for key, attribute in cls._PLAIN.items():
            if key in given:
                setattr(made, attribute, given[key])
        if cls._MAPPED:
            for kind, table in given.get(cls._MAPPED[0], {}).items():
                getattr(made, cls._MAPPED[1])[_quant_type_from_str(kind)] = dict(table)
        return made


class FuseCustomConfig(_Preserving):
    """For fuse_fx()."""

    _PLAIN = {"preserved_attributes": "preserved_attributes"}

    @classmethod
    def from_dict(cls, fuse_custom_config_dict):
        """Of {"preserved_attributes": [...]}."""
        return cls._of_dict(fuse_custom_config_dict)


class ConvertCustomConfig(_Preserving):
    """For convert_fx()."""

    _PLAIN = {"preserved_attributes": "preserved_attributes"}
    _MAPPED = ("observed_to_quantized_custom_module_class", "observed_to_quantized_mapping")

    def set_observed_to_quantized_mapping(self, observed_class, quantized_class, quant_type=QuantType.STATIC):
        """The class that a custom observed module becomes, by its from_observed(). Returns self."""
        self.observed_to_quantized_mapping.setdefault(quant_type, {})[observed_class] = quantized_class
        return self

    @classmethod
    def from_dict(cls, convert_custom_config_dict):
        """Of {"observed_to_quantized_custom_module_class": {"static": {...}}, "preserved_attributes": [...]}."""
        return cls._of_dict(convert_custom_config_dict)


class PrepareCustomConfig(_Preserving):
    """For prepare_fx() and prepare_qat_fx()."""

    _PLAIN = {
        "non_traceable_module_name": "non_traceable_module_names",
        "non_traceable_module_class": "non_traceable_module_classes",
        "input_quantized_idxs": "input_quantized_indexes",
        "output_quantized_idxs": "output_quantized_indexes",
        "preserved_attributes": "preserved_attributes",
    }
    _MAPPED = ("float_to_observed_custom_module_class", "float_to_observed_mapping")

    def __init__(self):
        super().__init__()
        self.standalone_module_names, self.standalone_module_classes = {}, {}

    def set_standalone_module_name(
        self, module_name, qconfig_mapping, example_inputs, prepare_custom_config, backend_config
    ):
        """The module of this name is quantized on its own. Returns self."""
        self.standalone_module_names[module_name] = StandaloneModuleConfigEntry(
            qconfig_mapping, example_inputs, prepare_custom_config, backend_config
        )
        return self

    def set_standalone_module_class(
        self, module_class, qconfig_mapping, example_inputs, prepare_custom_config, backend_config
    ):
        """Modules of this class are quantized on their own. Returns self."""
        self.standalone_module_classes[module_class] = StandaloneModuleConfigEntry(
            qconfig_mapping, example_inputs, prepare_custom_config, backend_config
        )
        return self

    def set_float_to_observed_mapping(self, float_class, observed_class, quant_type=QuantType.STATIC):
        """The class that a custom module becomes, by its from_float(). ValueError for other types than static."""
        if quant_type != QuantType.STATIC:
            raise ValueError("set_float_to_observed_mapping is currently only supported for static quantization")
        self.float_to_observed_mapping.setdefault(quant_type, {})[float_class] = observed_class
        return self

    def set_non_traceable_module_names(self, module_names):
        """Modules that are not traced, by name. Returns self."""
        self.non_traceable_module_names = module_names
        return self

    def set_non_traceable_module_classes(self, module_classes):
        """Modules that are not traced, by class. Returns self."""
        self.non_traceable_module_classes = module_classes
        return self

    def set_input_quantized_indexes(self, indexes):
        """Inputs that come as quantized tensors. Returns self."""
        self.input_quantized_indexes = indexes
        return self

    def set_output_quantized_indexes(self, indexes):
        """Outputs that go as quantized tensors. Returns self."""
        self.output_quantized_indexes = indexes
        return self

    @classmethod
    def from_dict(cls, prepare_custom_config_dict):
        """Of a dict as to_dict() gives it. ValueError for entries of the wrong form."""
        made = cls._of_dict(prepare_custom_config_dict)
        for key, setter in (("standalone_module_name", made.set_standalone_module_name),
                            ("standalone_module_class", made.set_standalone_module_class)):  # fmt: skip
            for entry in prepare_custom_config_dict.get(key, ()):
                if len(entry) != 5:
                    raise ValueError(f"expected (module, qconfig_dict, example_inputs, prepare_custom_config_dict, "
                                     f"backend_config_dict) as {key}, but got {entry}")  # fmt: skip
                name, qconfigs, inputs, custom, backend = entry
                qconfigs = QConfigMapping.from_dict(qconfigs) if isinstance(qconfigs, dict) else qconfigs
                custom = cls.from_dict(custom) if isinstance(custom, dict) else custom
                setter(name, qconfigs, inputs, custom, backend)
        return made

    def to_dict(self):
        """As a dict; what is empty is left out."""
        made = super().to_dict()
        for key in ("standalone_module_name", "standalone_module_class"):
            table = getattr(self, key + ("s" if key.endswith("name") else "es"))
            if table:
                made[key] = [
                    (k, e.qconfig_mapping.to_dict() if e.qconfig_mapping else None, e.example_inputs,
                     e.prepare_custom_config.to_dict() if e.prepare_custom_config else None, e.backend_config)
                    for k, e in table.items()
                ]  # fmt: skip
        return made
