"""Which of the library's messages are shown: levels of Python's loggers by short names, from a program (`set_logs`) or
from the environment variable TORCH_LOGS ("+dynamo,graph_breaks,-aot": + is DEBUG, - is ERROR, a name alone INFO; an
artifact's name shows it; a logger's full name is taken too).

Components are loggers of whole subsystems. Artifacts are kinds of messages that are not shown at any level until they
are asked for by name: graphs, guards, generated code.
"""

import inspect
import json
import logging
import os
import time

import tessera

__all__ = [
    "LazyString",
    "dtrace_structured",
    "getArtifactLogger",
    "get_structured_logging_overhead",
    "hide_warnings",
    "set_logs",
    "trace_structured",
    "warning_once",
]

# Component -> its logger. In the documented order, with the artifacts between them.
_COMPONENTS = {
    "all": "tessera",
    "dynamo": "tessera._dynamo",
    "aot": "tessera._functorch",
    "autograd": "tessera.autograd",
    "dynamic": "tessera.fx.experimental",
    "inductor": "tessera._inductor",
    "distributed": "tessera.distributed",
    "c10d": "tessera.distributed.distributed_c10d",
    "ddp": "tessera.nn.parallel.distributed",
    "fsdp": "tessera.distributed.fsdp",
    "dtensor": "tessera.distributed.tensor",
    "onnx": "tessera.onnx",
    "export": "tessera.export",
}
_ARTIFACTS = (
    "bytecode aot_graphs aot_joint_graph ddp_graphs graph graph_code graph_code_verbose graph_breaks side_effects "
    "graph_sizes guards recompiles recompiles_verbose trace_source trace_call trace_bytecode output_code kernel_code "
    "schedule perf_hints pre_grad_graphs post_grad_graphs ir_pre_fusion ir_post_fusion onnx_diagnostics fusion overlap "
    "cudagraphs sym_node compiled_autograd compiled_autograd_verbose cudagraph_static_inputs benchmarking autotuning "
    "graph_region_expansion inductor_metrics hierarchical_compile compute_dependencies caching"
).split()

_levels = {}  # logger name -> level that was asked for
_shown = set()  # artifacts that were asked for
_artifact_loggers = {}  # artifact -> loggers that were made for it
_handler = None


def set_logs(**levels):
    """Sets what is logged; what is not named goes back to its default (warnings of components, no artifacts).

    Args:
        all, dynamo, aot, ...: a level of Python's `logging` for that component; `all` for every one that is not named.
        graph_breaks, guards, ...: True shows that artifact.
        modules: a dict from names of loggers to levels, for loggers that have no short name.

    An environment variable TORCH_LOGS wins over all of it. Raises: TypeError for unknown names, ValueError for a level
    that is none.
    """
    if os.environ.get("TORCH_LOGS"):
        logging.getLogger(__name__).warning("set_logs() has no effect: the environment variable TORCH_LOGS is set")
        return
    modules = levels.pop("modules", None) or {}
    wanted, shown = {}, set()
    for name, value in levels.items():
        if name in _COMPONENTS:
            if value is not None:
                wanted[_COMPONENTS[name]] = _level(name, value)
        elif name in _ARTIFACTS:
            if not isinstance(value, bool):
                raise ValueError(f"set_logs: {name} is an artifact: expected True or False, but got {value!r}")
            if value:
                shown.add(name)
        else:
            known = ", ".join([*_COMPONENTS, *_ARTIFACTS, "modules"])
            raise TypeError(f"set_logs() got an unexpected keyword argument '{name}'; expected one of {known}")
    for name, value in modules.items():
        wanted[name] = _level(f"modules[{name!r}]", value)
    _apply(wanted, shown)


def _documented_signature():
    kind = inspect.Parameter.KEYWORD_ONLY
    order = [*list(_COMPONENTS)[:-1], *_ARTIFACTS[:27], "export", "modules", *_ARTIFACTS[27:]]
    return inspect.Signature([inspect.Parameter(n, kind, default=False if n in _ARTIFACTS else None) for n in order])


set_logs.__dict__["__signature__"] = _documented_signature()


def _level(name, value):
    if isinstance(value, bool) or not isinstance(value, int) or not isinstance(logging.getLevelName(value), str):
        raise ValueError(f"set_logs: expected a level such as logging.DEBUG for {name}, but got {value!r}")
    return value


def _apply(wanted, shown):
    global _handler
    for name, level in {**dict.fromkeys(_levels, logging.NOTSET), **wanted}.items():
        for known in {name, name.replace("tessera", tessera._display_name, 1)}:  # the name that programs use, too
            logging.getLogger(known).setLevel(level)
    _levels.clear()
    _levels.update(wanted)
    _shown.clear()
    _shown.update(shown)
    for artifact, loggers in _artifact_loggers.items():
        for logger in loggers:
            logger.disabled = artifact not in shown
    top = logging.getLogger("tessera")
    if (wanted or shown) and _handler is None:
        out = os.environ.get("TORCH_LOGS_OUT")
        _handler = logging.FileHandler(out) if out else logging.StreamHandler()
        style = os.environ.get(
            "TORCH_LOGS_FORMAT", "%(levelname).1s%(asctime)s %(process)d %(pathname)s:%(lineno)d] %(message)s"
        )
        _handler.setFormatter(logging.Formatter(style, "%m%d %H:%M:%S"))
        top.addHandler(_handler)
    elif not wanted and not shown and _handler is not None:
        top.removeHandler(_handler)
        _handler = None


def _from_environment(text):
    """Settings of the form of TORCH_LOGS. Raises: ValueError for a name that is neither a component, an artifact nor
    that of a logger."""
    signs = {"+": logging.DEBUG, "-": logging.ERROR}
    wanted, shown = {}, set()
    for item in filter(None, (part.strip() for part in text.split(","))):
        name, level = item.lstrip("+-"), signs.get(item[0], logging.INFO)
        if name in _COMPONENTS:
            wanted[_COMPONENTS[name]] = level
        elif name in _ARTIFACTS:
            shown.add(name)
        elif "." in name:
            wanted["tessera" + name[5:] if name.startswith("torch.") else name] = level
        else:
            known = ", ".join([*_COMPONENTS, *_ARTIFACTS])
            raise ValueError(
                f"TORCH_LOGS={text!r}: unknown name {name!r}; expected some of {known}, or a logger's name"
            )
    _apply(wanted, shown)


def getArtifactLogger(module_qname, artifact_name):
    """The logger for messages of an artifact (see `set_logs`) that a module has. ValueError for unknown ones."""
    if artifact_name not in _ARTIFACTS:
        raise ValueError(f"Artifact name {artifact_name!r} is unknown; expected one of {', '.join(_ARTIFACTS)}")
    logger = logging.getLogger(f"{module_qname}.__{artifact_name}")
    logger.setLevel(logging.DEBUG)
    logger.disabled = artifact_name not in _shown
    loggers = _artifact_loggers.setdefault(artifact_name, [])
    if logger not in loggers:
        loggers.append(logger)
    return logger


class LazyString:
    """A message that is made only if it is shown: `str()` of it calls `func(*args, **kwargs)`."""

    def __init__(self, func, *args, **kwargs):
        self.func, self.args, self.kwargs = func, args, kwargs

    def __str__(self):
        return self.func(*self.args, **self.kwargs)


_warned = set()


def warning_once(logger_obj, *args, **kwargs):
    """`logger_obj.warning(*args, **kwargs)`, once in a process for the same logger and arguments."""
    if (logger_obj.name, *args) not in _warned:
        _warned.add((logger_obj.name, *args))
        logger_obj.warning(*args, **kwargs)


class hide_warnings:
    """Context manager: warnings for which `filter_fn(message, category, filename, lineno, file=None, line=None)` is
    true are not shown."""

    def __init__(self, filter_fn=lambda *args, **kwargs: True):
        self._filter = filter_fn

    def __enter__(self):
        import warnings

        self._previous = warnings.showwarning

        def show(*args, **kwargs):
            if not self._filter(*args, **kwargs):
                self._previous(*args, **kwargs)

        warnings.showwarning = show

    def __exit__(self, exc_type, exc_value, traceback):
        import warnings

        warnings.showwarning = self._previous
        return False


_trace_file = None
_overhead = 0.0


def trace_structured(
    name,
    metadata_fn=dict,
    *,
    payload_fn=lambda: None,
    suppress_context=False,
    expect_trace_id=True,
    record_logging_overhead=True,
    compile_id=None,
):
    """Appends a record for tools to a file in the folder that the environment variable TORCH_TRACE names: a line of
    JSON with `metadata_fn()` under `name`, and after it the text of `payload_fn()`, if it gives any, indented by a tab.
    Nothing is called if the variable is not set. expect_trace_id: whether a record without compile_id says so.
    """
    global _trace_file, _overhead
    folder = os.environ.get("TORCH_TRACE")
    if not folder:
        return
    start = time.perf_counter()
    if _trace_file is None:
        os.makedirs(folder, exist_ok=True)
        _trace_file = open(os.path.join(folder, f"dedicated_log_torch_trace_{os.getpid()}.log"), "a")  # noqa: SIM115
    record = {name: metadata_fn()}
    if not suppress_context:
        record.update({"time": time.time(), "pid": os.getpid()})
        if compile_id is not None:
            record["compile_id"] = str(compile_id)
        elif expect_trace_id:
            record["compile_id"] = None
    payload = payload_fn()
    if payload is not None:
        text = payload if isinstance(payload, str) else json.dumps(payload)
        record["has_payload"] = True
        body = "".join(f"\t{line}\n" for line in text.splitlines())
    else:
        body = ""
    _trace_file.write(json.dumps(record) + "\n" + body)
    _trace_file.flush()
    if record_logging_overhead:
        _overhead += time.perf_counter() - start


def dtrace_structured(
    name,
    metadata_fn=dict,
    *,
    payload_fn=lambda: None,
    suppress_context=False,
    expect_trace_id=False,
    record_logging_overhead=True,
):
    """`trace_structured` for records that only the library's developers want: with TORCH_DTRACE=1 alone."""
    if os.environ.get("TORCH_DTRACE") == "1":
        trace_structured(
            name,
            metadata_fn,
            payload_fn=payload_fn,
            suppress_context=suppress_context,
            expect_trace_id=expect_trace_id,
            record_logging_overhead=record_logging_overhead,
        )


def get_structured_logging_overhead():
    """Seconds that this process has spent in `trace_structured`; None if it has written nothing."""
    return _overhead or None


if os.environ.get("TORCH_LOGS"):
    _from_environment(os.environ["TORCH_LOGS"])
