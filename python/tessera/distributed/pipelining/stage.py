"""One stage of a pipeline: a module, what comes to it, and what it sends on."""

import tessera
from tessera.distributed import _groups as groups
from tessera.distributed import _messages as messages
from tessera.distributed import _objects as objects

__all__ = ["PipelineStage", "build_stage"]


def _tuple(value):
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)


def _meta(tensors):
    return [(tuple(tensor.shape), tensor.dtype) for tensor in tensors]


class PipeliningShapeError(RuntimeError):
    """Tensors between stages have another shape or dtype than those of the first part."""


class PipelineStage:
    """A stage of a pipeline, in the process that holds it.

    Args:
        submodule: the module.
        stage_index: its place.
        num_stages: number of stages.
        device: where the module is.
        input_args: an example of its inputs (of one part of a batch); None: it is asked of the stage before.
        output_args: an example of its outputs; None: the module is run once.
        group: of the processes; None: the default one. Stage i is of rank i modulo its size, or as a schedule says.
        dw_builder: makes a function that computes the gradients of a part's weights, where the module does that.

    Raises: ValueError for a place that there is not.
    """

    def __init__(
        self,
        submodule,
        stage_index,
        num_stages,
        device,
        input_args=None,
        output_args=None,
        group=None,
        dw_builder=None,
    ):
        if not 0 <= stage_index < num_stages:
            raise ValueError(f"a stage's place is from 0 to {num_stages - 1}, but got {stage_index}")
        self.submod, self.stage_index, self.num_stages, self.device = submodule, stage_index, num_stages, device
        self.group = groups._group_or_default_group(group)
        self.group_rank, self.group_size = self.group.rank(), self.group.size()
        self.dw_builder, self._has_backward = dw_builder, False
        self.stage_index_to_group_rank = {i: i % self.group_size for i in range(num_stages)}
        self._inputs_meta = None if input_args is None else _meta(_tuple(input_args))
        self._outputs_meta = None if output_args is None else _meta(_tuple(output_args))
        self._prepared = False
        self.clear_runtime_states()

    # ---- what it is

    @property
    def has_backward(self):
        """Whether it is being trained."""
        return self._has_backward

    @has_backward.setter
    def has_backward(self, value):
        self._has_backward = value

    @property
    def is_first(self):
        """Whether it takes the pipeline's inputs."""
        return self.stage_index == 0

    @property
    def is_last(self):
        """Whether it gives the pipeline's outputs."""
        return self.stage_index == self.num_stages - 1

    def get_outputs_meta(self):
        """(shape, dtype) of each output of a part."""
        return self._outputs_meta

    def clear_runtime_states(self):
        """Forgets the parts of the last batch."""
        self._received, self._gradients, self._kept = {}, {}, {}
        self._input_gradients, self._weights_later, self.output_chunks = {}, {}, []

    # ---- before the first batch

    def prepare(self, args, kwargs):
        """Finds out what comes and goes, from stage to stage. `args` are the first part's, at the first stage."""
        if self._prepared:
            return
        before, after = self._peer(-1), self._peer(1)
        if not self.is_first and self._inputs_meta is None:
            found = [None]
            if before is not None:
                objects.recv_object_list(found, group=self.group, group_src=before)
                self._inputs_meta = found[0]
        if self._outputs_meta is None and (self.is_first or self._inputs_meta is not None):
            if not self.is_first:
                args = [tessera.zeros(shape, dtype=dtype, device=self.device) for shape, dtype in self._inputs_meta]
            with tessera.no_grad():
                self._outputs_meta = _meta(_tuple(self.submod(*args, **kwargs)))
        if not self.is_last and after is not None:
            objects.send_object_list([self._outputs_meta], group=self.group, group_dst=after)
        self._prepared = True

    def _peer(self, step):
        """The rank of a neighbour; None if there is none, or if it is here."""
        other = self.stage_index + step
        if not 0 <= other < self.num_stages:
            return None
        rank = self.stage_index_to_group_rank[other]
        return None if rank == self.group_rank else rank

    def _tag(self, stage, part, forward):
        return (stage * 2 + forward) * 65536 + part

    def _operations(self, op, tensors, peer, stage, part, forward):
        if peer is None:
            return []
        tag = self._tag(stage, part, forward) * 16
        return [
            messages.P2POp(op, tensor, group=self.group, group_peer=peer, tag=tag + i)
            for i, tensor in enumerate(tensors)
        ]

    # ---- messages, as lists of P2POp

    def get_fwd_recv_ops(self, fwd_chunk_id):
        """What brings the inputs of a part."""
        if self.is_first or self._peer(-1) is None:
            return []
        made = [tessera.empty(shape, dtype=dtype, device=self.device) for shape, dtype in self._inputs_meta]
        self._received[fwd_chunk_id] = made
        return self._operations(messages.irecv, made, self._peer(-1), self.stage_index, fwd_chunk_id, 1)

    def get_fwd_send_ops(self, fwd_chunk_id):
        """What brings the outputs of a part to the next stage."""
        if self.is_last:
            return []
        outputs = [one.detach() for one in self._kept[fwd_chunk_id][0]]
        return self._operations(messages.isend, outputs, self._peer(1), self.stage_index + 1, fwd_chunk_id, 1)

    def get_bwd_recv_ops(self, bwd_chunk_id):
        """What brings the gradients of a part's outputs."""
        if not self.has_backward or self.is_last or self._peer(1) is None:
            return []
        made = [tessera.empty(shape, dtype=dtype, device=self.device) for shape, dtype in self._outputs_meta]
        self._gradients[bwd_chunk_id] = made
        return self._operations(messages.irecv, made, self._peer(1), self.stage_index, bwd_chunk_id, 0)

    def get_bwd_send_ops(self, bwd_chunk_id):
        """What brings the gradients of a part's inputs to the stage before."""
        if not self.has_backward or self.is_first or self._peer(-1) is None:
            return []
        values = self._input_gradients.pop(bwd_chunk_id)
        return self._operations(messages.isend, values, self._peer(-1), self.stage_index - 1, bwd_chunk_id, 0)

    def set_local_fwd_input(self, prev_stage_outputs, mb_index):
        """Takes the inputs of a part from a stage of this process."""
        self._received[mb_index] = [one.detach() for one in _tuple(prev_stage_outputs)]

    def set_local_bwd_input(self, next_stage_bwd_outputs, mb_index):
        """Takes the gradients of a part's outputs from a stage of this process."""
        self._gradients[mb_index] = list(next_stage_bwd_outputs)

    def get_local_bwd_output(self, mb_index):
        """The gradients of a part's inputs."""
        return self._input_gradients.pop(mb_index)

    # ---- work

    def forward_maybe_with_nosync(self, *args, **kwargs):
        """Runs the module, without reductions of replicas: those come with the last part."""
        context = getattr(self.submod, "no_sync", None)
        if context is None:
            return self.submod(*args, **kwargs)
        with context():
            return self.submod(*args, **kwargs)

    def forward_one_chunk(self, fwd_chunk_id, args, kwargs=None, save_forward_output=True):
        """Runs the module on a part.

        Args:
            fwd_chunk_id: the part.
            args: its inputs, at the first stage.
            kwargs: more of them.
            save_forward_output: whether the pipeline's outputs are kept, at the last stage.
        """
        inputs = list(args)
        if not self.is_first:
            inputs = [
                one.requires_grad_(one.is_floating_point() and self.has_backward)
                for one in self._received.pop(fwd_chunk_id)
            ]
        outputs = self.forward_maybe_with_nosync(*inputs, **(kwargs or {}))
        if not self.is_last and self._peer(1) is not None:  # which has room for what was announced
            found = _meta(_tuple(outputs))
            if found != self._outputs_meta:
                raise PipeliningShapeError(
                    f"stage {self.stage_index} gives {found} for part {fwd_chunk_id}, but {self._outputs_meta} for the "
                    "first: parts of a batch have equal sizes"
                )
        self._kept[fwd_chunk_id] = (_tuple(outputs), inputs)
        if self.is_last and save_forward_output:
            self.output_chunks.append(outputs)
        return outputs

    def backward_one_chunk(self, bwd_chunk_id, loss=None, full_backward=True, last_backward=False):
        """Computes the gradients of a part.

        Args:
            bwd_chunk_id: the part.
            loss: at the last stage.
            full_backward: whether also those of the weights, which else `backward_weight_one_chunk` computes.
            last_backward: whether it is the batch's last part: replicas reduce their gradients then.
        """
        kind = "full" if full_backward else "input"
        outputs, inputs = self._kept.pop(bwd_chunk_id)
        roots = [loss] if self.is_last else [one for one in outputs if one.requires_grad]
        gradients = None
        if not self.is_last:
            given = self._gradients.pop(bwd_chunk_id)
            gradients = [gradient for one, gradient in zip(outputs, given) if one.requires_grad]
        wanted = [] if self.is_first else [one for one in inputs if one.requires_grad]
        given = {"roots": roots, "gradients": gradients, "inputs": wanted}
        found = self.backward_maybe_with_nosync(kind, given, last_backward)
        if not full_backward:
            self._weights_later[bwd_chunk_id] = given
        if not self.is_first:
            values = iter(found)
            self._input_gradients[bwd_chunk_id] = [
                next(values) if one.requires_grad else tessera.zeros_like(one) for one in inputs
            ]

    def backward_weight_one_chunk(self, bwd_chunk_id, last_backward=False):
        """Computes the gradients of the weights of a part, whose inputs' came before."""
        if self.dw_builder is not None:
            self._weights_later.pop(bwd_chunk_id)
            self.dw_builder()()
            return
        self.backward_maybe_with_nosync("weight", self._weights_later.pop(bwd_chunk_id), last_backward)

    def backward_maybe_with_nosync(self, backward_type, bwd_kwargs, last_backward=False):
        """Backward of a part.

        Args:
            backward_type: "full", "input" or "weight".
            bwd_kwargs: `roots`, their `gradients`, and the `inputs`.
            last_backward: whether replicas reduce their gradients after it.

        Returns: the gradients of the inputs (nothing for "weight").
        """
        roots, gradients, inputs = bwd_kwargs["roots"], bwd_kwargs["gradients"], bwd_kwargs["inputs"]
        found = []
        if backward_type == "input":
            if inputs:
                found = list(tessera.autograd.grad(roots, inputs, gradients, retain_graph=True))
        elif backward_type == "weight":
            weights = [param for param in self.submod.parameters() if param.requires_grad]
            tessera.autograd.backward(roots, gradients, inputs=weights)
        else:
            tessera.autograd.backward(roots, gradients)
            found = [one.grad for one in inputs]
        if last_backward and hasattr(self.submod, "reducer"):
            self._reduce_replicas()
        return found

    def _reduce_replicas(self):
        from tessera.distributed._collectives import all_reduce

        for param in self.submod.parameters():
            if param.grad is not None:
                with tessera.no_grad():
                    param.grad.div_(self.submod.process_group.size())
                all_reduce(param.grad, group=self.submod.process_group)

    def scale_grads(self, grad_scale_factor):
        """Divides all gradients by a number."""
        if grad_scale_factor == 1:
            return
        for param in self.submod.parameters():
            if param.grad is not None:
                with tessera.no_grad():
                    param.grad.div_(grad_scale_factor)

    def perform_reduce_grad(self, grad_scale_factor):
        """Scales gradients at the end of a batch; replicas have reduced theirs with the last part."""
        self.scale_grads(grad_scale_factor)


def build_stage(stage_module, stage_index, pipe_info, device, group=None):
    """The PipelineStage of a module of a Pipe, for this process.

    Args:
        stage_module: the module, as `Pipe.get_stage_module` gives it.
        stage_index: its place.
        pipe_info: PipeInfo of the Pipe.
        device: where it goes.
        group: of the processes; None: the default one.
    """
    return PipelineStage(stage_module.to(device), stage_index, pipe_info.num_stages, device, group=group)
