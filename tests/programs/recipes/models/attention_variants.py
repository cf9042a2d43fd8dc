"""Performer and Reformer train."""

from recipe import run, torch, train
from performer_pytorch import PerformerLM
from reformer_pytorch import ReformerLM

PACKAGES = {"performer-pytorch": "1.1.4", "reformer-pytorch": "1.4.4"}


def it():
    batches = lambda i: torch.randint(0, 64, (2, 32))
    entropy = lambda m, b: torch.nn.functional.cross_entropy(m(b[:, :]).transpose(1, 2), b.roll(-1, 1))
    for causal in (False, True):
        torch.manual_seed(0)
        model = PerformerLM(num_tokens=64, max_seq_len=32, dim=32, depth=1, heads=2, dim_head=16, causal=causal)
        yield from train(model, batches, entropy, steps=15)
    model = ReformerLM(num_tokens=64, dim=32, depth=2, max_seq_len=32, heads=2, bucket_size=8, n_hashes=2, causal=True)
    yield from train(model, batches, entropy, steps=15)


run(it())
