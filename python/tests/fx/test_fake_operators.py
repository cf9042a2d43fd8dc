"""Every recorded operator: what is known of fake results is what real results have; and so with symbols for the sizes.

The recorded inputs are those of ../shared/conformance/golden; where that folder is, the comparison has to run.
"""

import collections
import importlib.util
import pathlib
import sys
import warnings

import pytest
import tessera
from tessera._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
)
from tessera.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode, ShapeEnv, hint_int
from tessera.utils._pytree import tree_leaves, tree_map

GOLDEN = pathlib.Path(__file__).resolve().parents[4] / "shared" / "conformance" / "golden"
# Operators whose result depends on values, so that nothing is known of it: a number of theirs, or a size.
VALUES = (
    "a number that decides what is computed",
    "Tensor.item allclose equal histogramdd linalg.matrix_rank linalg.pinv linspace logspace narrow tensor_split "
    "nn.functional.ctc_loss nn.functional.gaussian_nll_loss nn.functional.multi_margin_loss "
    "nn.functional.multilabel_margin_loss nn.functional.one_hot nn.functional.rrelu quantile nanquantile Tensor.tolist",
)
SIZES = (
    "the size of the result",
    "Tensor.__getitem__ _segment_reduce argwhere bincount combinations masked_select nn.functional.embedding "
    "nn.functional.embedding_bag nonzero repeat_interleave unique unique_consecutive histogram index_put cov",
)
DEPEND = {f"torch.{name}" for _, names in (VALUES, SIZES) for name in names.split()}
# What is not as it should be, and why: at most 1 % of the cases.
KNOWN = {
    "torch.div": "two numbers without a tensor",
    "torch.mul": "two numbers without a tensor",
    "torch.sub": "two numbers without a tensor",
    "torch.true_divide": "two numbers without a tensor",
}


@pytest.fixture(scope="module")
def replay():
    if not GOLDEN.exists():
        pytest.skip("the recorded inputs (../shared/conformance/golden) are not here")
    spec = importlib.util.spec_from_file_location("recorded_inputs", GOLDEN / "replay.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["recorded_inputs"] = module
    spec.loader.exec_module(module)
    module.torch = tessera
    return module


def known_of(value):
    if not isinstance(value, tessera.Tensor):
        return type(value)
    strides = tuple(map(plain, value.stride())) if plain(value.numel()) else None
    return tuple(map(plain, value.shape)), value.dtype, strides, str(value.device)


def plain(size):
    return hint_int(size, -7)


def compare(replay, make_mode, step, files=1):
    """(cases, {operator: what was wrong}) of every `step`-th recorded case of every `files`-th operator."""
    cases, wrong = 0, collections.defaultdict(list)
    for path in sorted((GOLDEN / "ops").glob("*.npz"))[::files]:
        pack = replay.Pack(path)
        name = pack.manifest["callee"]
        try:
            function = replay.resolve(name)
        except replay.Missing:
            continue
        for case in pack.manifest["cases"][::step]:
            if case.get("sparse"):
                continue  # other layouts have no fake form, which from_tensor() says
            try:
                args, kwargs, _ = replay.build_call(case, pack)
                real = function(*args, **kwargs)
            except (RuntimeError, ValueError, TypeError, IndexError):
                continue  # what real tensors don't have either
            args, kwargs, _ = replay.build_call(case, pack)
            made = [v for v in tree_leaves((args, kwargs, real)) if isinstance(v, tessera.Tensor)]
            if any(v.layout != tessera.strided for v in made):
                continue  # the same, of tensors and results that the case does not say it of
            cases += 1
            mode = make_mode()
            args, kwargs = tree_map(lambda v: as_fake(mode, v), (args, kwargs))  # noqa: B023
            try:
                with mode:
                    fake = function(*args, **kwargs)
            except (DataDependentOutputException, DynamicOutputShapeException, GuardOnDataDependentSymNode):
                if name not in DEPEND:
                    wrong[name].append("depends on values")
                continue
            except Exception as error:  # noqa: BLE001 - what went wrong is what is counted
                wrong[name].append(f"{type(error).__name__}: {str(error)[:200]}")
                continue
            expected, got = [known_of(v) for v in tree_leaves(real)], [known_of(v) for v in tree_leaves(fake)]
            if expected != got and name not in DEPEND:
                wrong[name].append(f"{expected} but {got}")
            if any(isinstance(v, tessera.Tensor) and not isinstance(v, FakeTensor) for v in tree_leaves(fake)):
                wrong[name].append("a real result")
    return cases, wrong


def as_fake(mode, value):
    return mode.from_tensor(value) if isinstance(value, tessera.Tensor) else value


@pytest.fixture(autouse=True)
def quiet():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def test_fake_results_are_known_as_real_ones(replay):
    cases, wrong = compare(replay, FakeTensorMode, 3)
    count = sum(map(len, wrong.values()))
    assert cases > 5000 and count < cases / 100
    assert set(wrong) <= set(KNOWN), {name: texts[0] for name, texts in wrong.items() if name not in KNOWN}


def test_so_are_those_of_symbolic_sizes(replay):
    cases, wrong = compare(replay, lambda: FakeTensorMode(shape_env=ShapeEnv(duck_shape=False)), 1000, files=3)
    count = sum(map(len, wrong.values()))
    assert cases > 200 and count < cases / 100, {name: texts[0] for name, texts in wrong.items()}
