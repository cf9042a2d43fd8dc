"""A UNet learns noise; four schedulers and a pipeline sample with it."""

from recipe import run, torch, train
from diffusers import (
    UNet2DModel,
    DDPMScheduler,
    DDIMScheduler,
    DPMSolverMultistepScheduler,
    EulerDiscreteScheduler,
    DDPMPipeline,
)


PACKAGES = {"diffusers": "0.42.1"}

m = UNet2DModel(
    sample_size=16,
    in_channels=3,
    out_channels=3,
    layers_per_block=1,
    block_out_channels=(32, 32),
    down_block_types=("DownBlock2D", "AttnDownBlock2D"),
    up_block_types=("AttnUpBlock2D", "UpBlock2D"),
    norm_num_groups=8,
)
s = DDPMScheduler(num_train_timesteps=100)


def loss(m, b):
    x, n, t = b
    return torch.nn.functional.mse_loss(m(s.add_noise(x, n, t), t).sample, n)


def it():
    yield from train(
        m, lambda i: (torch.randn(2, 3, 16, 16), torch.randn(2, 3, 16, 16), torch.randint(0, 100, (2,))), loss, steps=20
    )
    m.eval()
    for S in (DDPMScheduler, DDIMScheduler, DPMSolverMultistepScheduler, EulerDiscreteScheduler):
        sch = S(num_train_timesteps=100)
        sch.set_timesteps(5)
        g = torch.Generator().manual_seed(0)
        x = torch.randn(1, 3, 16, 16, generator=g) * sch.init_noise_sigma
        for t in sch.timesteps:
            with torch.no_grad():
                e = m(sch.scale_model_input(x, t), t).sample
            x = sch.step(
                e, t, x, **({"generator": g} if S in (DDPMScheduler, DDIMScheduler, EulerDiscreteScheduler) else {})
            ).prev_sample
        yield float(x.square().mean())
    p = DDPMPipeline(m, s)
    p.set_progress_bar_config(disable=True)
    yield float(
        torch.tensor(
            p(generator=torch.Generator().manual_seed(0), num_inference_steps=3, output_type="np").images
        ).mean()
    )


run(it())
