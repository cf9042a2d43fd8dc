"""Calls of every operator whose derivatives are checked: by rules, or given where arguments have to fit each other.

A sample is a list of arguments that the operator takes; nothing here tries and sees. An operator for which neither
rules nor SAMPLES know arguments has none, which is a failure of the test that asked for them.
"""

import math
import re
import types

import tessera
from distribution_arguments import DISTRIBUTIONS
from linalg_arguments import LINALG
from op_arguments import CONSTRAINTS, DOMAINS, Given, floats, identify
from op_samples_nn import SAMPLES as NN
from op_samples_tensor import SAMPLES as TENSOR

SAMPLES = {**CONSTRAINTS, **TENSOR, **NN, **LINALG, **DISTRIBUTIONS}

# Shapes by name; the first that matches.
SHAPES = [
    (re.compile(pattern), shape)
    for pattern, shape in (
        (r"pool1d|pad1d", (1, 2, 4)),
        (r"pool2d|pad2d|channel_shuffle|native_channel|pixel_unshuffle|feature_", (1, 2, 4, 4)),
        (r"pool3d|pad3d", (1, 2, 4, 4, 4)),
        (r"pixel_shuffle", (1, 4, 2, 2)),
        (r"matrix_power|^inverse", (3, 3)),
        (r"^(t|numpy_T|matrix_H|adjoint|mT|mH)$", (2, 3)),
    )
]

# Integers by argument name.
INTEGERS = {
    "dim": [-1, 0],
    "dim0": [0],
    "dim1": [1],
    "dim2": [1],
    "axis0": [0],
    "axis1": [1],
    "chunks": [2],
    "split_size": [1, 2],
    "index": [0, 1],
    "repeats": [2],
    "length": [2],
    "sections": [1],
    "start": [0],
    "shifts": [1],
    "k": [2],
    "n": [2],
    "groups": [2],
    "size": [2],
    "step": [1],
    "diagonal": [0, 1],
    "offset": [0, 1],
    "upscale_factor": [2],
    "downscale_factor": [2],
    "decimals": [1],
    "p": [1, 3],
    "reduction": [1, 0, 2],
    "source": [0],
    "destination": [1],
}
LISTS = {
    "size": "shape",
    "shape": "shape",
    "sizes": "shape",
    "other_size": "shape",
    "dims": [[1, 0]],
    "kernel_size": [[2]],
    "output_size": [[2]],
    "repeats": [[2, 1]],
    "shifts": [[1]],
    "padding": [[1]],
    "pad": [[1, 1]],
    "indices": [[1]],
    "sections": [[1]],
    "dim": [[0], [-1]],
    "source": [[0, 1]],
    "destination": [[1, 0]],
}


class NoSamples(Exception):
    """There is no rule for an argument."""


def _alternatives(argument, shape, bounds, dtype):
    """Values of one argument, the usual one first."""
    kind, name = argument.type, argument.name
    if kind == "Tensor?":
        return [None, floats(*shape, low=bounds[0], high=bounds[1])(dtype)]
    if kind == "Tensor":
        if "mask" in name or name == "condition":
            return [tessera.arange(math.prod(shape)).reshape(shape) % 2 == 0]
        if name in ("index", "indices"):
            return [tessera.arange(math.prod(shape)).reshape(shape) % max(min(shape), 1)]
        return [floats(*shape, low=bounds[0], high=bounds[1])(dtype)]
    if kind == "Tensor[]":
        return [[floats(*shape, low=bounds[0], high=bounds[1])(dtype) for _ in range(2)]]
    if argument.has_default_value():
        return [argument.default_value] + ([not argument.default_value] if kind == "bool" else [])
    if kind.endswith("?"):
        return [None]
    if kind in ("int", "SymInt"):
        return INTEGERS.get(name, [1])
    if kind in ("float", "Scalar"):
        return [0.7]
    if kind == "Scalar[]":
        return [[0.7, 0.4]]
    if kind == "bool":
        return [False, True]
    if kind == "ScalarType":
        return [dtype]
    if kind.startswith(("int[", "SymInt[", "int1[")) and name in LISTS:
        return [list(shape)] if LISTS[name] == "shape" else LISTS[name]
    raise NoSamples(f"{kind} {name}")


def _made(value, dtype):
    if isinstance(value, list):
        return [_made(v, dtype) for v in value]
    return value(dtype) if isinstance(value, types.FunctionType) else value


def samples(schema, dtype):
    """[(arguments, the Given that they come from)]: the usual values, and each other value of each argument.

    Tensors that are differentiated are of the dtype. Raises: NoSamples.
    """
    name = schema.name.split("::")[1]
    known = SAMPLES.get(identify(schema)) or SAMPLES.get(name) or [None]
    shape = next((s for pattern, s in SHAPES if pattern.search(name)), (2, 3))
    bounds = DOMAINS.get(name.replace("_foreach_", "").rstrip("_"), (0.3, 0.9))
    found = []
    for fixed in (g for g in known if g is None or not (g.real and dtype.is_complex)):
        tessera.manual_seed(0)
        choices = []
        for a in schema.arguments:
            chosen = fixed is not None and a.name in fixed.arguments
            choices.append(
                [_made(fixed.arguments[a.name], dtype)] if chosen else _alternatives(a, shape, bounds, dtype)
            )
        usual = [c[0] for c in choices]
        given = fixed or Given()
        found.append((usual, given))
        if fixed is None:
            found += [(usual[:i] + [other] + usual[i + 1 :], given) for i, c in enumerate(choices) for other in c[1:]]
    return found
