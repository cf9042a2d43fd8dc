"""Nineteen metrics of classification, regression and images, and a collection."""

from recipe import run, torch
import torchmetrics as tm
from torchmetrics.image import PeakSignalNoiseRatio, StructuralSimilarityIndexMeasure


PACKAGES = {"torchmetrics": "1.9.0"}


def it():
    p = torch.randn(64, 5).softmax(1)
    t = torch.randint(0, 5, (64,))
    for c in (
        tm.Accuracy,
        tm.F1Score,
        tm.AUROC,
        tm.ConfusionMatrix,
        tm.Precision,
        tm.Recall,
        tm.CohenKappa,
        tm.MatthewsCorrCoef,
        tm.CalibrationError,
        tm.AveragePrecision,
    ):
        m = c(task="multiclass", num_classes=5)
        m.update(p[:32], t[:32])
        m.update(p[32:], t[32:])
        yield float(m.compute().float().sum())
    a, b = torch.randn(64), torch.randn(64)
    for c in (
        tm.MeanSquaredError,
        tm.R2Score,
        tm.PearsonCorrCoef,
        tm.SpearmanCorrCoef,
        tm.KendallRankCorrCoef,
        tm.ExplainedVariance,
        tm.ConcordanceCorrCoef,
    ):
        m = c()
        m(a, b)
        yield float(m.compute())
    x, y = torch.rand(2, 3, 32, 32), torch.rand(2, 3, 32, 32)
    for m in (PeakSignalNoiseRatio(data_range=1.0), StructuralSimilarityIndexMeasure(data_range=1.0)):
        yield float(m(x, y))
    mc = tm.MetricCollection(
        [tm.Accuracy(task="multiclass", num_classes=5), tm.F1Score(task="multiclass", num_classes=5)]
    )
    yield str({k: round(float(v), 5) for k, v in mc(p, t).items()})


run(it())
