"""`python -m torch.distributed.launch`, the old form of torchrun: scripts get --local-rank=N as first argument."""

import warnings

from tessera.distributed.run import get_args_parser, run

__all__ = ["launch", "main", "parse_args"]


def parse_args(args):
    """The options of a command line: those of torchrun, and --use-env."""
    parser = get_args_parser()
    parser.add_argument("--use-env", "--use_env", default=False, action="store_true", help="scripts read LOCAL_RANK")
    return parser.parse_args(args)


def launch(args):
    """Runs what a parsed command line says. Raises: ValueError for --no-python without --use-env."""
    if args.no_python and not args.use_env:
        raise ValueError("--no-python needs --use-env")
    run(args)


def main(args=None):
    """The program: parses a command line (None: this process's) and runs it."""
    warnings.warn("torch.distributed.launch is deprecated; use torchrun", FutureWarning, stacklevel=2)
    launch(parse_args(args))


if __name__ == "__main__":
    main()
