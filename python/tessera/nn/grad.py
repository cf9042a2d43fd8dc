"""Gradients of convolutions with respect to their inputs and weights."""

import tessera

from .modules.utils import _pair, _single, _triple


def _conv_grad(ntuple, input, weight, grad_output, stride, padding, dilation, groups, mask):
    n = len(ntuple(0))
    grads = tessera.ops.aten.convolution_backward(
        grad_output,
        input,
        weight,
        None,
        ntuple(stride),
        ntuple(padding),
        ntuple(dilation),
        False,
        [0] * n,
        groups,
        mask,
    )
    return grads[0] if mask[0] else grads[1]


def _public(name, function):
    """The function under its public name, by which it is shown and pickled."""
    function.__name__ = function.__qualname__ = name
    return function


def _input(name, ntuple):
    def grad_input(input_size, weight, grad_output, stride=1, padding=0, dilation=1, groups=1):
        input = grad_output.new_empty(1).expand(input_size)
        return _conv_grad(ntuple, input, weight, grad_output, stride, padding, dilation, groups, (True, False, False))

    return _public(name, grad_input)


def _weight(name, ntuple):
    def grad_weight(input, weight_size, grad_output, stride=1, padding=0, dilation=1, groups=1):
        weight = grad_output.new_empty(1).expand(weight_size)
        return _conv_grad(ntuple, input, weight, grad_output, stride, padding, dilation, groups, (False, True, False))

    return _public(name, grad_weight)


conv1d_input, conv2d_input, conv3d_input = (
    _input("conv1d_input", _single),
    _input("conv2d_input", _pair),
    _input("conv3d_input", _triple),
)
conv1d_weight, conv2d_weight, conv3d_weight = (
    _weight("conv1d_weight", _single),
    _weight("conv2d_weight", _pair),
    _weight("conv3d_weight", _triple),
)
