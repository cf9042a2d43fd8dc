"""Layers that are computed together: containers that fuse_modules() makes."""

from typing import TYPE_CHECKING, Any

import tessera
from tessera import nn
from tessera.nn import Sequential

_BN = {1: nn.BatchNorm1d, 2: nn.BatchNorm2d, 3: nn.BatchNorm3d}
_CONV = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}


class _FusedModule(Sequential):
    """Base of layers that follow each other and are quantized as one."""

    _expected: tuple = ()

    def _check(self, *modules):
        for module, kind in zip(modules, self._expected):
            if tessera.nn.utils.parametrize.type_before_parametrizations(module) is not kind:
                names = ", ".join(k.__name__ for k in self._expected)
                raise AssertionError(f"Incorrect types for input modules of {type(self).__name__}: expected {names}, "
                                     f"but got {', '.join(type(m).__name__ for m in modules)}")  # fmt: skip


def _made(name, names, kinds, doc):
    """A class whose constructor takes one module of each kind under these names."""
    arguments = ", ".join(names)
    space: dict = {}
    exec(  # noqa: S102
        f"def __init__(self, {arguments}):\n    self._check({arguments})\n    Base.__init__(self, {arguments})\n",
        {"Base": Sequential}, space,
    )  # fmt: skip
    return type(name, (_FusedModule,), {"__module__": __name__, "__doc__": doc, "__init__": space["__init__"],
                                        "_expected": kinds})  # fmt: skip


_plain = {}
for _n in (1, 2, 3):
    for _suffix, _names, _kinds in (
        ("ReLU", ("conv", "relu"), (_CONV[_n], nn.ReLU)),
        ("Bn", ("conv", "bn"), (_CONV[_n], _BN[_n])),
        ("BnReLU", ("conv", "bn", "relu"), (_CONV[_n], _BN[_n], nn.ReLU)),
    ):
        _plain[f"Conv{_suffix}{_n}d"] = (_names, _kinds)
for _n in (2, 3):
    _plain[f"BNReLU{_n}d"] = (("batch_norm", "relu"), (_BN[_n], nn.ReLU))
_plain["LinearReLU"] = (("linear", "relu"), (nn.Linear, nn.ReLU))
_plain["LinearBn1d"] = (("linear", "bn"), (nn.Linear, nn.BatchNorm1d))
_plain["LinearLeakyReLU"] = (("linear", "leaky_relu"), (nn.Linear, nn.LeakyReLU))
_plain["LinearTanh"] = (("linear", "tanh"), (nn.Linear, nn.Tanh))
for _name, (_names, _kinds) in _plain.items():
    globals()[_name] = _made(_name, _names, _kinds, " and ".join(k.__name__ for k in _kinds) + ", computed as one.")

if TYPE_CHECKING:

    def __getattr__(_name: str) -> Any:
        """The classes of the table, which are made when this is loaded."""


class ConvAdd2d(_FusedModule):
    """add(conv(x1), x2)."""

    def __init__(self, conv, add):
        super().__init__(conv)
        self.add = add

    def forward(self, x1, x2):
        return self.add(self[0](x1), x2)


class ConvAddReLU2d(_FusedModule):
    """relu(add(conv(x1), x2))."""

    def __init__(self, conv, add, relu):
        super().__init__(conv)
        self.add, self.relu = add, relu

    def forward(self, x1, x2):
        return self.relu(self.add(self[0](x1), x2))


__all__ = ["ConvAdd2d", "ConvAddReLU2d", *_plain]
