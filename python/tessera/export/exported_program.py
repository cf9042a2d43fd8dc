"""ExportedProgram: a graph, what its inputs and outputs are, and the tensors that it reads."""

import contextlib
import copy
import dataclasses
import typing

import tessera
from tessera.export.graph_signature import (
    ArgumentSpec, ConstantArgument, CustomObjArgument, ExportGraphSignature, InputKind, SymBoolArgument,
    SymFloatArgument, SymIntArgument, TensorArgument, TokenArgument,
)  # fmt: skip
from tessera.fx.graph_module import GraphModule
from tessera.utils import _pytree as pytree

__all__ = ["ExportedProgram", "ModuleCallEntry", "ModuleCallSignature", "default_decompositions"]


@dataclasses.dataclass
class ModuleCallSignature:
    """How a submodule was called: what its arguments and results are in the graph, and their structures.

    Args:
        inputs, outputs: lists of argument classes, one a leaf.
        in_spec: TreeSpec of (args, kwargs). out_spec: TreeSpec of the result.
        forward_arg_names: names of forward's parameters that were given, or None.
    """

    inputs: typing.List[ArgumentSpec]
    outputs: typing.List[ArgumentSpec]
    in_spec: typing.Any
    out_spec: typing.Any
    forward_arg_names: typing.Optional[typing.List[str]] = None

    def replace_all_uses_with(self, original_node, new_node):
        """Uses a node (new_node) where another stands."""
        for arg in [*self.inputs, *self.outputs]:
            if arg.name == original_node.name:
                arg.name = new_node.name


@dataclasses.dataclass
class ModuleCallEntry:
    """A submodule's path (with @n for its call n > 0), and how it was called, where export() was asked to keep that."""

    fqn: str
    signature: typing.Optional[ModuleCallSignature] = None


class CallSpec(typing.NamedTuple):
    """Structures of a program's arguments, (args, kwargs), and of its result."""

    in_spec: typing.Any
    out_spec: typing.Any


def default_decompositions():
    """The table by which run_decompositions() goes by default: to the core operators. A CustomDecompTable."""
    return tessera.export.decomp_utils.CustomDecompTable()


def _custom(module):
    """What a program has noted in the meta of a GraphModule, as an entry of another one's."""
    meta = getattr(module, "meta", None)
    return {"custom": meta["custom"]} if isinstance(meta, dict) and "custom" in meta else {}


def _fixed(name):
    def set_attribute(self, value):
        raise RuntimeError(f"Unable to set ExportedProgram's {name} attribute.")

    return set_attribute


class ExportedProgram:
    """What export() returns: a graph of operators, what its inputs and outputs are, and the tensors that it reads.

    Args:
        root: Module (or dict) with what get_attr nodes name.
        graph: Graph. graph_signature: ExportGraphSignature of it.
        state_dict: {path: parameter or persistent buffer}.
        range_constraints: {symbol: range}.
        module_call_graph: list of ModuleCallEntry, the root's first.
        example_inputs: (args, kwargs) that it was exported with.
        constants: {path: tensor that is no parameter and not in the state dict}.
        verifiers: classes of checks, see tessera._export.verifier; None: those for training graphs.
    """

    def __init__(
        self, root, graph, graph_signature, state_dict, range_constraints, module_call_graph, example_inputs=None,
        constants=None, *, verifiers=None,
    ):  # fmt: skip
        graph.set_codegen(tessera.fx._code.CodeGen())
        self._graph_module = GraphModule(root, graph)
        self._graph_module.meta.update(_custom(root))
        self._graph_signature = graph_signature
        self._state_dict = dict(state_dict)
        self._range_constraints = dict(range_constraints)
        self._module_call_graph = module_call_graph
        self._example_inputs = example_inputs
        self._constants = dict(constants or {})
        self._verifiers = [tessera._export.verifier.TrainingIRVerifier] if verifiers is None else list(verifiers)
        self._guards_code = []  # conditions on symbols beyond their ranges, as text
        self.validate()

    @property
    def graph_module(self):
        """The GraphModule of the graph."""
        return self._graph_module

    @property
    def graph(self):
        """The Graph."""
        return self._graph_module.graph

    @property
    def graph_signature(self):
        """ExportGraphSignature."""
        return self._graph_signature

    @property
    def state_dict(self):
        """{path: parameter or persistent buffer}."""
        return self._state_dict

    @property
    def range_constraints(self):
        """{symbol: range}."""
        return self._range_constraints

    @property
    def module_call_graph(self):
        """List of ModuleCallEntry."""
        return self._module_call_graph

    @property
    def example_inputs(self):
        """(args, kwargs) that it was exported with, or None. May be set to others of the same structure; ValueError
        otherwise.
        """
        return self._example_inputs

    @example_inputs.setter
    def example_inputs(self, value):
        self._example_inputs = None if value is None else self._in_order(value)

    def _in_order(self, value):
        """Example inputs with the keyword arguments in the order of the program's."""
        if not (isinstance(value, tuple) and len(value) == 2 and isinstance(value[0], tuple)
                and isinstance(value[1], dict)):  # fmt: skip
            raise ValueError(
                "Example inputs should be a tuple of the arguments (a tuple) and the keyword arguments (a dict), but "
                f"got {type(value).__name__}: give (args, kwargs)"
            )
        (args, kwargs), spec = value, self.call_spec.in_spec
        if spec is None:
            return value
        wanted = spec.child(1).context
        if set(wanted) != set(kwargs):
            raise ValueError(f"Ran into a kwarg keyword mismatch: expected {list(wanted)}, but got {list(kwargs)}")
        found = args, {name: kwargs[name] for name in wanted}
        if pytree.tree_structure(found) != spec:
            raise ValueError(
                f"Trying to flatten user inputs with the structure that was exported, {spec}, but got "
                f"{pytree.tree_structure(found)}"
            )
        return found

    @property
    def call_spec(self):
        """CallSpec: structures of the arguments and the result."""
        signature = self._module_call_graph[0].signature if self._module_call_graph else None
        return CallSpec(None, None) if signature is None else CallSpec(signature.in_spec, signature.out_spec)

    @property
    def verifier(self):
        """The first of the verifiers."""
        return self._verifiers[0]

    @property
    def verifiers(self):
        """Classes of checks that this program satisfies."""
        return self._verifiers

    @property
    def dialect(self):
        """Name of the set of operators: "TRAINING" of export(), "ATEN" of run_decompositions()."""
        return self._verifiers[0].dialect

    @property
    def constants(self):
        """{path: tensor that is no parameter and not in the state dict}."""
        return self._constants

    @property
    def tensor_constants(self):
        """The same as constants."""
        return self._constants

    # --- parameters and buffers ---

    def parameters(self):
        """Iterator over the parameters."""
        for _, parameter in self.named_parameters():
            yield parameter

    def named_parameters(self):
        """Iterator over (path, parameter)."""
        for path in self.graph_signature.parameters:
            yield path, self.state_dict[path]

    def buffers(self):
        """Iterator over the buffers."""
        for _, buffer in self.named_buffers():
            yield buffer

    def named_buffers(self):
        """Iterator over (path, buffer)."""
        absent = set(self.graph_signature.non_persistent_buffers)
        for path in self.graph_signature.buffers:
            yield path, self.constants[path] if path in absent else self.state_dict[path]

    # --- use ---

    def __call__(self, *args, **kwargs):
        raise RuntimeError(
            "Unable to call ExportedProgram directly. You should use `exported_program.module()` instead."
        )

    def module(self, check_guards=True):
        """The program as a GraphModule, called as the exported module was. It shares the tensors of state_dict.

        Args:
            check_guards: its calls check that inputs have the structure, sizes and numbers that the graph was made for
                (ValueError of a structure, AssertionError of the others). False: without the node that does so in the
                graph, and without the guards that say more than the sizes; what is wrong is a RuntimeError.
        """
        return tessera.export._unlift.unlifted(self, check_guards)

    def _check_inputs(self, args, kwargs):
        """RuntimeError (ValueError of the structure) if the program does not accept inputs."""
        in_spec = self.call_spec.in_spec
        args, kwargs = tessera.export._unlift.check_structure(in_spec, args, kwargs)
        tessera.export._guards.InputChecks(self)(args, kwargs)

    def run_decompositions(self, decomp_table=None, decompose_custom_triton_ops=False):
        """The program in other operators, without operators that write to their arguments: what it writes to
        parameters, buffers and inputs are outputs.

        Args:
            decomp_table: {operator: function that computes the same}. None: default_decompositions(), the core
                operators. {}: operators stay as they are.
            decompose_custom_triton_ops: operators of tessera.library.triton_op are decomposed, too.

        Returns: a new ExportedProgram.
        """
        return tessera.export._decompose.decomposed(self, decomp_table, decompose_custom_triton_ops)

    def validate(self):
        """Checks the graph and its signature. Errors: tessera._export.verifier.SpecViolationError."""
        for verifier in self._verifiers:
            verifier().check(self)

    def _update(self, graph_module, graph_signature, *, state_dict=None, constants=None, verifiers=None):
        """A program like this one with another graph."""
        made = ExportedProgram(
            graph_module, copy.deepcopy(graph_module.graph), graph_signature,
            self.state_dict if state_dict is None else state_dict, self.range_constraints,
            copy.deepcopy(self._module_call_graph), self.example_inputs,
            self.constants if constants is None else constants,
            verifiers=self._verifiers if verifiers is None else verifiers,
        )  # fmt: skip
        made._guards_code = list(self._guards_code)
        return made

    def __deepcopy__(self, memo):
        made = self._update(
            self.graph_module, copy.deepcopy(self.graph_signature, memo), state_dict=copy.deepcopy(self.state_dict,
            memo),
            constants=copy.deepcopy(self.constants, memo),
        )  # fmt: skip
        memo[id(self)] = made
        return made

    def __str__(self):
        text = self.graph_module.print_readable(print_output=False)
        indented = "".join("    " + line + "\n" for line in text.rstrip("\n").split("\n"))
        signature = "".join("    " + line + "\n" for line in str(self.graph_signature).strip("\n").split("\n"))
        ranges = ", ".join(f"{symbol}: {vr}" for symbol, vr in self.range_constraints.items())
        return f"ExportedProgram:\n{indented}\nGraph signature:\n{signature}\nRange constraints: {{{ranges}}}\n"

    __repr__ = __str__


for _name in ("graph_module", "graph", "graph_signature", "state_dict", "range_constraints", "module_call_graph",
              "call_spec", "verifier", "verifiers", "dialect", "constants",
              "tensor_constants"):  # fmt: skip
    setattr(ExportedProgram, _name, getattr(ExportedProgram, _name).setter(_fixed(_name)))
del _name
