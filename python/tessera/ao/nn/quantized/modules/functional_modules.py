"""Operators without a layer, as modules that observers can watch."""

import functools

import tessera
from tessera import nn
from tessera._root.held_classes import METHODS

from ..._quantized_ops import operators
from .utils import Numbered, qparams_of

__all__ = ["FXFloatFunctional", "FloatFunctional", "QFunctional"]


class FXFloatFunctional(nn.Module):
    """add, mul, cat ... of floats, for graphs: nothing is watched."""

    def forward(self, x):
        raise RuntimeError(f"{type(self).__name__} is not intended to use the forward. Please use the underlying "
                           "operation")  # fmt: skip

    def add(self, x, y):
        """x + y."""
        return tessera.add(x, y)

    def add_scalar(self, x, y):
        """x + y with a number y."""
        return tessera.add(x, y)

    def mul(self, x, y):
        """x * y."""
        return tessera.mul(x, y)

    def mul_scalar(self, x, y):
        """x * y with a number y."""
        return tessera.mul(x, y)

    def cat(self, x, dim=0):
        """The tensors of the list x behind each other."""
        return tessera.cat(x, dim=dim)

    def add_relu(self, x, y):
        """relu(x + y)."""
        return nn.functional.relu(tessera.add(x, y))

    def matmul(self, x, y):
        """The matrix product."""
        return tessera.matmul(x, y)


class FloatFunctional(FXFloatFunctional):
    """add, mul, cat ... of floats whose results `activation_post_process` watches; convert() makes it a QFunctional."""

    def __init__(self):
        super().__init__()
        self.activation_post_process = nn.Identity()


_NAMES = ("add", "add_scalar", "mul", "mul_scalar", "cat", "add_relu", "matmul")


def _methods(cls, body):
    """A method for each operator, `body(the one of floats, name)`, with the signature of the one of floats."""
    for name in _NAMES:
        plain = getattr(FXFloatFunctional, name)
        made = functools.wraps(plain)(body(plain, name))
        made.__qualname__ = f"{cls.__name__}.{name}"
        setattr(cls, name, made)


def _watching(plain, _name):
    return lambda self, *args, **kwargs: self.activation_post_process(plain(self, *args, **kwargs))


_methods(FloatFunctional, _watching)


class QFunctional(Numbered):
    """add, mul, cat ... of quantized tensors, quantized by `scale` and `zero_point`."""

    def __init__(self):
        super().__init__()
        self.scale, self.zero_point = 1.0, 0
        self.activation_post_process = nn.Identity()

    def _get_name(self):
        return "QFunctional"

    def extra_repr(self):
        return f"scale={self.scale}, zero_point={self.zero_point}"

    def forward(self, x):
        raise RuntimeError("Functional is not intended to use the forward. Please use the underlying operation")

    @classmethod
    def from_float(cls, mod, use_precomputed_fake_quant=False):
        """Of a FloatFunctional whose results were observed. AssertionError for others."""
        if type(mod) is not FloatFunctional:
            raise AssertionError("QFunctional.from_float expects an instance of FloatFunctional")
        made = cls()
        made.scale, made.zero_point = qparams_of(mod)
        return made


def _on_integers(_plain, name):
    operator = getattr(operators, name)
    if name.endswith("_scalar"):
        return lambda self, x, y: operator(x, y)

    def on_two(self, x, y):
        return self.activation_post_process(operator(x, y, scale=self.scale, zero_point=self.zero_point))

    def joined(self, x, dim=0):
        return self.activation_post_process(operator(x, dim, scale=self.scale, zero_point=self.zero_point))

    return joined if name == "cat" else on_two


_methods(QFunctional, _on_integers)
for _name in _NAMES:
    if _name.endswith("_scalar"):
        METHODS[QFunctional, _name] = f"""def {_name}(self, x: Tensor, y: float) -> Tensor:
    return torch.ops.quantized.{_name}(x, y)
"""
    else:
        _given = "x: List[Tensor], dim: int = 0" if _name == "cat" else "x: Tensor, y: Tensor"
        METHODS[QFunctional, _name] = f"""def {_name}(self, {_given}) -> Tensor:
    made = torch.ops.quantized.{_name}(x, {"dim" if _name == "cat" else "y"}, self.scale, self.zero_point)
    return self.activation_post_process(made)
"""
