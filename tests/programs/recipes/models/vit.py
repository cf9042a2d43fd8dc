"""ViT trains on images."""

from recipe import run, torch, train
from transformers import ViTConfig, ViTForImageClassification


PACKAGES = {"transformers": "5.24.0"}

m = ViTForImageClassification(
    ViTConfig(
        hidden_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=128,
        image_size=32,
        patch_size=8,
        num_labels=4,
    )
)
run(train(m, lambda i: (torch.randn(8, 3, 32, 32), torch.randint(0, 4, (8,))), lambda m, b: m(b[0], labels=b[1]).loss))
