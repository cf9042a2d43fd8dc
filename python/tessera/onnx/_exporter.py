"""export(): from a module to a file."""

import contextlib
import os
import threading
import time

import tessera
from tessera.onnx import _model
from tessera.onnx._build import Model
from tessera.onnx._modes import select_model_mode_for_export
from tessera.onnx._program import ONNXProgram
from tessera.onnx._translate import Cell, Translator, read
from tessera.onnx._walk import Walk, number_dtype
from tessera.onnx._types import BOOL, FLOAT, INT64
from tessera.onnx.errors import OnnxExporterError

OLDEST, NEWEST, DEFAULT, DEFAULT_OF_SCRIPTS = 13, 23, 20, 17
_state = threading.local()


def running():
    """Whether an export is running in this thread."""
    return getattr(_state, "depth", 0) > 0


@contextlib.contextmanager
def in_export():
    """Context manager: an export is running."""
    _state.depth = getattr(_state, "depth", 0) + 1
    try:
        yield
    finally:
        _state.depth -= 1


def _checked_opset(version, default):
    if version is None:
        return default
    if isinstance(version, bool) or not isinstance(version, int) or not OLDEST <= version <= NEWEST:
        raise ValueError(f"export: opset_version: expected a number from {OLDEST} to {NEWEST}, got {version!r}")
    return version


def export(
    model, args, f, kwargs, verbose, input_names, output_names, opset_version, dynamo, external_data, dynamic_shapes,
    custom_translation_table, report, optimize, verify, profile, dump_exported_program, artifacts_dir, export_params,
    keep_initializers_as_inputs, dynamic_axes, training, operator_export_type, do_constant_folding, custom_opsets,
    export_modules_as_functions, autograd_inlining, fallback,
):  # fmt: skip
    """See tessera.onnx.export."""
    if export_modules_as_functions:
        raise RuntimeError("export: export_modules_as_functions is not supported; modules become nodes of one graph")
    if operator_export_type.name != "ONNX":
        raise ValueError(
            f"export: operator_export_type: only OperatorExportTypes.ONNX works, got {operator_export_type}"
        )
    if isinstance(args, tessera.Tensor):
        args = (args,)
    if not isinstance(args, (tuple, list)):
        raise TypeError(f"export: args: expected a tuple of inputs, got {type(args).__name__}")
    args, kwargs = tuple(args), dict(kwargs or {})
    for_file = {"f": f, "export_params": export_params, "keep": keep_initializers_as_inputs}
    from tessera.jit import ScriptFunction, ScriptModule

    scripted = isinstance(model, (ScriptModule, ScriptFunction))
    if not dynamo:
        if dynamic_shapes is not None:
            raise ValueError("export: dynamic_shapes belong to dynamo=True; dynamo=False takes dynamic_axes")
        if args and isinstance(args[-1], dict) and not kwargs:
            args, kwargs = args[:-1], args[-1]
        program = _of_scripts(
            model, args, kwargs, scripted, input_names, output_names, _checked_opset(opset_version, DEFAULT_OF_SCRIPTS),
            dynamic_axes, training, optimize and do_constant_folding, custom_opsets,
        )  # fmt: skip
        if verbose:
            print(program)
        _write(program, external_data=None, **for_file)
        return None
    started = time.perf_counter()
    opset = _checked_opset(opset_version, DEFAULT)
    say = (lambda text: None) if verbose is False else (lambda text: print(f"[torch.onnx] {text}"))
    try:
        if scripted:
            program = _of_scripts(model, args, kwargs, True, input_names, output_names, opset, dynamic_axes, training,
                                  optimize, custom_opsets)  # fmt: skip
        else:
            program = _of_programs(model, args, kwargs, input_names, output_names, opset, dynamic_shapes, dynamic_axes,
                                   custom_translation_table, custom_opsets, optimize, say)  # fmt: skip
    except Exception as error:
        if report:
            _report(artifacts_dir, None, error, model)
        if not fallback:
            raise
        say(f"the program cannot be exported: {error}; trying the traced graph")
        program = _of_scripts(model, args, kwargs, scripted, input_names, output_names, opset, dynamic_axes, training,
                              optimize, custom_opsets)  # fmt: skip
    if dump_exported_program and program.exported_program is not None:
        tessera.export.save(program.exported_program, _path(artifacts_dir, "onnx_export", ".pt2"))
    if profile:
        with open(_path(artifacts_dir, "onnx_export", "_profile.md"), "w") as file:
            file.write(
                "# Times of an export\n\n| step | seconds |\n|---|---|\n"
                f"| all | {time.perf_counter() - started:.3f} |\n"
            )
            for step, seconds in program._times.items():
                file.write(f"| {step} | {seconds:.3f} |\n")
    found = None
    if verify:
        from tessera.onnx.verification import verify_onnx_program

        found = verify_onnx_program(program, args, kwargs)
        for info in found:
            say(f"{info.name}: largest difference {info.max_abs_diff:.3g}, relative {info.max_rel_diff:.3g}")
    if report:
        _report(artifacts_dir, program, None, model, found)
    is_path = isinstance(f, (str, os.PathLike))
    _write(program, external_data=bool(external_data) if is_path else None, **for_file)
    return program


def _write(program, f, export_params, keep, external_data):
    if f is not None:
        program.save(
            f, include_initializers=export_params, keep_initializers_as_inputs=keep, external_data=external_data
        )


def _path(folder, name, ending):
    os.makedirs(folder, exist_ok=True)
    return os.path.join(folder, f"{name}_{time.strftime('%Y-%m-%d_%H-%M-%S')}-{time.time_ns() % 10**6:06d}{ending}")


def _report(folder, program, error, model, found=None):
    """Writes what happened as Markdown."""
    lines = [f"# Export of {type(model).__name__} to ONNX", "", f"Result: {'failed' if error else 'success'}", ""]
    if error is not None:
        lines += ["```", f"{type(error).__name__}: {error}", "```"]
    else:
        lines += ["| operator | calls |", "|---|---|"]
        lines += [f"| {name} | {n} |" for name, n in sorted(program._translated.items())]
        for info in found or ():
            lines.append(
                f"\nVerified `{info.name}`: largest difference {info.max_abs_diff}, relative {info.max_rel_diff}"
            )
        lines += ["", "```", str(program.exported_program), "```"]
    with open(_path(folder, "onnx_export", "_failure.md" if error else "_success.md"), "w") as file:
        file.write("\n".join(lines) + "\n")


# --- from exported programs ---


def named_sizes(spec, dims=None):
    """dynamic_shapes with Dims in place of texts; `dims`: a dict that gives equal texts the same one, else each has its
    own.
    """
    if isinstance(spec, str):
        return tessera.export.Dim.AUTO if dims is None else dims.setdefault(spec, tessera.export.Dim(spec))
    if isinstance(spec, dict):
        return {k: named_sizes(v, dims) for k, v in spec.items()}
    if type(spec) in (tuple, list):
        return type(spec)(named_sizes(v, dims) for v in spec)
    return spec


def _export_with_axes(model, args, kwargs, shapes):
    """The exported program for sizes that differ. Sizes of the same name are one where the model lets them be: what
    compares two sizes (a batch in two inputs) otherwise fixes both.

    Errors: those of tessera.export.export.
    """
    model = _as_module(model)
    texts = [d for axes in shapes.values() if axes for d in axes.values() if isinstance(d, str)]
    if len(set(texts)) < len(texts) and all(map(str.isidentifier, texts)):
        try:
            return tessera.export.export(model, args, kwargs, dynamic_shapes=named_sizes(shapes, {}), strict=False)
        except (RuntimeError, ValueError):
            pass
    return tessera.export.export(model, args, kwargs, dynamic_shapes=named_sizes(shapes), strict=False)


def shapes_of_axes(dynamic_axes, input_names, names):
    """dynamic_shapes by the names of forward's parameters, of dynamic_axes."""
    if not dynamic_axes:
        return None
    made = {name: None for name in names}
    for i, name in enumerate(names):
        known = input_names[i] if input_names and i < len(input_names) else name
        axes = dynamic_axes.get(known, dynamic_axes.get(name))
        if axes is not None:
            made[name] = {a: f"{known}_dynamic_axes_{a}" for a in axes} if not isinstance(axes, dict) else dict(axes)
    return made


def _parameter_names(model, args, kwargs):
    import inspect

    found = [p.name for p in inspect.signature(getattr(model, "forward", model)).parameters.values()
             if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]  # fmt: skip
    return [*found[: len(args)], *kwargs]


def _symbol_names(spec, value, names):
    """Collects {symbol: name} of a tree of dynamic_shapes and the values that stand for the inputs."""
    if spec is None or value is None:
        return
    if isinstance(value, tessera.Tensor):
        entries = spec.items() if isinstance(spec, dict) else enumerate(spec if isinstance(spec, (tuple, list)) else ())
        for axis, dim in entries:
            name = dim if isinstance(dim, str) else getattr(dim, "__name__", None)
            size = value.shape[axis]
            if name and not isinstance(size, int) and not isinstance(dim, type(tessera.export.Dim.AUTO)):
                names.setdefault(str(size), name)
    elif isinstance(spec, dict) and isinstance(value, dict):
        for k, v in spec.items():
            _symbol_names(v, value.get(k), names)
    elif isinstance(spec, (tuple, list)) and isinstance(value, (tuple, list)):
        for s, v in zip(spec, value):
            _symbol_names(s, v, names)


def _of_programs(model, args, kwargs, input_names, output_names, opset, dynamic_shapes, dynamic_axes, table,
                 custom_opsets, optimize, say):  # fmt: skip
    times, now = {}, time.perf_counter()
    program = model
    if not isinstance(model, tessera.export.ExportedProgram):
        if not isinstance(model, tessera.nn.Module):
            if not callable(model):
                raise TypeError(f"export: model: expected a Module or an ExportedProgram, got {type(model).__name__}")
            model = _as_module(model)
        if dynamic_shapes is None and dynamic_axes:
            dynamic_shapes = shapes_of_axes(dynamic_axes, input_names, _parameter_names(model, args, kwargs))
        say("Obtain model graph with torch.export...")
        with in_export():
            program = tessera.export.export(
                model, args, kwargs, dynamic_shapes=named_sizes(dynamic_shapes), strict=False
            )
        say("Obtain model graph with torch.export... done")
    times["torch.export"], now = time.perf_counter() - now, time.perf_counter()
    say("Translate the graph into ONNX...")
    made, translator, axes = _translated_with_axes(program, dynamic_shapes, opset, table, custom_opsets)
    _user_names(made, input_names, output_names)
    proto = _model.model_proto(made, axes, optimize=bool(optimize))
    times["translation"] = time.perf_counter() - now
    say("Translate the graph into ONNX... done")
    result = ONNXProgram(proto, program)
    result._times, result._translated = times, dict(translator.translated)
    return result


def _translated_with_axes(program, dynamic_shapes, opset, table, custom_opsets):
    """(Model, Translator, names of axes) of an ExportedProgram; complex numbers become pairs of real ones."""
    from tessera.onnx import _complex

    axes = _axes(program, dynamic_shapes)
    if _complex.has_complex(program):
        with in_export():
            program, symbols = _complex.real_program(program)
        axes = {new: axes[old] for new, old in symbols.items() if old in axes}
    return (*translated(program, opset, table, custom_opsets), axes)


def _as_module(model):
    return model if isinstance(model, tessera.nn.Module) else _FunctionModule(model)


class _FunctionModule(tessera.nn.Module):
    def __init__(self, function):
        super().__init__()
        self._function = function

    def forward(self, *args, **kwargs):
        return self._function(*args, **kwargs)


def _axes(program, dynamic_shapes):
    """{symbol: name the user gave it} of a program."""
    names = {}
    if not dynamic_shapes or not isinstance(dynamic_shapes, (dict, tuple, list)):
        return names
    inputs = [n.meta.get("val") for n in program.graph.nodes if n.op == "placeholder"]
    user = [v for v, s in zip(inputs, program.graph_signature.input_specs) if s.kind.name == "USER_INPUT"]
    from tessera.utils import _pytree as pytree

    spec = program.call_spec.in_spec
    if spec is None or spec.num_leaves != len(user):
        return names
    given, keywords = pytree.tree_unflatten(user, spec)
    if isinstance(dynamic_shapes, dict):
        values = dict(zip(_names_of(program, given, dynamic_shapes), given))
        _symbol_names(dynamic_shapes, {**values, **keywords}, names)
    else:
        _symbol_names(tuple(dynamic_shapes), (*given, *keywords.values()), names)
    return names


def _names_of(program, given, dynamic_shapes):
    """The names of positional parameters: the call's, else the keys in their order."""
    for entry in program.module_call_graph:
        if entry.fqn == "" and getattr(entry.signature, "forward_arg_names", None):
            return entry.signature.forward_arg_names[: len(given)]
    return list(dynamic_shapes)[: len(given)]


def translated(program, opset, table=None, custom_opsets=None):
    """(Model, Translator) of an ExportedProgram."""
    from tessera.onnx._custom import translations

    model = Model(opset)
    model.domains.update(custom_opsets or {})
    translator = Translator(model, Walk, translations(table, opset))
    state, constants = program.state_dict, program.constants
    env = {}
    nodes = [n for n in program.graph.nodes if n.op == "placeholder"]
    for node, spec in zip(nodes, program.graph_signature.input_specs):
        val, kind = node.meta.get("val"), spec.kind.name
        if kind in ("PARAMETER", "BUFFER", "CONSTANT_TENSOR"):
            tensor = state.get(spec.target, constants.get(spec.target))
            if tensor is None:
                raise OnnxExporterError(f"export: the program has no tensor {spec.target!r}")
            env[node] = Cell(model.initializer(spec.target, tensor, val))
        elif type(spec.arg).__name__ == "ConstantArgument":
            env[node] = spec.arg.value
        elif isinstance(val, tessera.Tensor):
            env[node] = Cell(model.graph.input(node.name, val.dtype, val))
        else:
            dtype = number_dtype(val) if not isinstance(val, (bool, int, float)) else (
                BOOL if isinstance(val, bool) else INT64 if isinstance(val, int) else FLOAT
            )  # fmt: skip
            env[node] = model.graph.input(node.name, dtype, val)
    walk = Walk(translator, model.graph, program.graph_module, env)
    results = read(walk.run())
    results = list(results) if isinstance(results, (list, tuple)) else [results]
    user = [r for r, s in zip(results, program.graph_signature.output_specs) if s.kind.name == "USER_OUTPUT"]
    _model.outputs_of(model.graph, [r for r in user if r is not None])
    return model, translator


def _user_names(model, input_names, output_names):
    """Gives inputs and results the names that the user wants."""
    for wanted, values, what in (
        (input_names, model.graph.inputs, "inputs"),
        (output_names, model.graph.outputs, "results"),
    ):
        if wanted is None:
            continue
        wanted = [wanted] if isinstance(wanted, str) else list(wanted)
        if len(wanted) > len(values) + (len(model.initializers) if what == "inputs" else 0):
            raise ValueError(f"export: {len(wanted)} names {wanted} for {len(values)} {what}")
        for name, value in zip(wanted, values):
            model.rename(value, name)


# --- from traced and scripted graphs ---


def _of_scripts(model, args, kwargs, scripted, input_names, output_names, opset, dynamic_axes, training, optimize,
                custom_opsets):  # fmt: skip
    from tessera.onnx import _complex, _script
    from tessera.onnx._custom import legacy_translations
    from tessera.utils import _pytree as pytree

    now = time.perf_counter()
    mode = (
        select_model_mode_for_export(model, training)
        if isinstance(model, tessera.nn.Module)
        else contextlib.nullcontext()
    )
    with mode, in_export():
        source, wrapped = None, False
        if not scripted:
            if dynamic_axes:
                # A trace fixes sizes; the graph that export() makes does not.
                shapes = shapes_of_axes(dynamic_axes, input_names, _parameter_names(model, args, kwargs))
                try:
                    source = _export_with_axes(model, args, kwargs, shapes)
                except (RuntimeError, ValueError, NotImplementedError) as error:
                    import warnings

                    from tessera.onnx.errors import OnnxExporterWarning

                    warnings.warn(f"export: sizes are fixed in the file, for the program cannot be exported with "
                                  f"sizes that differ: {error}", OnnxExporterWarning, stacklevel=4)  # fmt: skip
            if source is None and kwargs:
                model, names = _with_names(model, args, kwargs)
                input_names = names if input_names is None else input_names
                args, kwargs, wrapped = (*args, *kwargs.values()), {}, True
            if source is None:
                plain, model = model, tessera.jit._trace._traced(model, args, strict=False)
                state = plain.state_dict().values() if isinstance(plain, tessera.nn.Module) else ()
                if _complex.may_make_complex(model.inlined_graph, (*pytree.tree_leaves(args), *state)):
                    source, shapes = tessera.export.export(_as_module(plain), args, strict=False), None
        if source is not None:
            made, translator, axes = _translated_with_axes(source, shapes, opset, None, custom_opsets)
            _user_names(made, input_names, output_names)
        else:
            made = built = Model(opset)
            built.domains.update(custom_opsets or {})
            translator = Translator(built, Walk, legacy_translations(opset))
            axes = _script.write(translator, model, args, kwargs, input_names, dynamic_axes)
            if wrapped:
                for value, _ in list(built.initializers.values()):
                    built.rename(value, value.name.removeprefix("module."))
            _user_names(made, input_names, output_names)
    result = ONNXProgram(_model.model_proto(made, axes, optimize=bool(optimize)), source)
    result._times, result._translated = {"all": time.perf_counter() - now}, dict(translator.translated)
    return result


def _with_names(model, args, kwargs):
    """(a module that takes keyword arguments behind the others, names of all)."""
    names = list(kwargs)

    class Positional(tessera.nn.Module):
        def __init__(self):
            super().__init__()
            self.module = model

        def forward(self, *given):
            n = len(given) - len(names)
            return self.module(*given[:n], **dict(zip(names, given[n:])))

    plain = all(isinstance(v, tessera.Tensor) for v in (*args, *kwargs.values()))
    return Positional(), _parameter_names(model, args, kwargs) if plain else None
