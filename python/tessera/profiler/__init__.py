"""Records what a program does: operators, backward, annotations, memory; as tables, traces, flame graphs, pages.

>>> from tessera.profiler import ProfilerActivity, profile, record_function
>>> with profile(activities=[ProfilerActivity.CPU], record_shapes=True) as prof:
...     with record_function("two products"):
...         y = tessera.ones(2, 3) @ tessera.ones(3, 4) @ tessera.ones(4, 5)
>>> {event.key: event.count for event in prof.key_averages()}["aten::mm"]
2

An operator pays nothing while nobody records, and about 0.1 us while somebody does. `prof.export_html(path)` writes a
page that any browser shows, `python -m tessera.profiler view TRACE` makes one of a trace file.
"""

from tessera._lazy import attach as _attach

__all__ = [
    "DeviceType",
    "ExecutionTraceObserver",
    "ProfilerAction",
    "ProfilerActivity",
    "kineto_available",
    "profile",
    "record_function",
    "schedule",
    "supported_activities",
    "tensorboard_trace_handler",
]

__getattr__, __dir__ = _attach(
    __name__,
    {
        "DeviceType": "_kinds",
        "ExecutionTraceObserver": "_execution_trace",
        "ProfilerAction": "_schedule",
        "ProfilerActivity": "_kinds",
        "RecordScope": "_kinds",
        "KinetoStepTracker": ":tessera.autograd.profiler",
        "_ExperimentalConfig": "_kinds",
        "_KinetoProfile": "profiler",
        "kineto_available": "_kinds",
        "profile": "profiler profile",
        "record_function": ":tessera.autograd.profiler",
        "schedule": "_schedule",
        "supported_activities": "_kinds",
        "tensorboard_trace_handler": "profiler",
    },
)
