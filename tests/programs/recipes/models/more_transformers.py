"""Eleven further architectures train."""

from recipe import run, torch, train
import transformers

PACKAGES = {"transformers": "5.24.0"}


def it():
    small = dict(vocab_size=96, hidden_size=32, num_hidden_layers=2, num_attention_heads=4, intermediate_size=64)
    for name, options in (
        ("Gemma2", dict(num_key_value_heads=2, head_dim=8, sliding_window=8)),
        ("Qwen3", dict(num_key_value_heads=2, head_dim=8)),
        ("Phi", {}),
        ("GPTNeoX", {}),
        ("OPT", dict(ffn_dim=64, word_embed_proj_dim=32)),
        ("Bloom", dict(n_layer=2, n_head=4)),
        ("Mamba", dict(state_size=4)),
        ("Falcon", {}),
        ("StableLm", dict(num_key_value_heads=4)),
    ):
        torch.manual_seed(0)
        config = getattr(transformers, f"{name}Config")(**{**small, **options, "pad_token_id": 0})
        model = getattr(transformers, f"{name}ForCausalLM")(config)
        yield from train(model, lambda i: torch.randint(1, 96, (2, 16)), lambda m, b: m(b, labels=b).loss, steps=6)
    for name in ("Roberta", "Electra", "DistilBert", "Albert", "Deberta"):
        torch.manual_seed(0)
        options = dict(dim=32, n_layers=2, n_heads=4, hidden_dim=64) if name == "DistilBert" else {}
        config = getattr(transformers, f"{name}Config")(**{**small, **options, "embedding_size": 32, "pad_token_id": 0})
        model = getattr(transformers, f"{name}ForMaskedLM")(config)
        yield from train(model, lambda i: torch.randint(1, 96, (2, 16)), lambda m, b: m(b, labels=b).loss, steps=6)


run(it())
