"""What `BaseSparsifier.convert` may turn layers with masks into."""

from tessera import nn

__all__ = ["get_dynamic_sparse_quantized_mapping", "get_static_sparse_quantized_mapping"]


def get_static_sparse_quantized_mapping():
    """{nn.Linear: its quantized form with sparse weights}."""
    from tessera.ao.nn.sparse import quantized

    return {nn.Linear: quantized.Linear}


def get_dynamic_sparse_quantized_mapping():
    """{nn.Linear: the form with sparse weights that quantizes its input as it comes}."""
    from tessera.ao.nn.sparse.quantized import dynamic

    return {nn.Linear: dynamic.Linear}
