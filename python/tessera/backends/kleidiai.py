"""KleidiAI, a library for Arm processors, which this build does not use."""


def is_available():
    """True if the library is part of this build."""
    return False
