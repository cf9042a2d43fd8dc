"""`python -m tessera.profiler view TRACE`: a page that shows a trace file, in any browser and without a network."""

import argparse
import pathlib
import sys

from tessera.profiler._page import trace_page


def main(arguments=None):
    """Writes the page; `arguments`: default: those of the program. Returns: the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tessera.profiler", description=__doc__)
    view = parser.add_subparsers(dest="command", required=True).add_parser("view", help="a page of a trace file")
    view.add_argument("trace", type=pathlib.Path, help="a Chrome trace: .json or .json.gz")
    view.add_argument("-o", "--output", type=pathlib.Path, help="the page; default: beside the trace, as .html")
    view.add_argument("--open", action="store_true", help="shows it in the browser")
    options = parser.parse_args(arguments)
    page = options.output or options.trace.with_name(options.trace.name.split(".json")[0] + ".html")
    try:
        page.write_text(trace_page(options.trace), encoding="utf-8")
    except (OSError, ValueError) as error:
        print(f"view: {error}", file=sys.stderr)
        return 1
    print(page)
    if options.open:
        import webbrowser

        webbrowser.open(page.absolute().as_uri())
    return 0


if __name__ == "__main__":
    sys.exit(main())
