"""Types of annotations."""

from typing import Union

from .fake_quantize import FakeQuantizeBase
from .observer import ObserverBase

ObserverOrFakeQuantize = Union[ObserverBase, FakeQuantizeBase]
