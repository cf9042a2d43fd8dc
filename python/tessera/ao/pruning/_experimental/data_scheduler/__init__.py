"""What changes a number of data sparsifiers from step to step."""

from tessera._lazy import attach as _attach

_table = {"BaseDataScheduler": "base_data_scheduler"}
__all__ = sorted(_table)  # noqa: PLE0605

__getattr__, __dir__ = _attach(__name__, _table)
