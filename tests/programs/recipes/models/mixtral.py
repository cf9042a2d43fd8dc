"""Mixtral, a mixture of experts, trains with its router's loss, then generates."""

from recipe import run, torch, train
from transformers import MixtralConfig, MixtralForCausalLM


PACKAGES = {"transformers": "5.24.0"}

m = MixtralForCausalLM(
    MixtralConfig(
        vocab_size=200,
        hidden_size=64,
        intermediate_size=96,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        num_local_experts=4,
        num_experts_per_tok=2,
        max_position_embeddings=64,
        output_router_logits=True,
    )
)


def it():
    yield from train(m, lambda i: torch.randint(0, 200, (4, 32)), lambda m, b: m(b, labels=b).loss)
    m.eval()
    yield str(m.generate(torch.randint(0, 200, (2, 5)), max_new_tokens=20, do_sample=False, pad_token_id=0).tolist())


run(it())
