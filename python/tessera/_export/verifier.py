"""Checks of exported programs: that their graph has the nodes it may have, and that the signature is the graph's."""

import math
import operator

import tessera
from tessera.export.graph_signature import (
    ConstantArgument, ExportGraphSignature, InputKind, OutputKind, TensorArgument,
)  # fmt: skip
from tessera.fx.node import Node

__all__ = ["SpecViolationError", "Verifier", "TrainingIRVerifier", "load_verifier"]


class SpecViolationError(Exception):
    """A program is not what an exported one has to be."""


_ARITHMETIC = "add sub mul truediv floordiv mod pow neg eq ne lt le gt ge and_ or_ not_"
_NUMBERS = frozenset(
    [
        *(getattr(operator, name) for name in _ARITHMETIC.split()),
        *(operator.getitem, operator.pos, operator.xor, operator.abs, operator.lshift, operator.rshift),
        *(abs, round, int, float, bool, tessera.sym_float, tessera.sym_int, tessera.sym_ite, tessera.sym_max),
        *(tessera.sym_min, tessera.sym_not, tessera.sym_sum, tessera.sym_sqrt, math.floor, math.ceil, math.trunc),
    ]
)
_by_dialect = {}


def load_verifier(dialect):
    """The Verifier of a dialect's name; that of "ATEN" for "". KeyError if there is none."""
    return _by_dialect[dialect or "ATEN"]


class Verifier:
    """Checks a program in functional operators. Subclasses name a `dialect` and say what else their graphs may have."""

    dialect = "ATEN"

    def __init_subclass__(cls, **more):
        super().__init_subclass__(**more)
        _by_dialect[cls.dialect] = cls

    def allowed_builtin_ops(self):
        """Functions of Python that nodes may call."""
        return list(_NUMBERS)

    def allowed_op_types(self):
        """Classes of operators that nodes may call."""
        from tessera import _ops

        found = [_ops.OpOverload]
        if hasattr(_ops, "HigherOrderOperator"):
            found.append(_ops.HigherOrderOperator)
        return tuple(found)

    def allowed_getattr_types(self):
        """Classes of what get_attr nodes may name."""
        return (tessera.fx.GraphModule,)

    def check_valid_op(self, op):
        """SpecViolationError if a program may not have an operator: one that writes to its arguments."""
        schema = getattr(op, "_schema", None)
        if schema is not None and schema.is_mutable:
            raise SpecViolationError(f"operator '{op}' is not functional: it writes to its arguments")

    def check_additional(self, gm):
        """For subclasses: further checks of a GraphModule."""

    def check(self, ep):
        """Checks an ExportedProgram; SpecViolationError says what is wrong with it."""
        self._check_graph_module(ep.graph_module)
        _check_signature(ep)

    def _check_graph_module(self, gm):
        gm.graph.lint()
        for node in gm.graph.nodes:
            if node.op == "call_function":
                self._check_call(node)
            elif node.op == "get_attr":
                self._check_get_attr(gm, node)
            elif node.op not in ("placeholder", "output"):
                raise SpecViolationError(f"A node '{node.name}' of op {node.op} is not one that a program may have")
        self.check_additional(gm)

    def _check_call(self, node):
        target = node.target
        if target in _NUMBERS or target in self.allowed_builtin_ops():
            return
        if not isinstance(target, self.allowed_op_types()):
            raise SpecViolationError(
                f"Operator '{getattr(target, '__name__', target)}' of node '{node.name}' is not an allowed operator "
                f"type: "
                f"{self.allowed_op_types()}"
            )
        self.check_valid_op(target)

    def _check_get_attr(self, gm, node):
        value = gm
        for part in node.target.split("."):
            value = getattr(value, part)
        if not isinstance(value, self.allowed_getattr_types()):
            raise SpecViolationError(
                f"Invalid get_attr type {type(value)} of node '{node.name}': expected {self.allowed_getattr_types()}"
            )
        if isinstance(value, tessera.fx.GraphModule):
            self._check_graph_module(value)


_by_dialect["ATEN"] = Verifier


class TrainingIRVerifier(Verifier):
    """Checks a program as export() makes it: operators may write to their arguments."""

    dialect = "TRAINING"

    def check_valid_op(self, op):
        """All operators are valid."""


def _check_signature(ep):
    signature = ep.graph_signature
    if not isinstance(signature, ExportGraphSignature):
        raise SpecViolationError(f"expected an ExportGraphSignature, got {type(signature)}")
    placeholders = [n for n in ep.graph.nodes if n.op == "placeholder"]
    if len(placeholders) != len(signature.input_specs):
        raise SpecViolationError(
            f"the graph has {len(placeholders)} inputs, but its signature {len(signature.input_specs)}"
        )
    for spec, node in zip(signature.input_specs, placeholders):
        if spec.arg.name != node.name:
            raise SpecViolationError(f"Input spec {spec.arg.name} does not match the graph's input {node.name}")
        _check_held(ep, spec)
    _check_outputs(ep, signature, {n.name for n in placeholders})


def _check_held(ep, spec):
    if spec.kind is InputKind.USER_INPUT or spec.kind is InputKind.TOKEN:
        return
    if not isinstance(spec.target, str):
        raise SpecViolationError(f"The {spec.kind.name} {spec.arg.name} has no target: {spec}")
    lacks = {
        InputKind.PARAMETER: spec.target not in ep.state_dict,
        InputKind.BUFFER: spec.target not in (ep.constants if spec.persistent is False else ep.state_dict),
        InputKind.CONSTANT_TENSOR: spec.target not in ep.constants,
        InputKind.CUSTOM_OBJ: spec.target not in ep.constants,
    }  # fmt: skip
    if lacks[spec.kind]:
        where = "state dict" if spec.kind is InputKind.PARAMETER or spec.persistent else "constants"
        raise SpecViolationError(f"{spec.kind.name} {spec.target} is not in the {where}.")
    if spec.kind is InputKind.CONSTANT_TENSOR and not isinstance(ep.constants[spec.target], tessera.Tensor):
        raise SpecViolationError(f"Constant tensor {spec.target} is not a tensor.")


def _check_outputs(ep, signature, inputs):
    values = ep.graph.output_node().args[0]
    if len(values) != len(signature.output_specs):
        raise SpecViolationError(
            f"Number of output nodes {len(values)} is different from the number of outputs in the signature: "
            f"{len(signature.output_specs)}"
        )
    for spec, value in zip(signature.output_specs, values):
        if isinstance(spec.arg, TensorArgument) and not (isinstance(value, Node) and value.name == spec.arg.name):
            raise SpecViolationError(f"Output spec {spec.arg.name} does not match the graph's output {value}")
        if spec.kind is OutputKind.USER_INPUT_MUTATION and spec.target not in inputs:
            raise SpecViolationError(f"Mutated input {spec.target} does not point to a user input that exists.")
        if spec.kind is OutputKind.BUFFER_MUTATION and spec.target not in signature.buffers:
            raise SpecViolationError(f"Buffer output {spec.arg.name} does not point to a buffer that exists.")
        if isinstance(spec.arg, ConstantArgument) and isinstance(value, Node):
            raise SpecViolationError(f"Constant output {spec.arg.value} is the node {value}")
