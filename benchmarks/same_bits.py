"""Runs every workload of a suite with 1 and with 2 threads and compares the bits of all that comes out.

    python -m tessera benchmarks/same_bits.py SUITE.py [--only REGEX] [--threads 1 2]

SUITE.py keeps its workloads in a list REG of (name, setup, ...); setup() returns a function of one step. Each is set up
under the same seed and run twice. Hashed are the
tensors that it returns and, because training steps return nothing, the tensors, modules and optimizers that the
function holds.
Status 1 if the bits of any workload depend on the number of threads.
"""

import argparse
import gc
import hashlib
import re
import runpy
import sys

import torch


def held_by(function):
    """What a function holds: the contents of its closure, of those of functions in it, and the defaults."""
    found, seen, waiting = [], set(), [function]
    while waiting:
        value = waiting.pop(0)
        if id(value) in seen:
            continue
        seen.add(id(value))
        for cell in getattr(value, "__closure__", None) or ():
            found.append(cell.cell_contents)
            waiting.append(cell.cell_contents)
        owner = getattr(value, "__self__", None)
        if owner is not None:
            found.append(owner)
    return found


def tensors_of(value, depth=0):
    """All tensors in a value, in a fixed order."""
    if isinstance(value, torch.Tensor):
        yield value.detach()
        if value.is_leaf and value.grad is not None:
            yield value.grad.detach()
    elif isinstance(value, torch.nn.Module):
        yield from tensors_of(list(value.parameters()) + list(value.buffers()), depth + 1)
    elif isinstance(value, torch.optim.Optimizer):
        for group in value.param_groups:
            for parameter in group["params"]:
                yield from tensors_of([parameter] + list(value.state.get(parameter, {}).values()), depth + 1)
    elif isinstance(value, (list, tuple)) and depth < 8:
        for item in value:
            yield from tensors_of(item, depth + 1)
    elif isinstance(value, dict) and depth < 8:
        for key in value:
            yield from tensors_of(value[key], depth + 1)


def fingerprint(setup, threads):
    torch.set_num_threads(threads)
    torch.manual_seed(1234)
    step = setup()
    step()
    results = [step()] + held_by(step)
    digest, count = hashlib.sha256(), 0
    for tensor in tensors_of(results):
        dense = tensor.contiguous().flatten()
        digest.update(
            str((tensor.dtype, tuple(tensor.shape))).encode()
            + bytes(dense.view(torch.uint8).numpy() if dense.numel() else b"")
        )
        count += 1
    return digest.hexdigest(), count


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("suite")
    parser.add_argument("--only", default="")
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2])
    args = parser.parse_args()
    same, different, nothing, failed = 0, [], [], []
    for name, setup, *_ in runpy.run_path(args.suite)["REG"]:
        if not re.search(args.only, name):
            continue
        try:
            prints = [fingerprint(setup, n) for n in args.threads]
        except Exception as error:  # a workload whose operators do not exist is counted, not compared
            failed.append(f"{name}: {error}")
            continue
        if prints[0][1] == 0:
            nothing.append(name)
        elif len(set(prints)) == 1:
            same += 1
        else:
            different.append(name)
        gc.collect()
    for title, names in (("bits differ", different), ("no tensor to compare", nothing), ("could not run", failed)):
        for name in names:
            print(f"{title}: {name}")
    print(
        f"threads {args.threads}: {same} workloads with the same bits, {len(different)} with others, {len(nothing)} "
        f"without tensors, {len(failed)} that could not run"
    )
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
