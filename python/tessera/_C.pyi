# The extension module, as far as type checkers know it.
from typing import Any

def __getattr__(name: str) -> Any: ...
