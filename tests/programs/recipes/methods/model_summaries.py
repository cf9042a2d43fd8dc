"""What libraries tell of models: tables, numbers of parameters, checks of types."""

from recipe import run, torch
import contextlib
import io
import jaxtyping
import thop
import torchinfo
import torchsummary
import torchvision
from fvcore.nn import parameter_count_table
from jaxtyping import Float

PACKAGES = {
    "torchinfo": "1.8.0",
    "torchsummary": "1.5.1",
    "fvcore": "0.1.5.post20221221",
    "jaxtyping": "0.3.11",
    "thop": "0.1.1.post2209072238",
    "torchvision": "0.26.0",
}


def it():
    model = torchvision.models.resnet18(num_classes=5)
    x = torch.randn(1, 3, 64, 64)
    yield str(
        torchinfo.summary(
            model,
            (1, 3, 64, 64),
            verbose=0,
            depth=2,
            col_names=("input_size", "output_size", "num_params", "kernel_size", "mult_adds"),
        )
    )
    lstm = torch.nn.LSTM(8, 16, 2, batch_first=True, bidirectional=True)
    yield str(torchinfo.summary(lstm, (2, 5, 8), verbose=0))
    with contextlib.redirect_stdout(io.StringIO()) as text:
        torchsummary.summary(model, (3, 64, 64), device="cpu")
    yield text.getvalue()
    yield parameter_count_table(model, max_depth=2)
    yield from map(float, thop.profile(torchvision.models.mobilenet_v2(), (x,), verbose=False))

    @jaxtyping.jaxtyped(typechecker=None)
    def product(a: Float[torch.Tensor, "n k"], b: Float[torch.Tensor, "k m"]):  # noqa: F722
        return a @ b

    yield float(product(torch.ones(2, 3), torch.ones(3, 4)).sum())
    yield str(
        [
            isinstance(torch.ones(2, 3), Float[torch.Tensor, "2 3"]),
            isinstance(torch.ones(2), jaxtyping.Int[torch.Tensor, "2"]),
        ]
    )


run(it())
