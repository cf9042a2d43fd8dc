"""TorchScript: functions and modules compiled to programs that run without Python, kept in archives, or recorded from a
run.

>>> @tessera.jit.script
... def double(x):
...     return x + x
>>> double(tessera.ones(2))
tensor([2., 2.])
"""

from tessera._lazy import attach as _attach

__all__ = [
    "Attribute",
    "CompilationUnit",
    "Error",
    "Final",
    "Future",
    "ScriptFunction",
    "ScriptModule",
    "ScriptWarning",
    "TracerWarning",
    "TracingCheckError",
    "annotate",
    "enable_onednn_fusion",
    "export",
    "fork",
    "freeze",
    "ignore",
    "interface",
    "is_scripting",
    "is_tracing",
    "isinstance",
    "load",
    "onednn_fusion_enabled",
    "optimize_for_inference",
    "optimized_execution",
    "save",
    "script",
    "script_if_tracing",
    "script_method",
    "set_fusion_strategy",
    "strict_fusion",
    "trace",
    "trace_module",
    "unused",
    "wait",
]

_MARKS = (
    "Attribute Final FunctionModifiers TracerWarning ScriptWarning Error annotate enable_onednn_fusion export ignore "
    "interface is_scripting is_tracing isinstance onednn_fusion_enabled optimized_execution script_if_tracing "
    "script_method set_fusion_strategy strict_fusion unused _overload _overload_method _script_if_tracing "
    "_unwrap_optional"
)
_SCRIPTS = "ScriptFunction ScriptModule RecursiveScriptModule CompilationUnit script"
_ARCHIVES = "export_opnames save load freeze optimize_for_inference run_frozen_optimizations validate_map_location"
_TRACES = "trace trace_module TracingCheckError TracedModule TopLevelTracedModule ONNXTracedModule _get_trace_graph"
_TASKS = "Future fork wait _fork _wait"

__getattr__, __dir__ = _attach(
    __name__,
    {
        **dict.fromkeys(_MARKS.split(), "_marks"),
        **dict.fromkeys(_SCRIPTS.split(), "_script"),
        **dict.fromkeys(_ARCHIVES.split(), "_archives"),
        **dict.fromkeys(_TRACES.split(), "_trace"),
        **dict.fromkeys(_TASKS.split(), "_tasks"),
    },
)
