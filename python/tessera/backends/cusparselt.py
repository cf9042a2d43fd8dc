"""cuSPARSELt, which this build does not use."""


def is_available():
    """True if the library is part of this build."""
    return False


def version():
    """None: the library is not part of this build."""
    return None


def get_max_alg_id():
    """None: the library is not part of this build, and has no algorithms."""
    return None
