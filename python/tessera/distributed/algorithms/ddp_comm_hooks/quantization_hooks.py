"""Hooks that send gradients as bytes: every rank gets those of all, and averages what they stand for."""

import tessera
from tessera.distributed import _collectives as collectives
from tessera.distributed._groups import _group_or_default_group
from tessera.futures import Future

_LEVELS = 255


def _quantized(rows):
    """Bytes, and for each row the step and the smallest value that bring them back."""
    low, high = rows.amin(1, keepdim=True), rows.amax(1, keepdim=True)
    step = ((high - low) / _LEVELS).clamp_min(1e-30)
    return ((rows - low) / step).round().clamp(0, _LEVELS).to(tessera.uint8), tessera.cat([step, low], 1)


def _gather_and_average(process_group, rows):
    group = _group_or_default_group(process_group)
    codes, scales = _quantized(rows.float())
    size = group.size()
    all_scales = scales.new_empty((size, *scales.shape))
    collectives.all_gather_into_tensor(all_scales, scales, group)
    all_codes = codes.new_empty((size, *codes.shape))
    collectives.all_gather_into_tensor(all_codes, codes, group)
    values = all_codes.float() * all_scales[:, :, :1] + all_scales[:, :, 1:]
    return values.mean(0)


def quantization_pertensor_hook(process_group, bucket):
    """Averages a bucket that goes as bytes with one scale. Returns: a Future of the tensor."""
    buffer, result = bucket.buffer(), Future()
    average = _gather_and_average(process_group, buffer.view(1, -1))
    result.set_result(average.view(-1).to(buffer.dtype))
    return result


def quantization_perchannel_hook(process_group, bucket, bucket_size=512):
    """Averages a bucket that goes as bytes with a scale for every `bucket_size` elements. Returns: a Future of the
    tensor."""
    buffer, result = bucket.buffer(), Future()
    rest = -buffer.numel() % bucket_size
    padded = tessera.nn.functional.pad(buffer, (0, rest))
    average = _gather_and_average(process_group, padded.view(-1, bucket_size))
    result.set_result(average.view(-1)[: buffer.numel()].to(buffer.dtype))
    return result
