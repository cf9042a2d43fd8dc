"""Runs a program once or several times side by side, each instance on cores and memory of its own.

    python -m tessera.backends.xeon.run_cpu [options] program.py [its arguments]

Each instance gets the cores that it may run on (by `numactl` with the memory of their node, by `taskset`, or without
both by the scheduler's own call), their number as OMP_NUM_THREADS, and a faster allocator if one is asked for.
"""

import argparse
import glob
import os
import re
import subprocess
import sys
from argparse import REMAINDER, ArgumentParser, RawTextHelpFormatter
from shutil import which

import tessera

_ALLOCATORS = {"tcmalloc": "libtcmalloc.so*", "jemalloc": "libjemalloc.so*"}
_SETTINGS = {
    "jemalloc": {
        "MALLOC_CONF": "oversize_threshold:1,background_thread:true,metadata_thp:auto,"
        "dirty_decay_ms:9000000000,muzzy_decay_ms:9000000000"
    }
}


def _topology():
    """[(cpu, core, node)] of the logical processors that this process may use, in the order of nodes and cores."""
    found = []
    for cpu in sorted(os.sched_getaffinity(0)):
        folder = f"/sys/devices/system/cpu/cpu{cpu}"
        nodes = glob.glob(f"{folder}/node[0-9]*")
        node = int(re.findall(r"node(\d+)$", nodes[0])[0]) if nodes else 0
        try:
            with open(f"{folder}/topology/core_id") as core, open(f"{folder}/topology/physical_package_id") as package:
                place = (int(package.read()), int(core.read()))
        except OSError:
            place = (0, cpu)
        found.append((cpu, place, node))
    return sorted(found, key=lambda entry: (entry[2], entry[1], entry[0]))


def _cores(args):
    """[(logical processor, node)] that the instances share out among them: one for each core, or all of them."""
    chosen, seen = [], set()
    for cpu, core, node in _topology():
        if args.node_id not in (-1, node) or (core in seen and not args.use_logical_cores):
            continue
        seen.add(core)
        chosen.append((cpu, node))
    if not chosen:
        raise ValueError(f"--node-id {args.node_id}: there are no cores of that node for this process")
    return chosen


def _counts(args, cores):
    """(number of instances, cores of each)."""
    instances, each = args.ninstances, args.ncores_per_instance
    if args.latency_mode:
        instances, each = 0, 4
    elif args.throughput_mode:
        nodes = {node for _, node in cores}
        instances, each = len(nodes), len(cores) // len(nodes)
    if each <= 0 and instances <= 0:
        instances, each = (len(cores), 1) if args.multi_instance else (1, len(cores))
    elif each <= 0:
        each = len(cores) // instances
    elif instances <= 0:
        instances = len(cores) // each
    if each < 1 or instances < 1 or instances * each > len(cores):
        raise ValueError(
            f"{max(instances, 1)} instances of {max(each, 1)} cores were asked for, but there are {len(cores)} cores; "
            f"choose fewer with --ninstances or --ncores-per-instance"
        )
    return instances, each


def _shares(args):
    """[(cores of an instance, their nodes)]."""
    cores = _cores(args)
    instances, each = _counts(args, cores)
    if args.skip_cross_node_cores:
        by_node = {}
        for cpu, node in cores:
            by_node.setdefault(node, []).append((cpu, node))
        groups = [own[i : i + each] for own in by_node.values() for i in range(0, len(own) - each + 1, each)]
        if len(groups) < instances:
            raise ValueError(f"only {len(groups)} instances of {each} cores fit without crossing nodes")
    else:
        groups = [cores[i : i + each] for i in range(0, instances * each, each)]
    return [([cpu for cpu, _ in group], sorted({node for _, node in group})) for group in groups[:instances]]


def _prefix(args, cores, nodes):
    """The command before the program that binds it, which may be none."""
    listed = ",".join(map(str, cores))
    if not args.disable_numactl and which("numactl"):
        return ["numactl", "-C", listed, "-m", ",".join(map(str, nodes))]
    if not args.disable_taskset and which("taskset"):
        return ["taskset", "-c", listed]
    return []


def _library(pattern):
    """The path of a shared library where systems keep them, or None."""
    folders = [os.path.join(sys.prefix, "lib"), "/usr/local/lib", "/usr/lib", "/usr/lib64", "/usr/lib/x86_64-linux-gnu"]
    found = [path for folder in folders for path in sorted(glob.glob(os.path.join(folder, pattern)))]
    return found[0] if found else None


def _environment(args, threads):
    """The variables of an instance."""
    variables = dict(os.environ)
    variables["OMP_NUM_THREADS"] = str(threads)
    wanted = [name for name in _ALLOCATORS if getattr(args, "enable_" + name)]
    for name in wanted:
        path = _library(_ALLOCATORS[name])
        if path is None:
            raise ValueError(f"--enable-{name}: there is no {_ALLOCATORS[name]}; install it, or leave the option out")
        variables["LD_PRELOAD"] = ":".join(filter(None, [path, variables.get("LD_PRELOAD")]))
        for key, value in _SETTINGS.get(name, {}).items():
            variables.setdefault(key, value)
    return variables


def _command(args):
    """The program as a command line, without what binds it."""
    if args.module and args.no_python:
        raise ValueError("--module and --no-python exclude each other: a module needs an interpreter")
    if args.no_python:
        return [args.program, *args.program_args]
    return [sys.executable, "-u", *(["-m"] if args.module else []), args.program, *args.program_args]


def _start(args, rank, cores, nodes):
    """Starts one instance: a Popen."""
    prefix = _prefix(args, cores, nodes)

    def bind():
        os.sched_setaffinity(0, cores)

    by_hand = None if prefix or args.disable_taskset else bind
    command = prefix + _command(args)
    log = None
    if args.log_path:
        os.makedirs(args.log_path, exist_ok=True)
        log = open(os.path.join(args.log_path, f"{args.log_file_prefix}_instance_{rank}.log"), "wb")
    print(f"instance {rank}, cores {cores[0]}-{cores[-1]}: {' '.join(command)}", file=sys.stderr, flush=True)
    try:
        return subprocess.Popen(
            command,
            env=_environment(args, len(cores)),
            stdout=log,
            stderr=subprocess.STDOUT if log else None,
            preexec_fn=by_hand,
        )
    finally:
        if log:
            log.close()


def create_args(parser=None):
    """Adds this program's options to a parser of the module argparse. Raises: ValueError without a parser."""
    if parser is None:
        raise ValueError("create_args needs a parser: create_args(argparse.ArgumentParser())")

    def flag(*names, text):
        parser.add_argument(*names, action="store_true", default=False, help=text)

    flag("--multi-instance", "--multi_instance", text="one instance on each core, if no numbers are given")
    flag("-m", "--module", text="the program is the name of a module, as for python -m")
    flag("--no-python", "--no_python", text="the program is not run by Python")
    flag("--latency-mode", "--latency_mode", text="instances of four cores, as many as there are cores for")
    flag("--throughput-mode", "--throughput_mode", text="one instance on each node")
    numbers = (
        ("--ncores-per-instance", "--ncores_per_instance", 0, "cores of each instance"),
        ("--ninstances", "--ninstances", 0, "how many instances"),
        ("--rank", "--rank", -1, "start only this one of the instances; -1 for all"),
        ("--node-id", "--node_id", -1, "take cores of this node only; -1 for all"),
    )
    for name, other, default, text in numbers:
        parser.add_argument(*dict.fromkeys((name, other)), type=int, default=default, help=text)
    flag("--skip-cross-node-cores", "--skip_cross_node_cores", text="no instance has cores of several nodes")
    flag("--use-logical-cores", "--use_logical_cores", text="use all logical processors, not one of each core")
    flag("--disable-numactl", "--disable_numactl", text="do not bind by numactl")
    flag("--disable-taskset", "--disable_taskset", text="do not bind by taskset")
    allocators = parser.add_mutually_exclusive_group()
    for name in _ALLOCATORS:
        allocators.add_argument(
            f"--enable-{name}", f"--enable_{name}", action="store_true", help=f"preload the allocator {name}"
        )
    allocators.add_argument(
        "--use-default-allocator", "--use_default_allocator", action="store_true", help="preload none (the default)"
    )
    parser.add_argument("--log-path", "--log_path", default="", help="folder for the output of the instances")
    parser.add_argument("--log-file-prefix", "--log_file_prefix", default="run", help="how the names there begin")
    parser.add_argument("program", help="the program")
    parser.add_argument("program_args", nargs=REMAINDER, help="its arguments")


def main(args):
    """Starts the instances that `args` (of a parser with `create_args`) describes, and waits for them.

    Raises: ValueError for numbers that the machine does not have; subprocess.CalledProcessError with the first
        status other than 0, after the other instances were ended.
    """
    if not hasattr(os, "sched_getaffinity"):
        raise RuntimeError(f"{tessera._display_name}.backends.xeon.run_cpu runs on Linux only")
    shares = _shares(args)
    if not -1 <= args.rank < len(shares):
        raise ValueError(f"--rank must be from -1 to {len(shares) - 1}, but is {args.rank}")
    ranks = range(len(shares)) if args.rank < 0 else [args.rank]
    running = []
    try:
        for rank in ranks:
            running.append(_start(args, rank, *shares[rank]))
        for process in running:
            if process.wait() != 0:
                raise subprocess.CalledProcessError(process.returncode, process.args)
    finally:
        for process in running:
            if process.poll() is None:
                process.terminate()
                process.wait()


def _parser():
    parser = ArgumentParser(description=__doc__, formatter_class=RawTextHelpFormatter)
    create_args(parser)
    return parser


if __name__ == "__main__":
    try:
        main(_parser().parse_args())
    except (ValueError, argparse.ArgumentTypeError) as error:
        sys.exit(f"run_cpu: {error}")
    except subprocess.CalledProcessError as error:
        sys.exit(error.returncode if error.returncode > 0 else 1)
