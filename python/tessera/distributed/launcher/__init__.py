"""Runs a function or a program in several processes, on this machine and others."""

from tessera._lazy import attach as _attach
from tessera.distributed.launcher.api import LaunchConfig, elastic_launch, launch_agent

__getattr__, __dir__ = _attach(__name__)

__all__ = ["LaunchConfig", "elastic_launch", "launch_agent"]
