"""The base of all distributions: shapes, checks of parameters and values, and what follows from other methods."""

from warnings import warn

import tessera
from tessera import Tensor
from tessera._C import Size

from . import constraints
from .utils import lazy_property


class _Parameter:
    """What a class shows of a parameter; objects have it as an attribute of their own."""

    def __init__(self, name):
        self.name = name
        self.__doc__ = f"The parameter {name}: a tensor of the batch's shape, and of its own event dimensions."

    def __get__(self, instance, owner):
        if instance is None:
            return self
        if "base_dist" in instance.__dict__:  # made by the constructor of transformed distributions, as some subclasses
            return getattr(instance.base_dist, self.name)
        raise AttributeError(f"{owner.__name__} object has no attribute {self.name!r}: its constructor did not run")


class Distribution:
    """A probability distribution over tensors.

    A sample has the shape `sample_shape + batch_shape + event_shape`: independent draws, distributions with parameters
    of their own, and the dimensions of one draw.

    Args:
        batch_shape: tessera.Size of the batch.
        event_shape: tessera.Size of one event.
        validate_args: whether parameters and values are checked; None: as `set_default_validate_args` says.

    Raises: ValueError for parameters that do not satisfy `arg_constraints`. What a subclass does not define raises
    NotImplementedError.
    """

    has_rsample = False
    has_enumerate_support = False
    _validate_args = __debug__
    _family: "type" = None  # of the package's own: the class that declares the parameters, which has the constructor
    _names: "tuple[str, ...]" = ()  # its parameters, as formulas take them
    _told = True  # whether repr() has them; not where PyTorch's are those of a distribution inside

    def __init_subclass__(cls, parameters=None, **options):
        super().__init_subclass__(**options)
        if parameters is not None:
            cls._family, cls._names = cls, tuple(parameters.split())
            for name in cls._names:
                if not hasattr(cls, name):
                    setattr(cls, name, _Parameter(name))

    def __init__(self, batch_shape=Size(), event_shape=Size(), validate_args=None):
        self._batch_shape, self._event_shape = batch_shape, event_shape
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            self._validate_parameters()
        super().__init__()

    @staticmethod
    def set_default_validate_args(value):
        """Says whether distributions check parameters and values where their constructor is not told.

        Raises: ValueError unless value is True or False.
        """
        if value not in (True, False):
            raise ValueError(f"set_default_validate_args() takes True or False, but got {value!r}")
        Distribution._validate_args = value

    # -- what it is ---------------------------------------------------------------------------------------------

    @property
    def batch_shape(self):
        """The shape of the batch of distributions (tessera.Size)."""
        return self._batch_shape

    @property
    def event_shape(self):
        """The shape of a single draw (tessera.Size)."""
        return self._event_shape

    @property
    def arg_constraints(self):
        """{parameter's name: its constraint}."""
        raise NotImplementedError(f"{type(self)} does not implement arg_constraints")

    @property
    def support(self):
        """The constraint that values satisfy."""
        raise NotImplementedError(f"{type(self)} does not implement support")

    @property
    def mean(self):
        """The expectation, of shape batch_shape + event_shape."""
        raise NotImplementedError(f"{type(self)} does not implement mean")

    @property
    def mode(self):
        """A value of highest density, of shape batch_shape + event_shape."""
        raise NotImplementedError(f"{type(self)} does not implement mode")

    @property
    def variance(self):
        """The variance of each element, of shape batch_shape + event_shape."""
        raise NotImplementedError(f"{type(self)} does not implement variance")

    @property
    def stddev(self):
        """The standard deviation of each element: the root of `variance`."""
        return self.variance.sqrt()

    def expand(self, batch_shape, _instance=None):
        """The same distribution with batches of `batch_shape`, whose parameters are expanded without a copy.

        Args:
            batch_shape: a shape to which the present one broadcasts.
            _instance: what subclasses with a constructor of their own hand up.
        """
        raise NotImplementedError(f"{type(self)} does not implement expand({tuple(batch_shape)}, {_instance})")

    # -- draws --------------------------------------------------------------------------------------------------

    def sample(self, sample_shape=Size()):
        """Draws of shape sample_shape + batch_shape + event_shape, without gradients."""
        with tessera.no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape=Size()):
        """Draws of that shape whose gradients go to the parameters, where `has_rsample`."""
        raise NotImplementedError(f"{type(self)} does not implement rsample({tuple(sample_shape)})")

    def sample_n(self, n):
        """n draws: `sample((n,))`, which takes its place."""
        warn("`sample_n(n)` will be deprecated. Use `sample((n,))` instead.", FutureWarning, stacklevel=2)
        return self.sample(Size((n,)))

    # -- of values ----------------------------------------------------------------------------------------------

    def log_prob(self, value):
        """The logarithm of density or probability at `value` (of shape sample_shape + batch_shape + event_shape)."""
        raise NotImplementedError(f"{type(self)} does not implement log_prob() of a {type(value).__name__}")

    def cdf(self, value):
        """The probability of draws up to `value`."""
        raise NotImplementedError(f"{type(self)} does not implement cdf() of a {type(value).__name__}")

    def icdf(self, value):
        """The value up to which draws lie with the probability `value`."""
        raise NotImplementedError(f"{type(self)} does not implement icdf() of a {type(value).__name__}")

    def enumerate_support(self, expand=True):
        """All values of a discrete distribution along a new first dimension: of shape
        (number of values,) + batch_shape + event_shape, or with batch dimensions of 1 unless `expand`.
        """
        raise NotImplementedError(f"{type(self)} does not implement enumerate_support(expand={expand})")

    def entropy(self):
        """The entropy in nats, of batch_shape."""
        raise NotImplementedError(f"{type(self)} does not implement entropy")

    def perplexity(self):
        """exp of the entropy, of batch_shape."""
        return self.entropy().exp()

    # -- for subclasses -----------------------------------------------------------------------------------------

    def _extended_shape(self, sample_shape=Size()):
        """The shape of a sample."""
        return Size((*sample_shape, *self._batch_shape, *self._event_shape))

    def _get_checked_instance(self, cls, _instance=None):
        """A blank object for `expand` of `cls` to fill: `_instance`, or one of self's type if that has cls's
        constructor.
        """
        if _instance is not None:
            return _instance
        kind = type(self)
        if kind.__init__ != cls.__init__:
            raise NotImplementedError(
                f"Subclass {kind.__name__} of {cls.__name__} that defines a custom __init__ method must also define a "
                "custom .expand() method."
            )
        return kind.__new__(kind)

    def _validate_parameters(self):
        try:
            arg_constraints = self.arg_constraints
        except NotImplementedError:
            warn(
                f"{type(self)} does not define `arg_constraints`. Please set `arg_constraints = {{}}` or initialize "
                "the distribution with `validate_args=False` to turn off validation.",
                stacklevel=4,
            )
            return
        own = self.__dict__
        for name, constraint in arg_constraints.items():
            if name in own:
                value = own[name]
            elif isinstance(getattr(type(self), name, None), lazy_property):
                continue  # follows from others
            else:
                value = getattr(self, name)
            if not (constraints.is_dependent(constraint) or constraint._holds(value)):
                raise ValueError(
                    f"Expected parameter {name} ({type(value).__name__} of shape {tuple(value.shape)}) of "
                    f"distribution {self!r} to satisfy the constraint {constraint!r}, but found invalid values:\n"
                    f"{value}"
                )

    def _validate_sample(self, value):
        """Raises ValueError unless `value` is a tensor whose shape fits and whose events are in the support."""
        if not isinstance(value, Tensor):
            raise ValueError(f"The value argument to log_prob must be a Tensor, but was a {type(value).__name__}")
        shape, event, batch = value.shape, self._event_shape, self._batch_shape
        if event and (len(shape) < len(event) or shape[len(shape) - len(event) :] != event):
            raise ValueError(f"The right-most size of value must match event_shape: {shape} vs {event}.")
        for given, own in zip(reversed(shape[: len(shape) - len(event)]), reversed(batch)):
            if given != own and given != 1 and own != 1:
                raise ValueError(
                    f"Value is not broadcastable with batch_shape+event_shape: {shape} vs {batch + event}."
                )
        try:
            support = self.support
        except NotImplementedError:
            warn(
                f"{type(self)} does not define `support` to enable sample validation. Please initialize the "
                "distribution with `validate_args=False` to turn off validation.",
                stacklevel=3,
            )
            return
        if not support._holds(value):
            raise ValueError(
                f"Expected value argument ({type(value).__name__} of shape {tuple(shape)}) to be within the support "
                f"({support!r}) of the distribution {self!r}, but found invalid values:\n{value}"
            )

    def __repr__(self):
        own = self.__dict__
        shown = ((name, own[name]) for name in self.arg_constraints if self._told and name in own)
        texts = (f"{name}: {value if value.numel() == 1 else value.size()}" for name, value in shown)
        return f"{type(self).__name__}({', '.join(texts)})"
