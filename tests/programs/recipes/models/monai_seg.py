"""Networks, losses, transforms and metrics for medical images."""

from recipe import run, torch, train
import numpy as np
from monai.inferers import sliding_window_inference
from monai.losses import DiceCELoss, DiceLoss
from monai.metrics import DiceMetric, HausdorffDistanceMetric
from monai.networks.nets import DynUNet, SegResNet, UNet
from monai.transforms import Compose, EnsureChannelFirst, NormalizeIntensity, RandFlip, RandGaussianNoise, Rotate90

PACKAGES = {"monai": "1.6.1"}


def it():
    for make, loss in (
        (lambda: UNet(3, 1, 2, (8, 16, 32), (2, 2), num_res_units=1), DiceCELoss(to_onehot_y=True, softmax=True)),
        (lambda: SegResNet(3, 8, in_channels=1, out_channels=2), DiceLoss(to_onehot_y=True, softmax=True)),
    ):
        torch.manual_seed(0)
        model = make()
        size = (2, 1, 16, 16, 16)
        batches = lambda i: (torch.randn(size), torch.randint(0, 2, size))
        yield from train(model, batches, lambda m, b: loss(m(b[0]), b[1]), steps=8)
    model = DynUNet(2, 1, 2, [3, 3, 3], [1, 2, 2], [2, 2]).eval()
    with torch.no_grad():
        yield float(sliding_window_inference(torch.ones(1, 1, 40, 40), (16, 16), 2, model).square().mean())
    one_hot = torch.nn.functional.one_hot(torch.randint(0, 2, (2, 16, 16)), 2).movedim(-1, 1)
    other = one_hot.roll(1, 2)
    yield from DiceMetric()(one_hot, other).flatten().tolist()
    yield from HausdorffDistanceMetric()(one_hot, other).flatten().tolist()
    pipeline = Compose(
        [
            EnsureChannelFirst(channel_dim="no_channel"),
            NormalizeIntensity(),
            RandFlip(0.5),
            RandGaussianNoise(1.0),
            Rotate90(),
        ]
    ).set_random_state(0)
    yield float(pipeline(np.arange(256.0, dtype="float32").reshape(16, 16)).abs().sum())


run(it())
