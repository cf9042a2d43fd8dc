"""Files of ONNX: the table of fields is the published format's, and the reader takes any bytes without harm."""

import random

import onnx
import pytest

import tessera
from tessera.onnx import _wire
from tessera.onnx._wire import FIELDS, Message, decode, encode

NAMES = {"TensorType": ("TypeProto", "Tensor"), "Dimension": ("TensorShapeProto", "Dimension")}
SCALARS = {"int": {3, 5, 13, 4, 14}, "float": {2}, "double": {1}, "str": {9}, "bytes": {12}}  # of descriptors' types


def published(name):
    if name == "ElementType":
        return onnx.TypeProto.Sequence.DESCRIPTOR
    outer, *inner = NAMES.get(name, (name,))
    kind = getattr(onnx, outer)
    return (getattr(kind, inner[0]) if inner else kind).DESCRIPTOR


@pytest.mark.parametrize("name", FIELDS)
def test_fields_are_those_of_the_published_format(name):
    known = {f.name: f for f in published(name).fields}
    for field, (number, kind, many) in FIELDS[name].items():
        assert known[field].number == number, field
        repeated = getattr(known[field], "is_repeated", None)
        assert many == (known[field].label == 3 if repeated is None else repeated), field
        assert kind in FIELDS or known[field].type in SCALARS[kind], field


def model():
    program = tessera.onnx.export(
        tessera.nn.Sequential(tessera.nn.Linear(3, 4), tessera.nn.ReLU()), (tessera.ones(2, 3),), verbose=False
    )
    return program.model


def test_bytes_and_back():
    made = encode(model())
    assert encode(decode(made)) == made
    theirs = onnx.ModelProto.FromString(made)
    assert [n.op_type for n in theirs.graph.node] == ["Gemm", "Relu"]
    assert decode(theirs.SerializeToString()).graph.node[0].op_type == "Gemm"


def test_numbers_of_all_kinds():
    a = Message(
        "AttributeProto", name="é", f=-0.5, i=-1, floats=[1.5, -2.0], ints=[0, -(2**63), 2**63 - 1], strings=[b"\xff"]
    )
    again = decode(encode(a), "AttributeProto")
    assert (again.name, again.f, again.i, again.floats, again.ints, again.strings) == (
        "é", -0.5, -1, [1.5, -2.0], [0, -(2**63), 2**63 - 1], [b"\xff"])  # fmt: skip
    theirs = onnx.AttributeProto.FromString(encode(a))
    assert (theirs.i, list(theirs.ints)) == (-1, a.ints)


def test_fields_of_newer_formats_are_passed_over():
    extra = bytes([0xFA, 0x3F, 3, 1, 2, 3])  # field 1023
    assert decode(encode(model()) + extra).graph.node[0].op_type == "Gemm"


def test_messages_say_what_they_have():
    with pytest.raises(AttributeError, match="NodeProto has no field 'opp'"):
        Message("NodeProto", opp=1)
    with pytest.raises(TypeError, match="expected one of"):
        Message("Node")


@pytest.mark.parametrize("seed", range(8))
def test_reader_takes_any_bytes(seed):
    rng, good = random.Random(seed), bytearray(encode(model()))
    refused = 0
    for _ in range(120):
        data = bytearray(good)
        for _ in range(rng.randrange(1, 6)):
            what, at = rng.randrange(4), rng.randrange(len(data))
            if what == 0:
                data[at] = rng.randrange(256)
            elif what == 1:
                del data[at : at + rng.randrange(1, 20)]
            elif what == 2:
                data[at:at] = bytes(rng.randrange(256) for _ in range(rng.randrange(1, 12)))
            else:
                del data[at:]
            if not data:
                break
        try:
            decode(bytes(data))
        except ValueError:
            refused += 1
    assert refused > 15


def test_hostile_files():
    deep = b""
    for _ in range(400):  # graphs in attributes in nodes in graphs
        for tag in (0x32, 0x2A, 0x0A):
            deep = bytes([tag]) + _wire._varint(len(deep)) + deep
    with pytest.raises(ValueError, match="inside of each other"):
        decode(deep, "GraphProto")
    for data in (b"\x3a\xff\xff\xff\xff\x0f", b"\x80" * 20, b"\x0b", b"\x00\x00", b"\x12\x02\xff\xff"):
        with pytest.raises(ValueError):
            decode(data)
