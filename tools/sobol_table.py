"""Writes python/tessera/_sobol/joe_kuo.bin out of the table that SciPy ships (run by hand; SciPy is in .venv):

    .venv/bin/python tools/sobol_table.py python/tessera/_sobol/joe_kuo.bin

How the file is built is said where it is read: python/tessera/_sobol/__init__.py.
"""

import pathlib
import sys

import numpy
import scipy.stats


def main(out):
    table = numpy.load(pathlib.Path(scipy.stats.__file__).parent / "_sobol_direction_numbers.npz")
    polynomials = [int(p) for p in table["poly"]]
    steps = bytes((b - a) // 2 for a, b in zip(polynomials, polynomials[1:]))
    records = []
    for polynomial, first in zip(polynomials[1:], table["vinit"][1:]):
        packed = place = 0
        for i in range(polynomial.bit_length() - 1):
            value = int(first[i])
            assert value & 1 and value >> (i + 1) == 0
            packed |= (value >> 1) << place
            place += i
        records.append(packed.to_bytes((place + 7) // 8, "little"))
    pathlib.Path(out).write_bytes(steps + b"".join(records))


if __name__ == "__main__":
    main(*sys.argv[1:])
