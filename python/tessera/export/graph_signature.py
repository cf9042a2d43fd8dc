"""What the inputs and outputs of an exported graph are: parameters, buffers, constants, what the user passes and
gets."""

import dataclasses
import enum
import typing

__all__ = [
    "ConstantArgument", "CustomObjArgument", "ExportBackwardSignature", "ExportGraphSignature", "InputKind",
    "InputSpec",
    "OutputKind", "OutputSpec", "SymIntArgument", "SymFloatArgument", "SymBoolArgument", "TensorArgument",
]  # fmt: skip


@dataclasses.dataclass
class TensorArgument:
    """A tensor: the node of this name."""

    name: str


@dataclasses.dataclass
class TokenArgument:
    """A token, which orders operators with effects: the node of this name."""

    name: str


@dataclasses.dataclass
class SymIntArgument:
    """A symbolic integer: the node of this name."""

    name: str


@dataclasses.dataclass
class SymFloatArgument:
    """A symbolic float: the node of this name."""

    name: str


@dataclasses.dataclass
class SymBoolArgument:
    """A symbolic bool: the node of this name."""

    name: str


@dataclasses.dataclass
class CustomObjArgument:
    """An object of a registered class: the node of this name, the class's name, and what stands for it in a trace."""

    name: str
    class_fqn: str
    fake_val: typing.Any = None


@dataclasses.dataclass
class ConstantArgument:
    """A number, string, None: `value` is part of the program. Of an input, `name` is its placeholder's."""

    name: str
    value: typing.Union[int, float, bool, str, None]


ArgumentSpec = typing.Union[
    TensorArgument, SymIntArgument, SymFloatArgument, SymBoolArgument, ConstantArgument, CustomObjArgument,
    TokenArgument,
]  # fmt: skip
_ARGUMENTS = typing.get_args(ArgumentSpec)


class InputKind(enum.Enum):
    """What an input is."""

    USER_INPUT = 1
    PARAMETER = 2
    BUFFER = 3
    CONSTANT_TENSOR = 4
    CUSTOM_OBJ = 5
    TOKEN = 6


class OutputKind(enum.Enum):
    """What an output is; mutations are new values of what the program wrote to."""

    USER_OUTPUT = 1
    LOSS_OUTPUT = 2
    BUFFER_MUTATION = 3
    PARAMETER_MUTATION = 4
    GRADIENT_TO_PARAMETER = 5
    GRADIENT_TO_USER_INPUT = 6
    USER_INPUT_MUTATION = 7
    TOKEN = 8


def _check_argument(owner, arg):
    if not isinstance(arg, _ARGUMENTS):
        names = ", ".join(a.__name__ for a in _ARGUMENTS)
        raise AssertionError(f"{owner}: expected arg to be one of {names}, got {type(arg).__name__}")


@dataclasses.dataclass
class InputSpec:
    """One input.

    Args:
        kind: InputKind. arg: one of the argument classes.
        target: path of the parameter, buffer or constant; None for what the user passes.
        persistent: of a buffer, whether it is in the state dict.
    """

    kind: InputKind
    arg: ArgumentSpec
    target: typing.Optional[str]
    persistent: typing.Optional[bool] = None

    def __post_init__(self):
        if self.kind is InputKind.BUFFER and self.persistent is None:
            raise AssertionError("InputSpec: a BUFFER needs persistent=True or False")
        _check_argument("InputSpec", self.arg)

    def __str__(self):
        return _line(self, "" if self.persistent is None else f" persistent={self.persistent}")


@dataclasses.dataclass
class OutputSpec:
    """One output.

    Args:
        kind: OutputKind. arg: one of the argument classes.
        target: path of the parameter or buffer, or name of the input, that it is the new value or gradient of.
    """

    kind: OutputKind
    arg: ArgumentSpec
    target: typing.Optional[str]

    def __post_init__(self):
        _check_argument("OutputSpec", self.arg)

    def __str__(self):
        return _line(self)


def _line(spec, more=""):
    target = "" if spec.target is None else f" target={spec.target!r}"
    return f"{spec.arg.name}: {spec.kind.name}{target}{more}"


@dataclasses.dataclass
class ExportBackwardSignature:
    """Of a graph with a backward pass: {gradient's output: parameter's path}, {gradient's output: user input}, and the
    loss's output."""

    gradients_to_parameters: typing.Dict[str, str]
    gradients_to_user_inputs: typing.Dict[str, str]
    loss_output: str


@dataclasses.dataclass
class ExportGraphSignature:
    """Inputs and outputs of an exported graph, in its order: parameters, buffers, constants, what the user passes; and
    new values of what was written to, then what the user gets.

    Args:
        input_specs: list of InputSpec, one a placeholder.
        output_specs: list of OutputSpec, one a value of the output node.
    """

    input_specs: typing.List[InputSpec]
    output_specs: typing.List[OutputSpec]

    # --- inputs ---

    def _inputs(self, kind):
        return [s for s in self.input_specs if s.kind is kind]

    def _paths(self, kind):
        return tuple(s.target for s in self._inputs(kind) if isinstance(s.target, str))

    def _by_name(self, kind):
        return {s.arg.name: s.target for s in self._inputs(kind) if isinstance(s.target, str)}

    @property
    def parameters(self):
        """Paths of the parameters: a tuple."""
        return self._paths(InputKind.PARAMETER)

    @property
    def buffers(self):
        """Paths of the buffers: a tuple."""
        return self._paths(InputKind.BUFFER)

    @property
    def non_persistent_buffers(self):
        """Paths of the buffers that are not in the state dict: a tuple."""
        return tuple(s.target for s in self._inputs(InputKind.BUFFER) if s.persistent is False)

    @property
    def lifted_tensor_constants(self):
        """Paths of the constant tensors: a tuple."""
        return self._paths(InputKind.CONSTANT_TENSOR)

    @property
    def lifted_custom_objs(self):
        """Paths of the objects of registered classes: a tuple."""
        return self._paths(InputKind.CUSTOM_OBJ)

    @property
    def user_inputs(self):
        """What the user passes: a tuple of names, and of the values of constants."""
        return tuple(
            s.arg.value if isinstance(s.arg, ConstantArgument) else s.arg.name
            for s in self._inputs(InputKind.USER_INPUT)
        )

    @property
    def inputs_to_parameters(self):
        """{placeholder: path} of the parameters."""
        return self._by_name(InputKind.PARAMETER)

    @property
    def inputs_to_buffers(self):
        """{placeholder: path} of the buffers."""
        return self._by_name(InputKind.BUFFER)

    @property
    def inputs_to_lifted_tensor_constants(self):
        """{placeholder: path} of the constant tensors."""
        return self._by_name(InputKind.CONSTANT_TENSOR)

    @property
    def inputs_to_lifted_custom_objs(self):
        """{placeholder: path} of the objects of registered classes."""
        return self._by_name(InputKind.CUSTOM_OBJ)

    @property
    def input_tokens(self):
        """Names of the tokens among the inputs: a tuple."""
        return tuple(s.arg.name for s in self._inputs(InputKind.TOKEN))

    # --- outputs ---

    def _written(self, kind):
        return {s.arg.name: s.target for s in self.output_specs if s.kind is kind and isinstance(s.target, str)}

    @property
    def user_outputs(self):
        """What the user gets: names, and values where they are part of the program; a tuple."""
        kinds = (OutputKind.USER_OUTPUT, OutputKind.LOSS_OUTPUT)
        arguments = [s.arg for s in self.output_specs if s.kind in kinds]
        return tuple(a.value if isinstance(a, ConstantArgument) else a.name for a in arguments)

    @property
    def buffers_to_mutate(self):
        """{output: path} of the buffers that are written to."""
        return self._written(OutputKind.BUFFER_MUTATION)

    @property
    def parameters_to_mutate(self):
        """{output: path} of the parameters that are written to."""
        return self._written(OutputKind.PARAMETER_MUTATION)

    @property
    def user_inputs_to_mutate(self):
        """{output: placeholder} of what the user passes and the program writes to."""
        return self._written(OutputKind.USER_INPUT_MUTATION)

    @property
    def output_tokens(self):
        """Names of the tokens among the outputs: a tuple."""
        return tuple(s.arg.name for s in self.output_specs if s.kind is OutputKind.TOKEN)

    @property
    def backward_signature(self):
        """ExportBackwardSignature of a graph with a backward pass, or None."""
        losses = [s.arg.name for s in self.output_specs if s.kind is OutputKind.LOSS_OUTPUT]
        if not losses:
            return None
        return ExportBackwardSignature(
            self._written(OutputKind.GRADIENT_TO_PARAMETER), self._written(OutputKind.GRADIENT_TO_USER_INPUT), losses[0]
        )

    @property
    def assertion_dep_token(self):
        """None: assertions are ordered by the graph."""
        return None

    # --- the rest ---

    def __post_init__(self):
        if self.assertion_dep_token is not None and len(self.assertion_dep_token) != 1:
            raise AssertionError("ExportGraphSignature: expected at most one token of assertions")

    def replace_all_uses(self, old, new):
        """Uses the name `new` where `old` stands (both strings; AssertionError otherwise)."""
        for name in (old, new):
            if not isinstance(name, str):
                raise AssertionError(f"replace_all_uses: expected names (str), got {type(name).__name__}")
        for spec in [*self.output_specs, *self.input_specs]:
            if spec.arg.name == old:
                spec.arg.name = new

    def get_replace_hook(self, replace_inputs=False):
        """A hook for GraphModule._set_replace_hook that keeps the names here right while nodes are replaced.

        Args:
            replace_inputs: placeholders are renamed, too.
        """

        return lambda old, new, user: (
            self.replace_all_uses(old.name, new)
            if user.op == "output" or (replace_inputs and old.op == "placeholder")
            else None
        )

    def __str__(self):
        groups = (("inputs", self.input_specs), ("outputs", self.output_specs))
        return "\n".join(line for title, specs in groups for line in (f"\n# {title}", *map(str, specs))) + "\n"
