"""What goes wrong between processes."""


class DistError(RuntimeError):
    """Something went wrong between the processes of a distributed program."""


class DistBackendError(DistError):
    """A process group failed: a member is gone, did not join in time, or made another call than the others."""


class DistNetworkError(DistError):
    """A connection could not be made, or was lost."""


class DistStoreError(DistError):
    """A store refused a request, or did not have what was waited for in time."""


class QueueEmptyError(DistStoreError):
    """`Store.queue_pop(key, block=False)` found no value."""
