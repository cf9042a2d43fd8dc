"""Selective checkpointing: a policy says for each operator whether its result is kept or computed again."""

import collections
import enum

import tessera
from tessera._ops import ops
from tessera.utils._python_dispatch import TorchDispatchMode
from tessera.utils._pytree import tree_map

__all__ = ["SAC_IGNORED_OPS", "CheckpointPolicy", "SelectiveCheckpointContext", "create_selective_checkpoint_contexts"]


class CheckpointPolicy(enum.Enum):
    """What a policy says of an operator. MUST binds compilers too, PREFER leaves them the choice; OFFLOAD keeps results
    in the memory of the CPU.
    """

    MUST_SAVE = 0
    PREFER_SAVE = 1
    MUST_RECOMPUTE = 2
    PREFER_RECOMPUTE = 3
    MUST_CPU_OFFLOAD = 4
    PREFER_CPU_OFFLOAD = 5


_OFFLOADED = {CheckpointPolicy.MUST_CPU_OFFLOAD, CheckpointPolicy.PREFER_CPU_OFFLOAD}
_KEPT = {CheckpointPolicy.MUST_SAVE, CheckpointPolicy.PREFER_SAVE} | _OFFLOADED

# Operators that a policy is not asked about: they look at a tensor and compute nothing.
SAC_IGNORED_OPS = {ops.aten.detach.default}


class SelectiveCheckpointContext:
    """What a policy is told about the call: `is_recompute` is False in the first run and True in the second."""

    def __init__(self, *, is_recompute):
        self.is_recompute = is_recompute


class _Kept:
    """A tensor of a result, with the version that backward needs."""

    __slots__ = ("_device", "_tensor", "_version")

    def __init__(self, tensor, offload):
        self._device = tensor.device
        self._tensor = tensor.detach()
        self._version = tensor._version
        if offload and tensor.device.type != "cpu":
            self._tensor, self._version = self._tensor.cpu(), None

    def restore(self, may_have_changed):
        if self._version is not None and self._tensor._version != self._version and not may_have_changed:
            raise RuntimeError(
                "Tensor cached during selective activation checkpoint has been mutated. Save the result of the "
                "operation that writes, or pass allow_cache_entry_mutation=True if backward may see what it wrote."
            )
        return self._tensor.to(self._device)


class _Results:
    """The kept results of one checkpointed call, by operator and in order of calls."""

    def __init__(self):
        self.of = collections.defaultdict(collections.deque)
        self.used_up = False


class _PolicyMode(TorchDispatchMode):
    def __init__(self, policy, results, is_recompute):
        super().__init__()
        self.policy = policy
        self.results = results
        self.context = SelectiveCheckpointContext(is_recompute=is_recompute)

    def decide(self, func, args, kwargs):
        if isinstance(self.policy, frozenset):
            decision = func in self.policy
        else:
            decision = self.policy(self.context, func, *args, **kwargs)
        if isinstance(decision, bool):
            return CheckpointPolicy.MUST_SAVE if decision else CheckpointPolicy.PREFER_RECOMPUTE
        if not isinstance(decision, CheckpointPolicy):
            raise TypeError(
                "a policy of selective checkpointing has to return a CheckpointPolicy or a bool, but for "
                f"{func} (is_recompute={self.context.is_recompute}) it returned {decision!r}"
            )
        return decision


class _Keep(_PolicyMode):
    """The first run: computes everything, and keeps what the policy says."""

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func in SAC_IGNORED_OPS:
            return func(*args, **kwargs)
        decision = self.decide(func, args, kwargs)
        result = func(*args, **kwargs)
        if decision in _KEPT:
            offload = decision in _OFFLOADED

            def keep(value):
                return _Kept(value, offload) if isinstance(value, tessera.Tensor) else value

            self.results.of[func].append(tree_map(keep, result))
        return result


class _Restore(_PolicyMode):
    """The second run: what was kept is taken, once; the rest is computed again."""

    def __init__(self, policy, results, may_have_changed):
        super().__init__(policy, results, True)
        self.may_have_changed = may_have_changed

    def __enter__(self):
        if self.results.used_up:
            raise RuntimeError(
                "Trying to backward an extra time. You are only allowed to backward once on any region computed under "
                "selective activation checkpoint."
            )
        return super().__enter__()

    def __exit__(self, exc_type, exc_value, traceback):
        self.results.used_up = True
        self.results.of.clear()
        super().__exit__(exc_type, exc_value, traceback)

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        if func in SAC_IGNORED_OPS or self.decide(func, args, kwargs) not in _KEPT:
            return func(*args, **kwargs)
        kept = self.results.of[func]
        if not kept:
            raise RuntimeError(
                f"{func} encountered during backward, but not found in storage: the policy kept fewer results of it "
                "when the checkpointed function ran first. It has to answer alike in both runs."
            )

        def restore(value):
            return value.restore(self.may_have_changed) if isinstance(value, _Kept) else value

        return tree_map(restore, kept.popleft())


def _checked_list(operators):
    for op in operators:
        if not isinstance(op, tessera._ops.OpOverload):
            hint = ""
            if isinstance(op, tessera._ops.OpOverloadPacket):
                hint = (
                    f" Please update the OpOverloadPacket to a specific OpOverload. For example, if you have "
                    f"`torch.ops.{op}`, change it to `torch.ops.{op}.default`."
                )
            raise ValueError(f"Expected op in `op_list` to be an OpOverload but got: {op} of type {type(op)}.{hint}")
    return frozenset(operators)


def create_selective_checkpoint_contexts(policy_fn_or_list, allow_cache_entry_mutation=False):
    """The two contexts for `checkpoint(..., use_reentrant=False, context_fn=...)`, bound to a policy by
    `functools.partial`.

    Args:
        policy_fn_or_list: `policy(context, op, *args, **kwargs)` returns a CheckpointPolicy, or True for saving; or a
            list of operators (such as `torch.ops.aten.mm.default`) to save.
        allow_cache_entry_mutation: results that were kept may have been changed in place since, and are used as they
            are.

    Raises: TypeError and ValueError for another policy; in backward RuntimeError if a kept result was changed, if the
        policy does not answer alike in both runs, and when backward goes through the part again.
    """
    if isinstance(policy_fn_or_list, list):
        policy = _checked_list(policy_fn_or_list)
    elif callable(policy_fn_or_list):
        policy = policy_fn_or_list
    else:
        raise TypeError("policy_fn_or_list must be either a function or a list of ops.")
    results = _Results()
    return _Keep(policy, results, False), _Restore(policy, results, allow_cache_entry_mutation)
