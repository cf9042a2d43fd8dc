"""Weak references to tensors, and dictionaries keyed by objects instead of by their values.

Tensors compare elementwise, so the dictionaries of `weakref` can't have them as keys.
"""

import weakref
from collections.abc import MutableMapping

import tessera

__all__ = ["TensorWeakRef", "WeakIdKeyDictionary", "WeakIdRef", "WeakTensorKeyDictionary"]


class WeakIdRef(weakref.ref):
    """A weak reference that is equal to others of the same object, and to nothing else once it is gone.

    Args:
        key: the object.
        callback: called with this reference when the object is gone.
    """

    __slots__ = ["_id"]

    def __init__(self, key, callback=None):
        self._id = id(key)
        super().__init__(key, callback)

    def __hash__(self):
        return self._id

    def __eq__(self, other):
        mine, theirs = self(), other()
        if mine is not None and theirs is not None:
            return mine is theirs
        return self is other


class WeakIdKeyDictionary(MutableMapping):
    """A dictionary keyed by objects, which it does not keep: entries go with their keys.

    Args:
        dict: entries to begin with, a mapping or pairs.
        ref_type: the class of the references to keys.
    """

    def __init__(self, dict=None, ref_type=WeakIdRef):
        self.data = {}
        self.ref_type = ref_type
        me = weakref.ref(self)

        def remove(reference):
            dictionary = me()
            if dictionary is not None:
                # Whoever iterates has a list of its own, so that entries may go at any time.
                dictionary.data.pop(reference, None)

        self._remove = remove
        if dict is not None:
            self.update(dict)

    def __getitem__(self, key):
        return self.data[self.ref_type(key)]

    def __setitem__(self, key, value):
        self.data[self.ref_type(key, self._remove)] = value

    def __delitem__(self, key):
        del self.data[self.ref_type(key)]

    def __contains__(self, key):
        try:
            return self.ref_type(key) in self.data
        except TypeError:  # of a type without weak references
            return False

    def __len__(self):
        return len(self.data)

    def __iter__(self):
        for reference in list(self.data):
            key = reference()
            if key is not None:
                yield key

    def update(self, dict=None, **kwargs):
        """Takes the entries of a mapping or of pairs."""
        super().update(() if dict is None else dict, **kwargs)

    def __repr__(self):
        return f"<{type(self).__name__} at {id(self):#x}>"

    def __eq__(self, other):
        if not isinstance(other, MutableMapping):
            return NotImplemented
        return {id(k): v for k, v in self.items()} == {id(k): v for k, v in other.items()}

    __hash__ = None

    def items(self):
        """Pairs of keys that are there and their values."""
        return ((key, self.data[self.ref_type(key)]) for key in self)

    def keys(self):
        """The keys that are there."""
        return iter(self)

    def values(self):
        """The values of keys that are there."""
        return (value for _, value in self.items())

    def keyrefs(self):
        """The references to the keys, some of which may be gone when they are used."""
        return list(self.data)

    def copy(self):
        """A dictionary of the same keys and values."""
        return type(self)(self)

    __copy__ = copy

    def __deepcopy__(self, memo):
        from copy import deepcopy

        return type(self)((key, deepcopy(value, memo)) for key, value in self.items())

    def __or__(self, other):
        joined = self.copy()
        joined.update(other)
        return joined

    def __ior__(self, other):
        self.update(other)
        return self

    def __ror__(self, other):
        joined = type(self)(other)
        joined.update(self)
        return joined


WeakTensorKeyDictionary = WeakIdKeyDictionary


class TensorWeakRef:
    """A weak reference to a tensor; called, it gives the tensor, or None when it is gone."""

    def __init__(self, tensor):
        if not isinstance(tensor, tessera.Tensor):
            raise AssertionError(f"expected a Tensor, but got {type(tensor).__name__}")
        self.ref = weakref.ref(tensor)

    def __call__(self):
        return self.ref()
