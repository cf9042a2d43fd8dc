"""Pipelines: the stages of a model in different processes, which work on parts of a batch at the same time."""

from tessera._lazy import attach as _attach
from tessera.distributed.pipelining._pipe import Pipe, SplitPoint, pipe_split, pipeline
from tessera.distributed.pipelining.schedules import (
    Schedule1F1B,
    ScheduleDualPipeV,
    ScheduleGPipe,
    ScheduleInterleaved1F1B,
    ScheduleInterleavedZeroBubble,
    ScheduleLoopedBFS,
    ScheduleZBVZeroBubble,
)
from tessera.distributed.pipelining.stage import PipelineStage, build_stage

__getattr__, __dir__ = _attach(__name__)

__all__ = [
    "Pipe",
    "PipelineStage",
    "Schedule1F1B",
    "ScheduleDualPipeV",
    "ScheduleGPipe",
    "ScheduleInterleaved1F1B",
    "ScheduleInterleavedZeroBubble",
    "ScheduleLoopedBFS",
    "ScheduleZBVZeroBubble",
    "SplitPoint",
    "build_stage",
    "pipe_split",
    "pipeline",
]
