"""A module that lives at another worker, and is called from here."""

import inspect

import tessera
from tessera.distributed.remote_device import _remote_device
from tessera.distributed.rpc import api
from tessera.distributed.rpc._rref import RRef
from tessera.nn import Module

__all__ = ["RemoteModule"]


def _make(cls, args, kwargs, device):
    made = cls(*args, **kwargs)
    if not isinstance(made, Module):
        raise ValueError(f"RemoteModule takes a class of modules, but {cls!r} makes a {type(made).__name__}")
    return made.to(device)


def _forward(reference, device, args, kwargs):
    move = lambda one: one.to(device) if isinstance(one, tessera.Tensor) else one
    outputs = reference.local_value()(*map(move, args), **{name: move(one) for name, one in kwargs.items()})
    if isinstance(outputs, (tuple, list)):
        return type(outputs)(one.cpu() if isinstance(one, tessera.Tensor) else one for one in outputs)
    return outputs.cpu() if isinstance(outputs, tessera.Tensor) else outputs


def _references(reference, recurse):
    return [RRef(param) for param in reference.local_value().parameters(recurse)]


def _train(reference, mode):
    reference.local_value().train(mode)


def _refused(name):
    def method(self, *args, **kwargs):
        """Raises ValueError: the module is elsewhere, and can be called only."""
        raise ValueError(f"Method ``{name}`` not supported for RemoteModule: the module lives at {self.on}")

    method.__name__ = name
    method.__signature__ = inspect.signature(getattr(Module, name))
    return method


def _arrived(on, device, reference, training):
    """A RemoteModule that came in a remote call: what was added to it stays behind."""
    made = RemoteModule.__new__(RemoteModule)
    Module.__init__(made)
    made.on, made.device, made.module_rref, made.training = on, tessera.device(device), reference, training
    return made


class RemoteModule(Module):
    """A module of another worker. `forward(...)` and `forward_async(...)` run it there; distributed autograd goes
    through.

    Args:
        remote_device: "WORKER/DEVICE", or "rank:N/DEVICE".
        module_cls: the module's class.
        args: its arguments.
        kwargs: the same, by name.

    Raises: ValueError for a device without a worker and for a class of no modules.
    """

    def __init__(self, remote_device, module_cls, args=None, kwargs=None):
        super().__init__()
        self._place(remote_device)
        arguments = (module_cls, tuple(args or ()), dict(kwargs or {}), str(self.device))
        reference = api.remote(self.on, _make, arguments)
        reference._get_future().wait()
        self.module_rref = reference

    def _place(self, remote_device):
        place = _remote_device(remote_device)
        worker = place.worker_name() if place.rank() is None else place.rank()
        if worker is None:
            raise ValueError(f"RemoteModule needs a worker in its device, as in worker1/cpu; got '{remote_device}'")
        self.on, self.device = api.get_worker_info(worker).name if isinstance(worker, str) else worker, place.device()

    def forward(self, *args, **kwargs):
        """The module's outputs, on the CPU."""
        return self.forward_async(*args, **kwargs).wait()

    def forward_async(self, *args, **kwargs):
        """A Future of the module's outputs."""
        return api.rpc_async(self.module_rref.owner(), _forward, (self.module_rref, str(self.device), args, kwargs))

    def remote_parameters(self, recurse=True):
        """RRefs of the module's parameters, as DistributedOptimizer takes them."""
        return api.rpc_sync(self.module_rref.owner(), _references, (self.module_rref, recurse))

    def get_module_rref(self):
        """The RRef of the module."""
        return self.module_rref

    @staticmethod
    def init_from_module_rref(remote_device, module_rref, _module_interface_cls=None):
        """A RemoteModule of a module that is there.

        Args:
            remote_device: where it is.
            module_rref: its RRef.
            _module_interface_cls: None; RuntimeError for the interface of a script.
        """
        if _module_interface_cls is not None:
            raise RuntimeError(
                f"expected _module_interface_cls=None, but got {_module_interface_cls!r}: modules of scripts are "
                "called through their RRef"
            )
        made = RemoteModule.__new__(RemoteModule)
        Module.__init__(made)
        made._place(remote_device)
        made.module_rref = module_rref
        return made

    def _sent(self):
        return _arrived, (self.on, str(self.device), self.module_rref, self.training)

    def __getstate__(self):
        raise RuntimeError(
            "Cannot pickle RemoteModule in python pickler. RemoteModule can only be pickled when using RPC"
        )

    def train(self, mode=True):
        """Sets the module's mode."""
        api.rpc_sync(self.module_rref.owner(), _train, (self.module_rref, mode))
        self.training = mode
        return self

    def extra_repr(self):
        """Where the module is."""
        return f"on={self.on}, device={self.device}"


_REFUSED = (
    "add_module apply bfloat16 buffers children cpu cuda double float half ipu load_state_dict modules "
    "named_buffers named_children named_modules named_parameters parameters register_backward_hook register_buffer "
    "register_forward_hook register_forward_pre_hook register_parameter requires_grad_ share_memory state_dict to type "
    "xpu zero_grad"
).split()
for _name in _REFUSED:
    setattr(RemoteModule, _name, _refused(_name))
