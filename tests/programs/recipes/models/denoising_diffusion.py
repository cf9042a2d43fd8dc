"""Diffusion of images and of sequences: training, and samples of two kinds."""

from recipe import run, torch, train
from denoising_diffusion_pytorch import GaussianDiffusion, GaussianDiffusion1D, Unet, Unet1D

PACKAGES = {"denoising-diffusion-pytorch": "2.3.4"}


def it():
    unet = Unet(dim=8, dim_mults=(1, 2), channels=1, flash_attn=False)
    diffusion = GaussianDiffusion(unet, image_size=16, timesteps=50, sampling_timesteps=5)
    yield from train(diffusion, lambda i: torch.rand(2, 1, 16, 16), lambda m, b: m(b), steps=15)
    yield float(diffusion.sample(batch_size=1).square().mean())
    unet = Unet1D(dim=8, dim_mults=(1, 2), channels=2)
    diffusion = GaussianDiffusion1D(unet, seq_length=16, timesteps=20, objective="pred_v")
    yield from train(diffusion, lambda i: torch.rand(2, 2, 16), lambda m, b: m(b), steps=15)
    yield float(diffusion.sample(batch_size=1).square().mean())


run(it())
