"""Files of ONNX: the messages of the published schema (onnx.proto), in Protocol Buffers' wire format.

A message is a Message: its type's name, and an attribute for each field that is set. The fields are in one table.
"""

import struct

# Message type: "field=number kind[*]": * is for repeated ones; the kind is a scalar type or another message type.
_TABLE = """
ModelProto: ir_version=1 int; producer_name=2 str; producer_version=3 str; domain=4 str; model_version=5 int;
  doc_string=6 str; graph=7 GraphProto; opset_import=8 OperatorSetIdProto*; metadata_props=14 StringStringEntryProto*;
  functions=25 FunctionProto*
OperatorSetIdProto: domain=1 str; version=2 int
StringStringEntryProto: key=1 str; value=2 str
GraphProto: node=1 NodeProto*; name=2 str; initializer=5 TensorProto*; doc_string=10 str; input=11 ValueInfoProto*;
  output=12 ValueInfoProto*; value_info=13 ValueInfoProto*; metadata_props=16 StringStringEntryProto*
NodeProto: input=1 str*; output=2 str*; name=3 str; op_type=4 str; attribute=5 AttributeProto*; doc_string=6 str;
  domain=7 str; overload=8 str; metadata_props=9 StringStringEntryProto*
AttributeProto: name=1 str; f=2 float; i=3 int; s=4 bytes; t=5 TensorProto; g=6 GraphProto; floats=7 float*;
  ints=8 int*;
  strings=9 bytes*; tensors=10 TensorProto*; graphs=11 GraphProto*; doc_string=13 str; tp=14 TypeProto;
  type_protos=15 TypeProto*; type=20 int; ref_attr_name=21 str
TensorProto: dims=1 int*; data_type=2 int; float_data=4 float*; int32_data=5 int*; string_data=6 bytes*;
  int64_data=7 int*; name=8 str; raw_data=9 bytes; double_data=10 double*; uint64_data=11 int*; doc_string=12 str;
  external_data=13 StringStringEntryProto*; data_location=14 int; metadata_props=16 StringStringEntryProto*
ValueInfoProto: name=1 str; type=2 TypeProto; doc_string=3 str; metadata_props=4 StringStringEntryProto*
TypeProto: tensor_type=1 TensorType; sequence_type=4 ElementType; denotation=6 str; optional_type=9 ElementType
TensorType: elem_type=1 int; shape=2 TensorShapeProto
ElementType: elem_type=1 TypeProto
TensorShapeProto: dim=1 Dimension*
Dimension: dim_value=1 int; dim_param=2 str; denotation=3 str
FunctionProto: name=1 str; input=4 str*; output=5 str*; attribute=6 str*; node=7 NodeProto*; doc_string=8 str;
  opset_import=9 OperatorSetIdProto*; domain=10 str; attribute_proto=11 AttributeProto*; value_info=12 ValueInfoProto*;
  overload=13 str; metadata_props=14 StringStringEntryProto*
"""

FIELDS = {}  # message type -> {field: (number, kind, repeated)}
for _line in _TABLE.replace("\n  ", " ").strip().splitlines():
    _type, _, _rest = _line.partition(":")
    _made = FIELDS[_type] = {}
    for _entry in _rest.split(";"):
        _name, _, _what = _entry.strip().partition("=")
        _number, _kind = _what.split()
        _made[_name] = (int(_number), _kind.rstrip("*"), _kind.endswith("*"))

_NUMBERS = {t: {number: (name, kind, many) for name, (number, kind, many) in f.items()} for t, f in FIELDS.items()}
_FIXED = {"float": ("<f", 5), "double": ("<d", 1)}
_DEFAULT = {"int": 0, "str": "", "bytes": b"", "float": 0.0, "double": 0.0}
_DEEPEST = 100  # messages in messages that a file may hold, as readers of this format commonly allow


class Message:
    """A message of ONNX: `Message("NodeProto", op_type="Add", input=["a", "b"])`. Fields not set read as empty.

    Raises: AttributeError for a field that the type has not, TypeError for a type that there is not.
    """

    def __init__(self, type_name, **fields):
        if type_name not in FIELDS:
            raise TypeError(f"Message: expected one of {sorted(FIELDS)}, got {type_name!r}")
        self.__dict__["type_name"] = type_name
        for name, value in fields.items():
            setattr(self, name, value)

    def __setattr__(self, name, value):
        if name not in FIELDS[self.type_name]:
            raise AttributeError(f"{self.type_name} has no field {name!r}; it has {sorted(FIELDS[self.type_name])}")
        self.__dict__[name] = value

    def __getattr__(self, name):
        field = FIELDS[self.__dict__["type_name"]].get(name)
        if field is None:
            raise AttributeError(f"{self.type_name} has no field {name!r}")
        if field[2]:
            return self.__dict__.setdefault(name, [])
        return _DEFAULT[field[1]] if field[1] in _DEFAULT else None

    def has(self, name):
        """Whether a field is set."""
        return name in self.__dict__ and self.__dict__[name] not in (None, [])

    def __eq__(self, other):
        return isinstance(other, Message) and encode(self) == encode(other)

    __hash__ = None

    def __repr__(self):
        shown = ", ".join(f"{n}={str(v)[:60]!r}" for n, v in self.__dict__.items() if n != "type_name")
        return f"{self.type_name}({shown})"

    def SerializeToString(self):
        """The bytes of the message."""
        return encode(self)


def _varint(n):
    n &= (1 << 64) - 1
    if n < 128:
        return bytes((n,))
    out = bytearray()
    while n > 127:
        out.append(n & 127 | 128)
        n >>= 7
    out.append(n)
    return bytes(out)


def _chunks(message):
    """(bytes of the message, list of buffers): tensors' memory is named, not copied."""
    total, parts = 0, []

    def add(*found):
        nonlocal total
        for part in found:
            parts.append(part)
            total += len(part)

    for name, (number, kind, many) in FIELDS[message.type_name].items():
        value = message.__dict__.get(name)
        if value is None or (many and not value):
            continue
        if many and kind in ("int", "float", "double"):
            pack = (lambda v: _varint(int(v))) if kind == "int" else struct.Struct(_FIXED[kind][0]).pack
            body = b"".join(map(pack, value))
            add(_varint(number << 3 | 2), _varint(len(body)), body)
            continue
        for one in value if many else (value,):
            if kind == "int":
                add(_varint(number << 3), _varint(int(one)))
            elif kind in _FIXED:
                add(_varint(number << 3 | _FIXED[kind][1]), struct.pack(_FIXED[kind][0], one))
            elif kind in ("str", "bytes"):
                body = one.encode() if isinstance(one, str) else one
                add(_varint(number << 3 | 2), _varint(len(body)), body)
            else:
                size, inner = _chunks(one)
                add(_varint(number << 3 | 2), _varint(size))
                parts += inner
                total += size
    return total, parts


def encode(message):
    """The bytes of a message."""
    return b"".join(_chunks(message)[1])


def write(message, file):
    """Writes a message to a binary file, a tensor after the other, without a copy of the whole."""
    for part in _chunks(message)[1]:
        file.write(part)


def size_of(message):
    """How many bytes encode() would give."""
    return _chunks(message)[0]


class _Reader:
    def __init__(self, data):
        self.data, self.at = memoryview(data), 0

    def varint(self, end):
        value = shift = 0
        while True:
            if self.at >= end or shift > 63:
                raise ValueError(f"no message of ONNX: the number at byte {self.at} does not end")
            byte = self.data[self.at]
            self.at += 1
            value |= (byte & 127) << shift
            if byte < 128:
                return value & (1 << 64) - 1
            shift += 7

    def take(self, n, end):
        if n > end - self.at:
            raise ValueError(
                f"no message of ONNX: {n} bytes are announced at byte {self.at}, {end - self.at} are there"
            )
        self.at += n
        return self.data[self.at - n : self.at]

    def message(self, type_name, end, depth):
        if depth > _DEEPEST:
            raise ValueError(f"no message of ONNX: more than {_DEEPEST} messages inside of each other")
        made, known = Message(type_name), _NUMBERS[type_name]
        while self.at < end:
            tag = self.varint(end)
            number, wire = tag >> 3, tag & 7
            if number == 0:
                raise ValueError(f"no message of ONNX: field number 0 before byte {self.at}")
            raw = self._raw(wire, end)
            name, kind, many = known.get(number, (None, None, None))
            if name is None:
                if wire == 2:
                    self.at += raw  # of a newer format: passed over
                continue
            values = self._values(name, kind, many, wire, raw, depth)
            if many:
                made.__dict__.setdefault(name, []).extend(values)
            else:
                made.__dict__[name] = values[-1]
        return made

    def _raw(self, wire, end):
        if wire == 0:
            return self.varint(end)
        if wire in (1, 5):
            return bytes(self.take(8 if wire == 1 else 4, end))
        if wire == 2:
            n = self.varint(end)
            if n > end - self.at:
                raise ValueError(
                    f"no message of ONNX: {n} bytes announced at byte {self.at}, {end - self.at} are there"
                )
            return n
        raise ValueError(f"no message of ONNX: wire type {wire} at byte {self.at}")

    def _values(self, name, kind, many, wire, raw, depth):
        wrong = ValueError(f"no message of ONNX: field {name} before byte {self.at} has wire type {wire}")
        if kind == "int":
            if wire == 0:
                return [_signed(raw)]
            if wire != 2 or not many:
                raise wrong
            stop, found = self.at + raw, []
            while self.at < stop:
                found.append(_signed(self.varint(stop)))
            return found
        if kind in _FIXED:
            form, own = _FIXED[kind]
            if wire == own:
                return list(struct.unpack(form, raw))
            width = struct.calcsize(form)
            if wire != 2 or not many or raw % width:
                raise wrong
            return list(struct.unpack(f"<{raw // width}{form[1]}", self.take(raw, self.at + raw)))
        if wire != 2:
            raise wrong
        if kind in ("str", "bytes"):
            body = bytes(self.take(raw, self.at + raw))
            return [body if kind == "bytes" else body.decode()]
        return [self.message(kind, self.at + raw, depth + 1)]


def _signed(n):
    return n - (1 << 64) if n >> 63 else n


def decode(data, type_name="ModelProto"):
    """A message from its bytes; fields that the table does not name are passed over.

    Raises: ValueError (UnicodeDecodeError is one) for bytes that are no such message.
    """
    reader = _Reader(data)
    return reader.message(type_name, len(reader.data), 0)
