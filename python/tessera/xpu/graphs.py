"""Recorded work of Intel's devices."""

from tessera import _absent

XPUGraph = _absent.make_class(
    __name__,
    "xpu",
    "XPUGraph(keep_graph=False)",
    "Work that was recorded and can be replayed.",
    """
    capture_begin(pool=None)
    capture_end()
    debug_dump(debug_path)
    enable_debug_mode()
    instantiate()
    pool()
    raw_xpu_graph()
    raw_xpu_graph_exec()
    replay()
    reset()
    """,
)
graph = _absent.make_class(
    __name__, "xpu", "graph(xpu_graph, pool=None, stream=None)", "Context manager that records work."
)
graph.default_capture_stream = None

_absent.install(
    __name__,
    "xpu",
    """
    graph_pool_handle() | A number for a pool of memory that graphs share.
    is_current_stream_capturing() -> False | Whether work is being recorded.
    make_graphed_callables(callables, sample_args, num_warmup_iters=3, allow_unused_input=False, pool=None) | Records.
    """,
)
