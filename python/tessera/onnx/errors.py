"""What the exporters raise."""

__all__ = ["OnnxExporterError", "OnnxExporterWarning", "SymbolicValueError", "UnsupportedOperatorError"]


class OnnxExporterWarning(UserWarning):
    """Something that a file of ONNX cannot say as the program does."""


class OnnxExporterError(RuntimeError):
    """A model cannot be exported. The base of the exporters' errors."""


class UnsupportedOperatorError(OnnxExporterError):
    """An operator has no translation.

    Args:
        name: of the operator, such as "aten::fft_fft".
        version: the opset version of the export.
        supported_version: the version from which on it could be exported, if any.
        why: what of it cannot be translated.
        where: where in the program it stands.
    """

    def __init__(self, name, version, supported_version, *, why=None, where=None):
        self.name, self.version, self.supported_version = name, version, supported_version
        text = f"Exporting the operator '{name}' to ONNX opset version {version} is not supported"
        text += f": {why}." if why else "."
        if supported_version is not None:
            text += f" Support for this operator was added in version {supported_version}, try exporting with it."
        elif not why:
            text += (
                " Give it a translation with custom_translation_table= of torch.onnx.export(), or with "
                "torch.onnx.register_custom_op_symbolic() for dynamo=False."
            )
        if where:
            text += f"\nThe operator stands here:\n{where}"
        super().__init__(text)


class SymbolicValueError(OnnxExporterError):
    """A value of a graph cannot be used as a symbolic function wants it.

    Args:
        msg: what is wrong.
        value: the value.
    """

    def __init__(self, msg, value):
        node = getattr(value, "node", None)
        node = node() if callable(node) else node
        made = f"  [Caused by the value '{value}' (type '{type(value).__name__}')"
        made += f" made by the node {node.op}]" if hasattr(node, "op") else "]"
        super().__init__(f"{msg}{made}")


# What an export of another kind of graph raises; kept for programs that catch it.
CheckerError = OnnxExporterError
