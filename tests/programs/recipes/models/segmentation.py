"""Six networks for segmentation with their losses train."""

from recipe import run, torch, train
import segmentation_models_pytorch as smp

PACKAGES = {"segmentation-models-pytorch": "0.6.0", "timm": "1.0.31"}


def it():
    for network, loss in (
        (smp.Unet, smp.losses.DiceLoss("multiclass")),
        (smp.FPN, smp.losses.FocalLoss("multiclass")),
        (smp.DeepLabV3Plus, smp.losses.JaccardLoss("multiclass")),
        (smp.Linknet, smp.losses.LovaszLoss("multiclass")),
        (smp.PSPNet, smp.losses.TverskyLoss("multiclass")),
        (smp.MAnet, smp.losses.SoftCrossEntropyLoss(smooth_factor=0.1)),
    ):
        torch.manual_seed(0)
        model = network("resnet18", encoder_weights=None, classes=3)
        batches = lambda i: (torch.randn(2, 3, 64, 64), torch.randint(0, 3, (2, 64, 64)))
        yield from train(model, batches, lambda m, b: loss(m(b[0]), b[1]), steps=3, lr=1e-4)
    prediction, target = torch.rand(2, 1, 8, 8), torch.randint(0, 2, (2, 1, 8, 8))
    counts = smp.metrics.get_stats(prediction, target, mode="binary", threshold=0.5)
    yield str([c.tolist() for c in counts])
    yield float(smp.metrics.iou_score(*counts, reduction="micro"))


run(it())
