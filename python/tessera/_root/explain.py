"""`explain`: the way that a call takes through the library."""

from tessera import _C

# What works for a rule of the op tables: where the call is prepared, and who computes.
_RULES = {
    "POINTWISE": "tensor/ops/pointwise.cc promotes and broadcasts; the block kernel pw::{kernel} "
    "(tensor/cpu/pointwise/ops_*.cc, "
    "nn/cpu/ops_*.cc) runs in the elementwise engine, tensor/cpu/pointwise/pointwise.cc",
    "STRUCTURED": "the meta function gives shape, dtype and errors; the kernel writes into the result",
    "VIEW": "a window on the same storage; nothing is computed",
    "COMPOSITE": "other operators, each with a way of its own",
    "DIRECT": "a hand-written kernel makes the result",
    "SCALAR_OVERLOAD": "the number becomes a 0-dim tensor for {kernel}",
}


class Step:
    """One operator call: `schema` (the overload that was chosen), `rule`, `source` (file:line of its definition),
    `keys` (highest first), `steps` (pairs of key and what
    stands there; the last one runs), `tried` (overloads that the arguments did not fit), `simd` (the target that
    kernels are chosen for).
    """

    def __init__(self, found):
        self.schema, self.rule, self.source = found["schema"], found["rule"], found["source"]
        self.keys, self.steps, self.tried, self.simd = found["keys"], found["steps"], found["tried"], found["simd"]

    @property
    def name(self):
        """The qualified name, "aten::add.Tensor"."""
        return self.schema.partition("(")[0]

    def __str__(self):
        rule, _, kernel = self.rule.partition(" ")
        lines = [self.schema]
        lines += [f"  does not fit   {other}" for other in self.tried]
        lines.append(f"  defined in     {self.source}")
        lines.append(f"  keys           {', '.join(self.keys) or 'none'}")
        lines += [f"  at {key:<11} {what}" for key, what in self.steps]
        lines.append(f"  rule           {self.rule}: {_RULES.get(rule, '').format(kernel=kernel)}".rstrip(": "))
        lines.append(f"  SIMD target    {self.simd}")
        return "\n".join(lines)


class Explanation(list):
    """The operator calls that a call leads to, in order, as `Step` objects. Prints as a readable page."""

    def __repr__(self):
        return "\n\n".join(map(str, self)) or "no operator was called"


def explain(function, *args, **kwargs):
    """The way that `function(*args, **kwargs)` takes: overload, dispatch keys, what stands at each, rule, file, SIMD
    target.

    For an operator (`tessera.add`, `Tensor.add`) nothing is computed. Any other callable is run, and every public
    operator that it calls is explained.

    Returns: `Explanation`, a list of `Step`. Raises: TypeError if no overload takes the arguments; what the function
        itself raises.

        >>> print(tessera.explain(tessera.add, tessera.ones(2), 1)[0].name)
        aten::add.Scalar
    """
    found = _C._explain(function, args, kwargs)
    if found is not None:
        return Explanation([Step(found)])
    from tessera.overrides import TorchFunctionMode

    steps = Explanation()

    class Recorder(TorchFunctionMode):
        def __torch_function__(self, func, types, args=(), kwargs=None):
            step = _C._explain(func, tuple(args), kwargs or {})
            if step is not None:
                steps.append(Step(step))
            return func(*args, **(kwargs or {}))

    with Recorder():
        function(*args, **kwargs)
    return steps
