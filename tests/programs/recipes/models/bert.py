"""BERT for classification trains."""

from recipe import run, torch, train
from transformers import BertConfig, BertForSequenceClassification


PACKAGES = {"transformers": "5.24.0"}

m = BertForSequenceClassification(
    BertConfig(
        vocab_size=200, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128, num_labels=3
    )
)
run(
    train(
        m,
        lambda i: (torch.randint(0, 200, (8, 24)), torch.randint(0, 3, (8,))),
        lambda m, b: m(b[0], attention_mask=torch.ones_like(b[0]), labels=b[1]).loss,
    )
)
