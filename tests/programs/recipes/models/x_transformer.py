"""A decoder with rotary positions and an encoder with memory tokens train; generation with a cache."""

from recipe import run, torch, train
from x_transformers import AutoregressiveWrapper, Decoder, Encoder, TransformerWrapper, XTransformer

PACKAGES = {"x-transformers": "2.31.10"}


def it():
    layers = Decoder(dim=32, depth=2, heads=4, attn_dim_head=8, rotary_pos_emb=True, ff_glu=True, use_rmsnorm=True)
    lm = AutoregressiveWrapper(TransformerWrapper(num_tokens=64, max_seq_len=32, attn_layers=layers))
    yield from train(lm, lambda i: torch.randint(0, 64, (4, 17)), lambda m, b: m(b))
    yield str(lm.generate(torch.randint(0, 64, (2, 3)), 12, temperature=0.0).tolist())
    layers = Encoder(dim=32, depth=1, heads=2, attn_num_mem_kv=4, alibi_pos_bias=True, sandwich_norm=True)
    encoder = TransformerWrapper(num_tokens=64, max_seq_len=32, num_memory_tokens=3, attn_layers=layers)
    yield from train(encoder, lambda i: torch.randint(0, 64, (4, 16)), lambda m, b: m(b).logsumexp(-1).mean(), steps=10)
    both = XTransformer(
        dim=32, enc_num_tokens=64, enc_depth=1, enc_heads=2, enc_max_seq_len=16,
        dec_num_tokens=64, dec_depth=1, dec_heads=2, dec_max_seq_len=16,
    )  # fmt: skip
    yield from train(both, lambda i: torch.randint(0, 64, (2, 4, 16)), lambda m, b: m(b[0], b[1]), steps=10)


run(it())
