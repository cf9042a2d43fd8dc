"""Whether what is known of fake results is what real results have, over the recorded inputs of every operator.

    python tests/conformance/fake_replay.py GOLDEN [--symbolic] [--step N] [--files N] [--slice I/N] [--only REGEX]

runs every N-th recorded case of every N-th operator of GOLDEN (../shared/conformance/golden) on fake tensors, with
--symbolic with each size a symbol of its own, and prints a table: shapes, dtypes, strides and devices that differ, by
operator, with the reason where it is known. The last line counts cases and exceptions. --slice 2/8 runs the second
eighth of what is asked for: the whole table takes a while.
"""

import argparse
import collections
import importlib.util
import pathlib
import re
import sys
import warnings

import tessera
from tessera._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
)
from tessera.fx.experimental.symbolic_shapes import GuardOnDataDependentSymNode, ShapeEnv, hint_int
from tessera.utils._pytree import tree_leaves, tree_map

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


def load_replay(golden):
    """The module that reads the recorded inputs."""
    spec = importlib.util.spec_from_file_location("recorded_inputs", golden / "replay.py")
    module = importlib.util.module_from_spec(spec)
    sys.modules["recorded_inputs"] = module
    spec.loader.exec_module(module)
    module.torch = tessera
    return module


def known_of(value):
    """What is compared of a result."""
    if not isinstance(value, tessera.Tensor):
        return type(value)
    strides = tuple(map(plain, value.stride())) if plain(value.numel()) else None
    return tuple(map(plain, value.shape)), value.dtype, strides, str(value.device)


def plain(size):
    """The number of a size, symbolic or not; -7 for those that values decide."""
    return hint_int(size, -7)


def as_fake(mode, value):
    """The fake twin of a tensor; other values as they are."""
    return mode.from_tensor(value) if isinstance(value, tessera.Tensor) else value


def difference(function, name, make_mode, expected, args, kwargs):
    """What is wrong about the fake result of a call, or None."""
    mode = make_mode()
    args, kwargs = tree_map(lambda v: as_fake(mode, v), (args, kwargs))
    try:
        with mode:
            fake = function(*args, **kwargs)
    except (DataDependentOutputException, DynamicOutputShapeException, GuardOnDataDependentSymNode):
        return None if name in DEPEND else "depends on values"
    except Exception as error:  # noqa: BLE001 - what went wrong is what is counted
        return f"{type(error).__name__}: {str(error)[:200]}"
    if any(isinstance(v, tessera.Tensor) and not isinstance(v, FakeTensor) for v in tree_leaves(fake)):
        return "a real result"
    got = [known_of(v) for v in tree_leaves(fake)]
    return f"{expected} but {got}" if expected != got and name not in DEPEND else None


def compare(replay, golden, make_mode, step=1, files=1, only="", part=(1, 1)):
    """(cases, {operator: what was wrong}) of every `step`-th recorded case of every `files`-th operator.

    part: (i, n): of these operators the i-th, the (i + n)-th ...
    """
    cases, wrong = 0, collections.defaultdict(list)
    for path in sorted((golden / "ops").glob("*.npz"))[::files][part[0] - 1 :: part[1]]:
        pack = replay.Pack(path)
        name = pack.manifest["callee"]
        if not re.search(only, name):
            continue
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
            expected = [known_of(v) for v in tree_leaves(real)]
            found = difference(function, name, make_mode, expected, args, kwargs)
            if found is not None:
                wrong[name].append(found)
    return cases, wrong


def symbolic_mode():
    """A mode in which every size of every tensor is a symbol of its own."""
    return FakeTensorMode(shape_env=ShapeEnv(duck_shape=False))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("golden", type=pathlib.Path)
    parser.add_argument("--symbolic", action="store_true")
    parser.add_argument("--step", type=int, default=1)
    parser.add_argument("--files", type=int, default=1)
    parser.add_argument("--slice", default="1/1", type=lambda text: tuple(map(int, text.split("/"))))
    parser.add_argument("--only", default="")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    make_mode = symbolic_mode if asked.symbolic else FakeTensorMode
    cases, wrong = compare(
        load_replay(asked.golden), asked.golden, make_mode, asked.step, asked.files, asked.only, asked.slice
    )  # fmt: skip
    print("| operator | cases | what | reason |\n|---|---|---|---|")
    for name, texts in sorted(wrong.items()):
        print(f"| {name} | {len(texts)} | {texts[0]} | {KNOWN.get(name, '')} |")
    count = sum(map(len, wrong.values()))
    print(f"{count} exceptions of {cases} cases: {100 * count / max(cases, 1):.2f} %")
    return count > cases / 100


if __name__ == "__main__":
    sys.exit(main())
