import sys


def trace_dependencies(callable, inputs):
    """The names of the modules whose functions run while `callable(*arguments)` is called, for each tuple of arguments
    in `inputs`: what a package of it may need."""
    modules = set()

    def note(frame, event, arg):
        if event == "call":
            name = frame.f_globals.get("__name__")
        elif event == "c_call":
            name = getattr(arg, "__module__", None)
        else:
            return
        if name:
            modules.add(name)

    previous = sys.getprofile()
    try:
        for arguments in inputs:
            sys.setprofile(note)
            callable(*arguments)
            sys.setprofile(previous)
    finally:
        sys.setprofile(previous)
    modules.discard(__name__)
    return list(modules)
