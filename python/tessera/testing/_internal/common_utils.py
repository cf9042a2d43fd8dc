"""A `TestCase` whose `assertEqual` compares tensors, and tests with parameters, for tests of other libraries."""

import collections.abc
import contextlib
import functools
import inspect
import itertools
import numbers
import sys
import unittest

import tessera
from tessera.testing._comparison import assert_close
from tessera.testing._creation import make_tensor

IS_LINUX, IS_WINDOWS, IS_MACOS = sys.platform == "linux", sys.platform == "win32", sys.platform == "darwin"

__all__ = [
    "IS_LINUX",
    "IS_MACOS",
    "IS_WINDOWS",
    "TestCase",
    "freeze_rng_state",
    "instantiate_parametrized_tests",
    "make_tensor",
    "parametrize",
    "run_tests",
    "subtest",
]


def _at(where):
    return f"\n\nThe failure occurred for item {where}" if where else ""


def _pairs(x, y, where=""):
    """(place, x, y) of what has no parts, in the order of x; AssertionError where two containers differ in form."""
    if isinstance(x, collections.abc.Mapping) and isinstance(y, collections.abc.Mapping):
        if x.keys() != y.keys():
            raise AssertionError(f"The keys differ: {list(x)} and {list(y)}{_at(where)}")
        for key in x:
            yield from _pairs(x[key], y[key], f"{where}[{key!r}]")
    elif all(isinstance(v, collections.abc.Sequence) and not isinstance(v, (str, bytes)) for v in (x, y)):
        if len(x) != len(y):
            raise AssertionError(f"The lengths differ: {len(x)} and {len(y)}{_at(where)}")
        for i, (a, b) in enumerate(zip(x, y)):
            yield from _pairs(a, b, f"{where}[{i}]")
    else:
        yield where, x, y


def _numeric(value):
    return isinstance(value, (tessera.Tensor, numbers.Number)) or hasattr(value, "__array_interface__")


class TestCase(unittest.TestCase):
    """A test case that compares tensors. An object of it may be used outside of a test, too."""

    longMessage = True

    def __init__(self, method_name="runTest", methodName=None):
        super().__init__(methodName or method_name)

    def runTest(self):
        """So that an object can be made without the name of a test."""

    def assertEqual(
        self, x, y, msg=None, *, atol=None, rtol=None, equal_nan=True,
        exact_dtype=True, exact_device=False, exact_layout=False, exact_stride=False,
    ):  # fmt: skip
        """Tensors, arrays and numbers of both sides are close, by `testing.assert_close`'s tolerances if none are
        given; all else is equal. Containers are compared part by part. A tensor may stand beside a number or an array:
        its dtype counts then. `msg` is a text, or makes one of the message that would be shown."""
        checks = {"check_device": exact_device, "check_layout": exact_layout, "check_stride": exact_stride}
        try:
            if any(isinstance(v, tessera.Tensor) for v in (x, y)):
                pairs = [("", x, y)]
            else:
                pairs = _pairs(x, y)
            for where, a, b in pairs:
                self._compare(where, a, b, exact_dtype, {"rtol": rtol, "atol": atol, "equal_nan": equal_nan, **checks})
        except AssertionError as error:
            text = str(error)
            raise self.failureException(msg(text) if callable(msg) else self._formatMessage(msg, text)) from None

    def _compare(self, where, a, b, exact_dtype, options):
        tensors = [v for v in (a, b) if isinstance(v, tessera.Tensor)]
        if len(tensors) == 1:
            like = tensors[0]
            a, b = (v if v is like else tessera.as_tensor(v, dtype=like.dtype, device=like.device) for v in (a, b))
        if isinstance(a, bool) or isinstance(b, bool) or not (_numeric(a) and _numeric(b)):
            if not a == b:
                raise AssertionError(f"{a!r} != {b!r}{_at(where)}")
            return
        exact = exact_dtype and not isinstance(a, numbers.Number)
        assert_close(a, b, check_dtype=exact, msg=lambda text: text + _at(where), **options)

    def assertNotEqual(self, x, y, msg=None, *, atol=None, rtol=None, **options):
        """`assertEqual` of the same arguments fails."""
        try:
            self.assertEqual(x, y, atol=atol, rtol=rtol, **options)
        except AssertionError:
            return
        raise self.failureException(self._formatMessage(msg, f"{x!r} == {y!r}"))


def run_tests(argv=None):
    """Runs the tests of the program that calls it, and exits."""
    unittest.main(argv=argv or sys.argv)


@contextlib.contextmanager
def freeze_rng_state():
    """Within, random numbers are drawn; after it, generators are as before."""
    with tessera.random.fork_rng():
        yield


class subtest:
    """Values of one case of `parametrize`, with a name and decorators of its own."""

    def __init__(self, arg_values, name=None, decorators=None):
        self.arg_values, self.name, self.decorators = arg_values, name, list(decorators or ())


def parametrize(arg_str, arg_values, name_fn=None):
    """A decorator of a test: one case for each of `arg_values`, given under the names of `arg_str` ("a,b": tuples).
    Several multiply. `instantiate_parametrized_tests` makes the cases; `name_fn(*values)` gives their names."""
    names = [name.strip() for name in arg_str.split(",") if name.strip()]

    def case(value):
        values, decorators = (value.arg_values, value.decorators) if isinstance(value, subtest) else (value, [])
        values = tuple(values) if len(names) > 1 else (values,)
        if len(values) != len(names):
            raise RuntimeError(f"parametrize: {names} are {len(names)} names, expected as many values, got {values}")
        name = value.name if isinstance(value, subtest) else None
        if name is None:
            shown = (
                str(v).rpartition(".")[2] if isinstance(v, tessera.dtype) else f"{n}_{v}" for n, v in zip(names, values)
            )
            name = name_fn(*values) if name_fn else "_".join(shown)
        return name.replace(".", "_").replace(" ", "_"), dict(zip(names, values)), decorators

    def decorate(test):
        test._cases = [[case(value) for value in arg_values], *getattr(test, "_cases", [])]
        return test

    return decorate


def _bound(test, cases):
    @functools.wraps(test)
    def run(self, *args, **options):
        return test(self, *args, **{k: v for _, values, _ in cases for k, v in values.items()}, **options)

    run.__signature__ = inspect.Signature([inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)])
    for decorator in (d for *_, decorators in cases for d in decorators):
        run = decorator(run)
    return run


def instantiate_parametrized_tests(generic_cls):
    """A class of tests with a method for each case of those that `parametrize` decorated; returns it."""
    for name, test in list(vars(generic_cls).items()):
        if not hasattr(test, "_cases"):
            continue
        delattr(generic_cls, name)
        for cases in itertools.product(*test._cases):
            made = _bound(test, cases)
            made.__name__ = "_".join([name, *(case[0] for case in cases)])
            vars(made).pop("_cases", None)
            setattr(generic_cls, made.__name__, made)
    return generic_cls
