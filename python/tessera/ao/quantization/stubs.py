"""Marks in a model where numbers would become integers and floats again."""

from tessera.nn.modules.module import Module

__all__ = ["DeQuantStub", "QuantStub", "QuantWrapper"]


class _Stub(Module):
    def __init__(self, qconfig=None):
        super().__init__()
        if qconfig:
            self.qconfig = qconfig

    def forward(self, x):
        return x


class QuantStub(_Stub):
    """Where a tensor would be quantized; until a model is converted it gives its input. `qconfig`: how to quantize
    here, kept as an attribute; None: as the module around it.
    """


class DeQuantStub(_Stub):
    """Where a tensor would become floating again; until a model is converted it gives its input. `qconfig`: as for
    QuantStub.
    """


class QuantWrapper(Module):
    """A module between a QuantStub and a DeQuantStub, in the same mode (train or eval) as the module."""

    def __init__(self, module):
        super().__init__()
        qconfig = getattr(module, "qconfig", None)
        self.quant, self.dequant, self.module = QuantStub(qconfig), DeQuantStub(qconfig), module
        self.train(module.training)

    def forward(self, X):
        return self.dequant(self.module(self.quant(X)))
