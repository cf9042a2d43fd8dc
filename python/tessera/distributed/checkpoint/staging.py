"""Copies of state dicts in host memory, from which a checkpoint is written while training goes on."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import tessera
from tessera.utils import _pytree

__all__ = ["AsyncStager", "BlockingAsyncStager", "DefaultStager", "StagingOptions"]


@runtime_checkable
class AsyncStager(Protocol):
    """What copies a state dict before `async_save` writes it."""

    _synchronize_after_execute: bool = True

    @property
    def should_synchronize_after_execute(self) -> bool:
        """Whether `async_save` calls `synchronize_staging` before it returns."""
        return self._synchronize_after_execute

    def stage(self, state_dict: dict[str, Any]) -> Any:
        """The copy, or a Future of it."""
        ...

    def synchronize_staging(self) -> None:
        """Waits until the copy is complete."""

    def close(self) -> None:
        """Gives back what the stager holds."""


@dataclass
class StagingOptions:
    """How state dicts are copied.

    Args:
        use_pinned_memory: copies of what lies on devices are page-locked.
        use_shared_memory: copies can be given to other processes without copying again.
        use_async_staging: a thread copies, and `stage` returns a Future.
        use_non_blocking_copy: copies from devices do not wait for each other.
    """

    use_pinned_memory: bool = True
    use_shared_memory: bool = True
    use_async_staging: bool = True
    use_non_blocking_copy: bool = True


def _copied(value, options, old=None):
    """A copy of a tensor in host memory; in the memory of an `old` one, if it fits."""
    if hasattr(value, "_local_tensor"):
        inner = _copied(value._local_tensor, options, getattr(old, "_local_tensor", None))
        return type(value)(inner, value._spec)
    on_device = value.device.type != "cpu"
    if old is None or old.shape != value.shape or old.dtype != value.dtype:
        pinned = options.use_pinned_memory and on_device
        old = tessera.empty(value.shape, dtype=value.dtype, pin_memory=pinned)
        if options.use_shared_memory and not pinned and value.layout == tessera.strided:
            old.share_memory_()
    return old.copy_(value.detach(), non_blocking=options.use_non_blocking_copy and on_device)


def _copy_all(state_dict, options, cache=None):
    if cache is not None and cache.keys() != state_dict.keys():
        cache = None

    def copy(value, old=None):
        if isinstance(value, dict):
            return {key: copy(v, old.get(key) if isinstance(old, dict) else None) for key, v in value.items()}
        if isinstance(value, tessera.Tensor):
            return _copied(value, options, old if isinstance(old, tessera.Tensor) else None)
        return _pytree.tree_map(lambda v: _copied(v, options) if isinstance(v, tessera.Tensor) else v, value)

    with tessera.no_grad():
        made = copy(state_dict, cache)
    if options.use_non_blocking_copy and tessera.cuda.is_available():
        tessera.cuda.synchronize()
    return made


_PLAIN = StagingOptions(False, False, False, False)


class BlockingAsyncStager(AsyncStager):
    """Copies while the caller waits.

    Args:
        cache_staged_state_dict: the copy is kept, and its memory used for the next one.
        type_check: accepted for older programs: values of all types can be copied.
    """

    _synchronize_after_execute = False

    def __init__(self, cache_staged_state_dict=False, type_check=False):
        self.cache_staged_state_dict = cache_staged_state_dict
        self.state_dict_cache = None

    def stage(self, state_dict):
        """A copy of a state dict in host memory."""
        made = _copy_all(state_dict, _PLAIN, self.state_dict_cache)
        if self.cache_staged_state_dict:
            self.state_dict_cache = made
        return made

    def synchronize_staging(self):
        """Nothing: the copy is complete."""

    def close(self):
        """Frees the copy."""
        self.state_dict_cache = None


class DefaultStager(AsyncStager):
    """Copies as its options say; the memory of a copy is used again for the next one.

    Args:
        config: StagingOptions.

    Raises: RuntimeError for options that need a device where there is none.
    """

    _synchronize_after_execute = False

    def __init__(self, config=StagingOptions()):  # noqa: B008
        self._config, self._cache, self._running = config, None, None
        if config.use_non_blocking_copy and not tessera.accelerator.is_available():
            raise RuntimeError("StagingOptions.use_non_blocking_copy needs a device to copy from, but there is none")
        self._executor = ThreadPoolExecutor(max_workers=1) if config.use_async_staging else None

    def _copy(self, state_dict):
        self._cache = _copy_all(state_dict, self._config, self._cache)
        return self._cache

    def stage(self, state_dict, **kwargs):
        """The copy, or with `use_async_staging` a Future of it."""
        if self._executor is None:
            return self._copy(state_dict)
        self._running = self._executor.submit(self._copy, state_dict)
        return self._running

    def synchronize_staging(self):
        """Waits until the copy is complete. Raises: what has gone wrong."""
        if self._running is not None:
            self._running.result()

    def close(self):
        """Frees the copy and ends the thread."""
        if self._executor is not None:
            self._executor.shutdown(wait=True)
        self._cache = None
