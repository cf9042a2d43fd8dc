"""What the capture tells: TORCH_LOGS=graph_code, graph_breaks, guards, recompiles, bytecode."""

import logging

from tessera._logging import getArtifactLogger

from . import utils
from ._sources import failed_text, readable

log = logging.getLogger("tessera._dynamo")
_name = "tessera._dynamo"
_graph_code, _graph_log, _breaks = (getArtifactLogger(_name, n) for n in ("graph_code", "graph", "graph_breaks"))
_guards, _recompiles, _pieces = (getArtifactLogger(_name, n) for n in ("guards", "recompiles", "bytecode"))
_listeners = []  # of explain(): functions of (kind, point, what)


def _tell(kind, point, what):
    for listener in list(_listeners):
        listener(kind, point, what)


def graph_break(point, error):
    """A graph ends before an instruction."""
    utils.counters["graph_break"][error.msg.partition("\n")[0]] += 1
    _tell("break", point, error)
    _breaks.debug("Graph break in %s: %s", point.code.co_name, error.add_place())


def left(point, error):
    """A function is left to Python."""
    utils.counters["unimplemented"][error.msg.partition("\n")[0]] += 1
    _breaks.debug("%s is left to Python from index %d: %s", point.code.co_name, point.index, error.add_place())


def graph(point, module):
    """A graph goes to the backend."""
    _tell("graph", point, module)
    if _graph_code.isEnabledFor(logging.DEBUG):
        _graph_code.debug("TRACED GRAPH\n===== %s =====\n%s", point.code.co_name, module.print_readable(False))
    if _graph_log.isEnabledFor(logging.DEBUG):
        _graph_log.debug("TRACED GRAPH of %s\n%s", point.code.co_name, module.graph)


def compiled(point, entry):
    """A piece is ready."""
    _tell("entry", point, entry)
    if _guards.isEnabledFor(logging.DEBUG):
        _guards.debug("GUARDS of %s:\n%s", point.code.co_name, "\n".join(entry.texts))
    if _pieces.isEnabledFor(logging.DEBUG):
        _pieces.debug("PIECE of %s:\n%s", point.code.co_name, entry.run.__source_text__)


def reasons(point, args):
    """Which guard of each entry does not hold for the arguments."""
    values = dict(zip(point.parameters, args))
    return [_reason(entry, entry.check(*args), values) for entry in point.entries]


def _reason(entry, failed, values):
    if failed < 0:
        return "a value that guards read is not there any more"
    for guard in entry.guards:
        if entry.texts[failed] == f"{guard.guard_type}: {readable(guard)}":
            return failed_text(guard, values) or entry.texts[failed]
    return entry.texts[failed]


def why_again(point, args):
    """Which guards do not hold, in lines, as an error or the log shows it."""
    failed = [f"{len(point.entries) - 1 - i}: {reason}" for i, reason in enumerate(reasons(point, args))]
    return "    triggered by the following guard failure(s):\n    - " + "\n    - ".join(failed)


def recompile(point, args):
    """No entry fits to the arguments."""
    if not _recompiles.isEnabledFor(logging.DEBUG) and not _listeners:
        return
    _tell("recompile", point, reasons(point, args))
    _recompiles.debug(
        "Recompiling function %s in %s:%d\n%s",
        point.code.co_name, point.code.co_filename, point.code.co_firstlineno, why_again(point, args),
    )  # fmt: skip
