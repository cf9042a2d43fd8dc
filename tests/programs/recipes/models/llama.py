"""Llama with grouped queries trains, then generates with growing and with static caches."""

from recipe import run, torch, train
from transformers import LlamaConfig, LlamaForCausalLM


PACKAGES = {"transformers": "5.24.0"}

m = LlamaForCausalLM(
    LlamaConfig(
        vocab_size=200,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
    )
)


def it():
    yield from train(m, lambda i: torch.randint(0, 200, (4, 32)), lambda m, b: m(b, labels=b).loss)
    m.eval()
    yield str(m.generate(torch.randint(0, 200, (2, 5)), max_new_tokens=20, do_sample=False, pad_token_id=0).tolist())
    yield str(
        m.generate(
            torch.randint(0, 200, (2, 5)),
            max_new_tokens=20,
            do_sample=False,
            pad_token_id=0,
            cache_implementation="static",
        ).tolist()
    )


run(it())
