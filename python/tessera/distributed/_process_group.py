"""Process groups: what a collective is asked of, and the base of what carries it out."""

import enum
import sys
from datetime import timedelta

import tessera
from tessera import _C
from tessera.distributed import _kinds as kinds
from tessera.distributed._work import Work
from tessera.distributed.constants import default_pg_timeout


class _BackendOptions:
    """What a backend was made with.

    Args:
        backend: its name.
        timeout: of its collectives (datetime.timedelta).
    """

    def __init__(self, backend, timeout=default_pg_timeout):
        self.backend, self._timeout = backend, timeout
        self.global_ranks_in_group, self.group_name = [], ""


class C10dBackend:
    """What carries out the collectives of one member of a group, for some types of devices. Third parties derive from
    it and define the methods that they have; tensors come in lists, as ProcessGroup describes them.

    Args:
        rank: of the member.
        size: of the group.
    """

    Options = _BackendOptions

    def __init__(self, rank, size):
        self._rank, self._size = rank, size
        self._timeout = default_pg_timeout

    def rank(self):
        """The member's rank in the group."""
        return self._rank

    def size(self):
        """The number of members."""
        return self._size

    def name(self):
        """The backend's name."""
        return self.getBackendName()

    def getBackendName(self):
        """The backend's name."""
        return "undefined"

    @property
    def options(self):
        """What the backend was made with."""
        return self.Options(self.name(), self._timeout)

    @property
    def supports_splitting(self):
        """Whether a group can be made of a part of this one without a store."""
        return False

    def _set_default_timeout(self, timeout):
        self._timeout = timeout

    def shutdown(self):
        """Gives back what the group holds."""

    def abort(self):
        """Ends all that is on its way, with an error."""


def _lacks(name):
    def method(self, *args, **kwargs):
        """Not every backend has this."""
        raise RuntimeError(f"the backend {self.name()} does not support {name}")

    method.__name__ = method.__qualname__ = name
    return method


_METHODS = (
    "allreduce allreduce_coalesced broadcast reduce allgather _allgather_base allgather_coalesced "
    "allgather_into_tensor_coalesced gather scatter reduce_scatter _reduce_scatter_base "
    "reduce_scatter_tensor_coalesced "
    "alltoall alltoall_base barrier monitored_barrier send recv recv_anysource"
).split()
for _name in _METHODS:
    setattr(C10dBackend, _name, _lacks(_name))


class _BackendType(enum.IntEnum):
    """The backends that a group may have."""

    UNDEFINED = 0
    GLOO = 1
    NCCL = 2
    UCC = 3
    MPI = 4
    XCCL = 5
    CUSTOM = 6


_BackendType.__name__, _BackendType.__qualname__ = "BackendType", "ProcessGroup.BackendType"


def _call(args, kwargs, names, options, number=None):
    """The tensors and the options of a call: `(tensors..., opts)`, or the tensors and a reduction or a root.

    `number` is the option that a trailing argument sets. Returns: the list of what `names` name, and the options.
    """
    args, kwargs = list(args), dict(kwargs)
    given = [args.pop(0) if args else kwargs.pop(name, None) for name in names]
    opts = kwargs.pop("opts", None)
    if args and opts is None and isinstance(args[0], options):
        opts = args.pop(0)
    opts = options() if opts is None else opts
    value = args.pop(0) if args else kwargs.pop({"reduceOp": "op", "rootRank": "root"}.get(number, ""), None)
    if value is not None and number is not None:
        setattr(opts, number, value)
    timeout = args.pop(0) if args else kwargs.pop("timeout", None)
    if timeout is not None:
        opts.timeout = timeout
    if args or kwargs or any(item is None for item in given):
        raise TypeError(
            f"a group's method takes {', '.join(names)} and {options.__name__}; got {args} {kwargs} besides"
        )
    return given, opts


def _listed(value):
    return value if isinstance(value, (list, tuple)) else [value]


def _nested(value):
    """A list of lists of a list of tensors."""
    value = _listed(value)
    return value if value and isinstance(value[0], (list, tuple)) else [value]


def has_values(tensor):
    """Whether there is something to send: not so for tensors on meta, and those that only stand for others."""
    fake = sys.modules.get("tessera._subclasses.fake_tensor")
    return tensor.device.type != "meta" and (fake is None or not isinstance(tensor, fake.FakeTensor))


class ProcessGroup:
    """A member's part in a group of processes. It gives what it is asked to the backend of the tensors' device.

    Third parties may derive from it, and override its methods, or give it a backend.

    Args:
        store: over which the members find each other; may be left out, with `rank` and `size` as the first arguments.
        rank: of this member.
        size: number of members.
    """

    BackendType = _BackendType
    _split = _merge = None  # what makes groups of groups (_groups.py)
    UNDEFINED, GLOO, NCCL, UCC, MPI, XCCL, CUSTOM = _BackendType

    def __init__(self, *args, **kwargs):
        names = ["store", "rank", "size", "options"] if len(args) > 2 or "store" in kwargs else ["rank", "size"]
        given = dict(zip(names, args), **kwargs)
        self._store, self._rank, self._size = given.get("store"), given.get("rank", -1), given.get("size", -1)
        self._name, self._desc, self._bound_device = "", "undefined", None
        self._backends, self._default_type = {}, _BackendType.UNDEFINED

    # ---- what it is

    def rank(self):
        """The rank of this process in the group."""
        return self._rank

    def size(self):
        """The number of members."""
        return self._size

    def name(self):
        """The name of the backend."""
        return self.getBackendName()

    def getBackendName(self):
        """The name of the backend."""
        first = next(iter(self._backends.values()), None)
        return "undefined" if first is None else first.name()

    @property
    def group_name(self):
        """What tells the group from others of the program."""
        return getattr(self, "_name", "")

    @property
    def group_desc(self):
        """What its maker said of it."""
        return getattr(self, "_desc", "undefined")

    @property
    def bound_device_id(self):
        """The device that this member works on, if one was named."""
        return getattr(self, "_bound_device", None)

    @bound_device_id.setter
    def bound_device_id(self, device):
        self._bound_device = device

    def _set_group_name(self, name):
        self._name = name

    def _set_group_desc(self, desc):
        self._desc = desc

    def get_group_store(self):
        """The store over which the members found each other."""
        return self._store

    def boxed(self):
        """This group, as what operators take."""
        return self

    @staticmethod
    def unbox(arg0):
        """The group in what `boxed()` gave."""
        return arg0

    def __repr__(self):
        return f"<{type(self).__name__} {self.group_name!r}: rank {self.rank()} of {self.size()}>"

    # ---- its backends

    @property
    def _device_types(self):
        return [tessera.device(kind) for kind in getattr(self, "_backends", {})]

    def _register_backend(self, device, backend_type, backend=None):
        """Gives the tensors of a type of device to a backend."""
        self._backends[tessera.device(device).type] = backend
        if self._default_type == _BackendType.UNDEFINED:
            self._default_type = backend_type

    def _get_backend(self, device):
        kind = tessera.device(device).type
        found = getattr(self, "_backends", {}).get(kind)
        if found is None:
            raise RuntimeError(f"no backend of the group serves tensors on {kind}; it has {list(self._backends)}")
        return found

    def _set_default_backend(self, backend_type):
        self._default_type = backend_type

    def _of(self, tensors):
        """The backend for these tensors."""
        while isinstance(tensors, (list, tuple)):
            if not tensors:
                raise RuntimeError("a collective needs tensors, but got an empty list")
            tensors = tensors[0]
        if not isinstance(tensors, tessera.Tensor):
            raise TypeError(f"collectives take tensors, but got {type(tensors).__name__}")
        if _C._len_torch_dispatch_stack() or type(tensors) is not tessera.Tensor:
            operators = tessera.distributed._operators
            if operators.looks_on(tensors):
                return operators.Shown(self)
        return self._get_backend(tensors.device)

    def _any(self):
        first = self._backends.get("cpu") or next(iter(self._backends.values()), None)
        if first is None:
            raise RuntimeError("the group has no backend")
        return first

    def set_timeout(self, timeout):
        """Sets how long its collectives wait (datetime.timedelta)."""
        for backend in self._backends.values():
            backend._set_default_timeout(timeout)

    _set_default_timeout = set_timeout

    def shutdown(self):
        """Gives back what the group holds."""
        for backend in getattr(self, "_backends", {}).values():
            backend.shutdown()

    def abort(self):
        """Ends all that is on its way, with an error for all members."""
        for backend in getattr(self, "_backends", {}).values():
            backend.abort()

    def split_group(self, ranks, timeout=None, opts=None, group_name=None, group_desc=None):
        """A group of some of the members, all of which call this.

        Args:
            ranks: their ranks in this group.
            timeout: of its collectives; None: as this group's.
            opts: must be None: the backends here take no options.
            group_name: its name.
            group_desc: what to say of it.

        Returns: the group, or None for who is not of it.
        """
        if opts is not None:
            raise ValueError("split_group: the backends of this group take no options")
        return self._split(self, list(ranks), timeout, group_name, group_desc)

    def merge_remote_group(self, store, size, timeout=timedelta(seconds=1800), group_name=None, group_desc=None):
        """Joins this group and others that call this with the same store into one.

        Args:
            store: over which the members of all find each other.
            size: number of members of the new group.
            timeout: of its collectives.
            group_name: its name.
            group_desc: what to say of it.
        """
        return self._merge(self, store, size, timeout, group_name, group_desc)

    # ---- collectives, which return a Work

    def allreduce(self, *args, **kwargs):
        """Reduces tensors of all members, in place: (tensors, opts), (tensors, op) or (tensor, op)."""
        (tensors,), opts = _call(args, kwargs, ["tensors"], kinds.AllreduceOptions, "reduceOp")
        return self._of(tensors).allreduce(_listed(tensors), opts)

    def allreduce_coalesced(self, tensors, opts=kinds.AllreduceCoalescedOptions()):
        """Reduces several tensors of all members at once, in place."""
        return self._of(tensors).allreduce_coalesced(tensors, opts)

    def broadcast(self, *args, **kwargs):
        """Copies a member's tensors to all, in place: (tensors, opts) or (tensor, root)."""
        (tensors,), opts = _call(args, kwargs, ["tensors"], kinds.BroadcastOptions, "rootRank")
        return self._of(tensors).broadcast(_listed(tensors), opts)

    def reduce(self, *args, **kwargs):
        """Reduces tensors of all members to one of them: (tensors, opts) or (tensor, root, op)."""
        args = list(args)
        op = args.pop(2) if len(args) > 2 else kwargs.pop("op", None)
        (tensors,), opts = _call(args, kwargs, ["tensors"], kinds.ReduceOptions, "rootRank")
        if op is not None:
            opts.reduceOp = op
        return self._of(tensors).reduce(_listed(tensors), opts)

    def allgather(self, *args, **kwargs):
        """Collects a tensor of every member at all of them: (output_lists, inputs, opts) or (outputs, input)."""
        (outputs, inputs), opts = _call(args, kwargs, ["output_tensors", "input_tensors"], kinds.AllgatherOptions)
        return self._of(inputs).allgather(_nested(outputs), _listed(inputs), opts)

    def _allgather_base(self, output, input, opts=None):
        return self._of(input)._allgather_base(output, input, opts or kinds.AllgatherOptions())

    def allgather_coalesced(self, output_lists, input_list, opts=kinds.AllgatherOptions()):
        """Collects a list of tensors of every member: output_lists[rank] takes what that rank gave."""
        return self._of(input_list).allgather_coalesced(output_lists, input_list, opts)

    def allgather_into_tensor_coalesced(self, outputs, inputs, opts=kinds.AllgatherOptions()):
        """Collects each input of every member in the output of the same place, one after the other."""
        return self._of(inputs).allgather_into_tensor_coalesced(outputs, inputs, opts)

    def gather(self, *args, **kwargs):
        """Collects a tensor of every member at one: (output_lists, inputs, opts) or (outputs, input, root)."""
        names = ["output_tensors", "input_tensors"]
        (outputs, inputs), opts = _call(args, kwargs, names, kinds.GatherOptions, "rootRank")
        return self._of(inputs).gather(_nested(outputs) if outputs else [], _listed(inputs), opts)

    def scatter(self, *args, **kwargs):
        """Gives each member one of the tensors of one: (outputs, input_lists, opts) or (output, inputs, root)."""
        names = ["output_tensors", "input_tensors"]
        (outputs, inputs), opts = _call(args, kwargs, names, kinds.ScatterOptions, "rootRank")
        return self._of(outputs).scatter(_listed(outputs), _nested(inputs) if inputs else [], opts)

    def reduce_scatter(self, *args, **kwargs):
        """Reduces lists of tensors, and gives each member his place: (outputs, input_lists, opts) or (output, inputs,
        op)."""
        names = ["output_tensors", "input_tensors"]
        (outputs, inputs), opts = _call(args, kwargs, names, kinds.ReduceScatterOptions, "reduceOp")
        return self._of(outputs).reduce_scatter(_listed(outputs), _nested(inputs), opts)

    def _reduce_scatter_base(self, outputTensor, inputTensor, opts=None):
        opts = opts or kinds.ReduceScatterOptions()
        return self._of(outputTensor)._reduce_scatter_base(outputTensor, inputTensor, opts)

    def reduce_scatter_tensor_coalesced(self, outputs, inputs, opts=kinds.ReduceScatterOptions()):
        """Reduces each input, cut in equal parts, into the outputs of the same place."""
        return self._of(inputs).reduce_scatter_tensor_coalesced(outputs, inputs, opts)

    def alltoall_base(self, *args, **kwargs):
        """Cuts the input along its first dimension and gives each member a part: (output, input, output_split_sizes,
        input_split_sizes, opts)."""
        names = ["output", "input", "output_split_sizes", "input_split_sizes"]
        (output, input, outs, ins), opts = _call(args, kwargs, names, kinds.AllToAllOptions)
        return self._of(input).alltoall_base(output, input, outs, ins, opts)

    def alltoall(self, output_tensors, input_tensors, opts=kinds.AllToAllOptions()):
        """Gives each member the tensor of his place."""
        return self._of(input_tensors).alltoall(output_tensors, input_tensors, opts)

    def barrier(self, *args, **kwargs):
        """Waits until every member has come: (opts)."""
        _, opts = _call(args, kwargs, [], kinds.BarrierOptions)
        kind = opts.device.type if opts.device is not None else None
        if _C._len_torch_dispatch_stack() and tessera.distributed._operators.looks_on(None):
            return tessera.distributed._operators.Shown(self).barrier(opts)
        return (self._backends.get(kind) or self._any()).barrier(opts)

    def monitored_barrier(self, timeout=None, wait_all_ranks=False):
        """Waits until every member has come; who does not is named by rank 0.

        Args:
            timeout: how long to wait; None: the group's.
            wait_all_ranks: whether to name all who did not come, and not the first alone.
        """
        return self._get_backend("cpu").monitored_barrier(timeout, wait_all_ranks)

    def send(self, tensors, dstRank, tag):
        """Sends a tensor to a member."""
        return self._of(tensors).send(tensors, dstRank, tag)

    def recv(self, tensors, srcRank, tag):
        """Receives a tensor from a member."""
        return self._of(tensors).recv(tensors, srcRank, tag)

    def recv_anysource(self, arg0, arg1):
        """Receives a tensor (of the list `arg0`) with the tag `arg1` from whoever sends one."""
        return self._of(arg0).recv_anysource(arg0, arg1)


class CoalescedWork(Work):
    """Several handles as one.

    Args:
        works: the handles.
    """

    def __init__(self, works):
        self._works = list(works)

    def is_completed(self):
        return all(work.is_completed() for work in self._works)

    def exception(self):
        return next((work.exception() for work in self._works if work.exception() is not None), None)

    def wait(self, timeout=timedelta(0)):
        for work in self._works:
            work.wait(timeout)
        return True

    def result(self):
        return [tensor for work in self._works for tensor in work.result()]

    def get_future(self):
        from tessera.futures import collect_all

        futures = [work.get_future() for work in self._works]
        return collect_all(futures).then(lambda done: [tensor for one in done.value() for tensor in one.value()])


def recorded(name):
    """A context that shows a collective to a profiler at work, else None."""
    recording = sys.modules.get("tessera.profiler._recording")
    if recording is None or not recording.is_recording():
        return None
    from tessera.autograd.profiler import record_function

    return record_function(name)
