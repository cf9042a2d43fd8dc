"""Steps that call a function for each sample."""

from tessera.utils.data.datapipes._decorator import functional_datapipe
from tessera.utils.data.datapipes.datapipe import MapDataPipe

__all__ = ["MapperMapDataPipe", "default_fn"]


def default_fn(data):
    """The sample as it is."""
    return data


@functional_datapipe("map")
class MapperMapDataPipe(MapDataPipe):
    """`fn` of each sample, called when it is asked for (functional: `map`)."""

    def __init__(self, datapipe, fn=default_fn):
        self.datapipe, self.fn = datapipe, fn

    def __getitem__(self, index):
        return self.fn(self.datapipe[index])

    def __len__(self):
        return len(self.datapipe)
