"""Many parameters of a module, one after the other in a tensor of one dimension that is cut over processes."""

from dataclasses import dataclass, field

import tessera
from tessera.distributed import _functional_collectives as collectives
from tessera.distributed import distributed_c10d as c10d
from tessera.distributed.fsdp._group import Piece
from tessera.distributed.fsdp._sharded import set_parameter, sized
from tessera.nn import Parameter

FLAT = "_flat_param"


@dataclass
class Entry:
    """A parameter among them: its place from `start` to `stop`."""

    places: list
    shape: tuple
    start: int
    stop: int
    original: Parameter
    whole: Parameter = None
    earlier: object = field(default=None)  # a reduced gradient, while one that is not is shown


class Gradients(list):
    """A gradient or None for each entry."""

    @property
    def dtype(self):
        return next(one.dtype for one in self if one is not None)


def set_gradient(parameter, gradient):
    """Sets a gradient that may have another size or dtype than the parameter."""
    if gradient is None or (gradient.shape == parameter.shape and gradient.dtype == parameter.dtype):
        parameter.grad = gradient
        return
    data = parameter.data
    parameter.grad = None
    parameter.data = tessera.empty_like(gradient)
    parameter.grad = gradient
    parameter.data = data


def _uniform(values, what):
    values = list(dict.fromkeys(values))
    if len(values) > 1:
        raise ValueError(f"Must flatten tensors with uniform {what} but got {' and '.join(map(str, values))}")
    return values[0]


class FlatParameters(Piece):
    """The parameters of a unit.

    Args:
        module: where the flat parameter is registered.
        owned: {parameter: [(module, name)]}.
        line: over which they are cut.
        device: of wholes.
        original: whether the parameters stay registered, with their parts as data, instead of the flat one.
        whole_dtype: of wholes, None: the parameters' own.
        keep_low: whether gradients keep the dtype of their reduction.

    Raises: ValueError for parameters of several dtypes, and without `original` for some that require no gradient.
    """

    def __init__(self, module, owned, line, device, original, whole_dtype=None, keep_low=False, part_device=None):
        self.module, self.line, self.device, self.original, self.keep_low = module, line, device, original, keep_low
        dtype = _uniform((p.dtype for p in owned), "dtype")
        needs = [p.requires_grad for p in owned]
        if not original:
            _uniform(needs, "requires_grad")
        self.entries, at = [], 0
        step = 16 // (whole_dtype or dtype).itemsize if original else 1  # wholes begin at multiples of 16 bytes
        for parameter, places in owned.items():
            at = -(-at // step) * step
            self.entries.append(Entry(places, tuple(parameter.shape), at, at + parameter.numel(), parameter))
            at += parameter.numel()
        self.total = at
        self.part_length = -(-at // line.size)
        whole = tessera.zeros(self.part_length * line.size, dtype=dtype, device=part_device or device)
        for entry, parameter in zip(self.entries, owned):
            whole[entry.start : entry.stop].copy_(parameter.detach().reshape(-1))
        first = line.index * self.part_length
        part = whole if line.size == 1 else whole[first : first + self.part_length].clone()
        self.flat = Parameter(part, all(needs))
        self.whole = None
        self._shown, self._unreduced, self._earlier = "part", False, None
        self._make_wholes(whole_dtype or dtype)
        self.free()
        if original:
            self._bind()
        else:
            module.register_parameter(FLAT, self.flat)
            for entry in self.entries:
                for place, name in entry.places:
                    del place._parameters[name]
            self.hide()

    # ---- registration

    def _make_wholes(self, dtype):
        self.whole = tessera.empty(self.part_length * self.line.size, dtype=dtype, device=self.device)
        for entry in self.entries:
            entry.whole = Parameter(self._view(self.whole, entry), entry.original.requires_grad)

    @staticmethod
    def _view(flat, entry):
        return flat[entry.start : entry.stop].view(entry.shape)

    def hide(self):
        """Attributes of the modules that are no registered parameters."""
        for entry in self.entries:
            for module, name in entry.places:
                module.__dict__[name] = entry.whole

    def span(self, entry):
        """(first, last, where) of this process's part of an entry: places in the part, and in the entry."""
        first = self.line.index * self.part_length
        start = min(max(entry.start - first, 0), self.part_length)
        stop = min(max(entry.stop - first, 0), self.part_length)
        return start, stop, first + start - entry.start

    def part_of(self, flat, entry):
        """An entry's numbers in a tensor that has this process's part; all of them have their shape."""
        start, stop, _ = self.span(entry)
        return flat[start:stop].view(entry.shape) if self.line.size == 1 else flat[start:stop]

    def _bind(self):
        for entry in self.entries:
            entry.original.data = self.part_of(self.flat.data, entry)

    def parameters(self):
        """What an optimizer has: [(parameter, its entries)]."""
        if self.original:
            return [(entry.original, [entry]) for entry in self.entries]
        return [(self.flat, self.entries)]

    def show(self, what):
        if what == self._shown or not self.original:
            return
        for entry in self.entries:
            for module, name in entry.places:
                set_parameter(module, name, entry.whole if what == "whole" else entry.original)
        self._shown = what

    def refresh(self):
        """Takes over data that the user has given to original parameters."""
        if not self.original:
            return
        kept = self.flat.untyped_storage().data_ptr()
        parameters = [entry.original for entry in self.entries]
        if all(p.numel() == 0 or p.untyped_storage().data_ptr() == kept for p in parameters):
            return
        filled = next((p for p in parameters if p.numel()), parameters[0])
        part = tessera.zeros(self.part_length, dtype=filled.dtype, device=filled.device)
        for entry in self.entries:
            self.part_of(part, entry).copy_(entry.original.data)
        self.flat.data = part
        self._bind()

    # ---- parts

    @property
    def dtype(self):
        return self.flat.dtype

    def length(self, line):
        return self.part_length

    def write_part(self, out, line):
        out.copy_(self.flat.data)

    def fill(self, rows, dtype, line):
        if self.whole.dtype != dtype:
            self._make_wholes(dtype)
            if not self.original:
                self.hide()
        for entry in self.entries:
            entry.whole.requires_grad_(entry.original.requires_grad if self.original else self.flat.requires_grad)
        sized(self.whole, self.part_length * line.size)
        self.whole.data.view(rows.shape).copy_(rows)

    def free(self):
        sized(self.whole, 0)

    def gather(self, part):
        """Everyone's parts of something that lies as the parameters do, one after the other."""
        if self.line.size == 1:
            return part
        return collectives.wait_tensor(collectives.all_gather_tensor(part, 0, self.line.group))

    # ---- gradients

    def gradient(self):
        found = Gradients(entry.whole.grad for entry in self.entries)
        return found if any(one is not None for one in found) else None

    def clear(self):
        for entry in self.entries:
            entry.whole.grad = None

    def pack(self, gradient, rows, line):
        flat = rows.view(-1)
        for entry, one in zip(self.entries, gradient):
            if one is not None:
                one = one.to_dense() if one.layout is not tessera.strided else one
                self._view(flat, entry).copy_(one)

    def _holders(self):
        return [(entry, entry.original) for entry in self.entries] if self.original else [(self, self.flat)]

    def hold(self, gradient, dtype):
        """Shows gradients of wholes; reduced ones come back with the next reduction."""
        total = tessera.zeros(self.total, dtype=dtype or gradient.dtype, device=self.device)
        for entry, one in zip(self.entries, gradient):
            if one is not None:
                self._view(total, entry).copy_(one)
        for holder, parameter in self._holders():
            new = self._view(total, holder) if self.original else total
            if self.original and not parameter.requires_grad:
                continue
            if self._unreduced and parameter.grad is not None:
                new.add_(parameter.grad)
            elif not self._unreduced:
                self._keep(holder, parameter.grad)
            set_gradient(parameter, new)
        self._unreduced = True

    def _keep(self, holder, gradient):
        if holder is self:
            self._earlier = gradient
        else:
            holder.earlier = gradient

    def held(self):
        if not self._unreduced:
            return None
        self._unreduced, found = False, Gradients()
        for holder, parameter in self._holders():
            whole = parameter.grad
            earlier = self._earlier if holder is self else holder.earlier
            self._keep(holder, None)
            set_gradient(parameter, earlier if whole is not None else None)
            if holder is not self:
                found.append(whole)
            elif whole is not None:
                found.extend(self._view(whole, entry) for entry in self.entries)
        return found if any(one is not None for one in found) else None

    def give(self, part):
        part = part if self.keep_low else part.to(self.dtype)
        part = part.to(self.flat.device)
        if not self.original:
            self._add(self.flat, part)
            return
        for entry in self.entries:
            if entry.original.requires_grad and entry.original.numel():
                self._add(entry.original, self.part_of(part, entry))

    @staticmethod
    def _add(parameter, gradient):
        if parameter.grad is None:
            set_gradient(parameter, gradient)
        else:
            parameter.grad.add_(gradient)

    # ---- wholes in full precision, for the user

    def summon(self, register, writable, device=None, gradients=False):
        """Registers new whole parameters in the place of parts; `dismiss()` with the result ends that.

        Args:
            register: whether this process sees them.
            writable: whether what is written into them lasts.
            device: where they are; None: where the parts are.
            gradients: whether they have gradients.
        """
        with tessera.no_grad():
            self.refresh()
            whole = self.gather(self.flat.data.contiguous())
            slopes = self._summon_gradients() if gradients else None
            if device is not None and self.line.size > 1:
                whole = whole.to(device)
            if not register:
                return None
            made = []
            for number, entry in enumerate(self.entries):
                one = Parameter(self._view(whole, entry), entry.original.requires_grad)
                if slopes is not None and slopes[0][number]:
                    one.grad = self._view(slopes[1], entry)
                made.append(one)
                for module, name in entry.places:
                    module.__dict__.pop(name, None)
                    set_parameter(module, name, one)
            if not self.original:
                del self.module._parameters[FLAT]
        return whole, slopes, writable, made

    def _summon_gradients(self):
        part = tessera.zeros(self.part_length, dtype=self.dtype, device=self.device)
        there = tessera.zeros(len(self.entries), dtype=tessera.int32)
        for number, entry in enumerate(self.entries):
            if entry.original.grad is not None:
                there[number] = 1
                self.part_of(part, entry).copy_(entry.original.grad)
        if self.line.size > 1:
            c10d.all_reduce(there, op=c10d.ReduceOp.MAX, group=self.line.group)
        return there.tolist(), self.gather(part)

    def dismiss(self, summoned):
        """Registers parts again."""
        if summoned is None:
            return
        whole, slopes, writable, made = summoned
        first = self.line.index * self.part_length
        with tessera.no_grad():
            if writable and self.line.size > 1:
                self._take_back(whole, slopes, made, first)
        for number, entry in enumerate(self.entries):
            for module, name in entry.places:
                if self.original:
                    set_parameter(module, name, entry.original)
                else:
                    module._parameters.pop(name, None)
        if not self.original:
            self.hide()
            self.module._parameters[FLAT] = self.flat

    def _take_back(self, whole, slopes, made, first):
        for entry, one in zip(self.entries, made):
            module, name = entry.places[0]
            now = module._parameters.get(name, one)
            view = self._view(whole, entry)
            if now.data_ptr() != view.data_ptr():
                view.copy_(now.detach().view(entry.shape))
        self.flat.data.copy_(whole[first : first + self.part_length])
        if slopes is not None:
            for entry, one in zip(self.entries, made):
                if one.grad is not None and entry.original.grad is not None:
                    start, stop, where = self.span(entry)
                    entry.original.grad.copy_(one.grad.reshape(-1)[where : where + stop - start])
