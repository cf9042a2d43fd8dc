"""How modules are exported, and who wrote a file."""

import contextlib
import enum

import tessera

producer_name = "pytorch"
producer_version = "2.11.0"


class TrainingMode(enum.Enum):
    """In which mode a module is exported: as for inference, as it is, or as for training."""

    EVAL = 0
    PRESERVE = 1
    TRAINING = 2


class OperatorExportTypes(enum.Enum):
    """What becomes of operators: nodes of ONNX; the exporters make the first of these."""

    ONNX = 0
    ONNX_ATEN = 1
    ONNX_ATEN_FALLBACK = 2
    ONNX_FALLTHROUGH = 3


@contextlib.contextmanager
def select_model_mode_for_export(model, mode):
    """Context manager: a module is in the mode for its export, and as before afterwards.

    Args:
        model: Module; others stay as they are.
        mode: TrainingMode.
    """
    if not isinstance(mode, TrainingMode):
        raise TypeError(f"select_model_mode_for_export: mode: expected a TrainingMode, got {type(mode).__name__}")
    before = {m: m.training for m in model.modules()} if isinstance(model, tessera.nn.Module) else {}
    try:
        if before and mode is not TrainingMode.PRESERVE:
            model.train(mode is TrainingMode.TRAINING)
        yield
    finally:
        for module, training in before.items():
            module.training = training
