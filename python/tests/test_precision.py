"""torch.backends.fp32_precision and what stands under it, with the older settings."""

import importlib

import pytest

import tessera
from tessera import backends
from tessera.backends import _precision


@pytest.fixture(autouse=True)
def as_before():
    before = _precision.saved()
    yield
    _precision.restore(before)


def test_what_nobody_chose_is_what_stands_above():
    assert (backends.fp32_precision, backends.cudnn.fp32_precision, backends.cudnn.conv.fp32_precision) == (
        "none", "none", "tf32")  # fmt: skip
    backends.fp32_precision = "tf32"
    assert backends.cuda.matmul.fp32_precision == backends.mkldnn.rnn.fp32_precision == "tf32"
    backends.cudnn.fp32_precision = "ieee"
    assert backends.cuda.matmul.fp32_precision == "ieee" and backends.mkldnn.matmul.fp32_precision == "tf32"
    backends.cuda.matmul.fp32_precision = "tf32"
    backends.cuda.matmul.fp32_precision = "none"
    assert backends.cuda.matmul.fp32_precision == "ieee"
    backends.cudnn.conv.fp32_precision = "ieee"
    assert backends.cudnn.rnn.fp32_precision == "tf32" and not backends.cudnn._uses_tf32()
    backends.fp32_precision, backends.cudnn.fp32_precision = "bf16", "none"
    assert backends.cuda.matmul.fp32_precision == "none" and backends.mkldnn.conv.fp32_precision == "bf16"


@pytest.mark.parametrize(
    "value, kind, message", [("half", RuntimeError, "Unknown precision: half"), (1, TypeError, "but got int"),
                             ("bf16", RuntimeError, "'cuda' does not support precision 'bf16'")]
)  # fmt: skip
def test_what_a_backend_has_not(value, kind, message):
    for owner in (backends.cudnn, backends.cudnn.rnn, backends.cuda.matmul):
        with pytest.raises(kind, match=message):
            owner.fp32_precision = value


def test_a_family_that_is_a_module_keeps_its_precision():
    assert importlib.import_module("tessera.backends.cudnn.rnn") is backends.cudnn.rnn
    assert backends.cudnn.rnn.fp32_precision == "tf32" and backends.cudnn.rnn.get_cudnn_mode("LSTM") == 2


def test_older_settings_set_the_newer_ones():
    tessera.set_float32_matmul_precision("medium")
    assert (backends.cuda.matmul.fp32_precision, backends.mkldnn.matmul.fp32_precision) == ("tf32", "bf16")
    backends.cuda.matmul.allow_tf32 = False
    assert backends.cuda.matmul.fp32_precision == "ieee"
    tessera.set_float32_matmul_precision("highest")
    assert backends.cuda.matmul.fp32_precision == "ieee" and not backends.cuda.matmul.allow_tf32
    backends.cudnn.allow_tf32 = False
    assert backends.cudnn.conv.fp32_precision == "none" and not backends.cudnn.allow_tf32


def test_older_settings_that_the_newer_ones_contradict():
    backends.cuda.matmul.fp32_precision = "tf32"
    with pytest.raises(RuntimeError, match="allow_tf32 is False, but by fp32_precision this is 'tf32'"):
        backends.cuda.matmul.allow_tf32  # noqa: B018
    with pytest.raises(RuntimeError, match="float32_matmul_precision is 'highest'"):
        tessera.get_float32_matmul_precision()
    backends.cudnn.conv.fp32_precision = "ieee"
    with pytest.raises(RuntimeError, match=r"allow_tf32 is True, .*'ieee' \(conv\), 'tf32' \(rnn\)"):
        backends.cudnn.allow_tf32  # noqa: B018


def test_blocks():
    with backends.flags(fp32_precision="ieee"):
        assert backends.mkldnn.conv.fp32_precision == "ieee"
        with backends.mkldnn.flags(enabled=True, fp32_precision="tf32"):
            assert backends.mkldnn.conv.fp32_precision == "tf32"
        with backends.cudnn.flags(allow_tf32=False):
            assert not backends.cudnn._uses_tf32() and backends.cudnn.conv.fp32_precision == "ieee"
    assert backends.fp32_precision == "none" and backends.cudnn.allow_tf32
    assert backends.set_flags("tf32") == ("none",) and backends.fp32_precision == "tf32"
    assert backends.mkldnn.set_flags(_fp32_precision="ieee")[3] == "tf32"
