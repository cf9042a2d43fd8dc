"""Direction numbers of Sobol sequences, for up to 21,201 dimensions: the table of S. Joe and F. Y. Kuo (see LICENSE).

joe_kuo.bin: 21,200 bytes with half the step from one primitive polynomial (its coefficients as bits) to the next,
beginning at 1; then a record for each dimension but the first. A polynomial of degree m comes with m odd numbers, the
i-th of them (from 0) below 2^(i+1): their bits above the lowest one, i of them, stand one after the other in the
record, the lowest first, filled up to whole bytes.
"""

import os

import tessera

DIMENSIONS = 21201
BITS = 30


def _records(count):
    """[(polynomial, its odd numbers)] of the dimensions from the second on, `count` of them."""
    found = []
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), "joe_kuo.bin"), "rb") as file:
        steps = file.read(DIMENSIONS - 1)[:count]
        polynomial = 1
        for step in steps:
            polynomial += 2 * step
            degree = polynomial.bit_length() - 1
            size = (degree * (degree - 1) // 2 + 7) // 8
            packed = int.from_bytes(file.read(size), "little")
            odd = []
            for i in range(degree):
                odd.append((packed & ((1 << i) - 1)) << 1 | 1)
                packed >>= i
            found.append((polynomial, odd))
    return found


def _extended(polynomials, first):
    """Direction numbers of dimensions whose polynomials have one degree m.

    Args:
        polynomials: one for each.
        first: their first m odd numbers: a list for each.

    Returns: an int64 tensor [dimensions, BITS]; the i-th number is below 2^(i+1).
    """
    degree = polynomials[0].bit_length() - 1
    p = tessera.tensor(polynomials)
    columns = list(tessera.tensor(first).unbind(1))[:BITS]
    coefficients = [p >> (degree - k) & 1 for k in range(degree + 1)]
    for i in range(degree, BITS):
        value = columns[i - degree].clone()
        for k in range(1, degree + 1):
            value ^= (columns[i - k] << k) * coefficients[k]
        columns.append(value)
    return tessera.stack(columns, 1)


def direction_numbers(dimension):
    """The numbers that points of `dimension` dimensions are combined of: an int64 tensor [dimension, BITS]. The
    highest of the BITS bits of a number is worth 1/2.
    """
    numbers = tessera.ones(dimension, BITS, dtype=tessera.int64)
    by_degree: dict = {}
    for i, (polynomial, odd) in enumerate(_records(dimension - 1), 1):
        by_degree.setdefault(polynomial.bit_length(), []).append((i, polynomial, odd))
    for group in by_degree.values():
        # Dimensions of one degree follow each other.
        start, end = group[0][0], group[-1][0] + 1
        numbers[start:end] = _extended([p for _, p, _ in group], [odd for _, _, odd in group])
    return numbers << tessera.arange(BITS - 1, -1, -1)
