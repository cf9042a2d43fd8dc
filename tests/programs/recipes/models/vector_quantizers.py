"""Autoencoders through seven quantizers train."""

from recipe import run, torch, train
from vector_quantize_pytorch import (
    FSQ,
    LFQ,
    LatentQuantize,
    RandomProjectionQuantizer,
    ResidualVQ,
    SimVQ,
    VectorQuantize,
)

PACKAGES = {"vector-quantize-pytorch": "1.32.0"}


def it():
    for make in (
        lambda: VectorQuantize(dim=16, codebook_size=32),
        lambda: VectorQuantize(dim=16, codebook_size=32, kmeans_init=True, use_cosine_sim=True),
        lambda: ResidualVQ(dim=16, num_quantizers=3, codebook_size=16),
        lambda: SimVQ(dim=16, codebook_size=32),
        lambda: FSQ(levels=[5, 5, 5], dim=16),
        lambda: LFQ(dim=16, codebook_size=64),
        lambda: LatentQuantize(levels=[5, 5, 8], dim=16),
    ):
        torch.manual_seed(0)
        model = torch.nn.ModuleList([torch.nn.Linear(8, 16), make(), torch.nn.Linear(16, 8)])

        def loss(m, x):
            inner = m[0](x)
            if isinstance(m[1], LatentQuantize):
                quantized, _, more = m[1](inner.transpose(1, 2))
                quantized = quantized.transpose(1, 2)
            elif isinstance(m[1], FSQ):
                quantized, more = m[1](inner)[0], torch.zeros(())
            else:
                quantized, _, more = m[1](inner)
            return (m[2](quantized) - x).square().mean() + more.sum()

        yield from train(model, lambda i: torch.randn(4, 10, 8), loss, steps=15)
    yield str(
        RandomProjectionQuantizer(dim=8, num_codebooks=2, codebook_dim=4, codebook_size=16)(
            torch.randn(2, 5, 8)
        ).tolist()
    )


run(it())
