"""Logs that TensorBoard shows: `SummaryWriter`. The package `tensorboard` writes them, so it has to be installed.

from tessera.utils.tensorboard import SummaryWriter
with SummaryWriter("runs/first") as writer:
    writer.add_scalar("loss", 0.5, global_step=1)
"""

import tensorboard

from tessera._lazy import attach as _attach


def _check_version(version):
    """Raises: ImportError for a version of the package that is too old."""
    parts = [int(part) for part in version.split(".")[:2] if part.isdigit()]
    if parts < [1, 15]:
        raise ImportError(f"TensorBoard logging requires TensorBoard version 1.15 or above, but there is {version}")


_check_version(tensorboard.__version__)

__all__ = ["FileWriter", "RecordWriter", "SummaryWriter"]  # noqa: F822
__getattr__, __dir__ = _attach(
    __name__,
    {
        "FileWriter": "writer",
        "SummaryWriter": "writer",
        "RecordWriter": ":tensorboard.summary.writer.record_writer",
    },
)
