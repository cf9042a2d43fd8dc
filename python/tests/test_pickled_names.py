"""Whatever the package offers by name is pickled by that name: functions, types, dtypes, methods, operators.

The names are those that the process shows. A pickle of a plain process names `tessera.*` and is read by plain processes
and under the alias; one made under the alias
(`python -m tessera`) names `torch.*` where PyTorch has the name. `save` writes PyTorch's names in both, and `load`
reads both.
"""

import copy
import importlib
import io
import pickle
import pkgutil
import subprocess
import sys
import types

import pytest
import tessera
import tessera.nn.functional as F
from tessera._ops import ops

VALUES = (tessera.dtype, tessera.layout, tessera.memory_format)


def public_modules():
    names = [
        m.name
        for m in pkgutil.walk_packages(tessera.__path__, "tessera.")
        if not any(part.startswith("_") for part in m.name.split(".")[1:])
    ]
    return ["tessera", *names]


def is_ours(value):
    where = getattr(value, "__module__", None)
    return where is None or str(where).partition(".")[0] in ("tessera", "torch")


def offered():
    """{documented name: callable, type, dtype ...} of all public modules, of Tensor, and of ops.aten."""
    found = {}
    for name in public_modules():
        module = importlib.import_module(name)
        for attribute in dir(module):
            value = None if attribute.startswith("_") else getattr(module, attribute, None)
            if (callable(value) and not isinstance(value, types.ModuleType) or isinstance(value, VALUES)) and is_ours(
                value
            ):
                found[f"{name}.{attribute}"] = value
    for attribute in dir(tessera.Tensor):
        value = getattr(tessera.Tensor, attribute)
        if callable(value) and not attribute.startswith("__"):
            found[f"tessera.Tensor.{attribute}"] = value
    for name in dir(ops.aten):
        packet = found[f"tessera.ops.aten.{name}"] = getattr(ops.aten, name)
        found.update(
            (f"tessera.ops.aten.{name}.{overload}", getattr(packet, overload)) for overload in packet.overloads()
        )
    return found


def round_trips(value):
    """What is wrong with pickling and copying `value`; empty if nothing."""
    wrong = []
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        try:
            if pickle.loads(pickle.dumps(value, protocol)) is not value:
                wrong.append(f"protocol {protocol}: another object")
        except Exception as error:  # any of them is what this test is about
            wrong.append(f"protocol {protocol}: {error}")
    if copy.deepcopy(value) is not value or copy.copy(value) is not value:
        wrong.append("copied")
    return wrong


def test_all_public_names():
    found = offered()
    assert len(found) > 4500 and all(
        name in found
        for name in (
            "tessera.nn.functional.gelu",
            "tessera.special.erf",
            "tessera.linalg.matmul",
            "tessera.float32",
            "tessera.strided",
            "tessera.Size",
            "tessera.OutOfMemoryError",
            "tessera.Tensor.unique",
            "tessera.Tensor.add_",
            "tessera.ops.aten.add",
            "tessera.ops.aten.add.Tensor",
            "tessera.nn.Linear",
            "tessera.optim.Adam",
        )
    )
    wrong = {name: problems for name, value in found.items() if (problems := round_trips(value))}
    assert not wrong


NAMES = [
    "tessera.nn.functional.gelu",
    "tessera.nn.functional.relu",
    "tessera.nn.functional.scaled_dot_product_attention",
    "tessera.special.entr",
    "tessera.linalg.matmul",
    "tessera.add",
    "tessera.Tensor.add_",
    "tessera.Tensor.unique",
    "tessera.float32",
    "tessera.bfloat16",
    "tessera.strided",
    "tessera.channels_last",
    "tessera.Size",
    "tessera.dtype",
    "tessera.device",
    "tessera.Generator",
    "tessera.OutOfMemoryError",
    "tessera.linalg.LinAlgError",
    "tessera.nn.Linear",
    "tessera.nn.grad.conv2d_input",
    "tessera.ops.aten.add",
    "tessera.ops.aten.add.Tensor",
    "tessera.Tensor",
]
CHILD = """
import functools, pickle, sys
mode, action, path = sys.argv[1:4]
if mode == "alias":
    import tessera._alias
    tessera._alias.install()
import tessera
def find(name):
    value, module = tessera, "tessera"
    for part in name.split(".")[1:]:
        value = getattr(value, part)
    return value
if action == "write":
    pickle.dump([(name, pickle.dumps(find(name))) for name in sys.argv[4:]], open(path, "wb"))
else:
    given = pickle.load(open(path, "rb"))
    for name, data in given:
        # a fresh process: nothing but the pickle says what has to be imported
        value = pickle.loads(data)
        assert value is find(name), (name, value)
    print(len(given))
"""


def in_child(*arguments):
    run = subprocess.run([sys.executable, "-c", CHILD, *arguments], capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr
    return run.stdout


@pytest.mark.parametrize("writer, reader", [("plain", "plain"), ("plain", "alias"), ("alias", "alias")])
def test_between_processes(writer, reader, tmp_path):
    path = str(tmp_path / "names.pkl")
    in_child(writer, "write", path, *NAMES)
    assert in_child(reader, "read", path) == f"{len(NAMES)}\n"


def test_save_writes_the_names_of_pytorch():
    for protocol in (2, 4):
        file = io.BytesIO()
        tessera.save(
            [F.gelu, F.relu, tessera.special.entr, tessera.Tensor.add_, tessera.float32, tessera.nn.Linear],
            file,
            pickle_protocol=protocol,
        )
        data = file.getvalue()
        assert b"torch._C._nn" in data and b"torch.nn.functional" in data and b"tessera." not in data
        file.seek(0)
        assert tessera.load(file, weights_only=False) == [
            F.gelu,
            F.relu,
            tessera.special.entr,
            tessera.Tensor.add_,
            tessera.float32,
            tessera.nn.Linear,
        ]


@pytest.mark.parametrize("activation", ["gelu", "relu", F.gelu])
def test_a_module_that_holds_a_function(activation):
    layer = tessera.nn.TransformerEncoderLayer(8, 2, 16, activation=activation, batch_first=True).eval()
    x = tessera.rand(2, 3, 8)
    file = io.BytesIO()
    tessera.save(layer, file)
    file.seek(0)
    for twin in (pickle.loads(pickle.dumps(layer)), copy.deepcopy(layer), tessera.load(file, weights_only=False)):
        assert twin.activation is layer.activation and tessera.equal(twin(x), layer(x))


class Double(tessera.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2


def test_functions_of_users():
    assert pickle.loads(pickle.dumps(Double)) is Double
    assert pickle.loads(pickle.dumps(Double.apply))(tessera.ones(2)).tolist() == [2, 2]
