"""Ways to spread a module over a mesh of one dimension."""

from abc import ABC, abstractmethod

import tessera
from tessera.distributed.tensor import DTensor, Replicate, Shard, distribute_module, distribute_tensor
from tessera.nn import Embedding, Linear, Parameter

__all__ = [
    "ColwiseParallel",
    "ParallelStyle",
    "PrepareModuleInput",
    "PrepareModuleInputOutput",
    "PrepareModuleOutput",
    "RowwiseParallel",
    "SequenceParallel",
]


class ParallelStyle(ABC):
    """What spreads a module. Subclasses define `_apply(module, device_mesh)`, which returns the module.

    Attributes:
        src_data_rank: whose parameters count, of the ranks of the mesh; None: everyone's own.
    """

    src_data_rank = 0

    @abstractmethod
    def _apply(self, module, device_mesh): ...


def _placed(value, mesh, layout, wanted):
    """A tensor that lies as `layout`, if it is plain, as DTensor that lies as `wanted`."""
    if not isinstance(value, DTensor):
        value = DTensor.from_local(value, mesh, (layout,), run_check=False)
    return value if wanted is None else value.redistribute(placements=(wanted,))


def _given(value, wanted, local):
    if isinstance(value, DTensor) and wanted is not None:
        value = value.redistribute(placements=(wanted,))
    return value.to_local() if local and isinstance(value, DTensor) else value


class _Cut(ParallelStyle):
    """Base of the styles that cut weights: where, by the kind of module, and what inputs they want."""

    _cuts, _wants, _input, _output = {}, {}, None, None

    def __init__(self, *, input_layouts=None, output_layouts=None, use_local_output=True):
        self.input_layouts = (input_layouts or self._input,)
        self.desired_input_layouts = (self._wants[Linear],)
        self.output_layouts = (output_layouts or self._output,)
        self.use_local_output = use_local_output

    def _partition(self, _name, module, mesh):
        kind = next(kind for kind in self._cuts if isinstance(module, kind))
        for key, parameter in list(module._parameters.items()):
            if parameter is not None:
                place = [self._cuts[kind][key]]
                placed = distribute_tensor(parameter, mesh, place, src_data_rank=self.src_data_rank)
                module.register_parameter(key, Parameter(placed, parameter.requires_grad))

    def _apply(self, module, device_mesh):
        kind = next((kind for kind in self._cuts if isinstance(module, kind)), None)
        if kind is None:
            raise NotImplementedError(
                f"{type(self).__name__} is for modules of {[k.__name__ for k in self._cuts]}, but got {type(module)}"
            )

        def before(_module, inputs, mesh):
            return (_placed(inputs[0], mesh, self.input_layouts[0], self._wants[kind]), *inputs[1:])

        def after(_module, outputs, _mesh):
            return _given(outputs, self.output_layouts[0], self.use_local_output)

        return distribute_module(module, device_mesh, self._partition, before, after)

    def __repr__(self):
        return (
            f"{type(self).__name__}(input_layouts={self.input_layouts}, output_layouts={self.output_layouts}, "
            f"use_local_output={self.use_local_output})"
        )


class ColwiseParallel(_Cut):
    """Cuts the outputs of a Linear or an Embedding: weight and bias of the first as Shard(0), the weight of the second
    as Shard(1).

    Args:
        input_layouts: Placement of a plain input; None: Replicate().
        output_layouts: Placement of the output; None: Shard(-1).
        use_local_output: the output is this process's part, a plain tensor, instead of a DTensor.
    """

    _cuts = {Linear: {"weight": Shard(0), "bias": Shard(0)}, Embedding: {"weight": Shard(1)}}
    _wants = {Linear: Replicate(), Embedding: Replicate()}
    _input, _output = Replicate(), Shard(-1)


class RowwiseParallel(_Cut):
    """Cuts the inputs of a Linear, whose weight becomes Shard(1) and whose bias Replicate(), or the rows of an
    Embedding, whose weight becomes Shard(0).

    Args:
        input_layouts: Placement of a plain input; None: Shard(-1). An Embedding needs Replicate().
        output_layouts: Placement of the output; None: Replicate().
        use_local_output: the output is this process's part, a plain tensor, instead of a DTensor.
    """

    _cuts = {Linear: {"weight": Shard(1), "bias": Replicate()}, Embedding: {"weight": Shard(0)}}
    _wants = {Linear: Shard(-1), Embedding: Replicate()}
    _input, _output = Shard(-1), Replicate()


class SequenceParallel(ParallelStyle):
    """Lets a LayerNorm, RMSNorm or Dropout work on parts of a sequence. Parameters are copies: each process's own,
    which are taken to be equal.

    Args:
        sequence_dim: the dimension of the input that is cut. A plain input is a part, a DTensor is redistributed.
        use_local_output: the output is this process's part, a plain tensor, instead of a DTensor.
    """

    def __init__(self, *, sequence_dim=1, use_local_output=False):
        super().__init__()
        self.sequence_sharding = (Shard(sequence_dim),)
        self.use_local_output = use_local_output

    def _apply(self, module, device_mesh):
        def copied(_name, part, mesh):
            for key, parameter in list(part._parameters.items()):
                if parameter is not None:
                    made = DTensor.from_local(parameter.detach(), mesh, (Replicate(),), run_check=False)
                    part.register_parameter(key, Parameter(made, parameter.requires_grad))

        def before(_module, inputs, mesh):
            if not isinstance(inputs[0], tessera.Tensor):
                raise ValueError(f"SequenceParallel expects a tensor as input, but got {type(inputs[0])}")
            cut = self.sequence_sharding[0]
            return (_placed(inputs[0], mesh, cut, cut), *inputs[1:])

        def after(_module, outputs, _mesh):
            return _given(outputs, None, self.use_local_output)

        return distribute_module(module, device_mesh, copied, before, after)

    def __repr__(self):
        dim = self.sequence_sharding[0].dim
        return f"SequenceParallel(sequence_dim={dim}, use_local_output={self.use_local_output})"


def _tuple(value):
    return value if value is None or isinstance(value, tuple) else (value,)


def _prepared(value, mesh, layout, wanted, local):
    """A value that is a tensor and has a layout, as it is wanted: a DTensor, or the part of it that is here."""
    if layout is None or not isinstance(value, tessera.Tensor):
        return value
    value = _placed(value, mesh, layout, wanted)
    return value.to_local() if local else value


def _all_prepared(what, values, mesh, layouts, wanted, local):
    """A tuple of them. Raises: ValueError for another number of layouts."""
    if len(values) != len(layouts):
        raise ValueError(
            f"module {what} and {what[:-1]}_layouts should have same length: {len(values)} {what}, {len(layouts)} "
            "layouts"
        )
    return tuple(_prepared(value, mesh, *places, local) for value, *places in zip(values, layouts, wanted))


class PrepareModuleInput(ParallelStyle):
    """Makes DTensors of a module's inputs and lays them as it wants them.

    Args:
        input_layouts: Placements of the positional inputs that are plain, one or a tuple; None among them leaves one as
            it is.
        desired_input_layouts: Placements that the module gets, as many.
        input_kwarg_layouts: {name: Placement} of inputs by name.
        desired_input_kwarg_layouts: {name: Placement} that the module gets.
        use_local_output: the module gets this process's parts, plain tensors, instead of DTensors.

    Raises: AssertionError for layouts of which one is missing, or of different lengths; ValueError at a call with
        another number of inputs.
    """

    def __init__(
        self,
        *,
        input_layouts=None,
        desired_input_layouts=None,
        input_kwarg_layouts=None,
        desired_input_kwarg_layouts=None,
        use_local_output=False,
    ):
        self.input_layouts = _tuple(input_layouts)
        self.desired_input_layouts = _tuple(desired_input_layouts)
        self.use_local_output = use_local_output
        self.input_kwarg_layouts = input_kwarg_layouts or {}
        self.desired_input_kwarg_layouts = desired_input_kwarg_layouts or {}
        if self.input_layouts is not None:
            assert self.desired_input_layouts is not None, "desired module inputs should not be None"
            assert len(self.input_layouts) == len(self.desired_input_layouts), (
                f"{len(self.input_layouts)} input_layouts, but {len(self.desired_input_layouts)} desired_input_layouts"
            )
        assert self.input_kwarg_layouts.keys() == self.desired_input_kwarg_layouts.keys(), (
            "input_kwarg_layouts and desired_input_kwarg_layouts have to name the same inputs"
        )

    def _apply(self, module, device_mesh):
        def before(_module, args, kwargs):
            if self.input_layouts is not None:
                wanted = self.desired_input_layouts
                args = _all_prepared("inputs", args, device_mesh, self.input_layouts, wanted, self.use_local_output)
            for key, layout in self.input_kwarg_layouts.items():
                if key in kwargs:
                    wanted = self.desired_input_kwarg_layouts[key]
                    kwargs[key] = _prepared(kwargs[key], device_mesh, layout, wanted, self.use_local_output)
            return args, kwargs

        module.register_forward_pre_hook(before, with_kwargs=True)
        return module

    def _layouts(self):
        return (
            f"input_layouts={self.input_layouts}, desired_input_layouts={self.desired_input_layouts}, "
            f"input_kwarg_layouts={self.input_kwarg_layouts}, "
            f"desired_input_kwarg_layouts={self.desired_input_kwarg_layouts}"
        )

    def __repr__(self):
        return f"PrepareModuleInput({self._layouts()}, use_local_output={self.use_local_output})"


class PrepareModuleOutput(ParallelStyle):
    """Makes DTensors of a module's outputs and lays them otherwise.

    Args:
        output_layouts: Placements of the outputs that are plain, one or a tuple; None among them leaves one as it is.
        desired_output_layouts: Placements of what is returned, as many.
        use_local_output: this process's parts, plain tensors, are returned instead of DTensors.

    Raises: AssertionError for layouts of different lengths; ValueError at a call with another number of outputs.
    """

    def __init__(self, *, output_layouts, desired_output_layouts, use_local_output=True):
        self.output_layouts = _tuple(output_layouts)
        self.desired_output_layouts = _tuple(desired_output_layouts)
        self.use_local_output = use_local_output
        assert len(self.output_layouts) == len(self.desired_output_layouts), (
            f"{len(self.output_layouts)} output_layouts, but {len(self.desired_output_layouts)} desired_output_layouts"
        )

    def _apply(self, module, device_mesh):
        def after(_module, _inputs, outputs):
            many = isinstance(outputs, (tuple, list))
            given, wanted = tuple(outputs) if many else (outputs,), self.desired_output_layouts
            made = _all_prepared("outputs", given, device_mesh, self.output_layouts, wanted, self.use_local_output)
            return made if many else made[0]

        module.register_forward_hook(after)
        return module

    def _layouts(self):
        return f"output_layouts={self.output_layouts}, desired_output_layouts={self.desired_output_layouts}"

    def __repr__(self):
        return f"PrepareModuleOutput({self._layouts()}, use_local_output={self.use_local_output})"


class PrepareModuleInputOutput(ParallelStyle):
    """PrepareModuleInput and PrepareModuleOutput in one.

    Args:
        input_layouts, desired_input_layouts, input_kwarg_layouts, desired_input_kwarg_layouts: as there.
        use_local_input: the module gets plain tensors.
        output_layouts, desired_output_layouts: as there.
        use_local_output: plain tensors are returned.
    """

    def __init__(
        self,
        *,
        input_layouts=None,
        desired_input_layouts=None,
        input_kwarg_layouts=None,
        desired_input_kwarg_layouts=None,
        use_local_input=False,
        output_layouts,
        desired_output_layouts,
        use_local_output=True,
    ):
        kwargs = {
            "input_kwarg_layouts": input_kwarg_layouts,
            "desired_input_kwarg_layouts": desired_input_kwarg_layouts,
        }
        layouts = {"input_layouts": input_layouts, "desired_input_layouts": desired_input_layouts, **kwargs}
        self.prepare_module_input = PrepareModuleInput(use_local_output=use_local_input, **layouts)
        layouts = {"output_layouts": output_layouts, "desired_output_layouts": desired_output_layouts}
        self.prepare_module_output = PrepareModuleOutput(use_local_output=use_local_output, **layouts)

    def _apply(self, module, device_mesh):
        self.prepare_module_input._apply(module, device_mesh)
        return self.prepare_module_output._apply(module, device_mesh)

    def __repr__(self):
        given, made = self.prepare_module_input, self.prepare_module_output
        return (
            f"PrepareModuleInputOutput({given._layouts()}, use_local_input={given.use_local_output}, "
            f"{made._layouts()}, use_local_output={made.use_local_output})"
        )
