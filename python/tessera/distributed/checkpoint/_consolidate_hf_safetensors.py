"""Files of whole tensors from files of pieces."""

import math
import os

import tessera
from tessera.distributed import distributed_c10d as c10d
from tessera.distributed.checkpoint import _hf_utils as hf
from tessera.distributed.checkpoint.filesystem import _in_threads

__all__ = ["consolidate_safetensors_files", "consolidate_safetensors_files_on_every_rank"]


def _whole(pieces):
    made = None
    for place, entry, path, start in pieces:
        with open(path, "rb") as stream:
            part = hf.read_tensor(stream, entry, start)
        if len(pieces) == 1:
            return part
        if made is None:
            made = tessera.empty(hf.whole_shape(pieces), dtype=part.dtype)
        made[tuple(slice(o, o + n) for o, n in zip(place, part.shape))] = part
    return made


def _consolidate(input_dir, output_dir, mapping, threads, mine):
    pieces = hf.pieces_in(input_dir)
    mapping = mapping or dict.fromkeys(pieces, 1)
    os.makedirs(output_dir, exist_ok=True)
    last = max(mapping.values(), default=1)
    files = {name: hf._gen_file_name(index, last) for name, index in mapping.items() if name in pieces}

    def write(index):
        tensors = {n: _whole(pieces[n]) for n, i in mapping.items() if i == index and n in pieces}
        with open(os.path.join(output_dir, hf._gen_file_name(index, last)), "wb") as stream:
            hf.write_safetensors(stream, tensors)

    _in_threads(threads, write, mine(sorted(set(mapping.values()))))
    return pieces, files


def _write_index(output_dir, pieces, files):
    total = 0
    for name in files:
        whole = math.prod(hf.whole_shape(pieces[name]))
        total += whole * hf.DTYPE_MAP[pieces[name][0][1]["dtype"]].itemsize
    hf.write_index(output_dir, files, total)


def consolidate_safetensors_files(input_dir, output_dir, fqn_to_index_mapping, num_threads=1):
    """Puts the pieces in a folder's files together.

    Args:
        input_dir: the folder that HuggingFaceStorageWriter wrote with `save_distributed`.
        output_dir: the folder of the new files; it is made if need be.
        fqn_to_index_mapping: {name: number of the file, from 1 on}; None: one file.
        num_threads: threads that write, a file each.
    """
    _write_index(output_dir, *_consolidate(input_dir, output_dir, fqn_to_index_mapping, num_threads, list))


def consolidate_safetensors_files_on_every_rank(
    input_dir, output_dir, fqn_to_index_mapping, num_threads=1, process_group=None
):
    """The same, with the files shared out among the processes of a group (None: the default one), which wait for each
    other.
    """
    alone = not c10d.is_initialized()
    rank, size = (0, 1) if alone else (c10d.get_rank(process_group), c10d.get_world_size(process_group))
    pieces, files = _consolidate(
        input_dir, output_dir, fqn_to_index_mapping, num_threads, lambda all_: all_[rank::size]
    )
    if rank == 0:
        _write_index(output_dir, pieces, files)
    if not alone:
        c10d.barrier(group=process_group)
