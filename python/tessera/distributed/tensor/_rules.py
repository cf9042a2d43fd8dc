"""How operators of DTensors may work on parts: for one dimension of a mesh at a time, which placements of the operands
give which of the results.

A rule is a function of a `Call` that yields choices: (placements of the results, placements of the tensor operands).
One placement stands for all results. That all are copies is always possible and need not be said. Of all choices the
one counts for which the least has to be sent (`plan`).
"""

import math
from dataclasses import dataclass

import tessera
from tessera._ops import Tag
from tessera.distributed.tensor._spec import DTensorSpec
from tessera.distributed.tensor._utils import compute_local_shape_and_global_offset, cut_order
from tessera.distributed.tensor.placement_types import Partial, Replicate, Shard, _NormPartial, _StridedShard, part_of

R, SUM = Replicate(), Partial()

# Elementwise without the tag; results lie as the first operand.
_PARTWISE = frozenset(
    "alias clone contiguous detach empty_like full_like lift_fresh ones_like zeros_like rand_like randn_like _to_copy "
    "zero_ fill_ copy_ positive gelu gelu_backward silu_backward sigmoid_backward tanh_backward threshold_backward "
    "leaky_relu_backward elu_backward hardtanh_backward hardswish_backward hardsigmoid_backward softplus_backward "
    "logit_backward mish_backward log_sigmoid_backward glu_jvp nan_to_num clamp clamp_min clamp_max".split()
)
_LINEAR = frozenset("alias clone contiguous detach lift_fresh _to_copy neg positive zero_".split())
_SUMS = frozenset("add add_ sub sub_ copy_ cat".split())
_PRODUCTS = frozenset("mul mul_ div div_".split())
# Dimensions change places, or come and go.
_MOVING = frozenset("t transpose permute unsqueeze".split())
_VIEWS = frozenset("view _unsafe_view squeeze reshape flatten unflatten".split())
# Arguments that are the shape of the result.
SIZES = {"slice_backward": "input_sizes", "select_backward": "input_sizes"}
SIZES.update(
    dict.fromkeys("view _unsafe_view expand new_empty new_empty_strided new_zeros new_ones new_full".split(), "size")
)
# Reductions, with what the parts' results are to the whole's; None: the parts have to be brought together.
_REDUCTIONS = dict.fromkeys(
    "var std var_mean std_mean argmax argmin logsumexp median nanmedian mode kthvalue aminmax all any".split()
)
_REDUCTIONS |= {"sum": "sum", "nansum": "sum", "count_nonzero": "sum", "mean": "avg", "prod": "product"}
_REDUCTIONS |= {"amax": "max", "max": "max", "amin": "min", "min": "min", "linalg_vector_norm": "norm"}
# The argument `dim` has to be whole, the others need not be.
_ALONG = frozenset(
    "_softmax _log_softmax _softmax_backward_data _log_softmax_backward_data cumsum cumprod logcumsumexp cummax cummin "
    "sort topk flip roll gather scatter scatter_add index_select index_add index_fill glu glu_backward renorm "
    "slice slice_backward split split_with_sizes cat".split()
)
# So many last dimensions have to be whole.
_BATCHED = dict.fromkeys(
    "tril triu inverse linalg_inv_ex linalg_cholesky_ex cholesky_inverse linalg_qr _linalg_svd _linalg_eigh "
    "_linalg_det _linalg_slogdet linalg_matrix_exp".split(),
    2,
)
_BATCHED |= {"_fft_r2c": 0, "linalg_cross": 1}
# Products: dimensions of operands and results by letters. Those that only operands have are summed over; those after
# the bar have to be whole.
_PRODUCT = {
    "mm": "mk,kn->mn",
    "bmm": "bmk,bkn->bmn",
    "mv": "mk,k->m",
    "dot": "k,k->",
    "vdot": "k,k->",
    "addmm": "+mn,mk,kn->mn",
    "baddbmm": "+bmn,bmk,bkn->bmn",
    "addmv": "+m,mk,k->m",
    "_scaled_dot_product_flash_attention_for_cpu": "bhqd,bhkd,bhke,bhqk->bhqe,bhq|qkde",
    "_scaled_dot_product_flash_attention_for_cpu_backward": "bhqe,bhqd,bhkd,bhke,bhqe,bhq,bhqk->bhqd,bhkd,bhke|qkde",
    "_scaled_dot_product_attention_math": "bhqd,bhkd,bhke,bhqk->bhqe,bhqk|qkde",
}
_LOSSES = frozenset("mse_loss l1_loss smooth_l1_loss huber_loss binary_cross_entropy kl_div soft_margin_loss".split())


@dataclass
class Call:
    """A call of an operator: arguments by name, with DTensorSpecs in place of DTensors, and its results as tensors
    of the device "meta".
    """

    func: object
    name: str
    args: dict
    specs: list
    outs: list
    mesh: object
    given: tuple = ((), {})

    @property
    def first(self):
        """The first tensor among the arguments."""
        return self.specs[0]

    def partials(self):
        """What sums the operands are."""
        found = {p for s in self.specs for p in s.placements if p.is_partial() and p.reduce_op in ("sum", "avg")}
        return sorted(found, key=repr)

    def keeps(self, partial, first):
        """True if along some dimension of the mesh an operand (or the `first` one) is this sum, and none is cut."""
        lines = zip(*(spec.placements for spec in self.specs))
        return any(partial in (now[:1] if first else now) and not any(p.is_shard() for p in now) for now in lines)

    def even(self, length):
        """True if the mesh cuts a length in equal pieces, however many of its dimensions do so."""
        return length % self.mesh.size() == 0

    def filled(self, length):
        """True if no piece is empty."""
        return part_of(length, self.mesh.size(), self.mesh.size() - 1)[0] > 0


def _aligned(spec, out_shape, d):
    """The placement of a broadcast operand where dimension `d` of the result is cut."""
    own = d - len(out_shape) + len(spec.shape)
    return Shard(own) if own >= 0 and spec.shape[own] == out_shape[d] else R


def _pointwise(call):
    shape, count = tuple(call.outs[0].shape), len(call.specs)
    # Of cuts that cost as much the first operand's comes first.
    own = [p.dim + len(shape) - call.first.ndim for p in call.first.placements if p.is_shard()] if call.specs else []
    for d in sorted(range(len(shape)), key=lambda d: d not in own):
        yield Shard(d), [_aligned(s, shape, d) for s in call.specs]
    for p in call.partials():
        if call.name in _LINEAR and count == 1 and (call.outs[0].dtype.is_floating_point or call.name != "_to_copy"):
            yield p, [p]
        elif call.name in _SUMS and count == 2 and call.keeps(p, True):
            yield p, [p, p]
        elif call.name in _PRODUCTS and not call.args.get("rounding_mode") and call.keeps(p, True):
            yield p, [p] + [R] * (count - 1)


def _dims(call, key="dim"):
    dim, ndim = call.args.get(key), call.first.ndim
    if dim is None or dim == [] or dim == ():
        return set(range(ndim))
    return {d % max(ndim, 1) for d in (dim if isinstance(dim, (list, tuple)) else [dim])}


def _norm_kind(order):
    if math.isinf(order):
        return Partial("max" if order > 0 else "min")
    return _NormPartial("sum", float(order)) if order else SUM


def _reduction(call):
    kind, dims, x = _REDUCTIONS[call.name], _dims(call), call.first
    if len(call.specs) > 1:
        yield from _pointwise(call)
        return
    left = [d for d in range(x.ndim) if d not in dims]
    for at, d in enumerate(left):
        yield Shard(d if call.args.get("keepdim") else at), [Shard(d)]
    if kind is None or len(call.outs) > 1:
        return
    partial = _norm_kind(call.args["ord"]) if kind == "norm" else Partial(kind)
    for d in dims if x.ndim else ():
        needs = call.even if kind == "avg" else bool if partial.reduce_op == "sum" else call.filled
        if needs(x.shape[d]) or (partial.reduce_op == "sum" and kind != "avg"):
            yield partial, [Shard(d)]
    for p in call.partials():
        if p.reduce_op == kind and not isinstance(p, _NormPartial) or p == partial and kind == "norm":
            yield p, [p]


def _outer(call, whole):
    """Cuts along dimensions, of all operands that have them, but for those in `whole`."""
    x = call.first
    for d in range(x.ndim):
        ins = [Shard(d) if s.ndim == x.ndim and s.shape[d] == x.shape[d] else R for s in call.specs]
        alike = all(s.ndim != x.ndim or p.is_shard() for s, p in zip(call.specs, ins))
        if d not in whole and alike and all(d < o.dim() and o.shape[d] == x.shape[d] for o in call.outs):
            yield Shard(d), ins


def _along(call):
    key = "dims" if call.name in ("flip", "roll") else "dim"
    whole = _dims(call, key)
    if call.name == "slice" and call.outs[0].shape == tuple(call.first.shape):
        whole = set()
    yield from _outer(call, whole)
    if call.name in ("cat", "slice", "split", "split_with_sizes"):
        for p in sorted({p for s in call.specs for p in s.placements if p.is_partial()}, key=repr):
            if call.keeps(p, False):
                yield p, [p] * len(call.specs)
    elif call.name == "gather":
        yield from ((Shard(d), [R, Shard(d)]) for d in whole)
    elif call.name == "index_select":
        yield from _looked_up(call, min(whole), 1, whole)


def _looked_up(call, at, count, gone):
    """Entries of the first operand where the others, of `count` dimensions, say: in the result these lie from `at` on,
    and the dimensions `gone` are not there."""
    others = len(call.specs) - 1
    kept = [d for d in range(call.first.ndim) if d not in gone]
    for place, d in enumerate(kept):
        yield Shard(place if place < at else place + count), [Shard(d)] + [R] * others
    shape = tuple(call.outs[0].shape)[at : at + count]
    for d in range(count):
        yield Shard(at + d), [R, *(_aligned(spec, shape, d) for spec in call.specs[1:])]
    for p in call.first.placements:
        if p.is_partial():
            yield p, [p] + [R] * others


def _index(call):
    """x[i, j, :, k]: dimensions that tensors name go, theirs come in the place of the first, or first of all if there
    are others between them."""
    named = [d for d, one in enumerate(call.args["indices"]) if one is not None]
    if call.outs[0].dim() != call.first.ndim - len(named) + max(spec.ndim for spec in call.specs[1:]):
        return  # masks
    together = named[-1] - named[0] == len(named) - 1
    yield from _looked_up(call, named[0] if together else 0, max(spec.ndim for spec in call.specs[1:]), set(named))


def _removed(call):
    """select and unbind, which take a dimension away; and the way back of the first."""
    gone, back = call.args["dim"], call.name == "select_backward"
    ndim = call.first.ndim
    gone %= ndim + back
    for d in range(ndim + back):
        if d != gone:
            less = Shard(d - (d > gone))
            yield (Shard(d), [less]) if back else (less, [Shard(d)])
    for p in call.partials():
        yield p, [p]


def _moved_dims(call):
    """For each dimension of the result the one of the operand that it is; None for a new one."""
    ndim, args = call.first.ndim, call.args
    dims = list(range(ndim))
    if call.name == "t":
        return dims[::-1]
    if call.name == "permute":
        return [d % ndim for d in args["dims"]]
    if call.name == "transpose":
        a, b = args["dim0"] % max(ndim, 1), args["dim1"] % max(ndim, 1)
        if ndim:
            dims[a], dims[b] = dims[b], dims[a]
        return dims
    dims.insert(args["dim"] % (ndim + 1), None)
    return dims


def _kept(call, pairs):
    for d, e in pairs:
        yield Shard(e), [Shard(d)]
    for p in {p for p in call.first.placements if p.is_partial()}:
        yield p, [p]


def _moving(call):
    return _kept(call, [(d, at) for at, d in enumerate(_moved_dims(call)) if d is not None])


def _groups(a, b):
    """Runs of dimensions of two shapes, without those of length 1, that hold as many elements."""
    a, b = ([(d, n) for d, n in enumerate(shape) if n != 1] for shape in (a, b))
    i = j = 0
    while i < len(a) and j < len(b):
        left, right, m, n = [a[i]], [b[j]], a[i][1], b[j][1]
        i, j = i + 1, j + 1
        while m != n:
            if m < n:
                left.append(a[i])
                m, i = m * a[i][1], i + 1
            else:
                right.append(b[j])
                n, j = n * b[j][1], j + 1
        yield left, right, m


def _ones(a, b):
    """Pairs of dimensions of length 1 of two shapes, at the same place among the elements."""
    free = [(math.prod(b[:e]), e) for e, n in enumerate(b) if n == 1]
    for d, n in enumerate(a):
        found = next((pair for pair in free if n == 1 and pair[0] == math.prod(a[:d])), None)
        if found is not None:
            free.remove(found)
            yield d, found[1]


def _view(call):
    old, new, size = tuple(call.first.shape), tuple(call.outs[0].shape), call.mesh.size()
    if call.name == "view" and "size" not in call.args:
        return  # of the bytes
    pairs = []
    if old == new:
        pairs = [(d, d) for d in range(len(old))]
    elif 0 not in old:
        pairs = list(_ones(old, new))
        for left, right, total in _groups(old, new):
            (d, m), (e, n) = left[0], right[0]
            same = -(-m // size) * (total // m) == -(-n // size) * (total // n) and call.mesh.ndim == 1
            if len(left) == len(right) == 1 or same or (call.even(m) and call.even(n)):
                pairs.append((d, e))
    yield from _kept(call, pairs)


def _expand(call):
    shape = tuple(call.outs[0].shape)
    choices = ((d, _aligned(call.first, shape, d)) for d in range(len(shape)))
    return _kept(call, [(p.dim, d) for d, p in choices if p.is_shard()])


def _made(call):
    """new_zeros and the like: as the operand, if of its shape; else copies, for which the operand need not move."""
    out, shape = call.outs[0], call.first.shape
    cut = set(range(call.first.ndim)) if tuple(out.shape) == tuple(shape) else set()
    if call.name == "new_empty_strided":
        cut = {d for d in cut if call.even(shape[d]) and out.is_contiguous()}
    yield from ((Shard(d) if d in cut else R, [Shard(d)]) for d in range(call.first.ndim))
    yield from ((R, [p]) for p in call.partials())


def _product(call):
    text, _, whole = _PRODUCT[call.name].partition("|")
    terms, results = (side.split(",") for side in text.split("->"))
    terms = terms[: len(call.specs)]
    if len(terms) != len(call.specs):
        return
    sums = [term.startswith("+") for term in terms]
    terms = [term.lstrip("+") for term in terms]

    def where(letter, term, spec):
        at = term.find(letter) - len(term) + spec.ndim if letter in term else -1
        return Shard(at) if at >= 0 and (spec.shape[at] != 1 or not sums[0] and not whole) else R

    for letter in dict.fromkeys("".join(terms)):
        if letter in whole:
            continue
        ins = [where(letter, term, spec) for term, spec in zip(terms, call.specs)]
        lengths = {spec.shape[p.dim] for p, spec in zip(ins, call.specs) if p.is_shard()}
        if len(lengths) > 1 and not all(call.even(n) for n in lengths):
            continue
        outs = [Shard(term.index(letter)) if letter in term else SUM for term in results]
        if any(o.is_partial() for o in outs):
            ins = [SUM if added else p for p, added in zip(ins, sums)]
        yield outs, ins
    if not whole:
        factors = [at for at, added in enumerate(sums) if not added]
        for p in call.partials():
            for at in factors:
                yield p, [p if added or here == at else R for here, added in enumerate(sums)]


def _asked(call, placements):
    """Those of the results that a backward operator was asked for: there are no others."""
    return [placement for placement, wanted in zip(placements, call.args["output_mask"]) if wanted]


def _layer_norm(call):
    backward = call.name.endswith("backward")
    outer = call.first.ndim - len(call.args["normalized_shape"])
    weights = sum(call.args.get(k) is not None for k in ("weight", "bias"))
    for d in range(outer):
        ins = [Shard(d)] * (len(call.specs) - weights) + [R] * weights
        yield (_asked(call, [Shard(d), SUM, SUM]) if backward else Shard(d)), ins


def _convolution(call):
    backward, rest = call.name.endswith("backward"), len(call.specs)
    if backward:
        yield _asked(call, [Shard(0), SUM, SUM]), [Shard(0), Shard(0), R]
        return
    yield Shard(0), [Shard(0)] + [R] * (rest - 1)
    if call.args["groups"] == 1 and not call.args["transposed"]:
        yield Shard(1), [R] + [Shard(0)] * (rest - 1)


def _loss(call):
    mode = call.args.get("reduction", 1)
    for outs, ins in list(_pointwise(Call(call.func, "", {}, call.specs, [_broadcast(call)], call.mesh))):
        if mode == 0:
            yield outs, ins
        elif mode == 2 or call.even(_broadcast(call).shape[outs.dim]):
            yield Partial("sum" if mode == 2 else "avg"), ins


def _broadcast(call):
    return tessera.empty(tessera.broadcast_shapes(*(tuple(s.shape) for s in call.specs)), device="meta")


def _rows(call, spec, places):
    """(number of rows, first one) that this process has of a table of them."""
    shape, start = compute_local_shape_and_global_offset(spec.shape, call.mesh, places)
    return shape[0], start[0]


def _masked_embedding(call, places, func, args, kwargs):
    """Rows of this process's part of a table; zeros for those of others."""
    weight, indices = args[:2]
    count, start = _rows(call, call.first, places)
    here = (indices >= start) & (indices < start + count)
    if not count:
        return weight.new_zeros((*indices.shape, weight.shape[1]))
    rows = func(weight, (indices - start).clamp(0, count - 1), **kwargs)
    return rows * here.unsqueeze(-1)


def _embedding(call):
    weight, indices = call.specs
    yield Shard(indices.ndim), [Shard(1), R]
    for d in range(indices.ndim):
        yield Shard(d), [R, Shard(d)]
    yield SUM, [Shard(0), R], _masked_embedding


def _embedding_backward(call):
    grad, indices = call.specs
    yield Shard(1), [Shard(indices.ndim), R]
    for d in range(indices.ndim):
        if not call.args.get("scale_grad_by_freq"):
            yield SUM, [Shard(d), Shard(d)]
    for p in call.partials():
        yield p, [p, R]


_TABLE = {"expand": _expand, "index": _index, "select": _removed, "unbind": _removed, "select_backward": _removed}
_TABLE |= {"embedding": _embedding, "embedding_dense_backward": _embedding_backward}
_TABLE |= dict.fromkeys(("_native_layer_norm", "native_layer_norm", "native_layer_norm_backward"), _layer_norm)
_TABLE |= dict.fromkeys(("convolution", "convolution_backward"), _convolution)
_TABLE |= dict.fromkeys((name for name, key in SIZES.items() if name.startswith("new_")), _made)
for _names, _rule in (
    (_PARTWISE, _pointwise),
    (_REDUCTIONS, _reduction),
    (_ALONG, _along),
    (_MOVING, _moving),
    (_VIEWS, _view),
    (_PRODUCT, _product),
    (_LOSSES, _loss),
):
    _TABLE |= dict.fromkeys(_names, _rule)
_TABLE |= dict.fromkeys(_BATCHED, lambda call: _outer(call, set(range(call.first.ndim)[-_BATCHED[call.name] :])))

registered = {}  # operators' rules that programs have given


def _registered(call):
    """A program's rule, in the form of this module's. Its inputs are one for each argument, None for no tensor."""
    args, kwargs = call.given
    for outs, ins in registered[call.func](*args, **kwargs):
        yield list(outs), [p for p in ins if p is not None][: len(call.specs)]


def rule_of(func, name):
    """The rule of an operator; None if there is none."""
    if func in registered:
        return _registered
    return _TABLE.get(name) or (_pointwise if Tag.pointwise in func.tags else None)


# ---- the choice

_START = 1024  # what a message costs, in bytes


def _cost(now, wanted, nbytes):
    """What it costs to bring `nbytes` from one placement to another."""
    if now == wanted:
        return 0
    if now.is_replicate():
        return 1
    if now.is_partial():
        return _START + nbytes * 2 + wanted.is_shard()  # in pieces only if others are: the next operator wants them all
    return _START + nbytes * (1.25 if wanted.is_shard() else 1)


@dataclass(frozen=True)
class Plan:
    """How a call is made in parts: placements of operands and results, and what does it instead of the operator."""

    ins: tuple
    outs: tuple
    run: object
    call: Call


def _unstrided(placement):
    return Shard(placement.dim) if isinstance(placement, _StridedShard) else placement


def _strided_like(placements, now, wanted):
    """Placements of one mesh dimension, with strided shards if operands that stay as they are have them."""
    factors = {p.split_factor for p, w in zip(now, wanted) if isinstance(p, _StridedShard) and w == _unstrided(p)}
    if not factors:
        return list(placements)
    return [_StridedShard(p.dim, max(factors)) if p.is_shard() else p for p in placements]


def plan(call, rule, written):
    """The Plan of a call; None if an operand that is written to (`written`: their places) would have to be moved."""
    count = len(call.outs)
    choices = [choice if len(choice) == 3 else (*choice, None) for choice in rule(call)]
    if rule is not _registered:
        choices.insert(0, (R, [R] * len(call.specs), None))
    choices = [([o] * count if not isinstance(o, list) else o, ins, run) for o, ins, run in choices]
    weights = [math.prod(spec.shape) * 4 for spec in call.specs]
    ins, outs, runs = [], [], []
    for at in range(call.mesh.ndim):
        given = [spec.placements[at] for spec in call.specs]
        now = [_unstrided(p) for p in given]
        fit = [c for c in choices if all(c[1][w] == now[w] == c[0][k] for k, w in enumerate(written) if k < count)]
        if not fit or any(w >= len(now) for w in written):
            return None
        best = min(fit, key=lambda c: sum(map(_cost, now, c[1], weights)))
        ins.append(_strided_like(best[1], given, best[1]))
        outs.append(_strided_like(best[0], given, best[1]))
        runs.append(best[2])
    made = Plan(tuple(zip(*ins)), tuple(zip(*outs)), next((r for r in runs if r), None), call)
    try:
        for placements in (*made.ins, *made.outs):
            cut_order(placements)
    except NotImplementedError:
        return None  # a strided shard would lose the cut that it follows
    return made


def result_spec(plan, at):
    """The DTensorSpec of a result."""
    out = plan.call.outs[at]
    return DTensorSpec(plan.call.mesh, tuple(plan.outs[at]), tuple(out.shape), tuple(out.stride()))
