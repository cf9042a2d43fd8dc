"""What Python values become tensors, and which do not."""

import gc
import weakref

import pytest
import tessera

T = tessera.tensor


def test_tensors_in_sequences_are_numbers():
    assert T([T([1]), T([2])]).tolist() == [1, 2]
    assert T([[T(1), 2.5, T([[3]])]]).tolist() == [[1.0, 2.5, 3.0]]
    assert T([2, T([1])]).shape == (2,)
    with pytest.raises(TypeError, match="single element"):
        T([T([1, 3]), 2])
    with pytest.raises(ValueError, match="one element"):
        T([T([1.0, 3.0]), 2])


def test_what_is_no_number():
    for data in ([0, "a"], "a"):
        with pytest.raises(TypeError, match="invalid data type 'str'"):
            T(data)
    with pytest.raises(ValueError, match="too many dimensions 'str'"):
        T(["a"])
    own = [0]
    own.append(own)
    with pytest.raises(TypeError, match="self-referential"):
        T(own)

    class Broken:
        def __len__(self):
            return 2

        def __getitem__(self, i):
            raise TypeError

    with pytest.raises(ValueError, match="could not determine the shape of object type 'Broken'"):
        T(Broken())


def test_integers_wider_than_64_bits_and_truth():
    assert T([2**64, 0, -(2**63) - 1], dtype=tessera.bool).tolist() == [True, False, True]
    assert T([1e-323, 0j, 1e-323j], dtype=tessera.bool).tolist() == [True, False, True]
    assert T([2**64], dtype=tessera.float64).item() == 2.0**64
    for dtype in (None, tessera.int64):
        with pytest.raises(ValueError, match="Overflow"):
            T([2**64], dtype=dtype)


def test_numbers_of_tensors_with_other_counts():
    for convert in (int, float, complex):
        for shape in (0, 2):
            with pytest.raises(ValueError, match="one element"):
                convert(tessera.ones(shape))


def test_asarray_of_a_capsule():
    x = tessera.ones(3)
    assert tessera.asarray(tessera.utils.dlpack.to_dlpack(x)).data_ptr() == x.data_ptr()
    assert tessera.asarray(tessera.utils.dlpack.to_dlpack(x), copy=True).data_ptr() != x.data_ptr()


def test_old_constructors_take_no_device_with_a_tensor():
    for make in (tessera.Tensor, tessera.ones(1).new):
        with pytest.raises(RuntimeError, match="as_tensor"):
            make(T([1.0]), device="cpu")


def test_new_of_named_sizes():
    assert tessera.ones(1, dtype=tessera.int8).new(size=(3, 4)).shape == (3, 4)
    with pytest.raises(TypeError, match="sizes once"):
        tessera.ones(1).new(3, size=(3, 4))


def test_full_of_complex_numbers():
    for default, dtype in (("float16", "complex64"), ("float32", "complex64"), ("float64", "complex128")):
        tessera.set_default_dtype(getattr(tessera, default))
        try:
            assert tessera.full((2,), 1j).dtype == getattr(tessera, dtype)
        finally:
            tessera.set_default_dtype(tessera.float32)


def test_one_number_into_overlapping_elements():
    x = tessera.ones(3).expand(2, 3)
    assert x.fill_(2).tolist() == [[2.0] * 3] * 2 and x.zero_().tolist() == [[0.0] * 3] * 2


def test_cat_of_empty_tensors_in_any_dimension():
    assert tessera.cat([tessera.ones(0)] * 2, dim=3).shape == (0,)


def test_address_of_no_elements():
    assert tessera.ones(5)[2:2].data_ptr() == 0


def test_objects_that_come_back_from_weak_references():
    x = tessera.ones(2)
    seen, owner = weakref.ref(x), tessera.empty(2)
    owner.grad = x
    del x
    x = seen()
    del owner
    gc.collect()
    assert x.sigmoid().shape == (2,) and seen() is x
    del x
    assert seen() is None


@pytest.mark.parametrize("dtype", [tessera.float16, tessera.bfloat16])
@pytest.mark.parametrize("shape", [(1,), (5,), (5000,), (3, 7)])
def test_halves_are_compared_with_numbers_as_these_round_to_them(dtype, shape):
    tenth = tessera.full(shape, 0.1, dtype=dtype)
    for number in (0.1, tessera.tensor(0.1, dtype=tessera.float64)):
        assert (tenth == number).all() and not (tenth != number).any()
        assert (tenth >= number).all() and not (tenth < number).any() and not (tenth > number).any()
        assert (tenth.t() if tenth.dim() == 2 else tenth).eq(number).all()
    # A tensor with dimensions decides on the dtype as well.
    assert not (tenth == tessera.full((1,), 0.1)).any()
    assert (tenth < 1e10).all()
