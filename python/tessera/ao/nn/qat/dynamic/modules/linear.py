"""Linear for training with dynamic quantization in mind."""

from ...modules import linear

__all__ = ["Linear"]


class Linear(linear.Linear):
    """A Linear whose weight is rounded in training; its input is left alone. ValueError for activations that are not
    dynamic.
    """

    def __init__(self, in_features, out_features, bias=True, qconfig=None, device=None, dtype=None):
        super().__init__(in_features, out_features, bias, qconfig, device, dtype)
        watch = qconfig.activation()
        if getattr(watch, "averaging_constant", getattr(
                getattr(watch, "activation_post_process", None), "averaging_constant", 1)) != 1:  # fmt: skip
            raise ValueError("Dynamic QAT requires a memoryless observer. This means a MovingAverage observer with "
                             "averaging constant equal to 1")  # fmt: skip
