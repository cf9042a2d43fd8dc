"""Tensors of nine dtypes and a module's weights go through files."""

from recipe import run, torch
import numpy  # noqa: F401 (safetensors imports it when it saves; PyTorch has it by then)
from safetensors.torch import save_file, load_file, safe_open, save, load, save_model, load_model
import tempfile


PACKAGES = {"safetensors": "0.8.0"}


def it():
    with tempfile.TemporaryDirectory() as d:
        s = {
            f"a{i}": torch.randn(3, i + 1).to(t)
            for i, t in enumerate(
                [
                    torch.float32,
                    torch.float16,
                    torch.bfloat16,
                    torch.float64,
                    torch.int64,
                    torch.int8,
                    torch.bool,
                    torch.uint8,
                    torch.float8_e4m3fn,
                ]
            )
        }
        save_file(s, d + "/x")
        for k, v in sorted(load_file(d + "/x").items()):
            yield f"{k} {v.dtype} {v.float().sum():.4f} {torch.equal(v.float(), s[k].float())}"
        with safe_open(d + "/x", "pt") as f:
            yield str(sorted(f.keys()))
            yield float(f.get_slice("a3")[1:, :2].sum())
        m = torch.nn.LSTM(3, 4)
        save_model(m, d + "/m")
        load_model(torch.nn.LSTM(3, 4), d + "/m")
        yield len(save(s))
        yield str(sorted(load(save(s))))


run(it())
