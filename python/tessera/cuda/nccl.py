"""Collectives among the tensors of one process, one on each device. They are made of peer copies and sums; the NCCL
library is needed only to tell its version.

`streams`: on which the work of each device runs, one for each input. `comms`, communicators of NCCL, there are none of:
giving any raises NotImplementedError.
"""

import contextlib
import ctypes
import warnings

import tessera

__all__ = ["all_reduce", "reduce", "broadcast", "all_gather", "reduce_scatter"]

SUM = 0


def version():
    """The version of the NCCL library as a tuple. Raises: RuntimeError where there is none."""
    for name in ("libnccl.so.2", "libnccl.so"):
        try:
            library = ctypes.CDLL(name)
        except OSError:
            continue
        number = ctypes.c_int()
        library.ncclGetVersion(ctypes.byref(number))
        n = number.value
        return (n // 10000, n // 100 % 100, n % 100) if n >= 10000 else (n // 1000, n // 100 % 10, n % 100)
    raise RuntimeError("the NCCL library is not installed")


def is_available(tensors):
    """Whether these tensors can take part: dense, contiguous, on different CUDA devices."""
    devices = set()
    for t in tensors:
        if t.is_sparse:
            return False
        if not t.is_contiguous():
            return False
        if not t.is_cuda:
            warnings.warn("collectives need CUDA tensors")
            return False
        if t.device in devices:
            return False
        devices.add(t.device)
    return bool(devices)


def _checked(name, tensors):
    if isinstance(tensors, tessera.Tensor) or not hasattr(tensors, "__len__"):
        raise TypeError(f"{name} should be a collection of tensors")
    if not is_available(tensors):
        raise RuntimeError(f"{name}: expected dense, contiguous tensors, each on a CUDA device of its own")
    return list(tensors)


def _check_sum(op):
    if op != SUM:
        raise NotImplementedError("only sums (op=0) are supported")


def _on(streams, comms, tensors):
    """Context manager: the work runs on the given streams, one for each tensor (None: the selected one of its
    device).
    """
    if comms is not None:
        raise NotImplementedError(
            "comms: there are no communicators of NCCL, the collectives are made of peer copies; leave the argument out"
        )
    context = contextlib.ExitStack()
    if streams is not None:
        if len(streams) != len(tensors):
            raise ValueError(f"streams: expected one for each of the {len(tensors)} inputs, but got {len(streams)}")
        for s, t in zip(streams, tensors):
            if s is not None and s.device != t.device:
                raise ValueError(f"streams: expected a stream of {t.device}, but got one of {s.device}")
            context.enter_context(tessera.cuda.stream(s))
    return context


def _total(tensors, device):
    total = tensors[0].to(device, copy=True)
    for t in tensors[1:]:
        total.add_(t.to(device))
    return total


@tessera.no_grad()
def all_reduce(inputs, outputs=None, op=SUM, streams=None, comms=None):
    """The sum of the inputs in every output (the inputs themselves by default)."""
    _check_sum(op)
    inputs = _checked("inputs", inputs)
    outputs = _checked("outputs", inputs if outputs is None else outputs)
    with _on(streams, comms, inputs):
        total = _total(inputs, inputs[0].device)
        for out in outputs:
            out.copy_(total)


@tessera.no_grad()
def reduce(inputs, output=None, root=0, op=SUM, streams=None, comms=None, *, outputs=None):
    """The sum of the inputs in `output` (by default the input of number `root`)."""
    _check_sum(op)
    inputs = _checked("inputs", inputs)
    if outputs is not None:
        if output is not None:
            raise ValueError(
                "'output' and 'outputs' can not be both specified. 'outputs' is deprecated in favor of 'output', "
                "taking in a single output tensor."
            )
        warnings.warn(
            "`nccl.reduce` with an output tensor list is deprecated. Please specify a single output tensor with "
            "argument 'output' instead instead.",
            FutureWarning,
            stacklevel=2,
        )
        output = outputs[root]
    out = inputs[root] if output is None else output
    with _on(streams, comms, inputs):
        out.copy_(_total(inputs, out.device))


@tessera.no_grad()
def broadcast(inputs, root=0, streams=None, comms=None):
    """The tensor of number `root` copied to all others."""
    inputs = _checked("inputs", inputs)
    with _on(streams, comms, inputs):
        for t in inputs:
            if t is not inputs[root]:
                t.copy_(inputs[root])


@tessera.no_grad()
def all_gather(inputs, outputs, streams=None, comms=None):
    """All inputs one behind the other in every output."""
    inputs, outputs = _checked("inputs", inputs), _checked("outputs", outputs)
    with _on(streams, comms, inputs):
        for out in outputs:
            for part, t in zip(out.view(-1).split([t.numel() for t in inputs]), inputs):
                part.copy_(t.view(-1))


@tessera.no_grad()
def reduce_scatter(inputs, outputs, op=SUM, streams=None, comms=None):
    """The sum of the inputs, cut into equal parts: output i gets part i."""
    _check_sum(op)
    inputs, outputs = _checked("inputs", inputs), _checked("outputs", outputs)
    with _on(streams, comms, inputs):
        total = _total(inputs, inputs[0].device).view(-1)
        for part, out in zip(total.chunk(len(outputs)), outputs):
            out.copy_(part.view_as(out))
