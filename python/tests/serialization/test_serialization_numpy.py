"""What NumPy made, in files."""

import io

import numpy as np
import tessera


def test_arrays_of_numpy_load_where_they_are_allowed():
    """A state of NumPy's generator, as trainers keep it: the array's __setstate__ is of no module."""
    state = np.random.RandomState(0).get_state()
    file = io.BytesIO()
    tessera.save({"numpy": state}, file)
    file.seek(0)
    core = getattr(np, "_core", None) or np.core
    allowed = [core.multiarray._reconstruct, np.ndarray, np.dtype, type(np.dtype(np.uint32))]
    with tessera.serialization.safe_globals(allowed):
        found = tessera.load(file, weights_only=True)["numpy"]
    assert (found[1] == state[1]).all() and found[2] == state[2]
