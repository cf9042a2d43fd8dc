"""fork and wait: calls whose results are asked for later."""

import tessera
from tessera.futures import Future  # noqa: F401


def fork(func, *args, **kwargs):
    """Calls func(*args, **kwargs) and returns a Future of the result.

    Outside of compiled code the call is made at once, as documented: it is done when fork returns, which raises what
    the call raises.
    """
    future = tessera.futures.Future()
    future.set_result(func(*args, **kwargs))
    return future


def wait(future):
    """The result of fork's call, which raises here what it raised."""
    return future.wait()


_fork, _wait = fork, wait
