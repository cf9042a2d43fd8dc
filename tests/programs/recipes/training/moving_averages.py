"""Averages of weights, rotary embeddings, local and linear attention."""

from recipe import run, torch, train
from ema_pytorch import EMA
from linear_attention_transformer import LinearAttentionTransformerLM
from local_attention.transformer import LocalTransformer
from rotary_embedding_torch import RotaryEmbedding, apply_rotary_emb
from torch_ema import ExponentialMovingAverage

PACKAGES = {
    "ema-pytorch": "0.8.3",
    "torch-ema": "0.3",
    "rotary-embedding-torch": "0.9.1",
    "local-attention": "1.11.2",
    "linear-attention-transformer": "0.19.1",
}


def it():
    model = torch.nn.Linear(8, 1)
    one, other = (
        EMA(model, beta=0.9, update_after_step=2, update_every=1),
        ExponentialMovingAverage(model.parameters(), 0.9),
    )
    for loss in train(model, lambda i: torch.randn(4, 8), lambda m, b: m(b).square().mean(), steps=20, lr=1e-2):
        one.update()
        other.update()
        yield loss
    x = torch.ones(1, 8)
    yield float(one(x).detach())
    with other.average_parameters():
        yield float(model(x).detach())
    rotary = RotaryEmbedding(dim=16, use_xpos=True)
    for part in rotary.rotate_queries_and_keys(torch.randn(1, 2, 10, 32), torch.randn(1, 2, 10, 32)):
        yield float(part.detach().square().sum() + part.detach()[..., 3].sum())
    axial = RotaryEmbedding(dim=8, freqs_for="pixel", max_freq=16).get_axial_freqs(4, 4)
    yield float(apply_rotary_emb(axial, torch.ones(1, 4, 4, 32)).sum().detach())
    model = LocalTransformer(
        num_tokens=64, dim=32, depth=2, max_seq_len=32, causal=True, local_attn_window_size=8, heads=2, dim_head=16
    )
    yield from train(model, lambda i: torch.randint(0, 64, (2, 33)), lambda m, b: m(b, return_loss=True), steps=15)
    model = LinearAttentionTransformerLM(num_tokens=64, dim=32, heads=2, depth=1, max_seq_len=32, causal=True)
    yield from train(model, lambda i: torch.randint(0, 64, (2, 32)), lambda m, b: m(b).logsumexp(-1).mean(), steps=10)


run(it())
