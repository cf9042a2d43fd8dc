"""`tag_activation_checkpoint`: a function whose steps are done again for gradients, as a captured program has it."""

import tessera
from tessera._higher_order_ops._operator import ControlFlow

__all__ = ["tag_activation_checkpoint"]

# In the `meta` of a function that is a graph: the option context_fn, and whether it writes to its arguments, such as
# statistics of a BatchNorm, which a second run would do again: such a function runs once.
CONTEXT, WRITES = "_checkpoint_context_fn", "_checkpoint_writes"


class TagActivationCheckpoint(ControlFlow):
    """`tag_activation_checkpoint(function, *tensors, **options)`: `torch.utils.checkpoint.checkpoint` with these
    options. Where operators are recorded they are those of the function: what is saved is decided on their graph.
    """

    def __init__(self):
        super().__init__("tag_activation_checkpoint")

    def run(self, function, /, *args, **options):
        meta = getattr(function, "meta", {})
        if meta.get(WRITES):
            return function(*args)
        if CONTEXT in meta:
            options["context_fn"] = meta[CONTEXT]
        return tessera.utils.checkpoint.checkpoint(function, *args, **options)

    def trace(self, mode, function, /, *args, **options):
        return function(*args)

    def _functional(self, function, /, *args, **options):
        return function(*args)


tag_activation_checkpoint = TagActivationCheckpoint()
