"""Operations, layers in a network that trains, and a scripted layer."""

from recipe import run, torch, train
from einops import rearrange, reduce, repeat, einsum, pack, unpack
from einops.layers.torch import Rearrange, Reduce, EinMix


PACKAGES = {"einops": "0.8.2"}


def it():
    x = torch.randn(2, 3, 8, 8)
    yield float((rearrange(x, "b c (h p) (w q) -> b (h w) (p q c)", p=2, q=2) * torch.arange(12)).sum())
    yield float(reduce(x, "b c h w -> b c", "max").sum())
    yield float(repeat(x, "b c h w -> b (r c) h w", r=2).sum())
    yield float(einsum(x, x, "b c h w, b d h w -> b c d").sum())
    p, s = pack([x, x[:, :1]], "b * h w")
    yield str(p.shape)
    yield str([u.shape for u in unpack(p, s, "b * h w")])
    m = torch.nn.Sequential(
        torch.nn.Conv2d(3, 8, 3),
        Reduce("b c (h 2) (w 2) -> b c h w", "max"),
        Rearrange("b c h w -> b (c h w)"),
        torch.nn.Linear(72, 5),
        EinMix("b i -> b o", weight_shape="i o", bias_shape="o", i=5, o=3),
    )
    yield from train(
        m,
        lambda i: (torch.randn(4, 3, 8, 8), torch.randint(0, 3, (4,))),
        lambda m, b: torch.nn.functional.cross_entropy(m(b[0]), b[1]),
        steps=50,
    )
    yield float(torch.jit.script(Rearrange("b c h w -> b (c h w)"))(x).sum())


run(it())
