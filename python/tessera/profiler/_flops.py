"""Floating point operations of an operator, estimated from the shapes of its arguments."""

import math


def _product(*shapes):
    return math.prod(n for shape in shapes for n in shape)


def _matrix(left, right, scale=2):
    if len(left) < 2 or len(right) < 2 or left[-1] != right[-2]:
        return 0
    return scale * _product(left) * right[-1]


def _convolution(shapes, values):
    image, weight = shapes[0], shapes[1]
    spatial = len(weight) - 2
    if spatial < 1 or len(image) != len(weight):
        return 0
    numbers = [value if isinstance(value, list) else [value] for value in values[3:6]]
    stride, padding, dilation = (
        (value * spatial)[:spatial] if value and value[0] is not None else [default] * spatial
        for value, default in zip([*numbers, [None]][:3], (1, 0, 1))
    )
    out = [
        (size + 2 * p - d * (kernel - 1) - 1) // s + 1
        for size, kernel, s, p, d in zip(image[2:], weight[2:], stride, padding, dilation)
    ]
    # The weight's second dimension is a group's share of the channels.
    return 2 * image[0] * _product(out) * _product(weight)


_FORMULAS = {
    "aten::mm": lambda shapes, values: _matrix(*shapes[:2]),
    "aten::addmm": lambda shapes, values: _matrix(*shapes[1:3]),
    "aten::bmm": lambda shapes, values: _matrix(*shapes[:2]),
    "aten::baddbmm": lambda shapes, values: _matrix(*shapes[1:3]),
    "aten::conv2d": _convolution,
    "aten::add": lambda shapes, values: _product(shapes[0]),
    "aten::mul": lambda shapes, values: _product(shapes[0]),
}


def flops(name, shapes, values):
    """An operator's operations: 2 for each multiplication with addition of a product of matrices or a convolution, 1
    for each element of `aten::add` and `aten::mul`; 0 for all others.

    Args:
        name: such as "aten::mm".
        shapes: for each argument a list of sizes.
        values: for each argument a number, a list of numbers or None.
    """
    formula = _FORMULAS.get(name)
    return formula(shapes, values) if formula is not None and shapes else 0
