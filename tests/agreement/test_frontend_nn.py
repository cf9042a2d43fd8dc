"""The modules of the C++ front end are Python's: the program `frontend_nn` makes each of torch::nn with random options
and a seed, calls it in training and evaluation, and goes back through it; parameters, buffers, results and gradients
must have the same bits in Python. What one refuses, the other refuses.
"""

import inspect
import pathlib
import random
import re
import subprocess
import sys

import pytest
import tessera
from tessera import nn

ROOT = pathlib.Path(__file__).resolve().parents[2]
CASES = 8  # of each module

# Name -> (what every case has, its inputs by the words that the program reads).
ANY, PLAIN = "n3,4,6", {}
LINE, IMAGE, CUBE = "n2,4,9", "n2,4,9,8", "n1,4,5,6,5"
SPATIAL = {"1d": LINE, "2d": IMAGE, "3d": CUBE}
CHANNELS = {"in_channels": 4, "out_channels": 6, "kernel_size": 3}
RECURRENT = {"input_size": 4, "hidden_size": 3}
ATTENTION = {"d_model": 8, "nhead": 2, "dim_feedforward": 6}
PAIR = "n6,4;n6,4"
EXAMPLES = {
    "AdaptiveAvgPool": {"output_size": 2},
    "AdaptiveMaxPool": {"output_size": 2},
    "AvgPool": {"kernel_size": 3},
    "BatchNorm": {"num_features": 4},
    "CircularPad": {"padding": 1},
    "ConstantPad": {"padding": 1, "value": 0.5},
    "Conv": CHANNELS,
    "ConvTranspose": CHANNELS,
    "InstanceNorm": {"num_features": 4},
    "LPPool": {"norm_type": 2, "kernel_size": 3},
    "MaxPool": {"kernel_size": 3},
    "ReflectionPad": {"padding": 1},
    "ReplicationPad": {"padding": 1},
    "ZeroPad": {"padding": 1},
}
EXAMPLES = {kind + n: (fixed, inputs) for kind, fixed in EXAMPLES.items() for n, inputs in SPATIAL.items()} | {
    "AdaptiveLogSoftmaxWithLoss": ({"in_features": 4, "n_classes": 9, "cutoffs": (3, 6)}, "n7,4;9:7"),
    "BCELoss": (PLAIN, "u6,4;u6,4"),
    "BCEWithLogitsLoss": (PLAIN, "n6,4;u6,4"),
    "Bilinear": ({"in1_features": 4, "in2_features": 3, "out_features": 2}, "n5,4;n5,3"),
    "CTCLoss": (PLAIN, "l7,2,5;4:2,3;7:2;3:2"),
    "ChannelShuffle": ({"groups": 2}, IMAGE),
    "CosineEmbeddingLoss": (PLAIN, "n6,4;n6,4;s6"),
    "CosineSimilarity": (PLAIN, PAIR),
    "CrossEntropyLoss": (PLAIN, "n6,4;4:6"),
    "CrossMapLRN2d": ({"size": 3}, IMAGE),
    "Dropout2d": (PLAIN, IMAGE),
    "Dropout3d": (PLAIN, CUBE),
    "Embedding": ({"num_embeddings": 7, "embedding_dim": 3}, "7:2,5"),
    "EmbeddingBag": ({"num_embeddings": 7, "embedding_dim": 3}, "7:4,5"),
    "FeatureAlphaDropout": (PLAIN, CUBE),
    "Fold": ({"output_size": (4, 5), "kernel_size": 2}, "n2,8,12"),
    "FractionalMaxPool2d": ({"kernel_size": 2, "output_size": 3}, IMAGE),
    "FractionalMaxPool3d": ({"kernel_size": 2, "output_size": 2}, CUBE),
    "GRU": (RECURRENT, "n5,2,4"),
    "GRUCell": (RECURRENT, "n2,4"),
    "GaussianNLLLoss": (PLAIN, "n6,4;n6,4;a6,4"),
    "GroupNorm": ({"num_groups": 2, "num_channels": 4}, IMAGE),
    "HingeEmbeddingLoss": (PLAIN, "n6,4;s6,4"),
    "HuberLoss": (PLAIN, PAIR),
    "KLDivLoss": (PLAIN, "l6,4;u6,4"),
    "L1Loss": (PLAIN, PAIR),
    "LSTM": (RECURRENT, "n5,2,4"),
    "LSTMCell": (RECURRENT, "n2,4"),
    "LayerNorm": ({"normalized_shape": (4, 6)}, ANY),
    "Linear": ({"in_features": 6, "out_features": 3}, ANY),
    "LocalResponseNorm": ({"size": 3}, IMAGE),
    "MSELoss": (PLAIN, PAIR),
    "MarginRankingLoss": (PLAIN, "n6;n6;s6"),
    "MaxUnpool1d": ({"kernel_size": 2}, "a2,4,5;10:2,4,5"),
    "MaxUnpool2d": ({"kernel_size": 2}, "a2,2,3,4;12:2,2,3,4"),
    "MaxUnpool3d": ({"kernel_size": 2}, "a1,2,2,3,2;12:1,2,2,3,2"),
    "MultiLabelMarginLoss": (PLAIN, "n6,4;4:6,4"),
    "MultiLabelSoftMarginLoss": (PLAIN, "n6,4;u6,4"),
    "MultiMarginLoss": (PLAIN, "n6,4;4:6"),
    "MultiheadAttention": ({"embed_dim": 8, "num_heads": 2}, "n5,2,8;n5,2,8;n5,2,8"),
    "NLLLoss": (PLAIN, "l6,4;4:6"),
    "PairwiseDistance": (PLAIN, PAIR),
    "PixelShuffle": ({"upscale_factor": 2}, IMAGE),
    "PixelUnshuffle": ({"downscale_factor": 2}, "n2,2,4,6"),
    "PoissonNLLLoss": (PLAIN, "n6,4;a6,4"),
    "RMSNorm": ({"normalized_shape": (4, 6)}, ANY),
    "RNN": (RECURRENT, "n5,2,4"),
    "RNNCell": (RECURRENT, "n2,4"),
    "SmoothL1Loss": (PLAIN, PAIR),
    "SoftMarginLoss": (PLAIN, "n6,4;s6,4"),
    "Softmax2d": (PLAIN, IMAGE),
    "Transformer": ({**ATTENTION, "num_encoder_layers": 1, "num_decoder_layers": 1}, "n5,2,8;n4,2,8"),
    "TransformerDecoderLayer": (ATTENTION, "n4,2,8;n5,2,8"),
    "TransformerEncoderLayer": (ATTENTION, "n5,2,8"),
    "TripletMarginLoss": (PLAIN, "n6,4;n6,4;n6,4"),
    "TripletMarginWithDistanceLoss": (PLAIN, "n6,4;n6,4;n6,4"),
    "Threshold": ({"threshold": 0.2, "value": -0.5}, ANY),
    "Unflatten": ({"dim": 1, "unflattened_size": (2, 2)}, ANY),
    "Unfold": ({"kernel_size": 2}, IMAGE),
    "Upsample": ({"scale_factor": (2.0, 1.5)}, IMAGE),
}
# Values of options: by the module's name and its own, or for all modules that have it.
VALUES = {
    "AdaptiveAvgPool2d.output_size": [(3, 2), (None, 4)],
    "AdaptiveMaxPool3d.output_size": [(3, None, 2)],
    "AdaptiveLogSoftmaxWithLoss.cutoffs": [(2,), (2, 4, 7)],
    "ConvTranspose1d.output_padding": [1],
    "CrossMapLRN2d.k": [2],
    "CosineSimilarity.dim": [0, -1],
    "EmbeddingBag.mode": ["sum", "mean", "max"],
    "EmbeddingBag.padding_idx": [2, -1],
    "Flatten.start_dim": [0],
    "GLU.dim": [0, 1],
    "GroupNorm.num_groups": [1, 4],
    "KLDivLoss.reduction": ["none", "batchmean", "sum"],
    "LayerNorm.normalized_shape": [(6,), (3, 4, 6)],
    "RMSNorm.normalized_shape": [(6,), (3, 4, 6)],
    "LocalResponseNorm.size": [2, 5],
    "MaxPool2d.padding": [1, (1, 0)],
    "MultiMarginLoss.p": [2],
    "PReLU.num_parameters": [4],
    "PairwiseDistance.p": [1.0, 3.0],
    "Unflatten.dim": [2],
    "Unflatten.unflattened_size": [(2, 3), (3, 2)],
    "TripletMarginLoss.p": [1.0, 3.0],
    "Upsample.mode": ["bilinear", "bicubic", "nearest"],
    "activation": ["gelu", "relu"],
    "add_bias_kv": [True],
    "add_zero_attn": [True],
    "affine": [True, False],
    "align_corners": [True, False],
    "alpha": [0.25, 2.0],
    "approximate": ["tanh"],
    "batch_first": [True],
    "beta": [0.5, 2.0],
    "bias": [False],
    "bidirectional": [True],
    "blank": [4],
    "ceil_mode": [True],
    "count_include_pad": [False],
    "cutoffs": [(2,)],
    "delta": [0.5],
    "dilation": [2],
    "dim": [0, 1, -1],
    "div_value": [2.0],
    "divisor_override": [5],
    "dropout": [0.0, 0.5],
    "elementwise_affine": [False],
    "end_dim": [1],
    "eps": [0.25, 1e-3],
    "full": [True],
    "groups": [2],
    "head_bias": [True],
    "ignore_index": [1],
    "include_last_offset": [False],
    "init": [0.5],
    "inplace": [True],
    "k": [2.0],
    "kdim": [8],
    "keepdim": [True],
    "kernel_size": [2],
    "label_smoothing": [0.25],
    "lambd": [0.125],
    "log_input": [False],
    "log_target": [True],
    "lower": [0.0],
    "margin": [0.25, 1.5],
    "max_norm": [1.0],
    "max_val": [0.5],
    "min_val": [-0.25],
    "mode": ["bilinear"],
    "momentum": [0.3],
    "negative_slope": [0.5],
    "nonlinearity": ["relu", "tanh"],
    "norm_type": [1.0, 3.0],
    "num_layers": [2],
    "num_parameters": [1],
    "output_padding": [0],
    "output_ratio": [],
    "output_size": [3],
    "p": [0.0, 0.25],
    "padding": [0, 1, 2],
    "padding_idx": [2, -1],
    "padding_mode": ["reflect", "replicate", "circular"],
    "pos_weight": [(1.0, 2.0, 0.5, 3.0)],
    "proj_size": [2],
    "reduction": ["sum", "none", "mean"],
    "scale_factor": [(1.0, 2.0)],
    "scale_grad_by_freq": [True],
    "size": [],
    "start_dim": [0],
    "stride": [1, 2],
    "swap": [True],
    "threshold": [0.5],
    "track_running_stats": [True, False],
    "upper": [0.75],
    "value": [1.5],
    "vdim": [8],
    "weight": [(1.0, 2.0, 0.5, 3.0)],
    "zero_infinity": [True],
}
# Options that only Python's modules have.
PYTHON_ONLY = set(
    "args kwargs device dtype size_average reduce return_indices sparse _weight _freeze _random_samples batch_first "
    "norm_first layer_norm_eps bias recurrent_dropout custom_encoder custom_decoder distance_function "
    "recompute_scale_factor padding_mode divisor_override activation inplace output_ratio".split()
)
# What the program leaves out: they hold what they are given, or are others under another name.
LEFT_OUT = re.compile(
    "Lazy|Parallel|SyncBatchNorm|^(Module|Sequential|(Module|Parameter)(List|Dict)|Container|RNNBase|RNNCellBase|"
    "NLLLoss2d|Upsampling.*|Transformer(En|De)coder)$"
)


@pytest.fixture(scope="module")
def program():
    """A function from lines to what the program answers to each."""
    option = f"--repo_env=TESSERA_PYTHON={sys.executable}"
    build = ["bazel", "build", option, "//tests/agreement:frontend_nn"]
    built = subprocess.run(build, capture_output=True, text=True, cwd=ROOT)
    assert built.returncode == 0, built.stderr[-4000:]
    where = subprocess.run(
        ["bazel", "info", option, "bazel-bin"], check=True, capture_output=True, text=True, cwd=ROOT
    ).stdout.strip()

    def ask(*lines):
        binary, text = f"{where}/tests/agreement/frontend_nn", "\n".join(lines) + "\n"
        out = subprocess.run([binary], input=text, check=True, capture_output=True, text=True).stdout
        answers = [answer.strip("\n").split("\n") for answer in re.split(r"^end$", out, flags=re.M)][:-1]
        assert len(answers) == len(lines), out[-500:]
        return answers

    return ask


@pytest.fixture(scope="module")
def there(program):
    """{module: the options that C++ takes}."""
    (lines,) = program("list")
    return {name: options for name, *options in map(str.split, lines)}


def test_every_module_is_compared(there):
    wanted = {name for name in nn.modules.__all__ if not LEFT_OUT.search(name)}
    assert wanted == set(there)
    for name, takes in there.items():
        options = set(inspect.signature(getattr(nn, name)).parameters)
        if not {"args", "kwargs"} <= options:
            assert set(takes) <= options, name
            assert options - set(takes) <= PYTHON_ONLY, name


def cases(name, takes):
    """Options of each case: what it has to have, and others at random."""
    fixed, _ = EXAMPLES.get(name, (PLAIN, ANY))
    draw = random.Random(name)
    for i in range(CASES if takes else 1):
        options = dict(fixed)
        for option in takes:
            values = VALUES.get(f"{name}.{option}") or VALUES.get(option, ())
            assert option in fixed or f"{name}.{option}" in VALUES or option in VALUES, f"no value to test {name}.{option} with"
            if i > 0 and values and draw.random() < 0.5:
                options[option] = draw.choice(values)
        yield {**options, "seed": draw.randrange(1000)}


def text(value):
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def example(form):
    count, _, sizes = form.rpartition(":")
    shape = [int(n) for n in sizes.lstrip("nuasl").split(",")]
    if count:
        return (tessera.arange(tessera.Size(shape).numel()) % int(count)).view(shape)
    t = tessera.randn(shape)
    kinds = {"u": tessera.sigmoid, "a": tessera.abs, "s": tessera.sign, "l": lambda t: t.log_softmax(-1)}
    return kinds.get(form[0], lambda t: t)(t)


def shown(what, tensor):
    tensor = tensor.detach().contiguous()
    data = bytes(tensor.view(-1).view(tessera.uint8).tolist()) if tensor.numel() else b""
    return f"{what} {','.join(map(str, tensor.shape))} {data.hex()}"


def flat(value):
    """The tensors of a result, in order."""
    if isinstance(value, tessera.Tensor):
        return [value]
    return [] if value is None else [t for one in value for t in flat(one)]


def expected(name, options, inputs):
    """The lines that the program has to write."""
    options = dict(options)
    tessera.manual_seed(options.pop("seed"))
    for option in ("weight", "pos_weight"):
        if option in options:
            options[option] = tessera.tensor(options[option])
    if "cutoffs" in options:
        options["cutoffs"] = list(options["cutoffs"])
    layer = getattr(nn, name)(**options)
    lines = [shown(f"parameter {n}", p) for n, p in layer.named_parameters()]
    lines += [shown(f"buffer {n}", b) for n, b in layer.named_buffers()]
    given = [example(form) for form in inputs.split(";")]
    given = [t.requires_grad_() if t.is_floating_point() else t for t in given]

    def call():
        return flat(layer(*(t.clone() if t.is_floating_point() else t for t in given)))

    out = call()
    lines += [shown("training", t) for t in out]
    if out[0].requires_grad:
        out[0].sum().backward()
        lines += [shown("gradient", t.grad) for t in given if t.grad is not None]
        lines += [shown(f"gradient {n}", p.grad) for n, p in layer.named_parameters() if p.grad is not None]
    layer.eval()
    lines += [shown("evaluation", t) for t in call()]
    return lines + [shown(f"then {n}", b) for n, b in layer.named_buffers()]


def test_modules_have_the_same_bits(program, there):
    asked = [(name, options) for name, takes in there.items() for options in cases(name, takes)]
    inputs = {name: EXAMPLES.get(name, (PLAIN, ANY))[1] for name in there}
    lines = [
        " ".join([name, *(f"{o}={text(v)}" for o, v in options.items()), f"inputs={inputs[name]}"])
        for name, options in asked
    ]
    refused, wrong = 0, []
    for (name, options), answer in zip(asked, program(*lines), strict=True):
        try:
            wanted = expected(name, options, inputs[name])
        except Exception as error:  # what a module refuses, of whatever kind
            wanted = [f"error {error}"]
        got = [line.strip() for line in answer]
        if wanted[0].startswith("error"):
            refused += 1
            same = got[-1].startswith("error")
        else:
            same = got == [line.strip() for line in wanted]
        if not same:
            first = next((pair for pair in zip(got, wanted) if pair[0] != pair[1]), (got[-1], wanted[-1]))
            wrong.append((name, options, *(line[:100] for line in first)))
    assert not wrong, "\n".join(map(str, wrong))
    assert refused < len(asked) // 4
