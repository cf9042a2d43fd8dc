"""GPT-2 with random weights: trains, then generates greedily, by sampling and with beams."""

from recipe import run, torch, train
from transformers import GPT2Config, GPT2LMHeadModel


PACKAGES = {"transformers": "5.24.0"}

m = GPT2LMHeadModel(GPT2Config(vocab_size=200, n_positions=64, n_embd=64, n_layer=2, n_head=4))


def it():
    yield from train(m, lambda i: torch.randint(0, 200, (4, 32)), lambda m, b: m(b, labels=b).loss)
    m.eval()
    torch.manual_seed(0)
    yield str(m.generate(torch.randint(0, 200, (2, 5)), max_new_tokens=20, do_sample=False, pad_token_id=0).tolist())
    yield str(
        m.generate(torch.randint(0, 200, (2, 5)), max_new_tokens=20, do_sample=True, top_k=20, pad_token_id=0).tolist()
    )
    yield str(m.generate(torch.randint(0, 200, (2, 5)), max_new_tokens=20, num_beams=3, pad_token_id=0).tolist())


run(it())
