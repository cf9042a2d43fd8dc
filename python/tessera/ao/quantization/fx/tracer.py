"""Tracing for quantization: layers that are quantized stay whole."""

from tessera import fx
from tessera.ao.nn.intrinsic import _FusedModule
from tessera.ao.quantization.observer import _is_activation_post_process

__all__ = ["QuantizationTracer"]


class QuantizationTracer(fx.Tracer):
    """A Tracer that does not enter layers of the library, fused ones, observers, nor modules of these names and
    classes.
    """

    def __init__(self, skipped_module_names, skipped_module_classes):
        super().__init__()
        self.skipped_module_names, self.skipped_module_classes = skipped_module_names, skipped_module_classes

    def is_leaf_module(self, m, module_qualified_name):
        own = type(m).__module__.startswith(("tessera.nn.", "tessera.ao.nn.", "torch.nn.", "torch.ao.nn."))
        return (
            (own and not type(m).__name__ == "Sequential")
            or module_qualified_name in self.skipped_module_names
            or type(m) in tuple(self.skipped_module_classes)
            or isinstance(m, _FusedModule)
            or _is_activation_post_process(m)
        )
