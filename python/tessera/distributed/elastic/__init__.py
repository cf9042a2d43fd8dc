"""Programs that go on when processes fail, or machines come and go."""

from tessera._lazy import attach as _attach

__getattr__, __dir__ = _attach(__name__)
