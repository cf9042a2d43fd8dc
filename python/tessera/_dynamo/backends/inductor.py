"""The default backend."""

__all__ = ["inductor"]

MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")


def inductor(gm, example_inputs, **options):
    """Runs the captured graph ahead of time: all of it is known, its operators run one by one, as eager does. Kernels
    that span several operators come with a planner.

    Args:
        gm: GraphModule. example_inputs: its inputs. options: settings of torch._inductor.config.
    """
    return gm.forward
