"""Functions of the older exporter."""

import contextlib
import re

import tessera
from tessera.onnx import _custom, _exporter
from tessera.onnx._modes import TrainingMode, select_model_mode_for_export

_NAMED = re.compile(r"[A-Za-z0-9_]+::[A-Za-z0-9_]+(\.[A-Za-z0-9_]+)?")


def register_custom_op_symbolic(symbolic_name, symbolic_fn, opset_version):
    """Gives an operator a symbolic function, which writes its nodes in exports.

    Args:
        symbolic_name: "namespace::name".
        symbolic_fn: function(g, *args), which returns values of `g.op(...)`.
        opset_version: from which version of the operator set on it is used.

    Raises: OnnxExporterError for a name of another form; ValueError for versions that are none.
    """
    _check(symbolic_name)
    if not isinstance(opset_version, int) or opset_version < 1:
        raise ValueError(f"register_custom_op_symbolic: opset_version: expected a number from 1, got {opset_version!r}")
    if not callable(symbolic_fn):
        raise TypeError(
            f"register_custom_op_symbolic: symbolic_fn: expected a function, got {type(symbolic_fn).__name__}"
        )
    _custom.register(_plain_name(symbolic_name), symbolic_fn, opset_version)


def unregister_custom_op_symbolic(symbolic_name, opset_version):
    """Takes a symbolic function away that register_custom_op_symbolic() gave. See there."""
    _check(symbolic_name)
    _custom.unregister(_plain_name(symbolic_name), opset_version)


def _check(name):
    if not isinstance(name, str) or not _NAMED.fullmatch(name):
        from tessera.onnx.errors import OnnxExporterError

        raise OnnxExporterError(f"Failed to register operator {name}. The symbolic name must match the format "
                                "domain::name, and should start with a letter and contain only alphanumerical "
                                "characters")  # fmt: skip


def _plain_name(name):
    return name.replace("prim::aten::", "aten::")


@contextlib.contextmanager
def exporter_context(model, mode):
    """Context manager: as inside of an export of a module in the given mode."""
    with select_model_mode_for_export(model, mode) as found, _exporter.in_export():
        yield found


def is_in_onnx_export():
    """Whether an export is running in this thread."""
    return _exporter.running()


def is_onnxrt_backend_supported():
    """Whether the packages are there that compiling with backend "onnxrt" needs."""
    import importlib.util

    return all(importlib.util.find_spec(name) is not None for name in ("onnx", "onnxruntime", "onnxscript"))


def export(model, args, f, **kwargs):
    """tessera.onnx.export() with dynamo=False."""
    return tessera.onnx.export(model, args, f, **{"dynamo": False, **kwargs})


_export = export


def export_to_pretty_string(model, args, **kwargs):
    """The text of the model that an export with dynamo=False would write. Takes what tessera.onnx.export() takes."""
    import io

    from tessera.onnx import _wire
    from tessera.onnx._program import ONNXProgram

    file = io.BytesIO()
    tessera.onnx.export(model, args, file, **{"dynamo": False, **kwargs})
    return repr(ONNXProgram(_wire.decode(file.getvalue()), None))


def model_signature(model):
    """The signature of a module's forward, or of a function."""
    import inspect

    return inspect.signature(model.forward if isinstance(model, tessera.nn.Module) else model)


def unconvertible_ops(model, args, training=TrainingMode.EVAL, opset_version=None):
    """(graph, names of the operators in it that have no translation) of a model."""
    from tessera.onnx._build import Model
    from tessera.onnx._translate import CHECKS, Translator
    from tessera.onnx._walk import Walk

    version = _exporter.DEFAULT_OF_SCRIPTS if opset_version is None else opset_version
    with select_model_mode_for_export(model, training), _exporter.in_export():
        graph = model if hasattr(model, "graph") else tessera.jit._trace._traced(model, args)
    graph = getattr(graph, "inlined_graph", None) or graph.graph
    translator = Translator(Model(version), Walk, _custom.legacy_translations(version))
    kinds = dict.fromkeys(n.kind() for n in graph.nodes())
    return graph, [k for k in kinds if not k.startswith("prim::") and translator.find(k) is None
                   and k.partition("::")[2] not in CHECKS]  # fmt: skip
