"""The wheel's Python files are the same programs with tabs, less comments and docstrings of private functions."""

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
    for owner in ast.walk(tree):
        for node in owner.body if isinstance(owner, (ast.Module, ast.ClassDef)) else ():
            private = isinstance(node, ast.FunctionDef) and node.name[0] == "_" and node.name[:2] != "__"
            if private and ast.get_docstring(node) is not None and len(node.body) > 1:
                del node.body[0]
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


def test_docstrings_of_private_functions_go():
    source = (
        "class C:\n"
        "    def _f(self):\n"
        '        """Text.\n'
        "\n"
        "        More.\n"
        '        """\n'
        "        def _inner():\n"
        '            """It may become public."""\n'
        "            return 1\n"
        "        return _inner\n"
        "    def __len__(self):\n"
        '        """Text."""\n'
        "        return 0\n"
        "def _alone():\n"
        '    """All there is."""\n'
        "def _one(): 'text'; return 1\n"
        "def shown():\n"
        '    """Text."""\n'
        "    return 1\n"
    )
    short = tabbed(source)
    gone = '        """Text.\n\n        More.\n        """\n'
    assert short.expandtabs(4) == source.replace(gone, "")
    assert program(short.replace("'text'; ", "")) == program(source.replace("'text'; ", ""))


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
    assert after < 0.9 * before
