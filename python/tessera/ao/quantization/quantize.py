"""Quantization module by module: prepare, convert, and what does both."""

import copy
import inspect
import warnings

import tessera
from tessera import nn
from tessera.ao.nn.intrinsic.modules.fused import _FusedModule
from tessera.nn.utils.parametrize import type_before_parametrizations as kind_of

from .observer import _is_activation_post_process
from .qconfig import (
    _add_module_to_qconfig_obs_ctr,
    _assert_valid_qconfig,
    default_dynamic_qconfig,
    float16_dynamic_qconfig,
    float_qparams_weight_only_qconfig,
    float_qparams_weight_only_qconfig_4bit,
)
from .quantization_mappings import (
    _get_special_act_post_process,
    _has_special_act_post_process,
    get_default_dynamic_quant_module_mappings,
    get_default_qat_module_mappings,
    get_default_qconfig_propagation_list,
    get_default_static_quant_module_mappings,
    get_default_static_quant_reference_module_mappings,
    no_observer_set,
)
from .stubs import DeQuantStub, QuantWrapper
from .utils import (
    activation_dtype,
    get_qparam_dict,
    has_no_children_ignoring_parametrizations,
)

__all__ = [
    "add_observer_", "add_quant_dequant", "convert", "get_default_custom_config_dict", "prepare", "prepare_qat",
    "propagate_qconfig_", "quantize", "quantize_dynamic", "quantize_qat", "swap_module",
]  # fmt: skip


def _own(model, inplace):
    return model if inplace else copy.deepcopy(model)


def get_default_custom_config_dict():
    """{"float_to_observed_custom_module_class": ..., "observed_to_quantized_custom_module_class": ...}."""
    able, done = tessera.ao.nn.quantizable, tessera.ao.nn.quantized
    return {
        "float_to_observed_custom_module_class": {nn.LSTM: able.LSTM, nn.MultiheadAttention: able.MultiheadAttention},
        "observed_to_quantized_custom_module_class": {
            able.LSTM: done.LSTM, able.MultiheadAttention: done.MultiheadAttention,
        },
    }  # fmt: skip


def _spread(module, given, custom, around, prefix):
    """Gives `module` and all below it the qconfig of their name, their kind, or what is around them."""
    own = given.get(kind_of(module), getattr(module, "qconfig", around))
    own = given.get(prefix, own)
    _assert_valid_qconfig(own, module)
    module.qconfig = _add_module_to_qconfig_obs_ctr(own, module)
    left_alone = custom.get("non_traceable_module_name", []), custom.get("non_traceable_module_class", [])
    for name, child in module.named_children():
        full = f"{prefix}.{name}" if prefix else name
        if full not in left_alone[0] and type(child) not in left_alone[1]:
            _spread(child, given, custom, own, full)


def propagate_qconfig_(module, qconfig_dict=None, prepare_custom_config_dict=None):
    """Sets `qconfig` of all modules below: of their name or kind in qconfig_dict, else that of the module around."""
    given = qconfig_dict or {}
    _spread(module, given, prepare_custom_config_dict or {}, given.get("", None), "")


def _watch(module, device, factory=None):
    made = (factory or module.qconfig.activation)()
    if device is not None:
        made.to(device)
    module.add_module("activation_post_process", made)
    module.register_forward_hook(_after, prepend=True)


def _after(self, input, output):
    return self.activation_post_process(output)


_observer_forward_hook = _after


def add_observer_(module, qconfig_propagation_list=None, non_leaf_module_list=None, device=None,
                  custom_module_class_mapping=None):  # fmt: skip
    """Puts an observer behind each layer that has a qconfig and is quantized: `activation_post_process`."""
    if qconfig_propagation_list is None:
        qconfig_propagation_list = get_default_qconfig_propagation_list()
    custom = custom_module_class_mapping or {}
    if device is None:
        devices = {p.device for p in (*module.parameters(), *module.buffers())}
        if len(devices) > 1:
            raise AssertionError(f"add_observer_ only works with cpu or single-device CUDA modules, but got devices "
                                 f"{devices}")  # fmt: skip
        device = next(iter(devices)) if devices else None
    wants = lambda m: getattr(m, "qconfig", None) is not None  # noqa: E731
    has = lambda m: hasattr(m, "activation_post_process") and wants(m)  # noqa: E731
    functional = tessera.ao.nn.quantized.FloatFunctional
    for name, child in module.named_children():
        kind = kind_of(child)
        if kind is nn.Dropout:
            continue
        if issubclass(kind, functional):
            if wants(child):
                child.activation_post_process = child.qconfig.activation().to(device or "cpu")
        elif isinstance(child, _FusedModule):
            if wants(child) and not _is_special(child):
                _watch_if(child, device)
        elif non_leaf_module_list is not None and kind in non_leaf_module_list:
            if wants(child):
                _watch_if(child, device)
        elif wants(child) and _has_special_act_post_process(child):
            _watch(child, device, _get_special_act_post_process(child))
        elif wants(child) and kind in custom:
            observed = custom[kind].from_float(child)
            setattr(module, name, observed)
            if custom[kind] not in no_observer_set():
                _watch_if(observed, device)
            else:
                add_observer_(observed, qconfig_propagation_list, non_leaf_module_list, device, custom)
        else:
            add_observer_(child, qconfig_propagation_list, non_leaf_module_list, device, custom)
    leaf = has_no_children_ignoring_parametrizations(module) and not isinstance(module, nn.Sequential)
    if leaf and wants(module) and not has(module) and kind_of(module) in qconfig_propagation_list:
        _watch_if(module, device)


def _is_special(module):
    return hasattr(module, "activation_post_process")


def _watch_if(module, device):
    """An observer behind a module, unless its activations stay floats, or it has one."""
    if isinstance(module, DeQuantStub) or _is_special(module):
        return
    if module.qconfig.activation is not None and activation_dtype(module.qconfig) is not None:
        watch = module.qconfig.activation()
        if isinstance(watch, nn.Identity):
            return
        _watch(module, device)


def prepare(model, inplace=False, allow_list=None, observer_non_leaf_module_list=None, prepare_custom_config_dict=None):
    """The model (a copy, unless inplace) with observers behind the layers that will be quantized.

    Args:
        model: with `qconfig` set on it or on modules below.
        allow_list: the kinds of layers that are watched; None: the default ones.
        observer_non_leaf_module_list: kinds with layers below that are watched, too.
        prepare_custom_config_dict: {"float_to_observed_custom_module_class": {...}}.
    """
    custom = prepare_custom_config_dict or get_default_custom_config_dict()
    model = _own(model, inplace)
    kinds = get_default_qconfig_propagation_list() if allow_list is None else allow_list
    propagate_qconfig_(model, qconfig_dict=None)
    if not any(getattr(m, "qconfig", None) for m in model.modules()):
        warnings.warn(
            "None of the submodule got qconfig applied. Make sure you passed correct configuration through "
            "`qconfig_dict` or by assigning the `.qconfig` attribute directly on submodules",
            stacklevel=2,
        )
    add_observer_(model, kinds, observer_non_leaf_module_list,
                  custom_module_class_mapping=custom.get("float_to_observed_custom_module_class", {}))  # fmt: skip
    return model


def _remove_activation_post_process(module):
    if _is_activation_post_process(getattr(module, "activation_post_process", None)):
        delattr(module, "activation_post_process")
    for hooks in (module._forward_hooks, module._forward_pre_hooks):
        for handle in [h for h, hook in hooks.items() if hook is _after]:
            hooks.pop(handle)


def _remove_qconfig(module):
    """Takes qconfigs, observers and their hooks from a module and all below it."""
    for child in module.children():
        _remove_qconfig(child)
    if hasattr(module, "qconfig"):
        del module.qconfig
    _remove_activation_post_process(module)


def add_quant_dequant(module):
    """Puts each layer below `module` that has a qconfig between stubs; `module` itself if it is one."""
    if getattr(module, "qconfig", None) and has_no_children_ignoring_parametrizations(module):
        return QuantWrapper(module)
    module._modules.update([(name, add_quant_dequant(child)) for name, child in module.named_children()])
    return module


def _all_steps(model, training, prepared, run, mapping=None):
    """A model in this mode, prepared, run and converted in place."""
    model.train(training)
    prepared(model, inplace=True)
    run(model)
    return convert(model, mapping, inplace=True)


def quantize(model, run_fn, run_args, mapping=None, inplace=False):
    """prepare(), run_fn(model, *run_args) and convert() of a model in evaluation mode."""
    return _all_steps(_own(model, inplace), False, prepare, lambda it: run_fn(it, *run_args), mapping)


def quantize_dynamic(model, qconfig_spec=None, dtype=tessera.qint8, mapping=None, inplace=False):
    """The model (a copy, unless inplace) with layers whose weights are integers and that take and give floats.

    Args:
        qconfig_spec: a set of kinds or names of layers, or {kind or name: qconfig}; None: what `dtype` is made for
            (Linear and recurrent layers; for quint8 and quint4x2 embeddings).
        dtype: qint8, float16, quint8 or quint4x2.
        mapping: {float layer: dynamic layer}.

    ValueError for a dtype without defaults.
    """
    recurrent = (nn.Linear, nn.LSTM, nn.GRU, nn.LSTMCell, nn.RNNCell, nn.GRUCell)
    known = {
        tessera.qint8: (recurrent, default_dynamic_qconfig),
        tessera.float16: (recurrent, float16_dynamic_qconfig),
        tessera.quint8: ((nn.EmbeddingBag, nn.Embedding), float_qparams_weight_only_qconfig),
        tessera.quint4x2: ((nn.EmbeddingBag,), float_qparams_weight_only_qconfig_4bit),
    }
    if qconfig_spec is None or isinstance(qconfig_spec, set):
        if dtype not in known:
            what = "Don't know how to quantize with default settings for" if qconfig_spec is None else "Unknown dtype"
            raise ValueError(f"{what} {dtype}. Provide full qconfig please")
        kinds, qconfig = known[dtype]
        qconfig_spec = dict.fromkeys(kinds if qconfig_spec is None else qconfig_spec, qconfig)
    mapping = get_default_dynamic_quant_module_mappings() if mapping is None else mapping
    model = _own(model, inplace)
    model.eval()
    propagate_qconfig_(model, qconfig_spec)
    convert(model, mapping, inplace=True)
    return model


def prepare_qat(model, mapping=None, inplace=False):
    """The model (a copy, unless inplace) in its form for training: layers with rounded weights and watched outputs.

    AssertionError for a model in evaluation mode.
    """
    if not model.training:
        raise AssertionError("prepare_qat only works on models in training mode")
    forms = get_default_qat_module_mappings() if mapping is None else mapping
    model = _own(model, inplace)
    propagate_qconfig_(model)
    made = convert(model, forms, inplace=True, remove_qconfig=False)
    return prepare(made, inplace=True, observer_non_leaf_module_list={*forms.values()})


def quantize_qat(model, run_fn, run_args, inplace=False):
    """prepare_qat(), run_fn(model, *run_args) and convert()."""
    return _all_steps(_own(model, inplace), True, prepare_qat, lambda it: run_fn(it, *run_args))


def convert(
    module, mapping=None, inplace=False, remove_qconfig=True, is_reference=False, convert_custom_config_dict=None,
    use_precomputed_fake_quant=False,
):  # fmt: skip
    """The module (a copy, unless inplace) with the layers below it that have a qconfig in their quantized form.

    Args:
        mapping: {layer: its quantized form}, called by from_float(); None: the default one.
        remove_qconfig: take qconfigs and observers away.
        is_reference: layers that compute with floats as quantized ones are meant.
        convert_custom_config_dict: {"observed_to_quantized_custom_module_class": {...}}.
        use_precomputed_fake_quant: weights have the bounds that are known already.
    """
    module = _own(module, inplace)
    _convert(module, mapping, is_reference, convert_custom_config_dict or get_default_custom_config_dict(),
             use_precomputed_fake_quant)  # fmt: skip
    if remove_qconfig:
        _remove_qconfig(module)
    return module


def _convert(module, mapping, is_reference, custom_config, precomputed):
    if mapping is None:
        mapping = (
            get_default_static_quant_reference_module_mappings()
            if is_reference
            else get_default_static_quant_module_mappings()
        )
    custom = custom_config.get("observed_to_quantized_custom_module_class", {})
    for name, child in list(module.named_children()):
        if not isinstance(child, _FusedModule) and kind_of(child) not in custom and kind_of(child) not in mapping:
            _convert(child, mapping, is_reference, custom_config, precomputed)
        module._modules[name] = swap_module(child, mapping, custom, precomputed)


def swap_module(mod, mapping, custom_module_class_mapping, use_precomputed_fake_quant=False):
    """The quantized form of a layer that has a qconfig and is in the mapping, with its hooks; else the layer."""
    if getattr(mod, "qconfig", None) is None:
        return mod
    kind = kind_of(mod)
    if kind in custom_module_class_mapping:
        made = custom_module_class_mapping[kind].from_observed(mod)
    elif kind in mapping:
        target = mapping[kind]
        if getattr(target, "_IS_REFERENCE", False) or "reference" in getattr(target, "__module__", ""):
            weight = mod.qconfig.weight()
            if isinstance(mod, (nn.LSTM, nn.GRU, nn.LSTMCell, nn.GRUCell, nn.RNNCell)):
                found = {}
                for name, value in mod.named_parameters():
                    if name.startswith("weight"):
                        observer = mod.qconfig.weight()
                        observer(value.detach())
                        found[name] = get_qparam_dict(observer)
                made = target.from_float(mod, found)
            else:
                weight(mod.weight.detach())
                made = target.from_float(mod, get_qparam_dict(weight))
        elif "use_precomputed_fake_quant" in inspect.signature(target.from_float).parameters:
            made = target.from_float(mod, use_precomputed_fake_quant=use_precomputed_fake_quant)
        else:
            made = target.from_float(mod)
    else:
        return mod
    for hook in mod._forward_pre_hooks.values():
        made.register_forward_pre_hook(hook)
    for hook in mod._forward_hooks.values():
        if hook is not _after:
            made.register_forward_hook(hook)
    devices = {p.device for p in (*mod.parameters(), *mod.buffers())}
    if len(devices) == 1 and next(iter(devices)).type not in ("cpu", "meta"):
        made.to(next(iter(devices)))
    return made


def _get_observer_dict(mod, target_dict, prefix=""):
    """Puts the observers below `mod` into target_dict by name."""
    for name, module in mod.named_modules():
        if hasattr(module, "activation_post_process"):
            key = ".".join(p for p in (prefix.rstrip("."), name, "activation_post_process") if p)
            target_dict[key] = module.activation_post_process
