"""Python text as the wheel holds it: a tab for each level of indentation, docstrings without theirs (as Python 3.13 and
later compile them), no comments, no blank lines, and no docstrings of functions and methods whose names begin with an
underscore: those are for readers of the sources. The same program, an eighth shorter.

Needs the standard library alone.
"""

import ast
import io
import re
import tokenize

_LEVELS = re.compile("^(?:    )+")
# Whole strings, and those with values in them as Python 3.12 and later take them apart.
_TEXTS = {number for number, name in tokenize.tok_name.items() if re.fullmatch("STRING|[FT]STRING_MIDDLE", name)}
# Comments that programs read: types of functions that are compiled, and the first line's encoding or interpreter.
_READ = re.compile(r"#\s*type:|#!|#.*coding[:=]")


def _layout(source):
    """(numbers of the lines that begin inside of a string, whose blanks are part of it; where the comments begin that
    nothing reads, by line). Lines count from 1.
    """
    held, comments = set(), {}
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type in _TEXTS:
            held.update(range(token.start[0] + 1, token.end[0] + 1))
        elif token.type == tokenize.COMMENT and not _READ.match(token.string):
            comments[token.start[0]] = token.start[1]
    return held, comments


def _margins(source):
    """How many blanks to take off the lines of docstrings behind their first."""
    lines, margins = source.split("\n"), {}
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        if ast.get_docstring(node, clean=False) is None:
            continue
        text = node.body[0].value
        behind = range(text.lineno + 1, text.end_lineno + 1)
        if any(lines[n - 2].endswith("\\") for n in behind):  # the text goes on without a line's end
            continue
        depths = [len(line) - len(line.lstrip(" ")) for n in behind if (line := lines[n - 1]).strip()]
        margins.update((n, min(depths)) for n in behind if depths)
    return margins


def _unshown(source):
    """Numbers of the lines with docstrings of private functions: of a module or class, with more in their bodies."""
    lines, found = source.split("\n"), set()
    for owner in ast.walk(ast.parse(source)):
        for node in owner.body if isinstance(owner, (ast.Module, ast.ClassDef)) else ():
            if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) or not re.match("_(?!_)", node.name):
                continue
            if ast.get_docstring(node, clean=False) is None or len(node.body) == 1:
                continue
            text = node.body[0]
            alone = not lines[text.lineno - 1][: text.col_offset].strip() and node.body[1].lineno > text.end_lineno
            if alone:
                found.update(range(text.lineno, text.end_lineno + 1))
    return found


def tabbed(source):
    """The same program. source: str, indented by four blanks a level. Raises: tokenize.TokenError, SyntaxError."""
    held, comments = _layout(source)
    margins, unshown = _margins(source), _unshown(source)
    lines = []
    for n, line in enumerate(io.StringIO(source), 1):
        if n in unshown:
            continue
        if n in comments:
            line = line[: comments[n]].rstrip() + "\n"
        if margins.get(n) and not line.isspace():
            line = line[margins[n] :]
        elif n not in held:
            if line.isspace():
                continue
            line = _LEVELS.sub(lambda blanks: "\t" * (len(blanks[0]) // 4), line)
        lines.append(line)
    return "".join(lines)
