"""Trains an MLP and a small CNN on the handwritten digits of this folder, and draws what they learned.

    python examples/digits/train.py [--out DIR] [--epochs N] [--seed N] [--model mlp|cnn|both]

Writes to DIR, for each model NAME, the checkpoint NAME.pt (a state dict), and one figure, digits.png.
"""

import argparse
import os
import struct
import sys
import time

import tessera
from tessera import nn
from tessera.nn import functional as F
from tessera.optim import Adam
from tessera.optim.lr_scheduler import CosineAnnealingLR
from tessera.utils.data import DataLoader, TensorDataset

FOLDER = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, FOLDER)

import figure  # noqa: E402

BATCH = 32


def read_digits(path):
    """The images as float32 (N, 8, 8) in [0, 1], the labels as int64 (N,). ValueError if the file is not a digits
    file.
    """
    with open(path, "rb") as file:
        data = file.read()
    if len(data) < 20 or data[:8] != b"DIGITS1\n":
        raise ValueError(f"{path} is not a digits file")
    count, height, width = struct.unpack_from("<III", data, 8)
    row = height * width + 1
    if len(data) != 20 + count * row:
        raise ValueError(f"{path} should have {20 + count * row} bytes, but has {len(data)}")
    table = tessera.frombuffer(bytearray(data), dtype=tessera.uint8, offset=20).reshape(count, row)
    return table[:, :-1].reshape(count, height, width).float() / 16, table[:, -1].long()


def split(images, labels):
    """Every fifth image is for testing: (training images, labels), (test images, labels)."""
    test = tessera.arange(len(images)) % 5 == 0
    return (images[~test], labels[~test]), (images[test], labels[test])


def make_mlp():
    return nn.Sequential(
        nn.Flatten(), nn.Linear(64, 256), nn.ReLU(), nn.Dropout(0.3), nn.Linear(256, 128), nn.ReLU(), nn.Linear(128, 10)
    )


def make_cnn():
    return nn.Sequential(
        nn.Unflatten(1, (1, 8)),
        nn.Conv2d(1, 16, 3, padding=1),
        nn.BatchNorm2d(16),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, padding=1),
        nn.BatchNorm2d(32),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Dropout(0.2),
        nn.Linear(128, 10),
    )


MODELS = {"mlp": make_mlp, "cnn": make_cnn}


def evaluate(model, images, labels):
    """Mean loss, and the predicted labels."""
    model.eval()
    with tessera.no_grad():
        scores = model(images)
        return F.cross_entropy(scores, labels).item(), scores.argmax(1)


def train(name, train_set, test_set, epochs, seed):
    """Trains one model; returns it with its history, a list of (training loss, test loss), and the predictions for the
    test set.
    """
    tessera.manual_seed(seed)
    model = MODELS[name]()
    optimizer = Adam(model.parameters(), lr=2e-3)
    scheduler = CosineAnnealingLR(optimizer, T_max=epochs)
    loader = DataLoader(TensorDataset(*train_set), batch_size=BATCH, shuffle=True)
    history = []
    for epoch in range(1, epochs + 1):
        model.train()
        total = 0.0
        for images, labels in loader:
            optimizer.zero_grad()
            loss = F.cross_entropy(model(images), labels)
            loss.backward()
            optimizer.step()
            total += loss.item() * len(labels)
        scheduler.step()
        test_loss, predicted = evaluate(model, *test_set)
        accuracy = (predicted == test_set[1]).float().mean().item()
        history.append((total / len(train_set[0]), test_loss))
        print(
            f"{name} epoch {epoch:2d}  loss {history[-1][0]:.4f}  test loss {test_loss:.4f}  test accuracy "
            f"{100 * accuracy:.2f} %"
        )
    return model, history, predicted


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--data", default=os.path.join(FOLDER, "digits.bin"))
    parser.add_argument("--out", default="digits_out", help="folder for the results (default: %(default)s)")
    parser.add_argument("--model", choices=[*MODELS, "both"], default="both")
    parser.add_argument("--epochs", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    if args.epochs < 1:
        parser.error(f"--epochs must be at least 1, not {args.epochs}")
    os.makedirs(args.out, exist_ok=True)

    train_set, test_set = split(*read_digits(args.data))
    print(f"{len(train_set[0])} images to learn from, {len(test_set[0])} to test with")
    panels = []
    for name in MODELS if args.model == "both" else [args.model]:
        start = time.perf_counter()
        model, history, predicted = train(name, train_set, test_set, args.epochs, args.seed)
        right = int((predicted == test_set[1]).sum())
        accuracy = right / len(predicted)
        print(
            f"{name}: test accuracy {100 * accuracy:.2f} % ({right} of {len(predicted)}), "
            f"{time.perf_counter() - start:.1f} s"
        )
        tessera.save(model.state_dict(), os.path.join(args.out, f"{name}.pt"))
        panels.append(
            figure.Panel(name.upper(), history, test_set[0].tolist(), test_set[1].tolist(), predicted.tolist())
        )
    path = os.path.join(args.out, "digits.png")
    figure.draw(panels, path)
    print(f"wrote {path}")


if __name__ == "__main__":
    main()
