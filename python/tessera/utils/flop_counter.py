"""How many floating-point operations a program takes, counted operator by operator: `FlopCounterMode`.

Products of matrices, convolutions, attention and recurrent layers are counted, a multiplication with an addition as
two; what is linear in the size of its inputs is not.
"""

import functools
import math

import tessera
from tessera.utils._python_dispatch import TorchDispatchMode
from tessera.utils.module_tracker import ModuleTracker

__all__ = ["FlopCounterMode", "flop_registry", "register_flop_formula"]

# OpOverloadPacket -> function of the operator's arguments, with its result as out_val.
flop_registry: dict = {}

_aten = tessera.ops.aten


def _shape_of(value):
    return value.shape if isinstance(value, tessera.Tensor) else value


def _of_shapes(formula):
    """A formula over shapes as one over tensors."""
    from tessera.utils._pytree import tree_map

    @functools.wraps(formula)
    def over_tensors(*args, out_val=None, **kwargs):
        args, kwargs, out_shape = tree_map(_shape_of, (args, kwargs, out_val))
        return formula(*args, out_shape=out_shape, **kwargs)

    return over_tensors


def _raw(formula):
    return formula if getattr(formula, "_get_raw", False) else _of_shapes(formula)


def register_flop_formula(targets, get_raw=False):
    """Decorator: how the operations of an operator are counted.

    Args:
        targets: an operator such as `torch.ops.aten.mm`, or a list of them.
        get_raw: the formula is called with the operator's own arguments and its result as `out_val`; otherwise with
            shapes in place of tensors, and that of the result as `out_shape`.

    Raises: ValueError for what is no operator (OpOverloadPacket).
    """
    targets = list(targets) if isinstance(targets, (list, tuple)) else [targets]
    for target in targets:
        if not isinstance(target, tessera._ops.OpOverloadPacket):
            raise ValueError(
                f"register_flop_formula: expected operators such as torch.ops.aten.mm (OpOverloadPacket), but got "
                f"{target!r}, a {type(target).__name__}"
            )

    def register(flop_formula):
        for target in targets:
            if target in flop_registry:
                raise RuntimeError(f"there is a flop formula for {target} already")
            flop_registry[target] = flop_formula if get_raw else _of_shapes(flop_formula)
        if get_raw:
            flop_formula._get_raw = True
        return flop_formula

    return register


def _product(a, b):
    """[..., m, k] times [k, n] or [..., k, n]: a multiplication and an addition for each of m, k and n."""
    return 2 * math.prod(a) * b[-1]


@register_flop_formula([_aten.mm, _aten.bmm, _aten._scaled_mm])
def _products(a, b, *_, **__):
    return _product(a, b)


@register_flop_formula([_aten.addmm, _aten.baddbmm])
def _sums_with_products(_bias, a, b, *_, **__):
    """Adding the bias is not counted."""
    return _product(a, b)


def _convolution(x, weight, out, transposed):
    """Each element of the weights meets every place of the result (transposed: of the input) of each sample once."""
    places = (x if transposed else out)[2:]
    return 2 * x[0] * math.prod(places) * math.prod(weight)


@register_flop_formula([_aten.convolution, _aten._convolution])
def _convolutions(x, weight, _bias, _stride, _padding, _dilation, transposed, *_, out_shape, **__):
    return _convolution(x, weight, out_shape, transposed)


@register_flop_formula(_aten.convolution_backward)
def _convolutions_backward(grad, x, weight, *others, **_):
    """The gradients of the input and of the weights are convolutions of as many operations as the first one."""
    transposed, wanted = others[4], others[7]
    return sum(wanted[:2]) * _convolution(x, weight, grad, transposed)


def _attention(query, key, value, products_of_keys, products_of_values):
    """[..., L, E] queries, [..., S, E] keys, [..., S, F] values: so many products of L x S x E and L x S x F."""
    *batch, length, width = query
    return 2 * math.prod(batch) * length * key[-2] * (width * products_of_keys + value[-1] * products_of_values)


@register_flop_formula(_aten._scaled_dot_product_flash_attention_for_cpu)
def _attentions(query, key, value, *_, **__):
    """Scores and their product with the values."""
    return _attention(query, key, value, 1, 1)


@register_flop_formula(_aten._scaled_dot_product_flash_attention_for_cpu_backward)
def _attentions_backward(_grad, query, key, value, *_, **__):
    """The scores once more, gradients of queries and keys; gradients of scores and values."""
    return _attention(query, key, value, 3, 2)


@register_flop_formula(_aten._rnn_layer)
def _recurrences(gates, _h0, _c0, w_hh, _b_hh=None, w_hr=None, *_, **__):
    """The state of each step and sample times the weights of each direction, and its projection; the inputs' products
    are products of matrices.
    """
    return 2 * math.prod(gates[:-1]) * (math.prod(w_hh) + math.prod(w_hr or (0,)))


@register_flop_formula(_aten._rnn_layer_backward)
def _recurrences_backward(_output_grad, _h_grad, _c_grad, _h0, _c0, w_hh, w_hr, output, *_, **__):
    """The gradient of the state; those of the weights are products of matrices."""
    return 2 * math.prod(output[:-1]) * (math.prod(w_hh) + math.prod(w_hr or (0,)))


class _Counter(TorchDispatchMode):
    """Counts what reaches the devices."""

    def __init__(self, owner):
        super().__init__()
        self.owner = owner

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        self.owner._count(func._overloadpacket, args, kwargs, out)
        return out


class FlopCounterMode:
    """Context manager that counts the floating-point operations of what runs in it, forward and backward, and prints a
    table of them by modules when it ends.

    Args:
        mods: deprecated: modules are found as they run.
        depth: how many levels of modules the table has; None for all.
        display: whether to print the table.
        custom_mapping: operator -> formula, in addition to the registered ones and before them
            (`register_flop_formula` says what a formula gets).

        >>> with tessera.utils.flop_counter.FlopCounterMode(display=False) as counter:
        ...     _ = tessera.nn.Linear(4, 8)(tessera.ones(2, 4))
        >>> counter.get_total_flops()
        128
    """

    def __init__(self, mods=None, depth=2, display=True, custom_mapping=None):
        if mods is not None:
            import warnings

            warnings.warn("FlopCounterMode: mods is not needed; modules are found as they run", stacklevel=2)
        self.depth = depth
        self.display = display
        self.flop_counts: dict = {"Global": {}}
        self.flop_registry = {
            **flop_registry,
            **{target: _raw(formula) for target, formula in (custom_mapping or {}).items()},
        }
        self.mod_tracker = ModuleTracker()
        self._counter = None

    def __enter__(self):
        if self._counter is not None:
            raise RuntimeError("this FlopCounterMode is in use already; make another one")
        self.flop_counts = {"Global": {}}
        self.mod_tracker.__enter__()
        self._counter = _Counter(self)
        self._counter.__enter__()
        return self

    def __exit__(self, exc_type, exc_value, traceback):
        self._counter.__exit__(exc_type, exc_value, traceback)
        self._counter = None
        self.mod_tracker.__exit__(exc_type, exc_value, traceback)
        if self.display and exc_type is None:
            print(self.get_table(self.depth))
        return False

    def _count(self, packet, args, kwargs, out):
        formula = self.flop_registry.get(packet)
        if formula is None:
            return
        flops = formula(*args, **kwargs, out_val=out)
        for name in {"Global", *self.mod_tracker.parents}:
            counts = self.flop_counts.setdefault(name, {})
            counts[packet] = counts.get(packet, 0) + flops

    def get_total_flops(self):
        """The number of operations so far."""
        return sum(self.flop_counts["Global"].values())

    def get_flop_counts(self):
        """{module: {operator: operations}}; "Global" is everything, other names are those of ModuleTracker."""
        return {name: dict(counts) for name, counts in self.flop_counts.items()}

    def get_table(self, depth=None):
        """The counts as text.

        Args:
            depth: how many levels of modules; by default that of the constructor, and all if that was None.
        """
        depth = self.depth if depth is None else depth
        total = self.get_total_flops()
        modules = sorted(name for name in self.flop_counts if name != "Global")
        tops = [name for name in modules if "." not in name]
        whole = "Global"
        if len(tops) == 1 and self.flop_counts[tops[0]] == self.flop_counts["Global"]:
            whole = tops[0]  # one module that does all of it is shown in place of "Global"
        shown = [whole, *(n for n in modules if n != whole and (depth is None or n.count(".") < depth))]
        rows = [("Module", "FLOP", "% Total")]
        for name in shown:
            counts = self.flop_counts[name]
            rows.append((name, *_cells(sum(counts.values()), total)))
            rows += [(f"- {packet}", *_cells(flops, total)) for packet, flops in counts.items()]
        return _text(rows)


def _cells(flops, total):
    """(operations in the unit of the total, their part of it)."""
    step = 0
    while step < 4 and total >= 1000 ** (step + 1):
        step += 1
    number = f"{flops / 1000**step:.3f}{' KMBT'[step]}" if step else str(flops)
    return number, f"{flops / total:.2%}" if total else "0%"


def _text(rows):
    """Rows as a table: the first column to the left, the others to the right, a line under the head."""
    widths = [max(map(len, column)) for column in zip(*rows)]
    rows = [rows[0], tuple("-" * width for width in widths), *rows[1:]]
    lines = ([row[0].ljust(widths[0]), *(c.rjust(w) for c, w in zip(row[1:], widths[1:]))] for row in rows)
    return "\n".join("  ".join(line) for line in lines)
