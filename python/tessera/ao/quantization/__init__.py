"""Marks in models that are to be quantized, and the base classes of what measures them. (Quantized kernels, and with
them `prepare` and `convert`, are still to come.)"""

from tessera._lazy import attach as _attach

__all__ = ["DeQuantStub", "FakeQuantizeBase", "ObserverBase", "QuantStub", "QuantWrapper"]

__getattr__, __dir__ = _attach(
    __name__,
    {
        "DeQuantStub": "stubs",
        "FakeQuantizeBase": "fake_quantize",
        "ObserverBase": "observer",
        "QuantStub": "stubs",
        "QuantWrapper": "stubs",
    },
)
