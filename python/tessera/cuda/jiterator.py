"""Elementwise kernels from a text in CUDA's language. They are checked when they are made; this build has no compiler
for them, so calls raise RuntimeError.
"""

import re

import tessera

__all__: list = []

_HEAD = re.compile(
    r"template\s*<\s*typename\s+(?P<type>\w+)\s*>\s*(?:(?P=type)|void)\s+(?P<name>\w+)\s*"
    r"\((?P<parameters>[^)]*)\)\s*\{"
)


def _parsed(code):
    """(name, names of the parameters) of a kernel "template <typename T> T name(T a, T b) { ... }".

    Raises: Exception with what is expected.
    """
    if not isinstance(code, str):
        raise TypeError(f"a kernel is a str, but got {type(code).__name__}")
    found = _HEAD.match(code.strip())
    if found is None or not code.strip().endswith("}"):
        raise Exception(
            "Couldn't parse code, please check correctness: expected `template <typename T> T name(T x, T y) { ... }`"
        )
    parameters = [p.split() for p in found["parameters"].split(",") if p.strip()]
    if any(len(p) != 2 or p[0].rstrip("&") != found["type"] for p in parameters):
        raise Exception(
            f"Couldn't parse code: expected parameters of type {found['type']}, but got ({found['parameters']})"
        )
    return found["name"], [p[1].lstrip("&") for p in parameters]


class _Kernel:
    def __init__(self, code, outputs, scalars):
        self.code = code
        self.outputs = outputs
        self.name, names = _parsed(code)
        unknown = [name for name in scalars if name not in names]
        if unknown:
            raise Exception(f"{self.name} has no parameters {', '.join(unknown)}, only ({', '.join(names)})")
        self.scalars = scalars

    def __call__(self, *tensors, **kwargs):
        unknown = [name for name in kwargs if name not in self.scalars]
        if unknown:
            raise KeyError(f"{unknown[0]} is not listed in function definition")
        if not tensors or not all(isinstance(t, tessera.Tensor) for t in tensors):
            raise TypeError(f"{self.name} expects tensors")
        tessera.cuda._lazy_init()
        raise RuntimeError(f"{self.name} cannot be compiled: this build has no compiler for devices' code")


def _create_jit_fn(code_string, **kwargs):
    """A function of tensors on a device that applies a kernel elementwise.

    Args:
        code_string: `template <typename T> T name(T x, T y, T alpha) { return ...; }`.
        kwargs: defaults of parameters that are numbers.

    Raises: Exception for code of another form.
    """
    return _Kernel(code_string, 1, kwargs)


def _create_multi_output_jit_fn(code_string, num_outputs, **kwargs):
    """The same for kernels with several results, which they write into their last parameters (references).

    Raises: Exception for code of another form, ValueError unless there are from 1 to 8 results.
    """
    if not 1 <= num_outputs <= 8:
        raise ValueError(f"a kernel has from 1 to 8 results, but {num_outputs} are asked for")
    return _Kernel(code_string, num_outputs, kwargs)
