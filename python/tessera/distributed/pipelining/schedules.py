"""In which order the processes of a pipeline work on the parts of a batch.

A schedule is a list of actions for each rank: forward, backward, or the two halves of backward (inputs, weights) of a
stage and a part. It is found by playing the pipeline through: in each turn every rank takes the first action by the
schedule's rule whose inputs are there. All ranks play the same, so nothing has to be agreed upon.
"""

from tessera.distributed.pipelining.microbatch import merge_chunks, split_args_kwargs_into_chunks
from tessera.utils import _pytree

__all__ = [
    "PipelineScheduleMulti",
    "PipelineScheduleSingle",
    "Schedule1F1B",
    "ScheduleDualPipeV",
    "ScheduleGPipe",
    "ScheduleInterleaved1F1B",
    "ScheduleInterleavedZeroBubble",
    "ScheduleLoopedBFS",
    "ScheduleZBVZeroBubble",
    "get_schedule_class",
]

FORWARD, BACKWARD, INPUTS, WEIGHTS = "F", "B", "I", "W"


class _Play:
    """A pipeline played through.

    Args:
        places: the rank of each stage.
        parts: number of parts.
        limit: (rank) -> how many parts may have gone forward and not back.
        split: whether backward is in two halves.
        trains: whether there is backward at all.
    """

    def __init__(self, places, parts, limit, split, trains):
        self.places, self.parts, self.limit, self.split, self.trains = places, parts, limit, split, trains
        self.ranks = sorted(set(places))
        self.done, self.order = set(), {rank: [] for rank in self.ranks}
        self.open = dict.fromkeys(self.ranks, 0)

    def run(self):
        """rank -> its actions."""
        kinds = 1 + (2 if self.split else 1) if self.trains else 1
        total = len(self.places) * self.parts * kinds
        while len(self.done) < total:
            chosen = {rank: action for rank in self.ranks if (action := self._choose(rank)) is not None}
            if not chosen:
                raise RuntimeError("the pipeline's schedule cannot go on")
            for rank, action in chosen.items():
                self.order[rank].append(action)
                self.done.add(action)
                self.open[rank] += {FORWARD: 1, BACKWARD: -1, INPUTS: -1}.get(action[0], 0)
        return self.order

    def _choose(self, rank):
        back = INPUTS if self.split else BACKWARD
        own = [stage for stage, place in enumerate(self.places) if place == rank]
        last = len(self.places) - 1
        forwards = [
            (FORWARD, stage, part)
            for part in range(self.parts)
            for stage in own
            if (FORWARD, stage, part) not in self.done and (stage == 0 or (FORWARD, stage - 1, part) in self.done)
        ]
        if not self.trains:
            return min(forwards, key=lambda one: (one[1], one[2]), default=None)
        backwards = [
            (back, stage, part)
            for part in range(self.parts)
            for stage in reversed(own)
            if (back, stage, part) not in self.done
            and (FORWARD, stage, part) in self.done
            and (stage == last or (back, stage + 1, part) in self.done)
        ]
        if self.open[rank] >= self.limit(rank) or not forwards:
            if backwards:
                return backwards[0]
        # Late stages first, or a rank with several would be full before its last one has begun.
        if forwards and (self.open[rank] < self.limit(rank) or not self._blocked(rank)):
            return max(forwards, key=lambda one: (one[1], -one[2]))
        weights = [
            (WEIGHTS, stage, part)
            for part in range(self.parts)
            for stage in own
            if self.split and (INPUTS, stage, part) in self.done and (WEIGHTS, stage, part) not in self.done
        ]
        return weights[0] if weights else None

    def _blocked(self, rank):
        """Whether something that this rank has sent on will come back by itself."""
        return any(
            (FORWARD, stage, part) in self.done and (INPUTS if self.split else BACKWARD, stage, part) not in self.done
            for stage, place in enumerate(self.places)
            if place != rank
            for part in range(self.parts)
        )


class _Schedule:
    """What all schedules share.

    Args:
        stages: those of this process.
        n_microbatches: number of parts of a batch.
        loss_fn: `loss_fn(outputs, target)` of a part; None: there is no backward.
        args_chunk_spec: how inputs are cut; None: along dimension 0.
        kwargs_chunk_spec: the same.
        output_merge_spec: how outputs are put together; None: along dimension 0.
        scale_grads: whether gradients are divided by the number of parts.
    """

    _split = False

    def __init__(
        self, stages, n_microbatches, loss_fn, args_chunk_spec, kwargs_chunk_spec, output_merge_spec, scale_grads
    ):
        if n_microbatches < 1:
            raise ValueError(f"a batch has at least one part, but n_microbatches is {n_microbatches}")
        self._stages = {stage.stage_index: stage for stage in stages}
        self._n_microbatches, self._loss_fn, self.scale_grads = n_microbatches, loss_fn, scale_grads
        self._specs, self._merge_spec = (args_chunk_spec, kwargs_chunk_spec), output_merge_spec
        self._any, self._sends, self._custom = stages[0], [], {}
        self._places = self._place(self._any.num_stages, self._any.group_size)
        for stage in stages:
            stage.stage_index_to_group_rank = dict(enumerate(self._places))
            if self._places[stage.stage_index] != stage.group_rank:
                raise ValueError(
                    f"{type(self).__name__} has stage {stage.stage_index} at rank {self._places[stage.stage_index]}, "
                    f"but it was made at rank {stage.group_rank}"
                )
        expected = self._places.count(self._any.group_rank)
        if len(stages) != expected:
            raise ValueError(f"{type(self).__name__} needs {expected} stages at this rank, but got {len(stages)}")

    def _place(self, stages, ranks):
        """The rank of each stage."""
        return [stage % ranks for stage in range(stages)]

    def _limit(self, rank):
        """How many parts may have gone forward at a rank, and not back."""
        return self._n_microbatches * len(self._places)

    def actions(self, trains=True):
        """rank -> its actions: (kind, stage, part)."""
        return _Play(self._places, self._n_microbatches, self._limit, self._split, trains).run()

    # ---- a batch

    def step(self, *args, target=None, losses=None, return_outputs=True, **kwargs):
        """Trains on a batch.

        Args:
            args: the batch's inputs, at the first stage.
            target: at the last stage.
            losses: a list that takes the losses of the parts, at the last stage.
            return_outputs: whether the last stage returns the batch's outputs.
            kwargs: more inputs.

        Returns: the outputs at the last stage, else None.
        """
        return self._run(args, kwargs, target, losses, return_outputs, self._loss_fn is not None)

    def eval(self, *args, target=None, losses=None, **kwargs):
        """Runs a batch forward alone. Arguments as `step`."""
        import tessera

        with tessera.no_grad():
            return self._run(args, kwargs, target, losses, True, False)

    def _run(self, args, kwargs, target, losses, return_outputs, trains):
        parts = self._n_microbatches
        inputs, more = split_args_kwargs_into_chunks(args, kwargs, parts, *self._specs)
        targets = None if target is None else _pieces(target, parts)
        for index in sorted(self._stages):
            stage = self._stages[index]
            stage.clear_runtime_states()
            stage.has_backward = trains
        self._prepare(inputs[0], more[0])
        self._sends, self._losses, self._outputs = [], {}, {}
        left = {index: parts for index in self._stages}
        for action in self.actions(trains)[self._any.group_rank]:
            kind, index, part = action
            if kind in self._custom:
                self._custom[kind](action, self)
                continue
            if kind == FORWARD:
                self._forward(self._stages[index], part, inputs[part], more[part], targets)
            elif kind == WEIGHTS:
                left[index] -= 1
                self._stages[index].backward_weight_one_chunk(part, left[index] == 0)
            else:
                left[index] -= kind == BACKWARD
                self._backward(self._stages[index], part, kind == BACKWARD, left[index] == 0)
        for work in self._sends:
            work.wait()
        if trains and self.scale_grads:
            for stage in self._stages.values():
                stage.perform_reduce_grad(parts)
        return self._results(losses, return_outputs)

    def _prepare(self, args, kwargs):
        """Shapes go from stage to stage; between stages of this process without messages."""
        for index in sorted(self._stages):
            stage, before = self._stages[index], self._stages.get(index - 1)
            if before is not None and stage._inputs_meta is None:
                stage._inputs_meta = before._outputs_meta
            stage.prepare(args, kwargs)

    def _receive(self, operations):
        for one in operations:
            one.op(one.tensor, group=one.group, tag=one.tag, group_src=one.group_peer).wait()

    def _send(self, operations):
        for one in operations:
            self._sends.append(one.op(one.tensor, group=one.group, tag=one.tag, group_dst=one.group_peer))

    def _forward(self, stage, part, args, kwargs, targets):
        if not stage.is_first and part not in stage._received:
            self._receive(stage.get_fwd_recv_ops(part))
        outputs = stage.forward_one_chunk(part, args, kwargs)
        if stage.is_last:
            self._outputs[part] = outputs
            if self._loss_fn is not None and targets is not None:
                self._losses[part] = self._loss_fn(outputs, targets[part])
        elif stage.stage_index + 1 in self._stages:
            self._stages[stage.stage_index + 1].set_local_fwd_input(outputs, part)
        else:
            self._send(stage.get_fwd_send_ops(part))

    def _backward(self, stage, part, full, last):
        if stage.is_last and part not in self._losses:
            raise RuntimeError("the last stage of a pipeline that is trained needs a target")
        if not stage.is_last and part not in stage._gradients:
            self._receive(stage.get_bwd_recv_ops(part))
        stage.backward_one_chunk(part, self._losses.get(part), full, last)
        if stage.is_first:
            return
        if stage.stage_index - 1 in self._stages:
            self._stages[stage.stage_index - 1].set_local_bwd_input(stage.get_local_bwd_output(part), part)
        else:
            self._send(stage.get_bwd_send_ops(part))

    def _results(self, losses, return_outputs):
        if not self._outputs:
            return None
        if losses is not None:
            losses[:] = [self._losses[part] for part in sorted(self._losses)]
        if not return_outputs:
            return None
        return merge_chunks([self._outputs[part] for part in sorted(self._outputs)], self._merge_spec)


def _pieces(target, parts):
    leaves, tree = _pytree.tree_flatten(target)
    rows = [leaf.tensor_split(parts) for leaf in leaves]
    return [_pytree.tree_unflatten([row[i] for row in rows], tree) for i in range(parts)]


class PipelineScheduleSingle(_Schedule):
    """A schedule of one stage for each process. Arguments as _Schedule, with

    Args:
        stage: that of this process.
    """

    def __init__(
        self,
        stage,
        n_microbatches,
        loss_fn=None,
        args_chunk_spec=None,
        kwargs_chunk_spec=None,
        output_merge_spec=None,
        scale_grads=True,
    ):
        super().__init__(
            [stage], n_microbatches, loss_fn, args_chunk_spec, kwargs_chunk_spec, output_merge_spec, scale_grads
        )


class ScheduleGPipe(PipelineScheduleSingle):
    """All parts forward, then all back."""


class Schedule1F1B(PipelineScheduleSingle):
    """A part back as soon as it can be, so that few parts' activations are held at a time.

    Raises: ValueError for fewer parts than stages.
    """

    def __init__(
        self,
        stage,
        n_microbatches,
        loss_fn=None,
        args_chunk_spec=None,
        kwargs_chunk_spec=None,
        output_merge_spec=None,
        scale_grads=True,
    ):
        super().__init__(
            stage, n_microbatches, loss_fn, args_chunk_spec, kwargs_chunk_spec, output_merge_spec, scale_grads
        )
        if n_microbatches < stage.num_stages:
            raise ValueError(f"{n_microbatches} microbatches are fewer than {stage.num_stages} stages")

    def _limit(self, rank):
        return len(self._places) - rank


class PipelineScheduleMulti(_Schedule):
    """A schedule of several stages for each process. Arguments as _Schedule, with

    Args:
        use_full_backward: whether backward is in one piece; None: as the schedule has it.
        backward_requires_autograd: must be true: backward is autograd's.
    """

    def __init__(
        self,
        stages,
        n_microbatches,
        loss_fn=None,
        args_chunk_spec=None,
        kwargs_chunk_spec=None,
        output_merge_spec=None,
        use_full_backward=None,
        scale_grads=True,
        backward_requires_autograd=True,
    ):
        if not backward_requires_autograd:
            raise ValueError("backward of a pipeline here is autograd's")
        if use_full_backward is not None:
            self._split = not use_full_backward
        super().__init__(
            list(stages), n_microbatches, loss_fn, args_chunk_spec, kwargs_chunk_spec, output_merge_spec, scale_grads
        )


class _MultiWithoutBackwardFlag(PipelineScheduleMulti):
    def __init__(
        self,
        stages,
        n_microbatches,
        loss_fn=None,
        args_chunk_spec=None,
        kwargs_chunk_spec=None,
        output_merge_spec=None,
        scale_grads=True,
        backward_requires_autograd=True,
    ):
        super().__init__(
            stages,
            n_microbatches,
            loss_fn,
            args_chunk_spec,
            kwargs_chunk_spec,
            output_merge_spec,
            None,
            scale_grads,
            backward_requires_autograd,
        )

    def register_custom_function(self, computation_type, custom_function):
        """Puts a function in the place of a kind of action: "F", "B", "I" or "W".

        Args:
            computation_type: the kind.
            custom_function: called with the action and the schedule.

        Raises: ValueError for another kind.
        """
        kind = str(getattr(computation_type, "value", computation_type))
        if kind not in (FORWARD, BACKWARD, INPUTS, WEIGHTS):
            raise ValueError(f"a kind of action is F, B, I or W, but got {computation_type!r}")
        self._custom[kind] = custom_function


class ScheduleLoopedBFS(_MultiWithoutBackwardFlag):
    """All parts forward through a process's first stage, then the next; back in the opposite order."""

    def __init__(
        self,
        stages,
        n_microbatches,
        loss_fn=None,
        output_merge_spec=None,
        scale_grads=True,
        backward_requires_autograd=True,
    ):
        super().__init__(
            stages,
            n_microbatches,
            loss_fn,
            None,
            None,
            output_merge_spec,
            scale_grads,
            backward_requires_autograd,
        )


class ScheduleInterleaved1F1B(_MultiWithoutBackwardFlag):
    """1F1B over several stages for each process."""

    def _limit(self, rank):
        ranks = len(set(self._places))
        return (len(self._places) // ranks - 1) * ranks + 2 * (ranks - rank) - 1


class ScheduleInterleavedZeroBubble(ScheduleInterleaved1F1B):
    """Interleaved 1F1B whose gradients of weights are computed where a process would wait."""

    _split = True


class ScheduleZBVZeroBubble(_MultiWithoutBackwardFlag):
    """Two stages for each process, the first in the order of ranks and the second in the opposite one; gradients of
    weights where a process would wait."""

    _split = True

    def _place(self, stages, ranks):
        if stages != 2 * ranks:
            raise ValueError(f"{type(self).__name__} needs two stages for each of {ranks} processes, but got {stages}")
        return [*range(ranks), *reversed(range(ranks))]

    def _limit(self, rank):
        return 2 * len(set(self._places)) - rank


class ScheduleDualPipeV(ScheduleZBVZeroBubble):
    """As ScheduleZBVZeroBubble, with more parts on their way."""

    def _limit(self, rank):
        return 2 * len(set(self._places)) + 1


def get_schedule_class(schedule_name):
    """The class of a schedule by its name, in any case: "GPipe", "1F1B", "Interleaved1F1B", "LoopedBFS",
    "InterleavedZeroBubble", "ZBVZeroBubble", "DualPipeV", "PipelineScheduleSingle", "PipelineScheduleMulti".

    Raises: ValueError for another name."""
    known = {name.lower().removeprefix("schedule"): name for name in __all__ if name != "get_schedule_class"}
    wanted = schedule_name.lower().removeprefix("schedule")
    if wanted not in known:
        raise ValueError(f"there is no schedule '{schedule_name}'; there are {sorted(known.values())}")
    return globals()[known[wanted]]
