"""Kullback-Leibler divergences, found by the types of both distributions.

>>> D = tessera.distributions
>>> D.kl_divergence(D.Normal(tessera.tensor(0.0), 1.0), D.Normal(tessera.tensor(1.0), 1.0))
tensor(0.5000)
"""

from warnings import warn

__all__ = ["kl_divergence", "register_kl"]

_KL_REGISTRY = {}  # (type of p, type of q) -> function (p, q)
_FOUND = {}  # the same for pairs of types that were asked about


def register_kl(type_p, type_q):
    """A decorator: kl_divergence(p, q) of these types, and of their subclasses without one of their own, calls the
    function (p, q).

    Of several pairs that match, the most derived one is taken, p's type before q's; where q's type before p's would
    give another one, a RuntimeWarning says so: register the pair that is meant.

        @register_kl(Normal, MyNormal)
        def kl_normal_mine(p, q): ...

    Other packages have bases of their own, so any class will do. Raises: TypeError for what is no class.
    """
    for name, kind in (("type_p", type_p), ("type_q", type_q)):
        if not isinstance(kind, type):
            raise TypeError(f"Expected {name} to be a class of distributions but got {kind!r}")

    def register(function):
        _KL_REGISTRY[type_p, type_q] = function
        _FOUND.clear()
        return function

    return register


def _find(type_p, type_q):
    """The function for a pair of types, or None."""
    order_p, order_q = type_p.__mro__, type_q.__mro__
    matches = [
        (order_p.index(one), order_q.index(other)) for one, other in _KL_REGISTRY if one in order_p and other in order_q
    ]
    if not matches:
        return None
    p, q = min(matches)
    other_p, other_q = min(matches, key=lambda match: match[::-1])
    function = _KL_REGISTRY[order_p[p], order_q[q]]
    if _KL_REGISTRY[order_p[other_p], order_q[other_q]] is not function:
        warn(
            f"Ambiguous kl_divergence({type_p.__name__}, {type_q.__name__}). Please register_kl("
            f"{order_p[p].__name__}, {order_q[other_q].__name__})",
            RuntimeWarning,
            stacklevel=3,
        )
    return function


def kl_divergence(p, q):
    """KL(p || q), the expectation over p of log p(x) - log q(x), of the batch shape of both.

    Raises: NotImplementedError for types of which no pair is registered.
    """
    pair = type(p), type(q)
    if pair not in _FOUND:
        _FOUND[pair] = _find(*pair)
    function = _FOUND[pair]
    if function is None:
        raise NotImplementedError(
            f"No KL(p || q) is implemented for p type {pair[0].__name__} and q type {pair[1].__name__}"
        )
    return function(p, q)
