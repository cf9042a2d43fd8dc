"""Fifteen attributions of a small network."""

from recipe import run, torch
import numpy
from captum import attr

PACKAGES = {"captum": "0.9.0"}


def it():
    convolution = torch.nn.Conv2d(1, 4, 3)
    model = torch.nn.Sequential(
        convolution, torch.nn.ReLU(), torch.nn.MaxPool2d(2), torch.nn.Flatten(), torch.nn.Linear(36, 3)
    ).eval()
    linear = torch.nn.Sequential(torch.nn.Linear(64, 8), torch.nn.ReLU(), torch.nn.Linear(8, 3)).eval()
    x = torch.randn(2, 1, 8, 8)
    zero = torch.zeros_like(x)
    for method, arguments in (
        (attr.IntegratedGradients(model), dict(baselines=zero)),
        (attr.Saliency(model), {}),
        (attr.InputXGradient(model), {}),
        (attr.DeepLift(model), dict(baselines=zero)),
        (attr.DeepLiftShap(model), dict(baselines=torch.randn(4, 1, 8, 8))),
        (attr.GradientShap(model), dict(baselines=zero)),
        (attr.GuidedBackprop(model), {}),
        (attr.Deconvolution(model), {}),
        (attr.FeatureAblation(model), {}),
        (attr.Occlusion(model), dict(sliding_window_shapes=(1, 3, 3))),
        (attr.ShapleyValueSampling(model), dict(n_samples=2)),
        (attr.NoiseTunnel(attr.Saliency(model)), dict(nt_samples=3)),
        (
            attr.KernelShap(model),
            dict(
                n_samples=20,
                feature_mask=torch.arange(4).reshape(1, 1, 2, 2).repeat_interleave(4, 2).repeat_interleave(4, 3),
            ),
        ),
    ):
        torch.manual_seed(0)
        numpy.random.seed(0)
        found = method.attribute(x.clone(), target=1, **arguments)
        yield float(found.detach().abs().sum())
    yield float(attr.LRP(linear).attribute(x.flatten(1), target=1).detach().abs().sum())
    for method in (
        attr.LayerGradCam(model, convolution),
        attr.LayerActivation(model, convolution),
        attr.LayerConductance(model, convolution),
    ):
        found = method.attribute(x, **({} if isinstance(method, attr.LayerActivation) else {"target": 1}))
        yield float(found.detach().abs().sum())


run(it())
