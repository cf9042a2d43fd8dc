"""ONNXProgram: an exported model, to be saved, looked at and run."""

import contextlib
import os

import tessera
from tessera.onnx import _model, _wire
from tessera.onnx._types import FROM_ONNX, NAMES
from tessera.onnx.errors import OnnxExporterError

_LARGEST = 2**31 - 2**20  # bytes: files of this format hold less than 2 GiB
_ALIGNED, _SMALL = 4096, 1024


def package(name, wanted_by):
    """The module of a package of others.

    Raises: ModuleNotFoundError that says what wants it.
    """
    import importlib

    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"{wanted_by} needs the package {name}: No module named {error.name!r}. "
            f"Install it with 'pip install {name}'.",
            name=error.name,
        ) from None


def _ort_session_initializer(model):
    """An onnxruntime.InferenceSession for the CPU of a model: its bytes or the path of its file."""
    runtime = package("onnxruntime", "ONNXProgram.__call__()")
    options = runtime.SessionOptions()
    options.log_severity_level = 3
    return runtime.InferenceSession(model, sess_options=options, providers=["CPUExecutionProvider"])


class ONNXProgram:
    """A model of ONNX that torch.onnx.export() made.

    Attributes:
        model: the message of the model (ModelProto): `model.graph.node`, `model.opset_import` and so on, with the
            fields of the published format.
        exported_program: the ExportedProgram that it is made of, None for traced and scripted ones.

    Calling it runs it with onnxruntime: it takes what the module takes, and gives a tuple of tensors.
    """

    def __init__(self, model, exported_program):
        self.model, self.exported_program = model, exported_program
        self._session, self._folder = None, None
        self._arguments = None  # function(args, kwargs) -> tensors of the inputs, by their order
        self.report = None

    def __repr__(self):
        graph = self.model.graph
        lines = ["ONNXProgram(", "    model="]
        lines += [f"        opset {v.domain or 'ai.onnx'} {v.version}" for v in self.model.opset_import]
        lines += [f"        input  {_shown(v)}" for v in graph.input] + [
            f"        output {_shown(v)}" for v in graph.output
        ]
        lines += [f"        {', '.join(n.output)} = {n.op_type}({', '.join(n.input)})" for n in graph.node]
        return "\n".join(
            [*lines, "    exported_program=", *("        " + t for t in str(self.exported_program).splitlines()), ")"]
        )

    @property
    def model_proto(self):
        """The model as an object of the package onnx. ModuleNotFoundError without it; ValueError for 2 GiB and more."""
        onnx = package("onnx", "ONNXProgram.model_proto")
        return onnx.ModelProto.FromString(self._bytes())

    def _bytes(self):
        size = _wire.size_of(self.model)
        if size > _LARGEST:
            raise ValueError(f"the model has {size} bytes; more than {_LARGEST} go into files with external data only")
        return _wire.encode(self.model)

    # --- running ---

    def _feeds(self, args, kwargs):
        values = self._given(args, kwargs)
        stored = {t.name for t in self.model.graph.initializer}
        names = [v for v in self.model.graph.input if v.name not in stored]
        if len(values) != len(names):
            raise ValueError(f"the model has {len(names)} inputs {[n.name for n in names]}, got {len(values)} tensors")
        return {n.name: _array(v, n) for n, v in zip(names, values)}

    def _given(self, args, kwargs):
        if self._arguments is not None:
            return self._arguments(args, kwargs)
        from tessera.utils import _pytree as pytree

        if self.exported_program is not None:
            specs = self.exported_program.graph_signature.input_specs
            leaves = pytree.tree_leaves((tuple(args), dict(kwargs)))
            user = [s for s in specs if s.kind.name == "USER_INPUT"]
            if len(leaves) == len(user):
                return [v for v, s in zip(leaves, user) if type(s.arg).__name__ != "ConstantArgument"]
        return [v for v in pytree.tree_leaves((tuple(args), dict(kwargs))) if v is not None]

    def initialize_inference_session(self, initializer=_ort_session_initializer):
        """Makes what runs the model.

        Args:
            initializer: function of the model's bytes or the path of a file with it, that gives an
                onnxruntime.InferenceSession.
        """
        if _wire.size_of(self.model) > _LARGEST:
            import tempfile

            self._folder = tempfile.TemporaryDirectory()
            path = os.path.join(self._folder.name, "model.onnx")
            self.save(path, external_data=True)
            self._session = initializer(path)
        else:
            self._session = initializer(_wire.encode(self.model))

    def __call__(self, *args, **kwargs):
        if self._session is None:
            self.initialize_inference_session()
        return _results(self._session.run(None, self._feeds(args, kwargs)))

    def call_reference(self, *args, **kwargs):
        """Like a call, with the reference implementation of the package onnx: slow, and exact."""
        reference = package("onnx.reference", "ONNXProgram.call_reference()")
        return _results(reference.ReferenceEvaluator(self.model_proto).run(None, self._feeds(args, kwargs)))

    def compute_values(self, value_names, args=(), kwargs=None):
        """Values inside of the graph.

        Args:
            value_names: their names.
            args, kwargs: what the module takes.

        Returns: a list of tensors, in that order.

        Raises: ValueError for a name that no node gives.
        """
        graph = self.model.graph
        made = {n for node in graph.node for n in node.output} | {v.name for v in graph.input}
        unknown = [n for n in value_names if n not in made]
        if unknown:
            raise ValueError(f"compute_values: the graph has no values {unknown}")
        before = graph.output
        known = {o.name: o for o in before}
        graph.output = [known.get(n) or _wire.Message("ValueInfoProto", name=n) for n in value_names]
        try:
            body = self._bytes()
        finally:
            graph.output = before
        return list(_results(_ort_session_initializer(body).run(None, self._feeds(args, kwargs or {}))))

    def release(self):
        """Frees what ran the model, and its files."""
        self._session = None
        if self._folder is not None:
            self._folder.cleanup()
            self._folder = None

    # --- changes ---

    def optimize(self):
        """Takes nodes away that nothing reads or that do what others do."""
        _model.merge(self.model.graph)
        _model.prune(self.model.graph)

    def apply_weights(self, state_dict):
        """Sets parameters by their names.

        Args:
            state_dict: {name: tensor}, as of the module.

        Names that the graph does not have are warned of. Raises: ValueError for another shape.
        """
        import warnings

        graph = self.model.graph
        places = {t.name: i for i, t in enumerate(graph.initializer)}
        for name, tensor in state_dict.items():
            if name not in places:
                warnings.warn(f"Weight '{name}' not found in the model. Skipped applying.", stacklevel=2)
                continue
            old = graph.initializer[places[name]]
            if list(tensor.shape) != list(old.dims):
                raise ValueError(f"apply_weights: {name!r} has the shape {list(old.dims)}, got {list(tensor.shape)}")
            graph.initializer[places[name]] = _model._tensor(name, tensor.to(FROM_ONNX[old.data_type]))
        self.release()

    def rename_axes(self, rename_mapping):
        """Gives sizes that may differ other names: {old name, or symbol: new name}."""
        _model.renamed_axes(self.model, rename_mapping)

    # --- files ---

    def save(self, destination, *, include_initializers=True, keep_initializers_as_inputs=False, external_data=None):
        """Writes the model to a file.

        Args:
            destination: path, or a binary file.
            include_initializers: whether parameters are stored.
            keep_initializers_as_inputs: whether they are inputs of the graph as well.
            external_data: whether tensors go into a second file, `destination` with ".data" behind it; None: if the
                model is too large for one.

        Raises: ValueError for a model of 2 GiB or more without external data; TypeError for external data beside what
            is no path.
        """
        is_path = isinstance(destination, (str, os.PathLike))
        with _initializers(self.model.graph, include_initializers, keep_initializers_as_inputs):
            if external_data and not is_path:
                raise TypeError("save: external data need a path, got " + type(destination).__name__)
            if external_data or (external_data is None and is_path and _wire.size_of(self.model) > _LARGEST):
                _save_apart(self.model, os.fspath(destination))
                return
            if _wire.size_of(self.model) > _LARGEST:
                raise ValueError("save: a model of 2 GiB and more needs external_data=True and a path")
            if not is_path:
                _wire.write(self.model, destination)
                return
            with open(destination, "wb") as file:
                _wire.write(self.model, file)


@contextlib.contextmanager
def _initializers(graph, include, as_inputs):
    """Context manager: the graph as it goes into a file."""
    stored, inputs = graph.initializer, graph.input
    try:
        if as_inputs or not include:
            names = {v.name for v in inputs}
            graph.input = inputs + [_info(t) for t in stored if t.name not in names and not t.name.startswith("const")]
        if not include:
            graph.initializer = [t for t in stored if t.name.startswith("const")]
        yield
    finally:
        graph.initializer, graph.input = stored, inputs


def _info(tensor):
    dims = [_wire.Message("Dimension", dim_value=d) for d in tensor.dims]
    kind = _wire.Message(
        "TensorType", elem_type=tensor.data_type, shape=_wire.Message("TensorShapeProto", dim=dims)
    )  # fmt: skip
    return _wire.Message("ValueInfoProto", name=tensor.name, type=_wire.Message("TypeProto", tensor_type=kind))


def _save_apart(model, path):
    """Writes a model, and its tensors into a file beside it."""
    stored = model.graph.initializer
    name = os.path.basename(path) + ".data"
    outside = []
    try:
        with open(os.path.join(os.path.dirname(path), name), "wb") as file:
            for t in stored:
                if len(t.raw_data) < _SMALL:
                    outside.append(t)
                    continue
                file.write(b"\0" * (-file.tell() % _ALIGNED))
                entries = {"location": name, "offset": str(file.tell()), "length": str(len(t.raw_data))}
                file.write(t.raw_data)
                outside.append(_wire.Message(
                    "TensorProto", name=t.name, dims=t.dims, data_type=t.data_type, data_location=1,
                    external_data=[_wire.Message("StringStringEntryProto", key=k, value=v) for k, v in entries.items()],
                ))  # fmt: skip
        model.graph.initializer = outside
        with open(path, "wb") as file:
            _wire.write(model, file)
    finally:
        model.graph.initializer = stored


def _array(value, info):
    """What onnxruntime takes of an argument."""
    if isinstance(value, tessera.Tensor):
        value = value.detach().cpu()
        if value.is_conj() or value.is_neg():
            value = value.resolve_conj().resolve_neg()
        try:
            return value.numpy()
        except TypeError as error:
            raise OnnxExporterError(
                f"input {info.name!r}: onnxruntime takes arrays of NumPy, which has no {value.dtype}"
            ) from error
    import numpy

    code = info.type.tensor_type.elem_type
    return numpy.asarray(value, dtype=tessera.empty(0, dtype=FROM_ONNX[code]).numpy().dtype)


def _results(arrays):
    return tuple(tessera.from_numpy(a.reshape(-1).copy()).reshape(a.shape) for a in arrays)


def _shown(info):
    kind = info.type.tensor_type if info.type is not None else None
    if kind is None:
        return info.name
    dims = ", ".join(d.dim_param or str(d.dim_value) for d in kind.shape.dim) if kind.shape is not None else "..."
    return f"{info.name}: {NAMES.get(kind.elem_type, '?')}[{dims}]"
