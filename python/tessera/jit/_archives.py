"""save and load: TorchScript archives."""

import io
import os
import re
import zipfile

import tessera
from tessera._C import _jit

from ._frontend import ScriptFunction
from ._modules import RecursiveScriptModule, ScriptModule, wrapped


def _text(name, files):
    for key, value in files.items():
        if not isinstance(key, str) or not isinstance(value, (str, bytes)):
            raise TypeError(f"{name}: expected a dict from names to str or bytes, got {key!r}: {type(value).__name__}")
    return dict(files)


def save(m, f, _extra_files=None):
    """Writes a compiled module or function to an archive, which runs without the Python source.

    Args:
        m: ScriptModule or ScriptFunction.
        f: path, or an object with write().
        _extra_files: {name: text or bytes} that are kept in it.
    Errors: TypeError for what is not compiled; RuntimeError for methods that stay in Python.
    """
    if isinstance(m, ScriptFunction):
        c = _jit.module_of(m._handle())
    elif isinstance(m, ScriptModule):
        c = m._c
    else:
        raise TypeError(
            f"jit.save: expected a ScriptModule or a ScriptFunction, got {type(m).__name__}: compile it "
            "with jit.script()"
        )
    extra = _text("_extra_files", _extra_files or {})
    if isinstance(f, (str, os.PathLike)):
        path = os.fspath(f)
        name = os.path.basename(path)
        _jit.save(c, path, name.partition(".")[0] or name, extra)
    else:
        f.write(_jit.save(c, None, "archive", extra))


def export_opnames(m):
    """The operators that a compiled module may run, sorted: "aten::add.Tensor". AttributeError for other objects."""
    found, waiting = set(), []

    def collect(module):
        waiting.extend(module._method(method.name).inlined_graph for method in module._c.class_.methods)
        for child in module._modules.values():
            collect(child)

    if not isinstance(m, ScriptModule):
        raise AttributeError(f"export_opnames() needs a ScriptModule, not {type(m).__name__}")
    collect(m)
    while waiting:
        for node in waiting.pop().nodes():
            waiting.extend(node.blocks())
            name = node.schema().partition("(")[0]
            if name and not name.startswith("prim::"):
                found.add(name)
    return sorted(found)


def load(f, map_location=None, _extra_files=None, _restore_shapes=False):
    """Reads an archive that jit.save() wrote.

    Args:
        f: path, or an object with read().
        map_location: device that tensors come to; None: the CPU, where archives keep them.
        _extra_files: dict whose keys name files of the archive; their contents (bytes, none where there is no such
            file) replace the values.
        _restore_shapes: for compatibility; shapes of inputs are not kept.

    Returns: ScriptModule.
    Errors: ValueError for a path that is not there; RuntimeError for what is no archive.
    """
    where = validate_map_location(map_location)
    if isinstance(f, (str, os.PathLike)):
        data = os.fspath(f)
        if not os.path.exists(data):
            raise ValueError(f"The provided filename {f} does not exist")
        if os.path.isdir(data):
            raise ValueError(f"The provided filename {f} is a directory")
    else:
        data = f.read()
    _start_named(data)
    c, extra = _jit.load(data, where, list(_extra_files or ()))
    if _extra_files is not None:
        _extra_files.update({name: extra.get(name, b"") for name in _extra_files})
    made = wrapped(c)
    _parameters(made)
    return made


def _start_named(data):
    """Makes the operators of quantized tensors if an archive (a path or bytes) names some."""
    file = io.BytesIO(data) if isinstance(data, bytes) else data
    if not zipfile.is_zipfile(file):
        return
    with zipfile.ZipFile(file) as archive:
        texts = [name for name in archive.namelist() if name.endswith((".py", "/data.pkl"))]
        if any(re.search(b"quantize|_rebuild_qtensor", archive.read(name)) for name in texts):
            tessera.ao.nn._quantized_scripts.start()


def validate_map_location(map_location=None):
    """The device that load() brings tensors to, or None. Errors: ValueError."""
    if map_location is None:
        return None
    if isinstance(map_location, str):
        map_location = tessera.device(map_location)
    if not isinstance(map_location, tessera.device):
        raise ValueError(
            f"map_location should be either None, string or torch.device, but got type: {type(map_location)}"
        )
    if map_location.type == "cuda" and not tessera.cuda.is_available():
        raise RuntimeError("map_location names a CUDA device, but there is none")
    return map_location


def _parameters(module):
    """What the archive calls parameters are Parameters."""
    for child in module.modules():
        if not isinstance(child, RecursiveScriptModule):
            continue
        for name, (parameter, _, _) in child._places.items():
            value = child._c.get(name) if parameter else None
            if value is not None and not isinstance(value, tessera.nn.Parameter):
                child._c.set(name, tessera.nn.Parameter(value.detach(), value.requires_grad))


def freeze(mod, preserved_attrs=None, optimize_numerics=True):
    """A module for inference alone: parameters and attributes become constants of its methods, all calls are inlined,
    and batch normalisation goes into the convolutions before it.

    Args:
        mod: ScriptModule in eval mode.
        preserved_attrs: names of methods and attributes that stay besides forward.
        optimize_numerics: also folds layers; what is computed may then differ by rounding.

    Returns: a new ScriptModule.
    Errors: RuntimeError for another object, for training mode, and for unknown names.
    """
    if not isinstance(mod, ScriptModule):
        raise RuntimeError(
            "Freezing expects a ScriptModule as input. Please use torch.jit.script or torch.jit.trace to "
            "script your 'nn.Module'."
        )
    names = list(preserved_attrs or ())
    if not isinstance(optimize_numerics, bool):
        raise TypeError(f"optimize_numerics must be a bool, got {type(optimize_numerics).__name__}")
    return wrapped(_jit.freeze(mod._c, names))


def run_frozen_optimizations(mod, optimize_numerics=True, preserved_methods=None):
    """Folds layers of a frozen module in place: freeze() has done so already."""
    if not isinstance(mod, ScriptModule):
        raise RuntimeError(f"expected a frozen ScriptModule, got {type(mod).__name__}")


def optimize_for_inference(mod, other_methods=None):
    """A frozen module; one that is not frozen yet is.

    Args:
        mod: ScriptModule in eval mode. other_methods: names of methods that stay besides forward.
    """
    if not isinstance(mod, ScriptModule):
        raise RuntimeError(
            "optimize_for_inference expects a ScriptModule as input. Please use torch.jit.script or "
            "torch.jit.trace to script your 'nn.Module'."
        )
    return freeze(mod.eval(), list(other_methods or ()))
