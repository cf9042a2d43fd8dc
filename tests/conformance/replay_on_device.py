"""Replays the recorded operators (or modules) on a device: inputs are moved there, results must be there and are
compared as on the CPU.

    python tests/conformance/replay_on_device.py --device cuda [--suite ops|modules] [arguments of the replay script
    ...]

Random streams and the few recorded cases that name the CPU as their device are left to the CPU's replay. Launches are
waited for, so that errors found by kernels are raised by the calls that caused them. TESSERA_CUDA_LIBRARY may name the
library for the emulated device.

The exit status is 1 if a check of an operator fails that passes on the CPU, unless the device refuses it as
documented; how many are refused is printed. Of modules: if any check fails.
"""

import argparse
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
# What a device may say instead of a result.
REFUSALS = (
    "NotImplementedError",
    "`driver` other than `gels` is not supported on CUDA",
    "expected tensor_indices_or_sections to be on cpu",
)
SCRIPTS = {"ops": "replay.py", "modules": "modules/replay_modules.py"}


def load_script(path):
    spec = importlib.util.spec_from_file_location("recorded_replay", path)
    module = importlib.util.module_from_spec(spec)
    sys.modules["recorded_replay"] = module
    sys.path.insert(0, str(path.parent))
    spec.loader.exec_module(module)
    return module


def replace(module, name, make):
    """module.name = make(what it was)."""
    setattr(module, name, make(getattr(module, name)))


def run_modules_on(replay, device):
    """The same for modules and optimizers."""
    import tessera

    def on_device(build):
        def tensor(self, array):
            return build(self, array).to(device)

        return tensor

    def moved(decode):
        def dec(self, node):
            # Where a case names the CPU, it means the device of its tensors.
            value = decode(self, node)
            return tessera.device(device) if isinstance(value, (str, tessera.device)) and str(value) == "cpu" else value

        return dec

    tessera.set_default_device(device)
    replace(replay.Ctx, "tensor", on_device)
    replace(replay.Ctx, "dec", moved)


def run_operators_on(replay, device):
    """Changes a replay module so that tensors are built on `device` and read back from there."""
    state = {"ready": False}

    def prepare():
        # In the process that runs the checks: a device can't be used on both sides of a fork.
        if not state["ready"]:
            replay.torch.set_default_device(device)
            state["ready"] = True

    def on_device(build):
        def tensor_of(values, dtype):
            return build(values, dtype).to(device)

        return tensor_of

    def from_device(read):
        def to_numpy(t):
            return read(t.cpu())

        return to_numpy

    def checked(compare):
        def compare_tensor(got, spec, *args, **kwargs):
            # (What operators make of Python's numbers alone lies on the CPU.)
            if isinstance(got, replay.torch.Tensor) and got.device.type != device and got.dim() > 0:
                raise replay.Mismatch("device", f"a result is on {got.device}")
            return compare(got, spec, *args, **kwargs)

        return compare_tensor

    def prepared(run):
        def run_check(check):
            prepare()
            return run(check)

        return run_check

    def moved(build):
        # Where a case names the CPU, it means the device of its tensors.
        def here(value):
            return device if isinstance(value, (str, replay.torch.device)) and str(value) == "cpu" else value

        def build_call(case, pack, requires_grad=True):
            args, kwargs, tensors = build(case, pack, requires_grad)
            return [here(a) for a in args], {k: here(v) for k, v in kwargs.items()}, tensors

        return build_call

    replace(replay, "build_call", moved)
    replace(replay, "tensor_of", on_device)
    replace(replay, "to_numpy", from_device)
    replace(replay, "compare_tensor", checked)
    replace(replay, "run_check", prepared)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0], add_help=False)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--suite", choices=SCRIPTS, default="ops")
    options, rest = parser.parse_known_args()
    os.environ.setdefault("CUDA_LAUNCH_BLOCKING", "1")
    sys.path.insert(0, str(HERE))
    from suites import data_folder

    data = data_folder()
    if data is None:
        sys.exit("the folder of recorded cases is not here; TESSERA_CONFORMANCE names it")
    replay = load_script(data / "golden" / SCRIPTS[options.suite])
    if options.suite == "modules":
        run_modules_on(replay, options.device)
        sys.argv = [str(data / "golden" / SCRIPTS["modules"]), "--module", "tessera", *rest]
        sys.exit(replay.main())
    with tempfile.TemporaryDirectory() as folder:
        here, there = pathlib.Path(folder, "cpu.json"), pathlib.Path(folder, "device.json")
        script = str(data / "golden" / SCRIPTS["ops"])
        subprocess.run([sys.executable, script, "--module", "tessera", "-q", *rest, "--summary", here], check=False)
        run_operators_on(replay, options.device)
        replay.main(["--module", "tessera", *rest, "--summary", str(there)])
        sys.exit(judge(json.loads(here.read_text()), json.loads(there.read_text())))


def judge(here, there):
    """The exit status for the summaries of a replay on the CPU and on the device; prints what fails on the device."""
    known = {(f["op"], f["check"]) for f in here["failures"]}
    apart = [f for f in there["failures"] if (f["op"], f["check"]) not in known]
    refused = [f for f in apart if any(text in f["message"] for text in REFUSALS)]
    wrong = [f for f in apart if f not in refused]
    for f in wrong:
        print(f"{f['op']} {f['check']}: {f['why']}: {f['message']}")
    print(f"{len(known)} checks fail on the CPU, {len(refused)} are refused on the device, {len(wrong)} fail there")
    return 1 if wrong else 0


if __name__ == "__main__":
    main()
