"""Recorded work of Meta's devices."""

from tessera import _absent

MTIAGraph = _absent.make_class(
    __name__,
    "mtia",
    "MTIAGraph(keep_graph=False)",
    "Work that was recorded and can be replayed.",
    """
    capture_begin(pool)
    capture_end()
    instantiate()
    pool()
    replay()
    reset()
    """,
)
graph = _absent.make_class(
    __name__, "mtia", "graph(mtia_graph, pool=None, stream=None)", "Context manager that records work."
)
graph.default_capture_stream = None

_absent.install(__name__, "mtia", "graph_pool_handle() | A number for a pool of memory that graphs share.")
