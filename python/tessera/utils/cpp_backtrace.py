"""Where the program is, seen from C++."""

__all__ = ["get_cpp_backtrace"]


def get_cpp_backtrace(frames_to_skip=0, maximum_number_of_frames=64):
    """The calls that lead here on this thread, of C++ and of the interpreter: a text of a line each, innermost first.

    Args:
        frames_to_skip: of the innermost.
        maximum_number_of_frames: of those after them.
    """
    from tessera import _C

    return _C._cpp_backtrace(int(frames_to_skip), int(maximum_number_of_frames))
