"""`python -m tessera prog.py [args] | -m module [args] | -c code [args]`: runs a program for which `torch` is this
library.

Everything else is as with the interpreter's own `prog.py`, `-m` and `-c`: sys.argv, sys.path[0], `__main__`, exit
codes, tracebacks.
"""

import sys

_USAGE = """usage: python -m tessera prog.py [args]
       python -m tessera -m module [args]
       python -m tessera -c code [args]

Runs a Python program for which `torch` and its submodules are tessera, also in the processes that it starts.
Options: -h, --help   this text
         -V, --version
"""


def _fail(message):
    sys.stderr.write(f"python -m tessera: {message}\n{_USAGE}")
    raise SystemExit(2)


def _fresh_main():
    """An empty `__main__`, so that the program's classes and functions pickle as `__main__.X`."""
    import builtins
    import types

    module = types.ModuleType("__main__")
    module.__builtins__ = builtins
    module.__annotations__ = {}
    sys.modules["__main__"] = module
    return module


def _own_frames(traceback):
    """The part of a traceback that lies in the program."""
    import runpy

    ours = {__file__, runpy.__file__}
    while traceback is not None and (
        traceback.tb_frame.f_code.co_filename in ours or traceback.tb_frame.f_code.co_filename.startswith("<frozen ")
    ):
        traceback = traceback.tb_next
    return traceback


def _run(function, *args):
    """Runs the program; an uncaught exception prints without the launcher's own frames."""
    try:
        function(*args)
    except (SystemExit, KeyboardInterrupt):
        raise
    except BaseException as error:
        error.__traceback__ = _own_frames(error.__traceback__)
        sys.excepthook(type(error), error, error.__traceback__)
        raise SystemExit(1) from None


def _run_code(source, args):
    sys.argv = ["-c", *args]
    if sys.path and not _safe_path():
        sys.path[0] = ""
    main = _fresh_main()
    _run(lambda: exec(compile(source, "<string>", "exec", dont_inherit=True), main.__dict__))


def _run_module(name, args):
    import runpy

    sys.argv = ["-m", *args]
    _fresh_main()
    # What `python -m name` does, with alter_argv so that argv[0] becomes the module's file.
    _run(lambda: runpy._run_module_as_main(name))


def _run_script(path, args):
    import os

    sys.argv = [path, *args]
    if os.path.isdir(path) or _is_zip(path):
        import runpy

        _run(lambda: _replace_path0(path) or runpy._run_module_as_main("__main__", alter_argv=False))
        return
    try:
        with open(path, "rb") as file:
            source = file.read()
    except OSError as error:
        sys.stderr.write(
            f"{sys.executable}: can't open file {os.path.abspath(path)!r}: [Errno {error.errno}] {error.strerror}\n"
        )
        raise SystemExit(2) from None
    _replace_path0(os.path.dirname(os.path.realpath(path)))
    main = _fresh_main()
    main.__file__ = path
    main.__cached__ = None
    main.__loader__ = _loader(path)
    _run(lambda: exec(compile(source, path, "exec", dont_inherit=True), main.__dict__))


def _loader(path):
    from importlib.machinery import SourceFileLoader

    return SourceFileLoader("__main__", path)


def _is_zip(path):
    try:
        with open(path, "rb") as file:
            if file.read(4) != b"PK\x03\x04":
                return False
    except OSError:
        return False
    import zipfile

    return zipfile.is_zipfile(path)


def _safe_path():
    return getattr(sys.flags, "safe_path", False)


def _replace_path0(folder):
    if sys.path and not _safe_path():
        sys.path[0] = folder


def main():
    args = sys.argv[1:]
    if not args:
        _fail("a program is missing")
    option, rest = args[0], args[1:]
    if option in ("-h", "--help"):
        sys.stdout.write(_USAGE)
        return
    if option in ("-V", "--version"):
        from tessera import version

        sys.stdout.write(
            f"tessera {version.tessera} (PyTorch API {version.api_version}), Python {sys.version.split()[0]}\n"
        )
        return
    if option == "-":
        _fail("reading a program from standard input is not supported")
    takes_value = option[:2] in ("-m", "-c") and not option.startswith("--")
    if takes_value:
        if len(option) > 2:
            rest.insert(0, option[2:])
        if not rest:
            _fail(f"argument expected for the {option[:2]} option")
    elif option.startswith("-"):
        _fail(f"unknown option {option}; options of the interpreter go before -m tessera")

    from tessera import _alias

    _alias.install()
    if option[:2] == "-c" and takes_value:
        _run_code(rest[0], rest[1:])
    elif option[:2] == "-m" and takes_value:
        _run_module(rest[0], rest[1:])
    else:
        _run_script(option, rest)


if __name__ == "__main__":
    main()
