"""ONNX: models as files that other programs run.

>>> program = tessera.onnx.export(tessera.nn.Linear(2, 1), (tessera.ones(3, 2),), verbose=False)
>>> [node.op_type for node in program.model.graph.node]
['Gemm']
"""

from tessera._lazy import attach as _attach
from tessera.onnx._modes import OperatorExportTypes, TrainingMode, producer_name, producer_version

__all__ = [
    "ExportableModule", "InputObserver", "JitScalarType", "ONNXProgram", "OnnxExporterError", "OperatorExportTypes",
    "TrainingMode", "export", "is_in_onnx_export", "producer_name", "producer_version", "register_custom_op_symbolic",
    "select_model_mode_for_export", "unregister_custom_op_symbolic",
]  # fmt: skip

__getattr__, __dir__ = _attach(
    __name__,
    {
        "ONNXProgram": "_program",
        "JitScalarType": "_types",
        "OnnxExporterError": "errors",
        "ExportableModule": "_exportable",
        "InputObserver": "_observer",
        "ExportOptions": "_exportable",
        "dynamo_export": "_exportable",
        "enable_fake_mode": "_exportable",
        "_export": "utils",
        "export_to_pretty_string": "utils",
        "is_onnxrt_backend_supported": "utils",
        "model_signature": "utils",
        "register_custom_op_symbolic": "utils",
        "select_model_mode_for_export": "_modes",
        "unregister_custom_op_symbolic": "utils",
    },
)


def export(
    model, args=(), f=None, *, kwargs=None, verbose=None, input_names=None, output_names=None, opset_version=None,
    dynamo=True, external_data=True, dynamic_shapes=None, custom_translation_table=None, report=False, optimize=True,
    verify=False, profile=False, dump_exported_program=False, artifacts_dir=".", export_params=True,
    keep_initializers_as_inputs=False, dynamic_axes=None, training=TrainingMode.EVAL,
    operator_export_type=OperatorExportTypes.ONNX, do_constant_folding=True, custom_opsets=None,
    export_modules_as_functions=False, autograd_inlining=True, fallback=False,
):  # fmt: skip
    """Exports a model to ONNX.

    Args:
        model: Module, ExportedProgram, or what jit.script() and jit.trace() give.
        args: example inputs: a tuple (a tensor: the only one). If the last one is a dict, and kwargs is None, it is
            taken as keyword arguments with dynamo=False.
        f: path or binary file to write to; None: nothing is written.
        kwargs: example keyword arguments.
        verbose: says what happens; None: dynamo=True does.
        input_names, output_names: names for the graph's inputs and results, in their order.
        opset_version: version of ONNX's operators, from 13 to 23; 20 by default (17 with dynamo=False).
        dynamo: whether the graph is export()'s. False: that of a trace, or of the script.
        external_data: whether tensors go into a file of their own beside f, with ".data" behind its name
            (dynamo=True and a path).
        dynamic_shapes: which sizes may differ, as of tessera.export.export(); texts in place of Dims name them.
        custom_translation_table: {operator: function or functions} that translate operators: functions of onnxscript,
            or of values on which operators of the onnxscript package work (dynamo=True).
        report: whether a report is written to artifacts_dir (Markdown).
        optimize: whether nodes are merged.
        verify: whether the model is run with onnxruntime, and its results compared with the module's.
        profile: whether the times of the export are written to artifacts_dir.
        dump_exported_program: whether the program is written to artifacts_dir.
        artifacts_dir: folder of these files.
        export_params: whether parameters are stored; else they are inputs.
        keep_initializers_as_inputs: whether stored parameters are inputs as well.
        dynamic_axes: {input: {dimension: name} or dimensions} of sizes that may differ; dynamic_shapes are better.
        training: mode of the module while it is exported (dynamo=False).
        operator_export_type: OperatorExportTypes.ONNX alone is supported.
        do_constant_folding: whether nodes of constants are merged (dynamo=False).
        custom_opsets: {domain: version} of operators that custom functions write.
        export_modules_as_functions: not supported by this format version's exporters (RuntimeError if set).
        autograd_inlining: has no effect: functions of autograd are always taken apart.
        fallback: whether dynamo=False is tried where dynamo=True fails.

    Returns: ONNXProgram with dynamo=True, else None.

    Raises: OnnxExporterError; UnsupportedOperatorError, one of these, with the operator and the line of the program
        where it stands; ValueError for arguments that do not fit.
    """
    from tessera.onnx import _exporter

    settings = dict(locals())
    del settings["_exporter"]
    return _exporter.export(**settings)


def is_in_onnx_export():
    """Whether an export is running in this thread."""
    import sys

    running = sys.modules.get("tessera.onnx._exporter")
    return running is not None and running.running()
