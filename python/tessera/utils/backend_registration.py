"""Another name for the device type "privateuseone", which a backend of somebody else uses, and its methods."""

import tessera
from tessera import _C

__all__ = ["generate_methods_for_privateuse1_backend", "rename_privateuse1_backend"]


def rename_privateuse1_backend(backend_name):
    """From now on `device(backend_name)` is the device type "privateuseone", which is shown by that name. Its module is
    `tessera.<backend_name>`, if somebody puts one there (`sys.modules` or an attribute).

    Raises: RuntimeError for a name that another device has, and for a second one.
    """
    _C._rename_privateuse1_backend(backend_name)


def _put(cls, name, member):
    if name in vars(cls):
        raise RuntimeError(f"Can not automatically generate {name}() on {cls.__name__}, which has it already")
    setattr(cls, name, member)


def _where(name, device):
    """The device that is meant by None, a number, or a device of that kind."""
    if device is None or isinstance(device, int):
        return tessera.device(name) if device is None else tessera.device(name, device)
    device = tessera.device(device)
    if device.type != name:
        raise RuntimeError(f"Invalid device, must be {name} device")
    return device


def generate_methods_for_privateuse1_backend(
    for_tensor=True, for_module=True, for_packed_sequence=True, for_storage=False, unsupported_dtype=None
):
    """Adds the methods `x.<name>(device=None)` and properties `x.is_<name>` to Tensor, nn.Module (method alone),
    PackedSequence and storages, as `x.cuda()` and `x.is_cuda`.

    Args:
        unsupported_dtype: dtypes whose storages can't go to the device.

    Raises: RuntimeError where a class has such a method.
    """
    name = _C._get_privateuse1_backend_name()
    is_there = property(lambda self: self.device.type == name)

    def tensor_to(self, device=None, non_blocking=False, **kwargs):
        return self.to(_where(name, device), non_blocking=non_blocking, **kwargs)

    def module_to(self, device=None):
        return self._apply(lambda t: getattr(t, name)(device))

    def packed_to(self, *args, **kwargs):
        device = args[0] if args else kwargs.pop("device", None)
        return self.to(_where(name, device), *args[1:], **kwargs)

    def storage_to(self, device=None, non_blocking=False):
        if unsupported_dtype and getattr(self, "dtype", None) in unsupported_dtype:
            raise RuntimeError(f"Cannot create tensors with dtype {self.dtype} on the device {name}")
        return self.to(device=_where(name, device), non_blocking=non_blocking)

    from tessera.nn.utils.rnn import PackedSequence
    from tessera.storage import TypedStorage, UntypedStorage

    wanted = [(tessera.Tensor, tensor_to)] if for_tensor else []
    wanted += [(tessera.nn.Module, module_to)] if for_module else []
    wanted += [(PackedSequence, packed_to)] if for_packed_sequence else []
    wanted += [(UntypedStorage, storage_to), (TypedStorage, storage_to)] if for_storage else []
    for cls, move in wanted:
        _put(cls, name, move)
        if cls is not tessera.nn.Module:
            _put(cls, "is_" + name, is_there)
