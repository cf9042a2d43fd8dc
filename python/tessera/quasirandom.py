"""Sequences of points that fill the unit cube more evenly than random ones.

>>> engine = tessera.quasirandom.SobolEngine(2)
>>> engine.draw(3)
tensor([[0.0000, 0.0000],
        [0.5000, 0.5000],
        [0.7500, 0.2500]])
"""

import operator

import tessera
from tessera import _sobol

__all__ = ["SobolEngine"]

_BLOCK = 1024  # points that are made at once


class SobolEngine:
    """Points of a Sobol sequence in [0, 1)^dimension, with the direction numbers of S. Joe and F. Y. Kuo.

    The first point is the origin. A number of points that is a power of two, from the first on, is balanced: each
    half, quarter, ... of a dimension holds equally many of them.

    Args:
        dimension: from 1 to MAXDIM.
        scramble: shuffle the points by random lower triangular matrices and a random shift, which keeps their balance
            and makes means over them unbiased.
        seed: of the scrambling: the same one gives the same points. None takes the default generator.

    Attributes: num_generated, how many points were drawn; shift and quasi, int64 tensors [dimension] with the first
    point and the last one in units of 2^-MAXBIT; sobolstate, the direction numbers: an int64 tensor
    [dimension, MAXBIT].

    Raises: ValueError for another dimension, TypeError for one that is no integer.
    """

    MAXBIT = _sobol.BITS
    MAXDIM = _sobol.DIMENSIONS

    def __init__(self, dimension, scramble=False, seed=None):
        self.dimension = operator.index(dimension)
        if not 1 <= self.dimension <= self.MAXDIM:
            raise ValueError(
                f"Supported range of dimensionality for SobolEngine is [1, {self.MAXDIM}], but got {dimension}"
            )
        self.scramble = bool(scramble)
        self.seed = seed
        with tessera.device("cpu"):
            self.sobolstate = _sobol.direction_numbers(self.dimension)
            self.shift = tessera.zeros(self.dimension, dtype=tessera.int64)
            if self.scramble:
                self._scramble()
            self._by_bit = self.sobolstate.t().int().contiguous()
        self.quasi = self.shift.clone()
        self.num_generated = 0
        self._dtype = tessera.get_default_dtype()

    def _scramble(self):
        generator = None
        if self.seed is not None:
            generator = tessera.Generator()
            generator.manual_seed(self.seed)
        bits, n = self.MAXBIT, self.dimension
        place = tessera.arange(bits)
        shift = tessera.randint(2, (n, bits), generator=generator)
        self.shift = (shift << place).sum(1)
        lower = tessera.randint(2, (n, bits, bits), generator=generator).tril()
        lower.diagonal(dim1=1, dim2=2).fill_(1)
        # Row by row: bit k (from the highest) of a new number is the parity of the old one's bits that row k selects.
        rows = (lower << (bits - 1 - place)).sum(2)
        old, self.sobolstate = self.sobolstate, tessera.zeros_like(self.sobolstate)
        for k in range(bits):
            parity = old & rows[:, k : k + 1]
            for half in (16, 8, 4, 2, 1):
                parity ^= parity >> half
            self.sobolstate |= (parity & 1) << (bits - 1 - k)

    def _combine(self, number):
        """The point of the Gray code of `number`, unshifted: an int32 tensor [dimension]."""
        gray = number ^ number >> 1
        point = tessera.zeros(self.dimension, dtype=tessera.int32, device="cpu")
        for bit in range(gray.bit_length()):
            if gray >> bit & 1:
                point ^= self._by_bit[bit]
        return point

    def _write(self, points, start):
        """Writes the points from number `start` on into a tensor [n, dimension].

        The Gray code takes each half of a block of 2^k points through the other half's points backwards with one bit
        more; and the Gray code of a sum whose terms have no bits in common is that of the terms combined.
        """
        n = points.shape[0]
        block = self.shift.int().unsqueeze(0)
        size, bit = 1, 0
        while size < min(n, _BLOCK):
            block = tessera.cat([block, block.flip(0) ^ self._by_bit[bit]])
            size, bit = size * 2, bit + 1
        done = 0
        while done < n:
            first = (start + done) % size
            taken = min(size - first, n - done)
            points[done : done + taken] = block[first : first + taken] ^ self._combine(start + done - first)
            done += taken

    def draw(self, n=1, out=None, dtype=None):
        """The next points.

        Args:
            n: how many.
            out: a tensor that takes them; it is resized.
            dtype: float32 or float64; by default that of `out` or the default when the engine was made.

        Returns: a tensor [n, dimension] with values in [0, 1).

        Raises: ValueError for a negative number, or when the sequence ends (after 2^MAXBIT points); TypeError for
            another dtype.
        """
        n = self._checked(n)
        if dtype is None:
            dtype = self._dtype if out is None else out.dtype
        if dtype not in (tessera.float32, tessera.float64):
            raise TypeError(f"SobolEngine.draw: expected dtype float32 or float64, but got {dtype}")
        start = self.num_generated
        points = tessera.empty(n, self.dimension, dtype=dtype, device="cpu")
        self._write(points, start)
        points.mul_(2.0**-self.MAXBIT)
        if dtype == tessera.float32:
            points.clamp_(max=1 - 2.0**-24)  # where rounding would give 1
        if out is not None:
            out.resize_(points.shape).copy_(points)
            points = out
        self._advance(n)
        return points

    def draw_base2(self, m, out=None, dtype=None):
        """The next 2^m points.

        Args:
            m: the exponent, not negative.
            out: a tensor that takes them; it is resized.
            dtype: float32 or float64.

        Returns: a tensor [2^m, dimension].

        Raises: ValueError unless the points that were drawn are a power of two with these.
        """
        n = 2 ** operator.index(m)
        total = self.num_generated + n
        if not isinstance(n, int) or total & (total - 1):
            raise ValueError(
                f"SobolEngine.draw_base2: the balance properties of Sobol' points require n to be a power of 2, but "
                f"{self.num_generated} points were drawn and 2**{m} are asked for: n={total}; draw() gives any number"
            )
        return self.draw(n, out, dtype)

    def reset(self):
        """Goes back to the first point. Returns: the engine."""
        self.quasi.copy_(self.shift)
        self.num_generated = 0
        return self

    def fast_forward(self, n):
        """Leaves out n points. Returns: the engine. Raises: ValueError for a negative number and past the end."""
        self._advance(self._checked(n))
        return self

    def _checked(self, n):
        n = operator.index(n)
        if n < 0:
            raise ValueError(f"n must be non-negative, but got {n}")
        if self.num_generated + n > 2**self.MAXBIT:
            raise ValueError(
                f"the sequence has 2**{self.MAXBIT} points, but {self.num_generated} were taken and {n} are asked for"
            )
        return n

    def _advance(self, n):
        self.num_generated += n
        self.quasi = self.shift ^ self._combine(max(self.num_generated - 1, 0)).long()

    def __repr__(self):
        parts = [f"dimension={self.dimension}"]
        if self.scramble:
            parts.append("scramble=True")
        if self.seed is not None:
            parts.append(f"seed={self.seed}")
        return f"{type(self).__name__}({', '.join(parts)})"
