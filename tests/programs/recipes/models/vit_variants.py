"""Six vision transformers train."""

from recipe import run, torch, train
from vit_pytorch import SimpleViT, ViT
from vit_pytorch.cait import CaiT
from vit_pytorch.cct import CCT
from vit_pytorch.deepvit import DeepViT
from vit_pytorch.t2t import T2TViT

PACKAGES = {"vit-pytorch": "1.26.14"}


def it():
    common = dict(image_size=32, patch_size=8, num_classes=5, dim=32, heads=2, mlp_dim=64)
    for make in (
        lambda: ViT(depth=2, dropout=0.1, **common),
        lambda: SimpleViT(depth=2, **common),
        lambda: DeepViT(depth=2, **common),
        lambda: CaiT(depth=1, cls_depth=1, layer_dropout=0.05, **common),
        lambda: T2TViT(dim=32, image_size=32, depth=1, heads=2, mlp_dim=32, num_classes=5, t2t_layers=((7, 4), (3, 2))),
        lambda: CCT((32, 32), num_classes=5, embedding_dim=32, num_layers=1, num_heads=2, mlp_ratio=2),
    ):
        torch.manual_seed(0)
        model = make()
        size = 32
        batches = lambda i: (torch.randn(4, 3, size, size), torch.randint(0, 5, (4,)))
        yield from train(
            model, batches, lambda m, b: torch.nn.functional.cross_entropy(m(b[0]), b[1]), steps=5, lr=3e-4
        )


run(it())
