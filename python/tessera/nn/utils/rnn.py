"""Sequences of different lengths: packing and padding."""

from collections import namedtuple

import tessera
from tessera import Tensor

__all__ = ["PackedSequence", "invert_permutation", "pack_padded_sequence", "pad_packed_sequence", "pad_sequence", "unpad_sequence", "pack_sequence", "unpack_sequence"]

PackedSequence_ = namedtuple("PackedSequence_", ["data", "batch_sizes", "sorted_indices", "unsorted_indices"])
PackedSequence_.__annotations__ = {"data": Tensor, "batch_sizes": Tensor, "sorted_indices": "Tensor | None", "unsorted_indices": "Tensor | None"}


class PackedSequence(PackedSequence_):
    """Sequences of different lengths, step by step: data (sum of lengths, *), batch_sizes (how many sequences have a step t).

    sorted_indices: the order by falling length in which they are packed, unsorted_indices: its inverse; None if they came in that order.
    """

    def __new__(cls, data, batch_sizes=None, sorted_indices=None, unsorted_indices=None):
        return super().__new__(cls, *_packed_args(data, batch_sizes, sorted_indices, unsorted_indices))

    def pin_memory(self):
        """With all tensors in pinned memory."""
        return type(self)(self.data.pin_memory(), self.batch_sizes, _bind(self.sorted_indices, lambda t: t.pin_memory()),
                          _bind(self.unsorted_indices, lambda t: t.pin_memory()))

    def to(self, *args, **kwargs):
        """With the data converted as by Tensor.to; self if nothing changes."""
        data = self.data.to(*args, **kwargs)
        if data is self.data:
            return self
        # the indices change their device only
        rest = {k: v for k, v in kwargs.items() if k not in ("device", "dtype")}
        return type(self)(data, self.batch_sizes, _bind(self.sorted_indices, lambda t: t.to(data.device, **rest)),
                          _bind(self.unsorted_indices, lambda t: t.to(data.device, **rest)))

    def cuda(self, *args, **kwargs):
        """On the GPU."""
        device = tessera.tensor((), dtype=self.data.dtype, device=self.data.device).to(*args, **kwargs)
        return self.to(*args, **kwargs) if device.is_cuda else self.to(*args, device="cuda", **kwargs)

    def cpu(self, *args, **kwargs):
        """On the CPU."""
        return self.to(*args, device="cpu", **kwargs)

    def double(self):
        """As float64."""
        return self.to(dtype=tessera.double)

    def float(self):
        """As float32."""
        return self.to(dtype=tessera.float)

    def half(self):
        """As float16."""
        return self.to(dtype=tessera.half)

    def long(self):
        """As int64."""
        return self.to(dtype=tessera.long)

    def int(self):
        """As int32."""
        return self.to(dtype=tessera.int)

    def short(self):
        """As int16."""
        return self.to(dtype=tessera.short)

    def char(self):
        """As int8."""
        return self.to(dtype=tessera.int8)

    def byte(self):
        """As uint8."""
        return self.to(dtype=tessera.uint8)

    @property
    def is_cuda(self):
        """Whether the data is on a GPU."""
        return self.data.is_cuda

    def is_pinned(self):
        """Whether the data is in pinned memory."""
        return self.data.is_pinned()


def _bind(value, fn):
    return None if value is None else fn(value)


def _packed_args(data, batch_sizes, sorted_indices, unsorted_indices):
    if unsorted_indices is None:
        unsorted_indices = invert_permutation(sorted_indices)
    if batch_sizes is not None:
        if batch_sizes.device.type != "cpu":
            raise ValueError("batch_sizes should always be on CPU. Instances of PackedSequence should never be created manually. They should be instantiated by functions "
                             "like pack_sequence and pack_padded_sequences in nn.utils.rnn. https://pytorch.org/docs/stable/nn.html#torch.nn.utils.rnn.pack_sequence")
        return data, batch_sizes, sorted_indices, unsorted_indices
    if not (isinstance(data, (list, tuple)) and len(data) == 2):
        raise AssertionError("data should be a pair (data, batch_sizes) if batch_sizes is not given")
    return data[0], data[1], sorted_indices, unsorted_indices


def _packed_sequence_init(data, batch_sizes=None, sorted_indices=None, unsorted_indices=None):
    return PackedSequence(data, batch_sizes, sorted_indices, unsorted_indices)


def invert_permutation(permutation):
    """The inverse of a permutation (1-D integers); None for None."""
    if permutation is None:
        return None
    output = tessera.empty_like(permutation, memory_format=tessera.legacy_contiguous_format)
    output.scatter_(0, permutation, tessera.arange(0, permutation.numel(), device=permutation.device, dtype=permutation.dtype))
    return output


def pack_padded_sequence(input, lengths, batch_first=False, enforce_sorted=True):
    """Packs input (T, B, *) (or (B, T, *)) of sequences with the given lengths (list, or 1-D int64 tensor on the CPU).

    enforce_sorted: the lengths must fall (RuntimeError); otherwise they are sorted here. RuntimeError for a length of 0.
    """
    if not isinstance(lengths, Tensor):
        lengths = tessera.as_tensor(lengths, dtype=tessera.int64, device="cpu")
    if enforce_sorted:
        sorted_indices = None
    else:
        lengths, sorted_indices = lengths.sort(descending=True)
        sorted_indices = sorted_indices.to(input.device)
        input = input.index_select(0 if batch_first else 1, sorted_indices)
    data, batch_sizes = _pack(input, lengths, batch_first)
    return _packed_sequence_init(data, batch_sizes, sorted_indices, None)


def _pack(input, lengths, batch_first):
    if lengths.device.type != "cpu" or lengths.dtype != tessera.int64 or lengths.dim() != 1:
        raise RuntimeError(f"'lengths' argument should be a 1D CPU int64 tensor, but got {lengths.dim()}D {lengths.device} {lengths.dtype} tensor")
    if input.numel() == 0:
        raise RuntimeError("Cannot pack empty tensors.")
    if batch_first:
        input = input.transpose(0, 1)
    steps, batch = input.shape[:2]
    if lengths.numel() != batch:
        raise RuntimeError(f"Expected `len(lengths)` to be equal to batch_size, but got {lengths.numel()} (batch_size={batch})")
    sizes = lengths.tolist()
    if any(a < b for a, b in zip(sizes, sizes[1:])):
        raise RuntimeError("`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. You can pass `enforce_sorted=False` to "
                           "pack_padded_sequence and/or pack_sequence to sidestep this requirement if you do not need ONNX exportability.")
    if sizes[-1] <= 0:
        raise RuntimeError(f"Length of all samples has to be greater than 0, but found an element in 'lengths' that is <= 0: {sizes}")
    if sizes[0] > steps:
        raise RuntimeError(f"Expected lengths of at most {steps} (the size of the input), but got {sizes[0]}")
    batch_sizes, have = [], batch
    for t in range(sizes[0]):
        while sizes[have - 1] <= t:
            have -= 1
        batch_sizes.append(have)
    data = tessera.cat([input[t, :n] for t, n in enumerate(batch_sizes)])
    return data, tessera.tensor(batch_sizes, dtype=tessera.int64)


def pad_packed_sequence(sequence, batch_first=False, padding_value=0.0, total_length=None):
    """(padded sequences (T, B, *) or (B, T, *), lengths) of a PackedSequence, in their original order. ValueError if total_length is less than the longest."""
    longest = sequence.batch_sizes.size(0)
    if total_length is not None:
        if total_length < longest:
            raise ValueError("Expected total_length to be at least the length of the longest sequence in input, but got total_length="
                             f"{total_length} and max sequence length being {longest}")
        steps = total_length
    else:
        steps = longest
    sizes = sequence.batch_sizes.tolist()
    batch = sizes[0]
    rows = []
    for piece in sequence.data.split(sizes):
        if piece.shape[0] < batch:
            fill = piece.new_full((batch - piece.shape[0], *piece.shape[1:]), padding_value)
            piece = tessera.cat([piece, fill])
        rows.append(piece)
    padded = tessera.stack(rows)
    if steps > longest:
        padded = tessera.cat([padded, padded.new_full((steps - longest, *padded.shape[1:]), padding_value)])
    lengths = tessera.tensor([sum(n > i for n in sizes) for i in range(batch)], dtype=tessera.int64)
    if batch_first:
        padded = padded.transpose(0, 1)
    if sequence.unsorted_indices is not None:
        order = sequence.unsorted_indices
        return padded.index_select(0 if batch_first else 1, order), lengths[order.cpu()]
    return padded, lengths


def pad_sequence(sequences, batch_first=False, padding_value=0.0, padding_side="right"):
    """Stacks sequences (L_i, *) to (T, B, *) or (B, T, *), padded at their end (padding_side 'right') or beginning ('left')."""
    if not isinstance(sequences, (list, tuple)):
        if isinstance(sequences, Tensor):
            sequences = sequences.unbind(0)
        elif hasattr(sequences, "__iter__"):
            sequences = list(sequences)
        else:
            raise RuntimeError(f"pad_sequence: Expected iterable for input sequences, but got arg of type: {type(sequences)}")
    if not sequences:
        raise RuntimeError("received an empty list of sequences")
    if padding_side not in ("left", "right"):
        raise RuntimeError(f"Expected padding_side to be one of left or right, but got {padding_side}.")
    longest = max(s.size(0) for s in sequences)
    out = []
    for s in sequences:
        if s.size(0) < longest:
            fill = sequences[0].new_full((longest - s.size(0), *s.shape[1:]), padding_value)
            s = tessera.cat([s, fill] if padding_side == "right" else [fill, s])
        out.append(s)
    return tessera.stack(out, 0 if batch_first else 1)


def unpad_sequence(padded_sequences, lengths, batch_first=False):
    """The list of sequences of the given lengths in a padded tensor."""
    if not batch_first:
        padded_sequences = padded_sequences.transpose(0, 1)
    return [seq[:int(n)] for seq, n in zip(padded_sequences, lengths)]


def pack_sequence(sequences, enforce_sorted=True):
    """Packs a list of sequences (L_i, *)."""
    lengths = tessera.as_tensor([v.size(0) for v in sequences])
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences):
    """The list of sequences in a PackedSequence."""
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)
