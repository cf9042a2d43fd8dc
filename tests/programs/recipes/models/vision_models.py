"""Models of classification, segmentation and video train; transforms of images."""

from recipe import run, torch, train
import numpy as np
import torchvision
from PIL import Image
from torchvision.transforms import v2

PACKAGES = {"torchvision": "0.26.0"}


def it():
    for make, size in (
        (torchvision.models.resnet18, 64),
        (torchvision.models.mobilenet_v3_small, 64),
        (torchvision.models.shufflenet_v2_x0_5, 64),
        (torchvision.models.squeezenet1_1, 64),
        (torchvision.models.efficientnet_b0, 64),
        (torchvision.models.regnet_y_400mf, 64),
        (torchvision.models.densenet121, 64),
    ):
        torch.manual_seed(0)
        model = make(num_classes=5)
        batches = lambda i: (torch.randn(4, 3, size, size), torch.randint(0, 5, (4,)))
        yield from train(
            model, batches, lambda m, b: torch.nn.functional.cross_entropy(m(b[0]), b[1]), steps=3, lr=1e-4
        )
    torch.manual_seed(0)
    model = torchvision.models.segmentation.lraspp_mobilenet_v3_large(
        weights=None, weights_backbone=None, num_classes=3
    )
    batches = lambda i: (torch.randn(2, 3, 64, 64), torch.randint(0, 3, (2, 64, 64)))
    yield from train(
        model, batches, lambda m, b: torch.nn.functional.cross_entropy(m(b[0])["out"], b[1]), steps=3, lr=1e-4
    )
    picture = Image.fromarray(np.arange(48 * 40 * 3, dtype="uint8").reshape(48, 40, 3))
    for transform in (
        v2.RandomResizedCrop(24), v2.ColorJitter(0.4, 0.4, 0.4, 0.2), v2.RandomAffine(20, (0.1, 0.1), (0.8, 1.2), 10),
        v2.RandomPerspective(p=1.0), v2.GaussianBlur(5), v2.RandomErasing(1.0), v2.RandAugment(), v2.AutoAugment(),
        v2.ElasticTransform(), v2.RandomPosterize(4, 1.0), v2.RandomEqualize(1.0), v2.Grayscale(),
    ):  # fmt: skip
        torch.manual_seed(0)
        yield float(transform(v2.functional.to_dtype(v2.functional.to_image(picture), torch.uint8)).double().mean())
    both = torchvision.transforms.Compose(
        [torchvision.transforms.RandomRotation(30), torchvision.transforms.ToTensor()]
    )
    yield float(both(picture).mean())
    yield float(torchvision.ops.generalized_box_iou(torch.tensor([[0.0, 0, 2, 2]]), torch.tensor([[1.0, 1, 3, 3]])))
    yield float(torchvision.utils.make_grid(torch.ones(5, 3, 8, 8), nrow=2).sum())


run(it())
