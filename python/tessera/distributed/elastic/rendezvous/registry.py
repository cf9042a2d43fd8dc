"""The kinds of rendezvous that there are."""

from tessera.distributed.elastic.rendezvous import c10d_rendezvous_backend, dynamic_rendezvous, static_tcp_rendezvous
from tessera.distributed.elastic.rendezvous.api import rendezvous_handler_registry

__all__ = ["get_rendezvous_handler"]


def _dynamic(params):
    place = c10d_rendezvous_backend
    if params.backend != "c10d":
        from tessera.distributed.elastic.rendezvous import etcd_rendezvous_backend as place

    backend, store = place.create_backend(params)
    return dynamic_rendezvous.create_handler(store, backend, params)


def _register_default_handlers():
    rendezvous_handler_registry.register("static", static_tcp_rendezvous.create_rdzv_handler)
    for name in ("c10d", "etcd", "etcd-v2"):
        rendezvous_handler_registry.register(name, _dynamic)


def get_rendezvous_handler(params):
    """A handler for RendezvousParameters. Raises: ValueError for a backend that is not known."""
    return rendezvous_handler_registry.create_handler(params)


_register_default_handlers()
