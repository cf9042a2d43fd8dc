"""Nine image models of as many families train, and infer."""

from recipe import run, torch, train
import timm

PACKAGES = {"timm": "1.0.31", "torchvision": "0.26.0"}


def it():
    for name, kw in [
        ("resnet18", {}),
        ("vit_tiny_patch16_224", dict(img_size=64)),
        ("convnext_atto", {}),
        ("efficientnet_b0", {}),
        ("swin_tiny_patch4_window7_224", dict(img_size=56, depths=(1, 1), num_heads=(2, 4), embed_dim=32)),
        ("mobilenetv3_small_100", {}),
        ("mixer_s32_224", dict(img_size=64)),
        ("regnety_002", {}),
        ("resnet26d", {}),
    ]:
        torch.manual_seed(0)
        m = timm.create_model(name, num_classes=5, **kw)
        sz = kw.get("img_size", 64)
        yield from train(
            m,
            lambda i: (torch.randn(4, 3, sz, sz), torch.randint(0, 5, (4,))),
            lambda m, b: torch.nn.functional.cross_entropy(m(b[0]), b[1]),
            steps=4,
            lr=1e-4,
        )
        m.eval()
        with torch.no_grad():
            yield float(m(torch.ones(1, 3, sz, sz)).square().mean())


run(it())
