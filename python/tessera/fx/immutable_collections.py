"""Lists and dicts that refuse to be changed: what arguments of nodes are stored in.

A node knows its users, so its arguments may only be replaced as a whole (`node.args = ...`, `node.update_arg(...)`).
"""

from tessera.utils import _pytree

__all__ = ["immutable_list", "immutable_dict"]

_LIST_WRITES = "append clear extend insert pop remove reverse sort __delitem__ __iadd__ __imul__ __setitem__".split()
_DICT_WRITES = "clear pop popitem setdefault update __delitem__ __ior__ __setitem__".split()


def _refusal(kind, method):
    def refuse(self, *args, **kwargs):
        raise TypeError(
            f"'{kind}' object does not support mutation ({method}). Arguments of a node are replaced as a whole: copy "
            "the list or dict, change the copy and assign it to the node's args or kwargs."
        )

    refuse.__name__ = method
    return refuse


def _frozen(name, base, writes, doc):
    body = {method: _refusal(name, method) for method in writes}
    body |= {
        "__doc__": doc,
        "__module__": __name__,
        "__hash__": lambda self: hash(tuple(self.items()) if base is dict else tuple(self)),
        "__reduce__": lambda self: (type(self), (base(self),)),
    }
    return type(name, (base,), body)


immutable_list = _frozen("immutable_list", list, _LIST_WRITES, "A list that cannot be changed; hashable as a tuple is.")
immutable_dict = _frozen("immutable_dict", dict, _DICT_WRITES, "A dict that cannot be changed; hashable by its items.")

_pytree.register_pytree_node(
    immutable_list,
    lambda value: (list(value), None),
    lambda children, context: immutable_list(children),
    serialized_type_name="torch.fx.immutable_collections.immutable_list",
)
_pytree.register_pytree_node(
    immutable_dict,
    lambda value: (list(value.values()), list(value)),
    lambda children, keys: immutable_dict(zip(keys, children)),
    serialized_type_name="torch.fx.immutable_collections.immutable_dict",
)
