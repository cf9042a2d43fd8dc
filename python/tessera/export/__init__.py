"""Exporting: a module's tensor program as a graph of operators, ahead of time, to be transformed, saved and run without
the code that it came from.

>>> from tessera.export import export
>>> program = export(tessera.nn.ReLU(), (tessera.ones(2),))
>>> program.module()(-tessera.ones(2))
tensor([0., 0.])
"""

from tessera.export.dynamic_shapes import AdditionalInputs, Constraint, Dim, ShapesCollection, dims
from tessera.export.exported_program import (
    ExportedProgram, ModuleCallEntry, ModuleCallSignature, default_decompositions,
)  # fmt: skip
from tessera.export.decomp_utils import CustomDecompTable
from tessera.export.graph_signature import ExportBackwardSignature, ExportGraphSignature

from tessera._lazy import attach as _attach, keep_functions as _keep_functions

__all__ = [
    "AdditionalInputs", "Constraint", "CustomDecompTable", "default_decompositions", "Dim", "dims", "draft_export",
    "export", "ExportBackwardSignature", "ExportedProgram", "ExportGraphSignature", "FlatArgsAdapter", "load",
    "ModuleCallEntry", "ModuleCallSignature", "register_dataclass", "save", "ShapesCollection", "unflatten",
    "UnflattenedModule",
]  # fmt: skip

__getattr__, __dir__ = _attach(__name__)


def export(
    mod, args, kwargs=None, *, dynamic_shapes=None, strict=False, preserve_module_call_signature=(),
    prefer_deferred_runtime_asserts_over_guards=False,
):  # fmt: skip
    """Traces a module's forward and returns its program.

    Python runs with tensors that have sizes and no numbers; what it decides is decided once. Sizes are fixed, unless
    dynamic_shapes says otherwise; numbers and strings among the arguments are fixed.

    Args:
        mod: Module.
        args, kwargs: example inputs: a tuple and a dict of trees of tensors and numbers (dataclasses after
            register_dataclass()).
        dynamic_shapes: what may differ of sizes: a dict by the names of forward's parameters, or a tuple; of a tensor a
            dict {dimension: Dim, Dim.AUTO, Dim.DYNAMIC or Dim.STATIC} or a tuple; of a container a container of
            these. Or a ShapesCollection or AdditionalInputs.
        strict: the module's bytecode is captured first, as torch.compile(fullgraph=True) does, so that what a graph
            can't hold is an error that names the line, and nothing that forward changes (attributes, containers
            among its inputs) may be lost. The graph is the same.
        preserve_module_call_signature: paths of submodules that unflatten() gives back with their calling convention.
        prefer_deferred_runtime_asserts_over_guards: what sizes have to satisfy is checked by nodes instead of by
            errors of the export.

    Returns: ExportedProgram.

    Errors: torch._dynamo.exc.UserError (a RuntimeError) if the program allows less sizes than dynamic_shapes says, with
        suggested fixes; ValueError for inputs of other types; RuntimeError if the program asks for a tensor's numbers;
        torch._dynamo.exc.Unsupported (a UserError for a branch on a tensor's numbers) with strict.

    >>> from tessera.export import Dim, export
    >>> program = export(tessera.nn.Linear(2, 1), (tessera.ones(3, 2),))
    >>> program.graph_signature.user_inputs
    ('input',)
    """
    from tessera.export._trace import traced

    program = traced(
        mod, args, kwargs, dynamic_shapes=dynamic_shapes, strict=strict,
        preserve_module_call_signature=preserve_module_call_signature,
        prefer_deferred_runtime_asserts_over_guards=prefer_deferred_runtime_asserts_over_guards,
    )  # fmt: skip
    if isinstance(dynamic_shapes, AdditionalInputs):
        dynamic_shapes.verify(program)
    return program


def draft_export(
    mod, args, kwargs=None, *, dynamic_shapes=None, preserve_module_call_signature=(), strict=False,
    prefer_deferred_runtime_asserts_over_guards=False,
):  # fmt: skip
    """Like export(), but what would be an error becomes an entry of a report: the program is made in any case.

    What depends on numbers that are not known is decided by those of the example inputs, and the program checks that it
    is so again when it runs. Sizes that turn out to be less dynamic than dynamic_shapes says are taken as the program
    allows them. The results of an operator without a fake kernel, or with one that differs from the operator, are taken
    to have sizes that nothing is known of.

    Args: as of export().

    Returns: ExportedProgram; its `_report` (a DraftExportReport, which prints itself) lists what was found, with the
        lines of the program.

    >>> from tessera.export import draft_export
    >>> class Branch(tessera.nn.Module):
    ...     def forward(self, x):
    ...         return x + 1 if x.sum() > 0 else x
    >>> program = draft_export(Branch(), (tessera.ones(2),))
    >>> [str(failure.failure_type) for failure in program._report.failures]
    ['DATA_DEPENDENT_ERROR']
    >>> program.module()(tessera.ones(2))
    tensor([2., 2.])
    """
    from tessera.export._draft_export import draft

    return draft(
        mod, args, kwargs, dynamic_shapes=dynamic_shapes, strict=strict,
        preserve_module_call_signature=preserve_module_call_signature,
        prefer_deferred_runtime_asserts_over_guards=prefer_deferred_runtime_asserts_over_guards,
    )  # fmt: skip


def save(ep, f, *, extra_files=None, opset_version=None, pickle_protocol=2):
    """Writes a program to a file: a zip archive with the graph as JSON and the tensors as they lie in memory.

    Args:
        ep: ExportedProgram (TypeError for others).
        f: path, by convention with the ending .pt2, or a binary file.
        extra_files: {name: text or bytes} that are stored, too.
        opset_version: {namespace: version} that is written into the file; {"aten": 10} by default.
        pickle_protocol: has no effect on the program, which is written without pickle.
    """
    if not isinstance(ep, ExportedProgram):
        raise TypeError(
            f"The 'ep' parameter must be an instance of 'ExportedProgram', got '{type(ep).__name__}' instead."
        )
    from tessera.export.pt2_archive._package import save_program

    save_program(ep, f, extra_files, opset_version, pickle_protocol)


def load(f, *, extra_files=None, expected_opset_version=None):
    """Reads a program that save() wrote. Nothing of the file is unpickled or run.

    Args:
        f: path, or a binary file.
        extra_files: {name: anything}: the values of names that the file has are replaced by its texts (or bytes).
        expected_opset_version: {namespace: version} that the file may at most have (RuntimeError).

    Returns: ExportedProgram.

    Errors: FileNotFoundError; RuntimeError for files that are no such programs.
    """
    from tessera.export.pt2_archive._package import load_program

    return load_program(f, extra_files, expected_opset_version)


def register_dataclass(cls, *, serialized_type_name=None):
    """Makes a dataclass a type that exported programs take and return.

    Args:
        cls: dataclass (ValueError for others); one that is such a type already stays as it is.
        serialized_type_name: what it is called in saved programs; None: they cannot be saved.
    """
    from tessera.utils import _pytree

    node = _pytree.SUPPORTED_NODES.get(cls)
    if node is None or not node.flatten_fn.__qualname__.startswith("register_dataclass."):
        _pytree.register_dataclass(cls, serialized_type_name=serialized_type_name)


# `unflatten` names a function here, and a module for `import tessera.export.unflatten`: that import is over now.
from tessera.export.unflatten import FlatArgsAdapter, UnflattenedModule, unflatten

_keep_functions(__name__, "unflatten")
