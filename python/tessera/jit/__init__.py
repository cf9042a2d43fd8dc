"""Marks and decorators of TorchScript. There is no compiler for it in this version: what `script` is given runs as the
Python that it is, with the same results, and only saving, loading, tracing and graphs are missing.

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
    "annotate",
    "enable_onednn_fusion",
    "export",
    "fork",
    "ignore",
    "interface",
    "is_scripting",
    "is_tracing",
    "isinstance",
    "onednn_fusion_enabled",
    "optimized_execution",
    "script",
    "script_if_tracing",
    "script_method",
    "set_fusion_strategy",
    "strict_fusion",
    "unused",
    "wait",
]

_MARKS = (
    "Attribute Final FunctionModifiers TracerWarning ScriptWarning Error annotate enable_onednn_fusion export ignore "
    "interface is_scripting is_tracing isinstance onednn_fusion_enabled optimized_execution script_if_tracing "
    "script_method set_fusion_strategy strict_fusion unused _overload _overload_method _script_if_tracing"
)
_SCRIPTS = "ScriptFunction ScriptModule RecursiveScriptModule CompilationUnit script"
_TASKS = "Future fork wait _fork _wait"

__getattr__, __dir__ = _attach(
    __name__,
    {
        **dict.fromkeys(_MARKS.split(), "_marks"),
        **dict.fromkeys(_SCRIPTS.split(), "_script"),
        **dict.fromkeys(_TASKS.split(), "_tasks"),
    },
)
