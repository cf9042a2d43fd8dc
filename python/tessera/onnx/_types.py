"""Dtypes of tensors and of ONNX."""

import enum

import tessera

# The dtype, its number in ONNX, and its names in the older exporter.
_ROWS = (
    ("UINT8", "uint8", 2, "Byte"), ("INT8", "int8", 3, "Char"), ("INT16", "int16", 5, "Short"),
    ("INT", "int32", 6, "Int"), ("INT64", "int64", 7, "Long"), ("HALF", "float16", 10, "Half"),
    ("FLOAT", "float32", 1, "Float"), ("DOUBLE", "float64", 11, "Double"),
    ("COMPLEX32", "complex32", 0, "ComplexHalf"), ("COMPLEX64", "complex64", 14, "ComplexFloat"),
    ("COMPLEX128", "complex128", 15, "ComplexDouble"), ("BOOL", "bool", 9, "Bool"), ("QINT8", "qint8", 3, "QInt8"),
    ("QUINT8", "quint8", 2, "QUInt8"), ("QINT32", "qint32", 6, "QInt32"), ("BFLOAT16", "bfloat16", 16, "BFloat16"),
    ("FLOAT8E5M2", "float8_e5m2", 19, "Float8E5M2"), ("FLOAT8E4M3FN", "float8_e4m3fn", 17, "Float8E4M3FN"),
    ("FLOAT8E5M2FNUZ", "float8_e5m2fnuz", 20, "Float8E5M2FNUZ"),
    ("FLOAT8E4M3FNUZ", "float8_e4m3fnuz", 18, "Float8E4M3FNUZ"), ("UNDEFINED", None, 0, "Undefined"),
)  # fmt: skip

TO_ONNX = {getattr(tessera, row[1]): row[2] for row in _ROWS if row[1] and row[2] and row[0][0] != "Q"}
TO_ONNX.update({getattr(tessera, n): c for n, c in (("uint16", 4), ("uint32", 12), ("uint64", 13))})
FROM_ONNX = {code: dtype for dtype, code in TO_ONNX.items()}
BOOL, FLOAT, INT64 = tessera.bool, tessera.float32, tessera.int64
NAMES = {
    1: "FLOAT", 2: "UINT8", 3: "INT8", 4: "UINT16", 5: "INT16", 6: "INT32", 7: "INT64", 8: "STRING", 9: "BOOL",
    10: "FLOAT16", 11: "DOUBLE", 12: "UINT32", 13: "UINT64", 14: "COMPLEX64", 15: "COMPLEX128", 16: "BFLOAT16",
    17: "FLOAT8E4M3FN", 18: "FLOAT8E4M3FNUZ", 19: "FLOAT8E5M2", 20: "FLOAT8E5M2FNUZ",
}  # fmt: skip


class _ScalarTypes:
    """Dtypes as the exporter of TorchScript graphs numbers them."""

    @classmethod
    def from_dtype(cls, dtype):
        """The member of a dtype; UNDEFINED for None.

        Raises: OnnxExporterError for a dtype that has none.
        """
        for row in _ROWS:
            if (None if row[1] is None else getattr(tessera, row[1])) == dtype:
                return cls[row[0]]
        from tessera.onnx.errors import OnnxExporterError

        raise OnnxExporterError(f"Unknown dtype: {dtype}")

    @classmethod
    def from_onnx_type(cls, onnx_type):
        """The member of a number of ONNX's TensorProto.DataType; UNDEFINED for None and 0.

        Raises: OnnxExporterError for a number that has none.
        """
        if not onnx_type:
            return cls.UNDEFINED
        for row in _ROWS:
            if row[2] == int(onnx_type) and row[0][0] != "Q":
                return cls[row[0]]
        from tessera.onnx.errors import OnnxExporterError

        raise OnnxExporterError(f"Unknown onnx_type: {onnx_type}")

    @classmethod
    def from_value(cls, value, default=None):
        """The member of a tensor's dtype, or of that of a value of a graph; of its own if it is one.

        Raises: SymbolicValueError where it is not known and there is no default.
        """
        dtype = getattr(value, "dtype", None)
        if callable(dtype):
            dtype = dtype()
        if isinstance(value, bool):
            dtype = tessera.bool
        elif isinstance(value, (int, float)):
            dtype = tessera.int64 if isinstance(value, int) else tessera.float32
        if dtype is None:
            if default is not None:
                return default
            from tessera.onnx.errors import SymbolicValueError

            raise SymbolicValueError(f"Cannot determine scalar type for this '{type(value)}' instance", value)
        return cls.from_dtype(dtype)

    def scalar_name(self):
        """As 'Float'."""
        return _ROWS[self].__getitem__(3)

    def torch_name(self):
        """As 'float'; 'undefined' of UNDEFINED."""
        return (_ROWS[self][1] or "undefined").replace("float32", "float").replace("int64", "int64_t")

    def dtype(self):
        """The dtype, None of UNDEFINED."""
        name = _ROWS[self][1]
        return None if name is None else getattr(tessera, name)

    def onnx_type(self):
        """The number in ONNX's TensorProto.DataType.

        Raises: OnnxExporterError if ONNX has none.
        """
        if self.onnx_compatible() or self is type(self).UNDEFINED:
            return _ROWS[self][2]
        from tessera.onnx.errors import OnnxExporterError

        raise OnnxExporterError(f"Scalar type {self.scalar_name()} cannot be converted to ONNX")

    def onnx_compatible(self):
        """Whether ONNX has tensors of it."""
        return bool(_ROWS[self][2])


JitScalarType = enum.IntEnum(  # type: ignore[misc]
    "JitScalarType", {row[0]: i for i, row in enumerate(_ROWS)}, module=__name__, type=_ScalarTypes
)
