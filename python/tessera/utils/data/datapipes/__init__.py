"""Pipelines of datasets: small steps that are put together by calls such as `pipe.map(fn).shuffle().batch(4)`."""

from tessera.utils.data.datapipes import datapipe, iter, map, utils

__all__ = ["datapipe", "iter", "map", "utils"]
