"""Measures of images, and wavelets, with gradients."""

from recipe import run, torch
import lpips
import piqa
import pytorch_msssim
from pytorch_wavelets import DTCWTForward, DTCWTInverse, DWTForward, DWTInverse

PACKAGES = {"pytorch-msssim": "1.0.0", "piqa": "1.3.2", "lpips": "0.1.4", "pytorch-wavelets": "1.3.0"}


def it():
    x, y = torch.rand(2, 3, 192, 192), torch.rand(2, 3, 192, 192)
    y = (x + 0.3 * y).clamp(0, 1).requires_grad_()
    measures = [
        lambda a, b: pytorch_msssim.ssim(a, b, data_range=1.0),
        lambda a, b: pytorch_msssim.ms_ssim(a, b, data_range=1.0),
    ]
    measures += [
        piqa.PSNR(),
        piqa.SSIM(),
        piqa.MS_SSIM(),
        piqa.TV(),
        piqa.GMSD(),
        piqa.MDSI(),
        piqa.HaarPSI(),
        piqa.VSI(),
        piqa.FSIM(),
    ]
    for measure in measures:
        value = measure(y) if isinstance(measure, piqa.TV) else measure(x, y)
        (gradient,) = torch.autograd.grad(value, y)
        yield float(value.detach())
        yield float(gradient.abs().sum())
    torch.manual_seed(0)
    distance = lpips.LPIPS(net="squeeze", pretrained=False, pnet_rand=True, verbose=False).eval()
    yield float(distance(x[..., :64, :64], y.detach()[..., :64, :64]).sum().detach())
    small = x[..., :32, :32]
    low, high = DWTForward(J=2, wave="db3", mode="zero")(small)
    yield float(low.square().sum())
    yield float((DWTInverse(wave="db3", mode="zero")((low, high)) - small).abs().max() < 1e-4)
    low, high = DTCWTForward(J=2)(small)
    yield float(high[0].square().sum())
    yield float(DTCWTInverse()((low, high)).square().sum())


run(it())
