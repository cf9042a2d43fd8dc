"""torch.jit.annotations: annotations and comments as types of programs."""

from typing import Dict, List, Optional, Tuple  # noqa: UP035 - the language of scripts

import pytest
import tessera
from tessera.jit import annotations as A


def annotated(x: int, y: List[tessera.Tensor]) -> Tuple[int, str]:
    return x, str(y)


def commented(x, y):
    # type: (int, List[str]) -> Tensor
    return y, x


def each(
    x,  # type: int
    y,  # type: List[str]
):
    # type: (...) -> Tensor
    return y, x


def bare(x):
    return x


def texts(found):
    return [k.annotation_str for k in found[0]], found[1].annotation_str


def test_annotations_become_types():
    assert A.ann_to_type(Dict[str, Optional[float]], None).annotation_str == "Dict[str, Optional[float]]"
    assert A.ann_to_type("List[int]", None).annotation_str == "List[int]"
    assert A.try_ann_to_type(tessera.Tensor, None).isSubtypeOf(A.TensorType.get())
    assert A.try_ann_to_type(Tuple[int, ...], None) is None
    with pytest.raises(ValueError, match="Unknown type annotation"):
        A.ann_to_type(Tuple[int, ...], None)


def test_signatures():
    assert texts(A.get_signature(annotated, None, None, False)) == (["int", "List[Tensor]"], "Tuple[int, str]")
    assert texts(A.get_signature(annotated, None, None, True)) == (["List[Tensor]"], "Tuple[int, str]")
    scope = {"List": List, "Tensor": tessera.Tensor, "Tuple": Tuple, "int": int, "str": str}.get
    for function in (commented, each):
        assert texts(A.get_signature(function, scope, None, False)) == (["int", "List[str]"], "Tensor")
    assert A.get_signature(bare, None, None, False) is None and A.try_real_annotations(bare, None) is None
    assert A.get_param_names(annotated, 2) == ["x", "y"] and A.get_param_names(len, 1) == ["obj"]
    assert A.split_type_line("# type: (int, str) -> Tensor") == ("(int, str)", "Tensor")
    assert A.check_fn(annotated, None) is None
    for wrong in ("def f(x):  # type: int\n    return x",):
        with pytest.raises(RuntimeError, match="Return type line"):
            A.get_type_line(wrong)
    with pytest.raises(RuntimeError, match="->"):
        A.split_type_line("# type: int")
