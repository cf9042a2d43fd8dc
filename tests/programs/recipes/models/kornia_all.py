"""Filters, colours, geometry, morphology, augmentation; a rotation is fitted."""

from recipe import run, torch
import kornia as K
import kornia.augmentation as A


PACKAGES = {"kornia": "0.9.0"}


def it():
    x = torch.rand(2, 3, 32, 32)
    for f in (
        lambda x: K.filters.gaussian_blur2d(x, (5, 5), (1.5, 1.5)),
        K.filters.sobel,
        lambda x: K.filters.canny(x)[0],
        K.color.rgb_to_hsv,
        K.color.rgb_to_lab,
        lambda x: K.geometry.rotate(x, torch.tensor([30.0, 45.0])),
        lambda x: K.geometry.resize(x, (20, 20)),
        lambda x: K.filters.median_blur(x, (3, 3)),
        lambda x: K.morphology.dilation(x, torch.ones(3, 3)),
        lambda x: K.feature.harris_response(x[:, :1]),
        lambda x: K.losses.ssim_loss(x, x.flip(-1), 5),
        lambda x: K.geometry.warp_perspective(x, torch.eye(3)[None].repeat(2, 1, 1) + 0.01, (32, 32)),
        lambda x: K.enhance.equalize_clahe(x),
    ):
        yield float(f(x).float().square().mean())
    torch.manual_seed(0)
    aug = A.AugmentationSequential(
        A.RandomHorizontalFlip(p=0.5),
        A.RandomAffine(20.0, p=1.0),
        A.ColorJitter(0.1, 0.1, 0.1, 0.1, p=1.0),
        A.RandomErasing(p=1.0),
        data_keys=["input"],
    )
    yield float(aug(x).mean())
    w = torch.zeros(2, 3, requires_grad=True)
    o = torch.optim.Adam([w], 1e-2)
    for i in range(20):
        o.zero_grad()
        R = K.geometry.axis_angle_to_rotation_matrix(w)
        l = (R - torch.eye(3).flip(0)).square().sum()
        l.backward()
        o.step()
        yield float(l.detach())


run(it())
