"""Compiled code of other processes. Functions are captured in each process anew, so that there is none to hand over."""


def save_cache_artifacts():
    """What the caches of compiled code hold, to be loaded in another process: (bytes, info), or None if they hold
    nothing, as now: graphs are captured in each process.
    """
    return None


def load_cache_artifacts(serialized_artifacts):
    """Fills the caches with what save_cache_artifacts gave.

    Returns: info, or None if nothing is in it. Raises: TypeError unless it is bytes.
    """
    if not isinstance(serialized_artifacts, (bytes, bytearray)):
        raise TypeError(f"load_cache_artifacts: expected bytes, but got {type(serialized_artifacts).__name__}")
    return None


def load_compiled_function(file, *, f_globals=None, external_data=None):
    """Loads a function that was compiled ahead of time.

    Args:
        file: an open binary file. f_globals: variables of its module. external_data: dict of objects that it names.

    Raises: RuntimeError for files that hold none. This version writes none.
    """
    data = file.read()
    raise RuntimeError(
        f"load_compiled_function: the {len(data)} bytes are no function that this version has compiled"
        f"{'' if f_globals is None and external_data is None else ' for these variables'}"
    )
