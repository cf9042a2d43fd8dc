"""An optimizer whose state is spread over the processes of a group (ZeRO, stage 1)."""

import copy

import tessera
from tessera.distributed import _collectives as collectives
from tessera.distributed import _objects as objects
from tessera.distributed._groups import _group_or_default_group
from tessera.distributed.algorithms.join import Joinable, JoinHook
from tessera.distributed.optim.utils import as_functional_optim, functional_optim_map
from tessera.optim import Optimizer

__all__ = ["ZeroRedundancyOptimizer"]


class _StepAlong(JoinHook):
    """What a process without inputs does: it takes part in the others' steps."""

    def __init__(self, zero):
        self.zero = zero

    def main_hook(self):
        """Steps its own parameters with the gradients that are there, and gets those of others."""
        self.zero.step()


class ZeroRedundancyOptimizer(Optimizer, Joinable):
    """An optimizer of which each process holds a part: it steps some of the parameters, and gives them to all.

    Parameters are spread whole, the largest first, each to the process that has the least.

    Args:
        params: parameters or groups of them, all dense and of one dtype.
        optimizer_class: of the local optimizers.
        process_group: None: the default group.
        parameters_as_bucket_view: whether the parameters of a process lie one after the other in memory, so that one
            message carries them.
        overlap_with_ddp: whether a hook of DistributedDataParallel steps (see ddp_comm_hooks.ddp_zero_hook); `step`
            does nothing then.
        defaults: the local optimizers' arguments.

    Raises: ValueError without parameters and for ones of different dtypes, TypeError for what is no dense tensor.
    """

    def __init__(
        self,
        params,
        optimizer_class,
        process_group=None,
        parameters_as_bucket_view=False,
        overlap_with_ddp=False,
        **defaults,
    ):
        groups = self._checked(params)
        Joinable.__init__(self)
        self.process_group = _group_or_default_group(process_group)
        self.world_size, self.rank = self.process_group.size(), self.process_group.rank()
        self.parameters_as_bucket_view = parameters_as_bucket_view and not overlap_with_ddp
        self._class, self._defaults, self._overlap_with_ddp = optimizer_class, defaults, overlap_with_ddp
        self._owners, self._loads, self._buckets, self._consolidated = {}, [0] * self.world_size, [], None
        self._handles, self._started, self._warm_iterations, self._shards_buckets = [], [], 0, False
        self._ready = False
        Optimizer.__init__(self, groups, dict(defaults))
        if overlap_with_ddp and optimizer_class not in functional_optim_map:
            raise ValueError(
                f"overlap_with_ddp needs an optimizer with a functional form, not {optimizer_class.__name__}"
            )
        self._functional = as_functional_optim(optimizer_class, **defaults) if overlap_with_ddp else None
        self._spread(self.param_groups)
        self._make_local()
        self._ready = True

    @staticmethod
    def _checked(params):
        if isinstance(params, tessera.Tensor):
            raise TypeError("ZeroRedundancyOptimizer takes a list of parameters or groups, but got a tensor")
        groups = list(params)
        if not groups:
            raise ValueError("ZeroRedundancyOptimizer needs parameters, but the list is empty")
        if not isinstance(groups[0], dict):
            groups = [{"params": groups}]
        tensors = []
        for group in groups:
            group["params"] = (
                [group["params"]] if isinstance(group["params"], tessera.Tensor) else list(group["params"])
            )
            tensors += group["params"]
        for tensor in tensors:
            if not isinstance(tensor, tessera.Tensor):
                raise TypeError(f"ZeroRedundancyOptimizer takes tensors, but got {type(tensor).__name__}")
            if tensor.layout is not tessera.strided:
                raise ValueError("ZeroRedundancyOptimizer takes dense parameters")
        if len({tensor.dtype for tensor in tensors}) > 1:
            raise ValueError("ZeroRedundancyOptimizer takes parameters of one dtype")
        return groups

    # ---- who has what

    def _spread(self, groups):
        """Gives the parameters of groups to processes."""
        for group in groups:
            for param in sorted(group["params"], key=lambda one: one.numel(), reverse=True):
                owner = self._loads.index(min(self._loads))
                self._loads[owner] += param.numel()
                self._owners[param] = owner

    def _owner_of(self, param):
        return self._owners[param]

    def _partition_parameters(self):
        """For each process the groups that it steps: those of all, with its own parameters."""
        return [
            [
                {**group, "params": [p for p in group["params"] if self._owners[p] == rank]}
                for group in self.param_groups
            ]
            for rank in range(self.world_size)
        ]

    def _make_local(self):
        own = self._partition_parameters()[self.rank]
        if not any(group["params"] for group in own):
            # a process without parameters steps one that nobody has
            own[0]["params"] = [tessera.nn.Parameter(tessera.zeros(0))]
        self.optim = self._class(own, **self._defaults)
        if self.parameters_as_bucket_view:
            self._gather_in_buckets()

    def _gather_in_buckets(self):
        self._buckets = []
        for rank in range(self.world_size):
            places = {}
            for group in self.param_groups:
                for param in group["params"]:
                    if self._owners[param] == rank:
                        places.setdefault(param.device, []).append(param)
            for params in places.values():
                bucket = tessera.cat([param.detach().reshape(-1) for param in params])
                at = 0
                for param in params:
                    param.data = bucket[at : at + param.numel()].view(param.shape)
                    at += param.numel()
                self._buckets.append((rank, bucket))

    # ---- steps

    def step(self, closure=None, **kwargs):
        """Steps the parameters of this process, then gets those of the others.

        Args:
            closure: computes the loss anew.
            kwargs: for the local optimizer's `step`.

        Returns: what the closure does. Does nothing with `overlap_with_ddp`.
        """
        from tessera.distributed.algorithms.join import Join

        if self._overlap_with_ddp:
            return None
        Join.notify_join_context(self)
        self._settings_to_local()
        loss = self.optim.step(**kwargs) if closure is None else self.optim.step(closure=closure, **kwargs)
        self._share()
        self._settings_from_local()
        return loss

    def _share(self):
        """Everyone gets every parameter from its owner."""
        group = self.process_group
        if self.parameters_as_bucket_view:
            works = [collectives.broadcast(b, group=group, group_src=r, async_op=True) for r, b in self._buckets]
        else:
            works = [
                collectives.broadcast(param.detach(), group=group, group_src=owner, async_op=True)
                for param, owner in self._owners.items()
            ]
        for work in works:
            work.wait()

    def _settings_to_local(self):
        for own, local in zip(self.param_groups, self.optim.param_groups):
            local.update({name: value for name, value in own.items() if name != "params"})

    def _settings_from_local(self):
        for own, local in zip(self.param_groups, self.optim.param_groups):
            own.update({name: value for name, value in local.items() if name != "params"})

    def _step_one(self, param, gradient):
        with tessera.no_grad():
            self._functional.step_param(param, gradient)

    def _take_started(self):
        started, self._started = self._started, []
        return started

    def _take_handles(self):
        handles, self._handles = self._handles, []
        return handles

    def add_param_group(self, param_group):
        """Adds parameters, on all processes.

        Args:
            param_group: a dictionary with `params` (a list) and settings.
        """
        super().add_param_group(param_group)
        if not self._ready:
            return
        added = self.param_groups[-1]
        self._spread([added])
        own = {**added, "params": [p for p in added["params"] if self._owners[p] == self.rank]}
        self.optim.add_param_group(
            own if own["params"] else {**own, "params": [tessera.nn.Parameter(tessera.zeros(0))]}
        )
        if self.parameters_as_bucket_view:
            self._gather_in_buckets()

    # ---- state

    def _numbers(self):
        """param -> its number in the state of the whole."""
        params = [param for group in self.param_groups for param in group["params"]]
        return {param: number for number, param in enumerate(params)}

    def consolidate_state_dict(self, to=0):
        """Brings the state of all processes to one. All call this.

        Args:
            to: the rank in the group.

        Raises: RuntimeError with `overlap_with_ddp` before the optimizer has stepped.
        """
        if self._overlap_with_ddp and not self._functional.state and self._warm_iterations > 0:
            raise RuntimeError("the state comes with the first steps, and there was none yet")
        numbers = self._numbers()
        state = self._functional.state if self._overlap_with_ddp else self.optim.state
        own = {numbers[param]: _on_host(value) for param, value in state.items() if param in numbers}
        every = [None] * self.world_size if self.rank == to else None
        objects.gather_object(own, every, group=self.process_group, group_dst=to)
        self._consolidated = None
        if self.rank == to:
            self._consolidated = {number: value for part in every for number, value in part.items()}

    def state_dict(self):
        """The state of the whole, where `consolidate_state_dict` brought it.

        Raises: RuntimeError elsewhere, and before it was called."""
        if self._consolidated is None:
            raise RuntimeError(
                f"the state is spread over {self.world_size} processes, and rank {self.rank} does not have it: "
                "all call consolidate_state_dict(to=RANK), then state_dict() is for that rank"
            )
        numbers = self._numbers()
        groups = [
            {**{k: v for k, v in group.items() if k != "params"}, "params": [numbers[p] for p in group["params"]]}
            for group in self.param_groups
        ]
        return {"state": dict(sorted(self._consolidated.items())), "param_groups": copy.deepcopy(groups)}

    def load_state_dict(self, state_dict):
        """Loads the state of the whole; each process keeps what is of its own parameters. All call this."""
        numbers, own = self._numbers(), {}
        for group, saved in zip(self.param_groups, state_dict["param_groups"]):
            if len(group["params"]) != len(saved["params"]):
                raise ValueError("load_state_dict: the state is of other groups of parameters")
            group.update({name: value for name, value in saved.items() if name != "params"})
        self._settings_to_local()
        for place, param in enumerate(p for group in self.optim.param_groups for p in group["params"]):
            number = numbers.get(param)
            if number is not None and number in state_dict["state"]:
                own[place] = state_dict["state"][number]
        self.optim.load_state_dict({"state": own, "param_groups": self.optim.state_dict()["param_groups"]})

    # ---- Join

    def join_hook(self, **_kwargs):
        """What a Join does for a process without inputs; takes no arguments of its own."""
        return _StepAlong(self)

    @property
    def join_device(self):
        """The device of the first parameter."""
        return self.param_groups[0]["params"][0].device

    @property
    def join_process_group(self):
        """The group over which the state is spread."""
        return self.process_group


def _on_host(state):
    return {name: value.cpu() if isinstance(value, tessera.Tensor) else value for name, value in state.items()}
