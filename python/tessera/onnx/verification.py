"""Comparisons of exported models with the programs that they come from."""

import dataclasses

import tessera

__all__ = ["VerificationInfo", "VerificationOptions", "find_mismatch", "verify_onnx_program"]


@dataclasses.dataclass
class VerificationInfo:
    """How two tensors differ.

    Attributes:
        name: of the value.
        max_abs_diff, max_rel_diff: largest absolute and relative difference.
        abs_diff_hist, rel_diff_hist: (counts, edges) of the differences, as histc gives them for powers of ten.
        expected_dtype, actual_dtype: of the program's and of the file's.
    """

    name: str
    max_abs_diff: float
    max_rel_diff: float
    abs_diff_hist: tuple
    rel_diff_hist: tuple
    expected_dtype: tessera.dtype
    actual_dtype: tessera.dtype

    @classmethod
    def from_tensors(cls, name, expected, actual):
        """Of a value of the program (tensor or number) and one of the file, of the same shape (else ValueError)."""
        expected, actual = (
            v.detach() if isinstance(v, tessera.Tensor) else tessera.tensor(v) for v in (expected, actual)
        )
        kinds = expected.dtype, actual.dtype
        if expected.shape != actual.shape:
            raise ValueError(f"{name}: expected the shape {tuple(expected.shape)}, got {tuple(actual.shape)}")
        one, two = expected.to(tessera.float64), actual.to(tessera.float64)
        off = (one - two).abs()
        same = (one == two) | (one.isnan() & two.isnan())
        off = tessera.where(same, 0.0, off).nan_to_num(nan=float("inf"))
        relative = tessera.where(off == 0, 0.0, off / one.abs().clamp_min(1e-12))
        edges = tessera.tensor([0.0, *(10.0**e for e in range(-6, 1)), float("inf")], dtype=tessera.float64)
        return cls(name, *(float(v.max()) if v.numel() else 0.0 for v in (off, relative)),
                   *((_counts(v, edges), edges) for v in (off, relative)), *kinds)  # fmt: skip

    def asdict(self):
        """As a dict of plain values."""
        made = dataclasses.asdict(self)
        for key in ("abs_diff_hist", "rel_diff_hist"):
            made[key] = [v.tolist() for v in made[key]]
        return {**made, "expected_dtype": str(self.expected_dtype), "actual_dtype": str(self.actual_dtype)}


def _counts(values, edges):
    at = tessera.bucketize(values.reshape(-1), edges[1:-1], right=True)
    return tessera.bincount(at, minlength=len(edges) - 1)


@dataclasses.dataclass
class VerificationOptions:
    """What a comparison allows: differences (atol, rtol) and how many elements may differ more (in parts of all)."""

    flatten: bool = True
    ignore_none: bool = True
    check_shape: bool = True
    check_dtype: bool = True
    rtol: float = 1e-3
    atol: float = 1e-7
    remained_onnx_input_idx: tuple = None
    acceptable_error_percentage: float = None


def verify_onnx_program(onnx_program, args=None, kwargs=None, compare_intermediates=False):
    """Runs a program with onnxruntime, and its exported program, and compares the results.

    Args:
        onnx_program: ONNXProgram with an exported program (ValueError without).
        args, kwargs: inputs; None: those of the export.
        compare_intermediates: compare all values that have the same names in both graphs as well.

    Returns: list of VerificationInfo.
    """
    program = onnx_program.exported_program
    if program is None:
        raise ValueError(
            "verify_onnx_program: the program was not exported with dynamo=True: there is nothing to compare"
        )
    if args is None and kwargs is None:
        args, kwargs = program.example_inputs
    args, kwargs = tuple(args or ()), dict(kwargs or {})
    from tessera.utils import _pytree as pytree

    wanted = [v for v in pytree.tree_leaves(program.module()(*args, **kwargs)) if v is not None]
    names = [o.name for o in onnx_program.model.graph.output]
    found = [VerificationInfo.from_tensors(n, w, g) for n, w, g in zip(names, wanted, onnx_program(*args, **kwargs))]
    if not compare_intermediates:
        return found
    inner = _intermediates(program, args, kwargs)
    made = {n for node in onnx_program.model.graph.node for n in node.output}
    common = [n for n in inner if n in made and n not in names]
    values = onnx_program.compute_values(common, args, kwargs) if common else []
    return [VerificationInfo.from_tensors(n, inner[n], v) for n, v in zip(common, values)] + found


def _intermediates(program, args, kwargs):
    """{node's name: its tensor} of a run of a program."""
    seen = {}

    class Run(tessera.fx.Interpreter):
        def run_node(self, n):
            value = super().run_node(n)
            if isinstance(value, tessera.Tensor) and n.op == "call_function":
                seen[n.name] = value.detach().clone()
            return value

    from tessera.utils import _pytree as pytree

    user, stored = iter(pytree.tree_leaves((args, kwargs))), {**program.constants, **program.state_dict}
    specs = program.graph_signature.input_specs
    Run(program.graph_module).run(*[next(user) if s.kind.name == "USER_INPUT" else stored[s.target] for s in specs])
    return seen


class GraphInfo:
    """What find_mismatch() found.

    Attributes:
        infos: VerificationInfo of the results that it compared.
    """

    def __init__(self, infos, options):
        self.infos, self._options = infos, options

    def has_mismatch(self):
        """Whether one of the results differs by more than the options allow."""
        o = self._options
        return any(i.max_abs_diff > o.atol and i.max_rel_diff > o.rtol for i in self.infos)

    def pretty_print_mismatch(self, graph=False):
        """Prints the results that differ; `graph`: all of them."""
        for i in self.infos:
            if graph or self.has_mismatch():
                print(f"{i.name}: absolute {i.max_abs_diff:.3g}, relative {i.max_rel_diff:.3g}")


def find_mismatch(model, input_args, do_constant_folding=True, training=None, opset_version=None,
                  keep_initializers_as_inputs=True, verbose=False, options=None):  # fmt: skip
    """Exports a module with dynamo=False, runs it with onnxruntime and compares its results with the module's.

    Args:
        model: Module or scripted module.
        input_args: its arguments, a tuple.
        do_constant_folding, training, opset_version, keep_initializers_as_inputs, verbose: as of export().
        options: VerificationOptions.

    Returns: GraphInfo.
    """
    import io

    from tessera.onnx import _program, _wire
    from tessera.onnx._modes import TrainingMode, select_model_mode_for_export
    from tessera.utils import _pytree as pytree

    args = input_args if isinstance(input_args, tuple) else (input_args,)
    training, file = TrainingMode.EVAL if training is None else training, io.BytesIO()
    tessera.onnx.export(model, args, file, dynamo=False, do_constant_folding=do_constant_folding, training=training,
                        opset_version=opset_version, keep_initializers_as_inputs=keep_initializers_as_inputs,
                        verbose=verbose)  # fmt: skip
    program = _program.ONNXProgram(_wire.decode(file.getvalue()), None)
    with select_model_mode_for_export(model, training), tessera.no_grad():
        wanted = pytree.tree_leaves(model(*args))
    names = [o.name for o in program.model.graph.output]
    infos = [VerificationInfo.from_tensors(n, w, g) for n, w, g in zip(names, wanted, program(*args))]
    return GraphInfo(infos, VerificationOptions() if options is None else options)
