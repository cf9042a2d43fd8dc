"""Memory whose address somebody outside has stays where it is, until the last of them is gone."""

import gc
import weakref

import numpy
import pytest
import tessera


def by_numpy(t):
    return t.numpy()


def by_array_protocol(t):
    return numpy.asarray(t)


def by_dlpack(t):
    return numpy.from_dlpack(t)


def by_capsule(t):
    return t.__dlpack__()


def by_buffer(t):
    return memoryview(t.untyped_storage())


HOLDERS = pytest.mark.parametrize("hold", [by_numpy, by_array_protocol, by_dlpack, by_capsule, by_buffer])


@HOLDERS
def test_held_memory_is_not_resized(hold):
    t = tessera.arange(4.0)
    held = [hold(t), hold(t[1:])]
    while held:
        with pytest.raises(RuntimeError, match="not resizable"):
            t.resize_(1 << 16)
        with pytest.raises(RuntimeError, match="not resizable"):
            t.untyped_storage().resize_(0)
        assert not t.untyped_storage().resizable() and t.tolist() == [0, 1, 2, 3]
        held.pop()
        gc.collect()
    assert t.untyped_storage().resizable()
    assert t.resize_(1 << 16)[:4].tolist() == [0, 1, 2, 3]


@HOLDERS
def test_held_memory_does_not_move_to_shared_memory(hold):
    t = tessera.arange(4.0)
    held = hold(t)
    with pytest.raises(RuntimeError, match="has its address"):
        t.share_memory_()
    with pytest.raises(RuntimeError, match="has its address"):
        t.untyped_storage()._share_fd_cpu_()
    del held
    assert t.share_memory_().is_shared() and t.tolist() == [0, 1, 2, 3]


def test_an_array_keeps_the_memory_and_not_the_tensor():
    t = tessera.arange(3.0)
    a, gone = t.numpy(), weakref.ref(t)
    del t
    assert gone() is None and a.tolist() == [0, 1, 2]
    b = a[1:]
    del a
    assert b.tolist() == [1, 2]


def test_memory_that_could_not_be_resized_before_cannot_afterwards():
    t = tessera.from_numpy(numpy.arange(3))
    held = t.numpy()
    del held
    with pytest.raises(RuntimeError, match="not resizable"):
        t.resize_(100)
