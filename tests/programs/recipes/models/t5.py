"""T5 trains, then generates."""

from recipe import run, torch, train
from transformers import T5Config, T5ForConditionalGeneration


PACKAGES = {"transformers": "5.24.0"}

m = T5ForConditionalGeneration(
    T5Config(vocab_size=200, d_model=64, d_kv=16, d_ff=128, num_layers=2, num_heads=4, decoder_start_token_id=0)
)


def it():
    yield from train(
        m,
        lambda i: (torch.randint(0, 200, (4, 16)), torch.randint(0, 200, (4, 12))),
        lambda m, b: m(input_ids=b[0], labels=b[1]).loss,
    )
    m.eval()
    yield str(m.generate(torch.randint(2, 200, (2, 8)), max_new_tokens=12).tolist())


run(it())
