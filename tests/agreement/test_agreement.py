"""C++ and Python agree, layer by layer and schedule by schedule: the program `agreement` builds the C++ class of each
layer of tessera.nn with the same options and the same seed; parameters,
buffers, descriptions and results must have the same bits.

Cases come from the signatures: each option that C++ takes, at other values than its default. What C++ lacks stands in
LACKING and LACKING_OPTIONS, which must be exact.
"""

import inspect
import pathlib
import re
import struct
import subprocess
import sys

import pytest
import tessera
from tessera import nn
from tessera.optim import lr_scheduler

ROOT = pathlib.Path(__file__).resolve().parents[2]

# What every case of a layer has: values of options without a default, and the sizes of the examples ("4:2,3" are
# numbers below 4).
IMAGE = "2,4,9,8"
EXAMPLES = {
    "Linear": {"in_features": 5, "out_features": 3, "input": "2,5"},
    "Conv2d": {"in_channels": 4, "out_channels": 6, "kernel_size": 3, "input": IMAGE},
    "BatchNorm1d": {"num_features": 4, "input": "5,4,3"},
    "BatchNorm2d": {"num_features": 4, "input": IMAGE},
    "LayerNorm": {"normalized_shape": (3, 4), "input": "2,3,4"},
    "MaxPool2d": {"kernel_size": 3, "input": IMAGE},
    "AvgPool2d": {"kernel_size": 3, "input": IMAGE},
    "Embedding": {"num_embeddings": 7, "embedding_dim": 3, "input": "7:2,5"},
    "CrossEntropyLoss": {"input": "6,4", "target": "4:6"},
    "NLLLoss": {"input": "6,4", "target": "4:6"},
    "MSELoss": {"input": "3,5", "target": "3,5"},
}
ANY = {"input": "3,4,5"}
# Other values of options, by name.
VALUES = {
    "affine": [False],
    "approximate": ["tanh"],
    "bias": [False],
    "ceil_mode": [True],
    "count_include_pad": [False],
    "dilation": [2],
    "divisor_override": [5],
    "dtype": ["float64"],
    "elementwise_affine": [False],
    "end_dim": [1],
    "eps": [0.25],
    "groups": [2],
    "ignore_index": [1],
    "inplace": [True],
    "kernel_size": [2, (3, 2)],
    "label_smoothing": [0.25],
    "momentum": [0.3, None],
    "p": [0.0, 0.25],
    "padding": [1, (1, 0)],
    "padding_idx": [2, -1],
    "reduction": ["sum", "none"],
    "scale_grad_by_freq": [True],
    "start_dim": [0],
    "stride": [2, (1, 3)],
    "track_running_stats": [False],
    "weight": [(1.0, 2.0, 0.5, 3.0)],
}
# They hold what they are given.
HOLDERS = {"Module", "Container", "Sequential", "ModuleList", "ModuleDict", "ParameterList", "ParameterDict"}
# Layers that have no C++ class.
LACKING = set(
    """
    AdaptiveAvgPool1d AdaptiveAvgPool2d AdaptiveAvgPool3d AdaptiveLogSoftmaxWithLoss AdaptiveMaxPool1d
    AdaptiveMaxPool2d AdaptiveMaxPool3d AlphaDropout AvgPool1d AvgPool3d BCELoss BCEWithLogitsLoss BatchNorm3d
    Bilinear CELU CTCLoss ChannelShuffle CircularPad1d CircularPad2d CircularPad3d ConstantPad1d ConstantPad2d
    ConstantPad3d Conv1d Conv3d ConvTranspose1d ConvTranspose2d ConvTranspose3d CosineEmbeddingLoss
    CosineSimilarity CrossMapLRN2d Dropout1d Dropout2d Dropout3d ELU EmbeddingBag FeatureAlphaDropout Fold
    FractionalMaxPool2d FractionalMaxPool3d GLU GRU GRUCell GaussianNLLLoss GroupNorm Hardshrink Hardsigmoid
    Hardswish Hardtanh HingeEmbeddingLoss HuberLoss InstanceNorm1d InstanceNorm2d InstanceNorm3d KLDivLoss
    L1Loss LPPool1d LPPool2d LPPool3d LSTM LSTMCell LazyBatchNorm1d LazyBatchNorm2d LazyBatchNorm3d LazyConv1d
    LazyConv2d LazyConv3d LazyConvTranspose1d LazyConvTranspose2d LazyConvTranspose3d LazyInstanceNorm1d
    LazyInstanceNorm2d LazyInstanceNorm3d LazyLinear LeakyReLU LocalResponseNorm LogSigmoid LogSoftmax
    MarginRankingLoss MaxPool1d MaxPool3d MaxUnpool1d MaxUnpool2d MaxUnpool3d Mish
    MultiLabelMarginLoss MultiLabelSoftMarginLoss MultiMarginLoss MultiheadAttention NLLLoss2d PReLU
    PairwiseDistance PixelShuffle PixelUnshuffle PoissonNLLLoss RMSNorm RNN
    RNNBase RNNCell RNNCellBase RReLU ReLU6 ReflectionPad1d ReflectionPad2d ReflectionPad3d ReplicationPad1d
    ReplicationPad2d ReplicationPad3d SELU SiLU SmoothL1Loss SoftMarginLoss Softmax Softmax2d
    Softmin Softplus Softshrink Softsign SyncBatchNorm Tanhshrink Threshold Transformer TransformerDecoder
    TransformerDecoderLayer TransformerEncoder TransformerEncoderLayer TripletMarginLoss
    TripletMarginWithDistanceLoss Unflatten Unfold Upsample UpsamplingBilinear2d UpsamplingNearest2d ZeroPad1d
    ZeroPad2d ZeroPad3d
""".split()
)
# Options of Python's layers that the C++ class does not take.
LACKING_OPTIONS = {
    "Conv2d": {"padding_mode"},
    "MaxPool2d": {"return_indices"},
    "Identity": {"args", "kwargs"},
    "Tanh": {"args", "kwargs"},
    "Sigmoid": {"args", "kwargs"},
    "Dropout": {"inplace"},
    "Embedding": {"_freeze", "_weight", "max_norm", "norm_type", "sparse"},
    "CrossEntropyLoss": {"reduce", "size_average"},
    "NLLLoss": {"reduce", "size_average"},
    "MSELoss": {"reduce", "size_average"},
}
# Schedules: the same. Every one is told `lr` and the number of steps.
SCHEDULES = {
    "StepLR": {"step_size": 3},
    "MultiStepLR": {"milestones": (2, 5, 5)},
    "ConstantLR": {},
    "LinearLR": {},
    "ExponentialLR": {"gamma": 0.9},
    "PolynomialLR": {},
    "LambdaLR": {},
    "CosineAnnealingLR": {"T_max": 4},
    "CosineAnnealingWarmRestarts": {"T_0": 3},
    "ReduceLROnPlateau": {"patience": 1},
}
SCHEDULE_VALUES = {
    "T_0": [5],
    "T_max": [3, 7],
    "T_mult": [2],
    "cooldown": [2],
    "end_factor": [0.9],
    "eps": [0.25],
    "eta_min": [0.125],
    "factor": [0.5],
    "gamma": [0.3],
    "milestones": [(1,), (4, 2)],
    "min_lr": [0.1],
    "mode": ["max"],
    "patience": [3],
    "power": [1.5],
    "start_factor": [0.2],
    "step_size": [5],
    "threshold": [0.5],
    "threshold_mode": ["abs"],
    "total_iters": [3, 8],
}
LACKING_SCHEDULES = set("ChainedScheduler CyclicLR LRScheduler MultiplicativeLR OneCycleLR SequentialLR".split())
# LambdaLR's function is the same in both languages: 1 / (1 + epoch).
LACKING_SCHEDULE_OPTIONS = {name: {"last_epoch"} for name in SCHEDULES if name != "ReduceLROnPlateau"}
LACKING_SCHEDULE_OPTIONS["LambdaLR"] |= {"lr_lambda"}
STEPS = 20


def layers():
    """Name -> class of Python's layers."""
    found = {name: getattr(nn, name) for name in nn.modules.__all__}
    return {name: cls for name, cls in found.items() if name not in HOLDERS}


def options_of(cls, *without):
    names = list(inspect.signature(cls).parameters)
    return [name for name in names if name not in without]


def text(value):
    """An option as the program reads it."""
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def told(kind, name, options):
    return " ".join([kind, name, *(f"{option}={text(value)}" for option, value in options.items())])


@pytest.fixture(scope="module")
def program():
    """A function from lines to what the program answers to each."""
    option = f"--repo_env=TESSERA_PYTHON={sys.executable}"
    build = ["bazel", "build", option, "//tests/agreement"]
    subprocess.run(build, check=True, capture_output=True, text=True, cwd=ROOT)
    where = subprocess.run(
        ["bazel", "info", option, "bazel-bin"], check=True, capture_output=True, text=True, cwd=ROOT
    ).stdout.strip()

    def ask(*lines):
        out = subprocess.run(
            [pathlib.Path(where) / "tests" / "agreement" / "agreement"],
            input="\n".join(lines) + "\n",
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        answers = [answer.strip("\n").split("\n") for answer in re.split(r"^end$", out, flags=re.M)][:-1]
        assert len(answers) == len(lines), out[-500:]
        return answers

    return ask


@pytest.fixture(scope="module")
def there(program):
    """{"layer" | "schedule": {name: the options that C++ takes}}."""
    (lines,) = program("list")
    found = {"layer": {}, "schedule": {}}
    for line in lines:
        kind, name, *options = line.split()
        found[kind][name] = set(options)
    return found


def test_what_cpp_lacks_is_what_the_lists_say(there):
    ours = layers()
    assert set(ours) - set(there["layer"]) == LACKING
    assert set(there["layer"]) <= set(ours)
    lacking = {n: set(options_of(ours[n], "device")) - takes for n, takes in there["layer"].items()}
    assert {n: options for n, options in lacking.items() if options} == LACKING_OPTIONS
    assert all(takes <= set(options_of(ours[n])) for n, takes in there["layer"].items())


def test_which_schedules_cpp_lacks(there):
    assert set(lr_scheduler.__all__) - set(there["schedule"]) == LACKING_SCHEDULES
    assert set(there["schedule"]) == set(SCHEDULES)
    for name, takes in there["schedule"].items():
        options = set(options_of(getattr(lr_scheduler, name), "optimizer"))
        assert options - takes == LACKING_SCHEDULE_OPTIONS.get(name, set()), name
        assert takes <= options | {"lr"}, name


def test_the_program_knows_every_class_of_the_headers(there):
    """A layer that is added to the headers has to be added to the program."""
    headers = "".join((ROOT / "nn" / "modules" / name).read_text() for name in ("layers.h", "loss.h"))
    classes = set(re.findall(r"^class (\w+) : public \w+", headers, re.M)) - {"BatchNorm", "Loss", "Sequential"}
    assert classes == set(there["layer"])
    schedules = (ROOT / "optim" / "optimizers" / "lr_scheduler.h").read_text()
    assert set(re.findall(r"^(?:struct|class) (\w*(?:LR|Restarts|Plateau))\b", schedules, re.M)) == set(SCHEDULES)


def cases_of(fixed, takes, values, without=()):
    """Options of each case: the fixed ones alone, then with each other value of each option."""
    cases = [fixed]
    for option in sorted(takes - set(without)):
        assert option in fixed or option in values, f"no value to test {option} with"
        cases += [{**fixed, option: value} for value in values.get(option, ())]
    return cases


def example(sizes, dtype):
    count, _, shape = sizes.rpartition(":")
    shape = [int(n) for n in shape.split(",")]
    if count:
        return (tessera.arange(tessera.Size(shape).numel()) % int(count)).view(shape)
    return tessera.empty(shape, dtype=dtype).normal_()


def shown(what, tensor):
    tensor = tensor.detach().contiguous()
    data = bytes(tensor.view(-1).view(tessera.uint8).tolist()) if tensor.numel() else b""
    return f"{what} {','.join(map(str, tensor.shape))} {data.hex()}"


def expected(cls, options):
    """The lines that the program has to write."""
    options = dict(options)
    sizes, target = options.pop("input"), options.pop("target", None)
    tessera.manual_seed(options.pop("seed"))
    if "dtype" in options:
        options["dtype"] = getattr(tessera, options["dtype"])
    if "weight" in options:
        options["weight"] = tessera.tensor(options["weight"])
    layer = cls(**options)
    with tessera.no_grad():
        lines = [f"repr {layer!r}"]
        lines += [shown(f"parameter {name}", t) for name, t in layer.named_parameters()]
        lines += [shown(f"buffer {name}", t) for name, t in layer.named_buffers()]
        dtype = options.get("dtype", tessera.float32)
        x = example(sizes, dtype)
        if target is not None:
            lines.append(shown("training", layer(x, example(target, dtype))))
        else:
            lines += [shown("training", layer(x.clone())), shown("evaluation", layer.eval()(x.clone()))]
        lines += [shown(f"then {name}", t) for name, t in layer.named_buffers()]
    return lines


def test_layers_have_the_same_bits(program, there):
    cases = [
        (name, {"seed": seed, **options})
        for name, takes in there["layer"].items()
        for seed, options in enumerate(cases_of(EXAMPLES.get(name, ANY), takes, VALUES))
    ]
    assert len(cases) > 2 * len(there["layer"])
    answers = program(*(told("layer", *case) for case in cases))
    for (name, options), answer in zip(cases, answers):
        wanted = expected(getattr(nn, name), options)
        assert [line.strip() for line in answer] == [line.strip() for line in wanted], (name, options)


def rates(name, options):
    parameter = nn.Parameter(tessera.ones(1))
    optimizer = tessera.optim.SGD([parameter], lr=options["lr"])
    given = {n: list(v) if isinstance(v, tuple) else v for n, v in options.items() if n not in ("lr", "steps")}
    if name == "LambdaLR":
        given["lr_lambda"] = lambda epoch: 1.0 / (1 + epoch)
    schedule = getattr(lr_scheduler, name)(optimizer, **given)
    found = [optimizer.param_groups[0]["lr"]]
    for epoch in range(options["steps"]):
        optimizer.step()
        schedule.step(*([1.0 + epoch % 3] if name == "ReduceLROnPlateau" else []))
        found.append(optimizer.param_groups[0]["lr"])
    return found


def test_schedules_have_the_same_bits(program, there):
    cases = [
        (name, {"lr": 0.7, "steps": STEPS, **options})
        for name, takes in there["schedule"].items()
        for options in cases_of(SCHEDULES[name], takes, SCHEDULE_VALUES, without=["lr"])
    ]
    answers = program(*(told("schedule", *case) for case in cases))
    for (name, options), answer in zip(cases, answers):
        got = [float.fromhex(line) for line in answer]
        assert len(got) == STEPS + 1, answer
        assert list(map(struct.Struct("d").pack, got)) == list(map(struct.Struct("d").pack, rates(name, options))), (
            name,
            options,
        )
