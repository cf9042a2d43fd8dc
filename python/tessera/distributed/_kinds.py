"""Reductions, backends, levels and options: the small types of torch.distributed."""

import enum
import os
from datetime import timedelta

import tessera

_UNSET_TIMEOUT = timedelta(milliseconds=-1)


class _RedOpType(enum.IntEnum):
    """What a ReduceOp does."""

    SUM = 0
    AVG = 1
    PRODUCT = 2
    MIN = 3
    MAX = 4
    BAND = 5
    BOR = 6
    BXOR = 7
    PREMUL_SUM = 8

    def __repr__(self):
        return f"<RedOpType.{self.name}: {self.value}>"

    def __str__(self):
        return f"RedOpType.{self.name}"


_RedOpType.__name__, _RedOpType.__qualname__ = "RedOpType", "ReduceOp.RedOpType"


class _ReduceOpMeta(type):
    def __instancecheck__(cls, value):  # ReduceOp.SUM is a ReduceOp for who asks
        return type(value) is _RedOpType or type.__instancecheck__(cls, value)


class ReduceOp(metaclass=_ReduceOpMeta):
    """How collectives combine the values of all ranks: SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR, BXOR, PREMUL_SUM.

    Args:
        op: one of these.
    """

    RedOpType = _RedOpType
    SUM, AVG, PRODUCT, MIN, MAX, BAND, BOR, BXOR, PREMUL_SUM = _RedOpType
    factor = None  # of PREMUL_SUM

    def __init__(self, op):
        self._op = op._op if type(op) is ReduceOp else _RedOpType(op)

    @property
    def op(self):
        """Which one."""
        return self._op

    def __eq__(self, other):
        return isinstance(other, ReduceOp) and kind_of(self) == kind_of(other)

    def __hash__(self):
        return hash(self.op)

    def __repr__(self):
        return repr(self.op)

    def __copy__(self):
        return self._copied()

    def __deepcopy__(self, memo):
        return self._copied()

    def _copied(self):
        other = ReduceOp(self.op)
        other.factor = self.factor
        return other

    def __reduce__(self):
        return _reduce_op_of, (int(self.op), self.factor)


def _reduce_op_of(op, factor):
    made = ReduceOp(op)
    made.factor = factor
    return made


def _make_nccl_premul_sum(factor):
    """The reduction that multiplies what each rank gives by `factor` (a number or a tensor of one) and adds."""
    return _reduce_op_of(_RedOpType.PREMUL_SUM, factor)


def kind_of(op):
    """The RedOpType of a reduction. Raises: TypeError if it is none."""
    if type(op) is _RedOpType:
        return op
    if isinstance(op, ReduceOp):
        return op.op
    raise TypeError(f"a reduction is a ReduceOp such as ReduceOp.SUM, but got {type(op).__name__}")


class DebugLevel(enum.IntEnum):
    """How much groups check and tell: OFF, INFO, DETAIL."""

    OFF = 0
    INFO = 1
    DETAIL = 2

    def __str__(self):
        return f"DebugLevel.{self.name}"


_level = DebugLevel.OFF


def get_debug_level():
    """The present debug level."""
    return _level


def set_debug_level(level):
    """Sets the debug level: groups made from now on, and DistributedDataParallel, look at it."""
    global _level
    if not isinstance(level, DebugLevel):
        raise TypeError(f"set_debug_level takes a DebugLevel, but got {type(level).__name__}")
    _level = level


def set_debug_level_from_env():
    """Sets the debug level to what TORCH_DISTRIBUTED_DEBUG says: OFF (also if it is not set), INFO or DETAIL.

    Raises: ValueError for another text."""
    text = os.environ.get("TORCH_DISTRIBUTED_DEBUG", "OFF")
    if text.upper() not in DebugLevel.__members__:
        raise ValueError(f"The value of TORCH_DISTRIBUTED_DEBUG must be OFF, INFO or DETAIL, but is '{text}'")
    set_debug_level(DebugLevel[text.upper()])


class BuiltinCommHookType(enum.IntEnum):
    """Communication hooks of DistributedDataParallel that need no function."""

    ALLREDUCE = 0
    FP16_COMPRESS = 1


def _options(name, **fields):
    """A class of options of a collective: attributes with defaults."""

    def __init__(self):
        for field, value in fields.items():
            setattr(self, field, list(value) if isinstance(value, list) else value)

    def __repr__(self):
        return f"{name}({', '.join(f'{field}={getattr(self, field)!r}' for field in fields)})"

    doc = f"Options of a group's method: {', '.join(fields)}."
    body = {
        "__init__": __init__,
        "__repr__": __repr__,
        "__doc__": doc,
        "__module__": __name__,
        "__slots__": tuple(fields),
    }
    return type(name, (), body)


_COMMON = {"timeout": _UNSET_TIMEOUT, "asyncOp": True}
AllreduceOptions = _options("AllreduceOptions", reduceOp=ReduceOp.SUM, sparseIndices=None, **_COMMON)
AllreduceCoalescedOptions = _options("AllreduceCoalescedOptions", reduceOp=ReduceOp.SUM, **_COMMON)
AllgatherOptions = _options("AllgatherOptions", **_COMMON)
AllToAllOptions = _options("AllToAllOptions", **_COMMON)
BarrierOptions = _options("BarrierOptions", device_ids=[], device=None, **_COMMON)
BroadcastOptions = _options("BroadcastOptions", rootRank=0, rootTensor=0, **_COMMON)
GatherOptions = _options("GatherOptions", rootRank=0, **_COMMON)
ReduceOptions = _options("ReduceOptions", reduceOp=ReduceOp.SUM, rootRank=0, rootTensor=0, **_COMMON)
ReduceScatterOptions = _options("ReduceScatterOptions", reduceOp=ReduceOp.SUM, **_COMMON)
ScatterOptions = _options("ScatterOptions", rootRank=0, **_COMMON)


class Backend(str):
    """The name of a backend: "gloo", "nccl", "mpi", "ucc", "xccl", "fake", or one that was registered; in any case."""

    UNDEFINED = "undefined"
    GLOO = "gloo"
    NCCL = "nccl"
    UCC = "ucc"
    MPI = "mpi"
    XCCL = "xccl"
    FAKE = "fake"

    backend_list = [UNDEFINED, GLOO, NCCL, XCCL, UCC, MPI, FAKE]
    default_device_backend_map = {"cpu": GLOO, "cuda": NCCL, "xpu": XCCL, "mps": GLOO}
    backend_capability = {
        GLOO: ["cpu", "cuda"],
        NCCL: ["cuda"],
        XCCL: ["xpu"],
        UCC: ["cpu", "cuda"],
        MPI: ["cpu", "cuda"],
        FAKE: ["cpu", "cuda", "hpu", "xpu"],
    }
    # name -> a function that makes the backend's part of a group (_groups.py), and whether it takes options
    _plugins: dict = {}
    backend_type_map: dict = {}

    def __new__(cls, name):
        if not isinstance(name, str):
            raise ValueError(f"Backend takes the name of a backend, but got {type(name).__name__}")
        return getattr(cls, name.upper()) if name.lower() in cls.backend_list else name.lower()

    @classmethod
    def register_backend(cls, name, func, extended_api=False, devices=None):
        """Makes a third party's backend known.

        Args:
            name: how init_process_group will name it; the attribute of that name in capitals appears.
            func: makes a member's group: `func(store, rank, size, timeout)`.
            extended_api: whether it is called as `func(DistributedBackendOptions, pg_options)` instead.
            devices: the types of devices, one or a list, whose tensors it serves; None: "cpu" and "cuda".
        """
        if not callable(func):
            raise TypeError(f"register_backend takes a function that makes the group, but got {type(func).__name__}")
        lower = name.lower()
        setattr(cls, name.upper(), lower)
        if lower not in cls.backend_list:
            cls.backend_list.append(lower)
        devices = ["cpu", "cuda"] if devices is None else [devices] if isinstance(devices, str) else list(devices)
        for device in devices:
            if device not in ("cpu", "cuda"):
                cls.default_device_backend_map[device] = lower
        cls.backend_capability[lower] = devices
        cls._plugins[lower] = (func, extended_api)


class BackendConfig:
    """Which backend serves the tensors of which type of device.

    Args:
        backend: a backend's name, or a list such as "cpu:gloo,cuda:nccl".
    """

    def __init__(self, backend):
        backend = str(backend).lower()
        if backend == Backend.UNDEFINED:
            self.device_backend_map = {device: name for device, name in Backend.default_device_backend_map.items()}
        elif ":" in backend:
            self.device_backend_map = {}
            for part in backend.split(","):
                device, _, name = part.strip().partition(":")
                if not device or not name or device in self.device_backend_map:
                    raise ValueError(
                        f"a list of backends names each device once, as in cpu:gloo,cuda:nccl; got {backend}"
                    )
                self.device_backend_map[device] = Backend(name)
        else:
            devices = Backend.backend_capability.get(backend, ["cpu", "cuda"])
            self.device_backend_map = {device: Backend(backend) for device in devices}

    def get_device_backend_map(self):
        """A dictionary from types of devices to names of backends."""
        return self.device_backend_map

    def __repr__(self):
        return ",".join(f"{device}:{name}" for device, name in self.device_backend_map.items())


def get_default_backend_for_device(device):
    """The backend that serves tensors of this device (a device or its text) unless another is named.

    Raises: ValueError if there is none."""
    kind = device.type if isinstance(device, tessera.device) else tessera.device(device).type
    found = Backend.default_device_backend_map.get(kind)
    if found is None:
        raise ValueError(f"no backend is registered for devices of type {kind}")
    return found


def supports_complex(reduceOp):
    """Whether complex numbers can be reduced so: they have no order, and no bits."""
    kind = kind_of(reduceOp)
    return kind in (_RedOpType.SUM, _RedOpType.AVG, _RedOpType.PREMUL_SUM)
