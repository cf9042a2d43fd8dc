"""Headers and stubs are shorter in the wheel, and say the same."""

import ast
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import cpp_files  # noqa: E402
import packed_text  # noqa: E402
import wheel  # noqa: E402

HEADER = b"""#pragma once
namespace at {
int Za();
%s}
""" % b"".join(
    b"inline Tensor f%d(const Tensor& self, const Tensor& = {}, std::optional<int64_t> dim = std::nullopt, "
    b'std::string_view mode = "a,  b") { return op::f%d.call(self, dim && a & b, - -x, 2.5e-3, \'"\'); }\n' % (i, i)
    for i in range(60)
)


def test_a_packed_header_has_the_same_tokens():
    packed = packed_text.packed(HEADER)
    assert len(packed) < len(HEADER) / 4
    assert packed.startswith(b"#pragma once\n#define ")
    assert packed_text.unpacked_tokens(packed.decode()) == packed_text.tokens_of(HEADER.decode())
    # No name of a macro stands in the header itself, and none is left behind it.
    lines = packed.decode().splitlines()
    defined = [line.split()[1] for line in lines if line.startswith("#define ")]
    assert defined and "Za" not in defined
    assert sorted(defined) == sorted(line.split()[1] for line in lines if line.startswith("#undef "))


def test_no_macro_becomes_the_suffix_of_a_literal():
    # "x"Za is one token to a compiler, and an error in Clang.
    lines = (b'int f%d(S mode = "x%d", const Tensor& other);\n' % (i, i) for i in range(50))
    packed = packed_text.packed(b"#pragma once\n" + b"".join(lines))
    assert re.search(rb'"x7" [ZQ]', packed) and not re.search(rb'"x\d+"\w', packed)


def test_calls_of_macros_stay_as_they_are():
    # Their arguments may become parts of names, and are not replaced before.
    calls = b"".join(b"NAMED(mean_of_rows, 1)\n" for _ in range(50))
    text = b"#pragma once\nnamespace at {\n" + b"int mean_of_rows(int mean_of_rows);\n" * 50 + calls + b"}\n"
    packed = packed_text.packed(text)
    assert len(packed) < len(text) and packed.count(b"NAMED(mean_of_rows, 1)\n") == 50


def test_what_compilers_do_not_read_leaves_headers(tmp_path):
    header = tmp_path / "a.h"
    header.write_text(
        '// A comment.\n#define TWO (1 + 1)\nint f( int a, int b );  // sums, "a"\n'
        'const char* url = "http://a, b";\n'
        "const long million = 1'000, n; // it's\nchar c = ',', d = '\"'; // last\n"
        "#define M(x) \\\n  g( x, \\\n     x )\n"
    )
    assert cpp_files.shortened(header).decode() == (
        '#define TWO (1 + 1)\nint f(int a,int b);\nconst char*url="http://a, b";\n'
        "const long million=1'000,n;\nchar c= ',',d= '\"';\n#define M(x) \\\ng(x, \\\nx)\n"
    )


def test_blanks_that_part_tokens_stay_in_headers(tmp_path):
    header = tmp_path / "a.h"
    header.write_text(
        "int a = x + +y, b = 0xe + 1, c = x & &y;\nvoid f(T& = {}, T* = nullptr);\nA<B > =x ? ::c : ::d;\n"
    )
    assert cpp_files.shortened(header).decode() == (
        "int a=x+ +y,b=0xe +1,c=x & &y;\nvoid f(T& ={},T* =nullptr);\nA<B> =x? ::c: ::d;\n"
    )


def test_programs_hold_no_copies_of_the_librarys_data():
    text = b"extern constinit Op<int(int)> a;\nextern constinit Op<int(int)> b;\nextern constinit Mode g_mode;\n"
    text += b"extern thread_local constinit State state;\n"
    assert cpp_files.shared_objects(text).decode() == (
        "extern __attribute__((weak)) constinit Op<int(int)> a, b;\n"
        "extern __attribute__((weak)) constinit Mode g_mode;\nextern thread_local constinit State state;\n"
    )


def test_lines_of_macros_stay_apart():
    text = b"#define M(x) \\\nf(x);\ng();\nint a;\n#if A\nint b;\nint c\n=1;\n"
    assert cpp_files.joined(text) == b"#define M(x) \\\nf(x);\ng();int a;\n#if A\nint b;int c\n=1;\n"


def test_a_stub_without_blanks_is_the_same_stub():
    stub = b"""# Generated.
from typing import Optional, overload

class _A:
    @overload
    def f(self, x: Optional[int] = None, *, mode: str = "a, b = c") -> int: ...
    @overload
    def f(self, x: float = -1.0, y: str = '  #') -> None: ...
"""
    short = wheel.shortened_stub(stub)
    assert len(short) < len(stub) - 30
    assert ast.dump(ast.parse(short)) == ast.dump(ast.parse(stub))
