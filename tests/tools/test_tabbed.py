"""The wheel's Python files are the package's, with tabs: the same programs."""

import ast
import inspect
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

from tabbed import tabbed  # noqa: E402


def program(source):
    """The program that a text is, with docstrings as they are shown."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and ast.get_docstring(node) is not None:
            node.body[0].value.value = inspect.cleandoc(node.body[0].value.value)
    return ast.dump(tree)


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
    ).replace('    """Text.\n\n    More.\n    """', '\t"""Text.\n\nMore.\n"""').replace(
        "def f(a,\n      b)", "def f(a,\n\t  b)"
    )
    assert program(short) == program(source)


def test_comments_and_blank_lines_go():
    source = (
        "#!/usr/bin/python\n"
        "\n"
        "# About f.\n"
        "def f(a):  # inside\n"
        "    # type: (int) -> int\n"
        "\n"
        '    text = """# no comment\n'
        "\n"
        '    """  # after a text\n'
        "    # last\n"
        "    return text + '#' if a else '#'\n"
    )
    short = tabbed(source)
    assert short == (
        "#!/usr/bin/python\n"
        "def f(a):\n"
        "\t# type: (int) -> int\n"
        '\ttext = """# no comment\n'
        "\n"
        '    """\n'
        "\treturn text + '#' if a else '#'\n"
    )
    assert program(short) == program(source)


def test_files_of_the_package_are_the_same_programs():
    files = sorted((ROOT / "python" / "tessera").rglob("*.py"))[::12]
    assert len(files) > 50
    before = after = 0
    for path in files:
        source = path.read_text()
        short = tabbed(source)
        assert program(short) == program(source), path
        before += len(source)
        after += len(short)
    assert after < 0.92 * before
