"""Sequences of different lengths: packing and padding."""

from collections import namedtuple

import tessera
from tessera import Tensor

__all__ = [
    "PackedSequence",
    "invert_permutation",
    "pack_padded_sequence",
    "pad_packed_sequence",
    "pad_sequence",
    "unpad_sequence",
    "pack_sequence",
    "unpack_sequence",
]

PackedSequence_ = namedtuple("PackedSequence_", ["data", "batch_sizes", "sorted_indices", "unsorted_indices"])
PackedSequence_.__annotations__ = {
    "data": Tensor,
    "batch_sizes": Tensor,
    "sorted_indices": "Tensor | None",
    "unsorted_indices": "Tensor | None",
}


class PackedSequence(PackedSequence_):
    """Sequences of different lengths, step by step: data (sum of lengths, *), batch_sizes (how many sequences have a
    step t).

    sorted_indices: the order by falling length in which they are packed, unsorted_indices: its inverse; None if they
        came in that order.
    """

    def __new__(cls, data, batch_sizes=None, sorted_indices=None, unsorted_indices=None):
        if batch_sizes is None:  # data is the pair of both
            if not isinstance(data, (list, tuple)) or len(data) != 2:
                raise AssertionError("data should be a pair (data, batch_sizes) if batch_sizes is not given")
            data, batch_sizes = data
        elif batch_sizes.device.type != "cpu":
            raise ValueError(
                "batch_sizes should always be on CPU. Instances of PackedSequence should never be created "
                "manually. They should be instantiated by functions "
                "like pack_sequence and pack_padded_sequences in nn.utils.rnn. "
                "https://pytorch.org/docs/stable/nn.html#torch.nn.utils.rnn.pack_sequence"
            )
        inverse = invert_permutation(sorted_indices) if unsorted_indices is None else unsorted_indices
        return super().__new__(cls, data, batch_sizes, sorted_indices, inverse)

    def _with(self, data, move):
        """With other data, and with indices that were moved likewise."""
        return type(self)(data, self.batch_sizes, *(index if index is None else move(index) for index in self[2:]))

    def pin_memory(self):
        """With all tensors in pinned memory."""
        return self._with(self.data.pin_memory(), Tensor.pin_memory)

    def to(self, *args, **kwargs):
        """With the data converted as by Tensor.to; self if nothing changes."""
        data = self.data.to(*args, **kwargs)
        if data is self.data:
            return self
        # the indices change their device only
        rest = {k: v for k, v in kwargs.items() if k not in ("device", "dtype")}
        return self._with(data, lambda index: index.to(data.device, **rest))

    def cuda(self, *args, **kwargs):
        """On the GPU."""
        device = tessera.tensor((), dtype=self.data.dtype, device=self.data.device).to(*args, **kwargs)
        return self.to(*args, **kwargs) if device.is_cuda else self.to(*args, device="cuda", **kwargs)

    def cpu(self, *args, **kwargs):
        """On the CPU."""
        return self.to(*args, device="cpu", **kwargs)

    @property
    def is_cuda(self):
        """Whether the data is on a GPU."""
        return self.data.is_cuda

    def is_pinned(self):
        """Whether the data is in pinned memory."""
        return self.data.is_pinned()


def _conversion(name, dtype):
    def convert(self):
        return self.to(dtype=dtype)

    convert.__name__ = name
    convert.__qualname__ = f"PackedSequence.{name}"
    convert.__doc__ = f"As {str(dtype).split('.')[-1]}."
    setattr(PackedSequence, name, convert)


for _name, _dtype in {
    "double": tessera.float64,
    "float": tessera.float32,
    "half": tessera.float16,
    "long": tessera.int64,
    "int": tessera.int32,
    "short": tessera.int16,
    "char": tessera.int8,
    "byte": tessera.uint8,
}.items():
    _conversion(_name, _dtype)


def _packed_sequence_init(data, batch_sizes=None, sorted_indices=None, unsorted_indices=None):
    return PackedSequence(data, batch_sizes, sorted_indices, unsorted_indices)


def invert_permutation(permutation):
    """The inverse of a permutation (1-D integers); None for None."""
    return None if permutation is None else permutation.argsort().to(permutation.dtype)


def _present(counts, others):
    """(counts, others) mask: whether the step (or sequence) with that count has the other one.

    Packed rows are the true places of (steps, sequences) in their order.
    """
    return tessera.arange(others, device=counts.device) < counts.unsqueeze(1)


def pack_padded_sequence(input, lengths, batch_first=False, enforce_sorted=True):
    """Packs input (T, B, *) (or (B, T, *)) of sequences with the given lengths (list, or 1-D int64 tensor on the CPU).

    enforce_sorted: the lengths must fall (RuntimeError); otherwise they are sorted here. RuntimeError for a length of
        0.
    """
    order = None
    if not isinstance(lengths, Tensor):
        lengths = tessera.as_tensor(lengths, dtype=tessera.int64, device="cpu")
    if batch_first:
        input = input.transpose(0, 1)
    if not enforce_sorted:
        lengths, order = lengths.sort(descending=True)
        order = order.to(input.device)
        input = input.index_select(1, order)
    _check_lengths(input, lengths)
    rows = _present(lengths, int(lengths[0])).t()
    places = _flat_places(rows, input.device)
    return PackedSequence(input[: len(rows)].flatten(0, 1).index_select(0, places), rows.sum(1), order, None)


def _flat_places(mask, device):
    return mask.flatten().nonzero().squeeze(1).to(device)


def _check_lengths(input, lengths):
    """RuntimeError unless these are falling lengths of the sequences in a (T, B, *) tensor."""
    if lengths.device.type != "cpu" or lengths.dtype != tessera.int64 or lengths.dim() != 1:
        raise RuntimeError(
            f"'lengths' argument should be a 1D CPU int64 tensor, but got {lengths.dim()}D {lengths.device} "
            f"{lengths.dtype} tensor"
        )
    if input.numel() == 0:
        raise RuntimeError("Cannot pack empty tensors.")
    steps, batch = input.shape[:2]
    if lengths.numel() != batch:
        raise RuntimeError(
            f"Expected `len(lengths)` to be equal to batch_size, but got {lengths.numel()} (batch_size={batch})"
        )
    sizes = lengths.tolist()
    if sizes != sorted(sizes, reverse=True):
        raise RuntimeError(
            "`lengths` array must be sorted in decreasing order when `enforce_sorted` is True. You can pass "
            "`enforce_sorted=False` to "
            "pack_padded_sequence and/or pack_sequence to sidestep this requirement if you do not need ONNX "
            "exportability."
        )
    if sizes[-1] <= 0:
        raise RuntimeError(
            f"Length of all samples has to be greater than 0, but found an element in 'lengths' that is <= 0: {sizes}"
        )
    if sizes[0] > steps:
        raise RuntimeError(f"Expected lengths of at most {steps} (the size of the input), but got {sizes[0]}")


def sizes_of_batches(data, batch_sizes):
    """The batch sizes of a PackedSequence as a list. RuntimeError if they rise, are negative, or are not those of the
    rows of `data`: nothing is computed (or as large as they say) before.
    """
    sizes = batch_sizes.tolist()
    falling = sizes and sizes[-1] >= 0 and all(a >= b for a, b in zip(sizes, sizes[1:]))
    if not falling or data.dim() == 0 or sum(sizes) != data.size(0):
        raise RuntimeError(
            "the batch sizes of a packed sequence must not rise, and their sum must be the number of its rows, but got "
            f"{sizes[:8]}{' ...' if len(sizes) > 8 else ''} for data of shape {list(data.shape)}"
        )
    return sizes


def pad_packed_sequence(sequence, batch_first=False, padding_value=0.0, total_length=None):
    """(padded sequences (T, B, *) or (B, T, *), lengths) of a PackedSequence, in their original order. ValueError if
    total_length is less than the longest.
    """
    data, batch_sizes, _, order = sequence
    batch, longest = sizes_of_batches(data, batch_sizes)[0], len(batch_sizes)
    steps = longest if total_length is None else total_length
    if steps < longest:
        raise ValueError(
            "Expected total_length to be at least the length of the longest sequence in input, but got "
            "total_length="
            f"{total_length} and max sequence length being {longest}"
        )
    rows = _present(batch_sizes, batch)
    empty = data.new_full((steps * batch, *data.shape[1:]), padding_value)
    padded, lengths = (
        empty.index_copy(0, _flat_places(rows, data.device), data).unflatten(0, (steps, batch)),
        rows.sum(0),
    )
    if batch_first:
        padded = padded.transpose(0, 1)
    if order is not None:  # last, so that what is reordered is contiguous, as the random masks of programs expect
        padded, lengths = padded.index_select(0 if batch_first else 1, order), lengths[order.cpu()]
    return padded, lengths


def pad_sequence(sequences, batch_first=False, padding_value=0.0, padding_side="right"):
    """Stacks sequences (L_i, *) to (T, B, *) or (B, T, *), padded at their end (padding_side 'right') or beginning
    ('left').
    """
    if not isinstance(sequences, (list, tuple)):
        if isinstance(sequences, Tensor):
            sequences = sequences.unbind(0)
        elif hasattr(sequences, "__iter__"):
            sequences = list(sequences)
        else:
            raise RuntimeError(
                f"pad_sequence: Expected iterable for input sequences, but got arg of type: {type(sequences)}"
            )
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
    return [seq[: int(n)] for seq, n in zip(padded_sequences, lengths)]


def pack_sequence(sequences, enforce_sorted=True):
    """Packs a list of sequences (L_i, *)."""
    lengths = tessera.as_tensor([v.size(0) for v in sequences])
    return pack_padded_sequence(pad_sequence(sequences), lengths, enforce_sorted=enforce_sorted)


def unpack_sequence(packed_sequences):
    """The list of sequences in a PackedSequence."""
    padded, lengths = pad_packed_sequence(packed_sequences, batch_first=True)
    return unpad_sequence(padded, lengths, batch_first=True)
