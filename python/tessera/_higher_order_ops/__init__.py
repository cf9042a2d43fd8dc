"""Operators whose arguments are functions: control flow that a traced program keeps."""

from tessera._higher_order_ops.associative_scan import associative_scan
from tessera._higher_order_ops.auto_functionalize import auto_functionalized_v2
from tessera._higher_order_ops.cond import cond
from tessera._higher_order_ops.map import map
from tessera._higher_order_ops.out_dtype import out_dtype
from tessera._higher_order_ops.scan import scan
from tessera._higher_order_ops.while_loop import while_loop
from tessera._higher_order_ops.wrap import tag_activation_checkpoint

__all__ = [
    "associative_scan", "auto_functionalized_v2", "cond", "map", "out_dtype", "scan", "tag_activation_checkpoint",
    "while_loop",
]  # fmt: skip
