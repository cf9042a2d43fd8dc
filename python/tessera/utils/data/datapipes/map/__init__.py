"""Steps of pipelines whose samples have keys."""

from tessera.utils.data.datapipes.map.callable import MapperMapDataPipe as Mapper
from tessera.utils.data.datapipes.map.combinatorics import ShufflerIterDataPipe as Shuffler
from tessera.utils.data.datapipes.map.combining import BatcherMapDataPipe as Batcher
from tessera.utils.data.datapipes.map.combining import ConcaterMapDataPipe as Concater
from tessera.utils.data.datapipes.map.combining import ZipperMapDataPipe as Zipper
from tessera.utils.data.datapipes.map.utils import SequenceWrapperMapDataPipe as SequenceWrapper

__all__ = ["Batcher", "Concater", "Mapper", "SequenceWrapper", "Shuffler", "Zipper"]
