"""The wheel's Python files are the package's, with tabs: the same programs."""

import ast
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

from tabbed import tabbed  # noqa: E402


def test_blanks_of_texts_and_of_aligned_lines_stay():
    source = (
        "def f(a,\n"
        "      b):\n"
        '    """Text.\n'
        "\n"
        "    More.\n"
        '    """\n'
        "    if a:\n"
        '        return f"""\n'
        "    {a}\n"
        '    """\n'
        "    return [\n"
        "        b,\n"
        "    ]\n"
    )
    short = tabbed(source)
    assert short == source.replace("    if", "\tif").replace("        return", "\t\treturn").replace(
        "    return [\n        b,\n    ]", "\treturn [\n\t\tb,\n\t]"
    ).replace('    """Text', '\t"""Text').replace("def f(a,\n      b)", "def f(a,\n\t  b)")
    assert ast.dump(ast.parse(short)) == ast.dump(ast.parse(source))


def test_files_of_the_package_are_the_same_programs():
    files = sorted((ROOT / "python" / "tessera").rglob("*.py"))[::12]
    assert len(files) > 50
    before = after = 0
    for path in files:
        source = path.read_text()
        short = tabbed(source)
        assert ast.dump(ast.parse(short)) == ast.dump(ast.parse(source)), path
        before += len(source)
        after += len(short)
    assert after < 0.95 * before
