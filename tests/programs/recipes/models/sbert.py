"""A sentence encoder embeds, and trains with negatives in the batch."""

from recipe import run, torch
import tempfile
from transformers import BertConfig, BertModel, BertTokenizer
from sentence_transformers import SentenceTransformer, models, losses, util


PACKAGES = {"sentence-transformers": "6.2.0", "transformers": "5.24.0"}

with tempfile.TemporaryDirectory() as d:
    open(d + "/vocab.txt", "w").write(
        "\n".join(
            ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
            + list("abcdefghijklmnopqrstuvwxyz")
            + ["##" + c for c in "abcdefghijklmnopqrstuvwxyz"]
        )
    )
    BertTokenizer(d + "/vocab.txt").save_pretrained(d)
    BertModel(
        BertConfig(vocab_size=57, hidden_size=32, num_hidden_layers=1, num_attention_heads=2, intermediate_size=64)
    ).save_pretrained(d)
    w = models.Transformer(d, max_seq_length=16)
    s = SentenceTransformer(modules=[w, models.Pooling(32)], device="cpu")

    def it():
        e = s.encode(["hello world", "a test", "hello word"], convert_to_tensor=True, show_progress_bar=False)
        yield float(e.abs().sum())
        yield float(util.cos_sim(e, e).sum())
        L = losses.MultipleNegativesRankingLoss(s)
        o = torch.optim.AdamW(s.parameters(), 1e-4)
        s.train()
        for i in range(20):
            f = [s.tokenize(t) for t in (["abc", "hello", "foo", "bar"], ["abd", "hallo", "fox", "baz"])]
            o.zero_grad()
            l = L(f, None)
            l.backward()
            o.step()
            yield float(l.detach())

    run(it())
