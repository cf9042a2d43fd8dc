"""`torchrun`, `python -m torch.distributed.run`: runs a program in several processes, on one machine or many.

    torchrun --standalone --nproc-per-node=4 train.py --lr 0.1

starts four processes of train.py on this machine. Each finds RANK, LOCAL_RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT
in its environment, so that `init_process_group()` needs no arguments. With several machines, each runs

    torchrun --nnodes=2 --nproc-per-node=4 --rdzv-backend=c10d --rdzv-endpoint=HOST:29400 train.py

When a process fails, all are ended, and started again as often as --max-restarts says.
"""

import logging
import os
import sys
import uuid
from argparse import REMAINDER, ArgumentParser

from tessera.distributed.argparse_util import check_env, env
from tessera.distributed.elastic.multiprocessing import DefaultLogsSpecs, Std
from tessera.distributed.elastic.multiprocessing.errors import record
from tessera.distributed.elastic.rendezvous.utils import _parse_rendezvous_config
from tessera.distributed.elastic.utils import macros
from tessera.distributed.launcher.api import LaunchConfig, elastic_launch

__all__ = [
    "config_from_args",
    "determine_local_world_size",
    "get_args_parser",
    "get_rdzv_endpoint",
    "get_use_env",
    "main",
    "parse_args",
    "parse_min_max_nnodes",
    "run",
    "run_script_path",
]

# (names, type or None for a flag, default, help); each may come from PET_NAME in the environment.
_OPTIONS = [
    ("nnodes", str, "1:1", "number of machines, or MIN:MAX"),
    ("nproc-per-node", str, "1", "processes of a machine: a number, or auto, cpu, gpu, xpu"),
    ("rdzv-backend", str, "static", "how machines meet: static or c10d"),
    ("rdzv-endpoint", str, "", "where they meet: HOST:PORT"),
    ("rdzv-id", str, "none", "the job's name"),
    ("rdzv-conf", str, "", "settings of the rendezvous: KEY=VALUE,KEY=VALUE"),
    ("standalone", None, False, "one machine: a rendezvous of its own at a free port"),
    ("max-restarts", int, 0, "how often all processes are started again when one fails"),
    ("monitor-interval", float, 0.1, "seconds between two looks at the processes"),
    ("start-method", str, "spawn", "of functions: spawn, fork or forkserver"),
    ("event-log-handler", str, "null", "where events go"),
    ("role", str, "default", "of the processes"),
    ("no-python", None, False, "the program is no Python script"),
    ("run-path", None, False, "the script runs in an interpreter of this module, by runpy.run_path"),
    ("log-dir", str, None, "folder for output"),
    ("local-ranks-filter", str, "", "whose output is shown: LOCAL_RANK,LOCAL_RANK"),
    ("duplicate-stdout-filters", str, "", "texts; lines with one of them are copied to a file"),
    ("duplicate-stderr-filters", str, "", "the same for errors"),
    ("log-line-prefix-template", str, None, "before shown lines; ${role_name}, ${local_rank}, ${rank}, ${hostname}"),
    ("node-rank", int, 0, "of this machine, for a static rendezvous"),
    ("master-addr", str, "127.0.0.1", "of the machine of rank 0, for a static rendezvous"),
    ("master-port", int, 29500, "for its store"),
    ("local-addr", str, None, "address of this machine"),
    ("logs-specs", str, None, "group 'torchrun.logs_specs' entry point that says where output goes"),
    ("numa-binding", str, None, "not supported; start with numactl"),
    ("signals-to-handle", str, "SIGTERM,SIGINT,SIGHUP,SIGQUIT", "signals that end the job"),
    ("virtual-local-rank", None, False, "LOCAL_RANK is 0 for all, and each sees its device alone"),
]


def get_args_parser():
    """The parser of the command line."""
    parser = ArgumentParser(description=__doc__.split("\n")[0])
    for name, kind, default, text in _OPTIONS:
        names = [f"--{name}"] + ([f"--{name.replace('-', '_')}"] if "-" in name else [])
        if kind is None:
            parser.add_argument(*names, action=check_env, help=text)
        else:
            parser.add_argument(*names, action=env, type=kind, default=default, help=text)
    parser.add_argument("-m", "--module", action=check_env, help="the program is a module")
    parser.add_argument("-r", "--redirects", action=env, type=str, default="0", help="into files: 1 out, 2 err, 3 both")
    parser.add_argument("-t", "--tee", action=env, type=str, default="0", help="into files and shown")
    parser.add_argument("training_script", type=str, help="the program, followed by its arguments")
    parser.add_argument("training_script_args", nargs=REMAINDER)
    return parser


def parse_args(args):
    """The options of a command line."""
    return get_args_parser().parse_args(args)


def parse_min_max_nnodes(nnodes):
    """(least, most) machines of "N" or "MIN:MAX". Raises: RuntimeError for another text."""
    parts = nnodes.split(":")
    if len(parts) > 2 or not all(part.isdigit() for part in parts):
        raise RuntimeError(f"--nnodes is a number, or MIN:MAX, but got '{nnodes}'")
    return int(parts[0]), int(parts[-1])


def determine_local_world_size(nproc_per_node):
    """The number of processes of this machine, from a number or "auto", "cpu", "gpu", "xpu".

    Raises: ValueError for another text, and for devices that there are not."""
    import tessera

    if str(nproc_per_node).isdigit():
        return int(nproc_per_node)
    devices = {"gpu": tessera.cuda, "xpu": tessera.xpu}
    if nproc_per_node in devices:
        module = devices[nproc_per_node]
        if not module.is_available():
            raise ValueError(f"--nproc-per-node={nproc_per_node}: there is no such device")
        return module.device_count()
    if nproc_per_node == "auto" and tessera.cuda.is_available():
        return tessera.cuda.device_count()
    if nproc_per_node in ("auto", "cpu"):
        return os.cpu_count()
    raise ValueError(f"--nproc-per-node is a number, or auto, cpu, gpu or xpu, but got '{nproc_per_node}'")


def get_rdzv_endpoint(args):
    """Where machines meet."""
    if args.rdzv_backend == "static" and not args.rdzv_endpoint:
        return f"{args.master_addr}:{args.master_port}"
    return args.rdzv_endpoint


def get_use_env(args):
    """Whether scripts read LOCAL_RANK from the environment; else they get --local-rank (launch.py)."""
    return getattr(args, "use_env", True)


def _logs_of(args):
    ranks = {int(one) for one in args.local_ranks_filter.split(",")} if args.local_ranks_filter else None
    make = DefaultLogsSpecs
    if args.logs_specs is not None:
        from importlib.metadata import entry_points

        found = [one for one in entry_points(group="torchrun.logs_specs") if one.name == args.logs_specs]
        if not found:
            raise ValueError(f"no package has the entry point '{args.logs_specs}' of the group torchrun.logs_specs")
        make = found[0].load()
    return make(
        log_dir=args.log_dir,
        redirects=Std.from_str(args.redirects),
        tee=Std.from_str(args.tee),
        local_ranks_filter=ranks,
    )


def _filters(text):
    """The texts of "one,two", where two commas stand for one."""
    if not text:
        return None
    return [one.replace("\0", ",") for one in text.replace(",,", "\0").split(",")]


def _command_of(args):
    """(program or function, its arguments)."""
    use_env = get_use_env(args)
    own = [] if use_env else [f"--local-rank={macros.local_rank}"]
    rest = [*own, *args.training_script_args]
    if args.run_path:
        return run_script_path, [args.training_script, *rest]
    if args.no_python:
        if args.module:
            raise ValueError("--no-python and --module exclude each other")
        if not use_env:
            raise ValueError("--no-python needs --use-env")
        return args.training_script, rest
    start = ["-u", *(["-m"] if args.module else []), args.training_script]
    return os.environ.get("PYTHON_EXEC", sys.executable), [*start, *rest]


def config_from_args(args):
    """(LaunchConfig, program or function, its arguments) of a command line.
    Raises: ValueError for options that do not go together."""
    least, most = parse_min_max_nnodes(args.nnodes)
    if not 0 < least <= most or args.max_restarts < 0:
        raise ValueError("--nnodes is of 1 or more machines, and --max-restarts is not negative")
    if args.numa_binding is not None:
        raise ValueError("--numa-binding is not supported; start the program with numactl")
    processes = determine_local_world_size(args.nproc_per_node)
    if "OMP_NUM_THREADS" not in os.environ and processes > 1:
        os.environ["OMP_NUM_THREADS"] = "1"  # they would be in each other's way
        logging.getLogger(__name__).warning("OMP_NUM_THREADS is 1 for each process, unless it is set; tune it")
    settings = _parse_rendezvous_config(args.rdzv_conf)
    if args.rdzv_backend == "static":
        settings["rank"] = args.node_rank
    config = LaunchConfig(
        least,
        most,
        processes,
        logs_specs=_logs_of(args),
        run_id=args.rdzv_id,
        role=args.role,
        rdzv_endpoint=get_rdzv_endpoint(args),
        rdzv_backend=args.rdzv_backend,
        rdzv_configs=settings,
        max_restarts=args.max_restarts,
        monitor_interval=args.monitor_interval,
        start_method=args.start_method,
        log_line_prefix_template=args.log_line_prefix_template,
        local_addr=args.local_addr,
        event_log_handler=args.event_log_handler,
        signals_to_handle=args.signals_to_handle,
        duplicate_stdout_filters=_filters(args.duplicate_stdout_filters),
        duplicate_stderr_filters=_filters(args.duplicate_stderr_filters),
        virtual_local_rank=args.virtual_local_rank,
    )
    return (config, *_command_of(args))


def run_script_path(training_script, *training_script_args):
    """Runs a script in this interpreter, as if it were the program."""
    import runpy

    sys.argv = [training_script, *training_script_args]
    runpy.run_path(training_script, run_name="__main__")


def run(args):
    """Runs what a parsed command line says."""
    if args.standalone:
        args.rdzv_backend, args.rdzv_endpoint, args.rdzv_id = "c10d", "localhost:0", str(uuid.uuid4())
    config, command, arguments = config_from_args(args)
    elastic_launch(config, command)(*arguments)


@record
def main(args=None):
    """The program: parses a command line (None: this process's) and runs it."""
    run(parse_args(args))


if __name__ == "__main__":
    main()
