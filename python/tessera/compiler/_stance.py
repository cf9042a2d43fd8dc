"""How compiled functions behave for a while: `set_stance`."""

import functools

STANCES = (
    "default",
    "force_eager",
    "eager_on_recompile",
    "fail_on_recompile",
    "eager_then_compile",
    "aot_eager_then_compile",
)
DEFAULT = ("default", False, None)
current = DEFAULT  # (stance, whether guards are skipped, backend)


class set_stance:
    """Says how compiled functions behave from now on: a function, a context manager and a decorator. Functions that are
    not compiled, here all of them, do what they always do.

    Args:
        stance: "default"; "force_eager", run them as they are written; "eager_on_recompile", compile nothing new;
            "fail_on_recompile", raise an error where something would be compiled anew; "eager_then_compile" and
            "aot_eager_then_compile", compile from the second call on.
        skip_guard_eval_unsafe: take what was compiled without asking whether it fits.
        force_backend: compile with this one; goes with the stance "default" alone.

    Raises: RuntimeError for another stance, or for a backend with one that compiles nothing.
    """

    def __init__(self, stance="default", *, skip_guard_eval_unsafe=False, force_backend=None):
        if stance not in STANCES:
            raise RuntimeError(f"invalid torch.compile stance {stance!r}, expected one of {', '.join(STANCES)}")
        if force_backend is not None and stance != "default":
            raise RuntimeError(f"force_backend goes with the stance 'default', but the stance is {stance!r}")
        self.wanted = (stance, bool(skip_guard_eval_unsafe), force_backend)
        self.before = current
        _set(self.wanted)

    def __enter__(self):
        self.before = current if current is not self.wanted else self.before
        _set(self.wanted)
        return self

    def __exit__(self, exc_type, exc_value, traceback):
        _set(self.before)
        return False

    def __call__(self, fn):
        _set(self.before)  # a decorator changes nothing before the function runs
        stance, skip, backend = self.wanted

        @functools.wraps(fn)
        def wrapped(*args, **kwargs):
            with set_stance(stance, skip_guard_eval_unsafe=skip, force_backend=backend):
                return fn(*args, **kwargs)

        return wrapped


def _set(stance):
    global current
    current = stance
