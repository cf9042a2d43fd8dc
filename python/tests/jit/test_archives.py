"""Archives that PyTorch 2.11 wrote (torchscript_archives.zip: scripted, traced and frozen models, with the results that
it computed) run here and give the same.
"""

import ast
import enum
import io
import json
import math
import pathlib
import zipfile

import pytest
import tessera

ARCHIVES = zipfile.ZipFile(pathlib.Path(__file__).with_name("torchscript_archives.zip"))
EXPECTED = json.loads(ARCHIVES.read("expected.json"))


def argument(spec):
    """["wave" | "count", shape, modulus] as a tensor; other things as they are."""
    if not (isinstance(spec, list) and spec and spec[0] in ("wave", "count")):
        return spec
    numbers = tessera.arange(math.prod(spec[1]))
    made = (numbers.to(tessera.float32) * 0.37).sin() if spec[0] == "wave" else numbers % 7
    made = made.reshape(spec[1])
    return made % spec[2] if spec[0] == "count" else made


def leaves(value):
    if isinstance(value, (list, tuple)):
        return [leaf for item in value for leaf in leaves(item)]
    if isinstance(value, dict):
        return [leaf for key, item in value.items() for leaf in [key, *leaves(item)]]
    return [value.name if isinstance(value, enum.Enum) else value]


def agrees(got, recorded):
    if not isinstance(recorded, tuple):
        return got == pytest.approx(recorded, abs=1e-4) if isinstance(recorded, float) else got == recorded
    dtype, shape, numbers = recorded
    mine = got.flatten().tolist()[:8]
    same = all(abs(a - b) < 2e-4 for a, b in zip(mine, numbers))
    return str(got.dtype).endswith(dtype) and list(got.shape) == shape and len(mine) == len(numbers) and same


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_an_archive_of_pytorch_gives_its_results(name):
    module = tessera.jit.load(io.BytesIO(ARCHIVES.read(f"{name}.pt")))
    recorded = ast.literal_eval(EXPECTED[name]["result"])
    again = io.BytesIO()
    tessera.jit.save(module, again)
    again.seek(0)
    for program in (module, tessera.jit.load(again)):
        with tessera.no_grad():
            got = leaves(program(*map(argument, EXPECTED[name]["args"])))
        assert len(got) == len(recorded) and all(map(agrees, got, recorded))
