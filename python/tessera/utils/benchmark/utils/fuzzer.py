"""Random tensors for benchmarks: sizes and strides by distributions, the same for the same seed."""

import functools
import itertools

import tessera

__all__ = ["FuzzedParameter", "FuzzedTensor", "Fuzzer", "ParameterAlias"]

_MOST_TRIES = 1000


class ParameterAlias:
    """As a value of a FuzzedParameter: it has the value of another parameter, by name."""

    def __init__(self, alias_to):
        self.alias_to = alias_to

    def __repr__(self):
        return f"ParameterAlias[alias_to: {self.alias_to}]"


class FuzzedParameter:
    """A random number.

    Args:
        name: by which sizes name it.
        minval, maxval: the smallest and the largest; whole numbers give whole numbers.
        distribution: "uniform", "loguniform", or a dict from values to their probabilities.
        strict: the values of a dict are taken as they are; else those that are `ParameterAlias` are resolved.

    Raises: ValueError for another distribution.
    """

    def __init__(self, name, minval=None, maxval=None, distribution=None, strict=False):
        self._name, self._minval, self._maxval, self._strict = name, minval, maxval, strict
        if isinstance(distribution, dict):
            total = sum(distribution.values())
            if total <= 0 or any(p < 0 for p in distribution.values()):
                raise ValueError(
                    f"FuzzedParameter {name}: expected probabilities of at least 0, but got {distribution}"
                )
            self._distribution = {value: p / total for value, p in distribution.items()}
        elif distribution in ("uniform", "loguniform"):
            if minval is None or maxval is None or minval > maxval or (distribution == "loguniform" and minval <= 0):
                raise ValueError(f"FuzzedParameter {name}: {distribution} can't lie between {minval} and {maxval}")
            self._distribution = distribution
        else:
            raise ValueError(
                f"FuzzedParameter {name}: expected a distribution 'uniform', 'loguniform' or a dict of probabilities, "
                f"but got {distribution!r}"
            )

    @property
    def name(self):
        """By which sizes name it."""
        return self._name

    def sample(self, state):
        """A value, from a numpy.random.RandomState."""
        if isinstance(self._distribution, dict):
            values, probabilities = list(self._distribution), list(self._distribution.values())
            return values[state.choice(len(values), p=probabilities)]
        whole = isinstance(self._minval, int) and isinstance(self._maxval, int)
        if self._distribution == "uniform":
            return state.randint(self._minval, self._maxval + 1) if whole else state.uniform(self._minval, self._maxval)
        import numpy as np

        value = np.exp(state.uniform(np.log(self._minval), np.log(self._maxval + 1 if whole else self._maxval)))
        return int(min(value, self._maxval)) if whole else float(value)

    def _resolve(self, value, params):
        if self._strict or not isinstance(value, ParameterAlias):
            return value
        return params[value.alias_to]


class FuzzedTensor:
    """A random tensor.

    Args:
        name: of the tensor among those of a `Fuzzer`.
        size: numbers, or names of parameters.
        steps: the tensor is every so manieth element of a larger one, along each dimension.
        probability_contiguous: that the dimensions lie in memory in their order; else in a random one.
        min_elements, max_elements: others are drawn again.
        max_allocation_bytes: the same for the memory behind it.
        dim_parameter: a parameter that says how many of the dimensions there are.
        roll_parameter: a parameter that says by how many places the order in memory is turned, instead of at random.
        dtype, cuda: of the tensor.
        tensor_constructor: `f(size, dtype=, **parameters)`, makes the memory's contents.
    """

    def __init__(
        self,
        name,
        size,
        steps=None,
        probability_contiguous=0.5,
        min_elements=None,
        max_elements=None,
        max_allocation_bytes=None,
        dim_parameter=None,
        roll_parameter=None,
        dtype=tessera.float32,
        cuda=False,
        tensor_constructor=None,
    ):
        self._name, self._size, self._steps = name, size, steps
        self._probability_contiguous = probability_contiguous
        self._min_elements, self._max_elements = min_elements, max_elements
        self._max_allocation_bytes = max_allocation_bytes
        self._dim_parameter, self._roll_parameter = dim_parameter, roll_parameter
        self._dtype, self._cuda = dtype, cuda
        self._tensor_constructor = tensor_constructor or self.default_tensor_constructor

    @property
    def name(self):
        """Among the tensors of a Fuzzer."""
        return self._name

    @staticmethod
    def default_tensor_constructor(size, dtype, **kwargs):
        """Normal numbers; whole ones from 1 to 127 for the dtypes that have only such."""
        if dtype.is_floating_point or dtype.is_complex:
            return tessera.randn(size=size, dtype=dtype, device="cpu")
        return tessera.randint(1, 127, size=size, dtype=dtype, device="cpu")

    def satisfies_constraints(self, params):
        """Whether a tensor with these parameters would have a size that is wanted."""
        size, _, allocated = self._sizes(params)
        elements = _product(size)
        return not (
            (self._min_elements is not None and elements < self._min_elements)
            or (self._max_elements is not None and elements > self._max_elements)
            or (
                self._max_allocation_bytes is not None
                and _product(allocated) * self._dtype.itemsize > self._max_allocation_bytes
            )
        )

    def _make(self, params, state):
        """The tensor, and what is known of it."""
        size, steps, allocated = self._sizes(params)
        order = self._order(len(size), params, state)
        device = "cuda" if self._cuda else "cpu"
        memory = self._tensor_constructor(tuple(allocated[d] for d in order), dtype=self._dtype, **params).to(device)
        back = [0] * len(order)
        for place, d in enumerate(order):
            back[d] = place
        tensor = memory.permute(back)[tuple(slice(0, a, s) for a, s in zip(allocated, steps))]
        known = {
            "numel": tensor.numel(),
            "order": order,
            "steps": steps,
            "is_contiguous": tensor.is_contiguous(),
            "dtype": str(self._dtype),
        }
        return tensor, known

    def _sizes(self, params):
        def resolve(values):
            return tuple(params.get(v, v) if isinstance(v, str) else v for v in values or ())

        size, steps = resolve(self._size), resolve(self._steps)
        if self._dim_parameter is not None:
            size, steps = size[: params[self._dim_parameter]], steps[: params[self._dim_parameter]]
        steps = tuple(steps) + (1,) * (len(size) - len(steps))
        return size, steps, tuple(n * s for n, s in zip(size, steps))

    def _order(self, dims, params, state):
        order = list(range(dims))
        if self._roll_parameter is not None:
            turn = params[self._roll_parameter] % max(dims, 1)
            return order[-turn:] + order[:-turn] if turn else order
        if dims > 1 and state.rand() > self._probability_contiguous:
            while order == sorted(order) and not all(n == 1 for n in order):
                order = [int(d) for d in state.permutation(dims)]
        return order


class Fuzzer:
    """Draws tensors.

    Args:
        parameters: `FuzzedParameter`s, or lists of them.
        tensors: `FuzzedTensor`s, or lists of them.
        constraints: functions of all parameters by name; what they don't all call true is drawn again.
        seed: the same one gives the same tensors. Default: a random one.

    Raises: ValueError if names are used twice.
    """

    def __init__(self, parameters, tensors, constraints=None, seed=None):
        import numpy as np

        self._parameters, self._tensors = _flat(parameters), _flat(tensors)
        self._constraints = constraints or ()
        self._seed = int(np.random.RandomState().randint(0, 2**32, dtype=np.int64)) if seed is None else seed
        for kind, named in (("parameter", self._parameters), ("tensor", self._tensors)):
            names = [item.name for item in named]
            twice = {name for name in names if names.count(name) > 1}
            if twice:
                raise ValueError(f"Fuzzer: several {kind}s are called {sorted(twice)}")
        self._rejected = self._drawn = 0

    @property
    def rejection_rate(self):
        """The share of draws that were not wanted; None if there were none."""
        return self._rejected / self._drawn if self._drawn else None

    def take(self, n):
        """Draws n times. Yields (tensors by name, what is known of each by name, parameters by name).

        Raises: ValueError if a thousand draws in a row are not wanted."""
        import numpy as np

        state = np.random.RandomState(self._seed)
        for _ in range(n):
            params = self._draw(state)
            made = {tensor.name: tensor._make(params, state) for tensor in self._tensors}
            yield {k: t for k, (t, _) in made.items()}, {k: known for k, (_, known) in made.items()}, params

    def _draw(self, state):
        for _ in range(_MOST_TRIES):
            self._drawn += 1
            drawn = {p.name: p.sample(state) for p in self._parameters}
            params = {p.name: p._resolve(drawn[p.name], drawn) for p in self._parameters}
            if all(f(**params) for f in self._constraints) and all(
                t.satisfies_constraints(params) for t in self._tensors
            ):
                return params
            self._rejected += 1
        raise ValueError(f"Fuzzer: {_MOST_TRIES} draws in a row did not satisfy the constraints")


def _product(numbers):
    return functools.reduce(lambda a, b: a * b, numbers, 1)


def _flat(items):
    return list(itertools.chain.from_iterable(i if isinstance(i, (list, tuple)) else [i] for i in items))
