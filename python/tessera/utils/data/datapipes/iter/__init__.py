"""Steps of pipelines that are iterated over."""

from tessera.utils.data.datapipes.iter.callable import CollatorIterDataPipe as Collator
from tessera.utils.data.datapipes.iter.callable import MapperIterDataPipe as Mapper
from tessera.utils.data.datapipes.iter.combinatorics import SamplerIterDataPipe as Sampler
from tessera.utils.data.datapipes.iter.combinatorics import ShufflerIterDataPipe as Shuffler
from tessera.utils.data.datapipes.iter.combining import ConcaterIterDataPipe as Concater
from tessera.utils.data.datapipes.iter.combining import DemultiplexerIterDataPipe as Demultiplexer
from tessera.utils.data.datapipes.iter.combining import ForkerIterDataPipe as Forker
from tessera.utils.data.datapipes.iter.combining import MultiplexerIterDataPipe as Multiplexer
from tessera.utils.data.datapipes.iter.combining import ZipperIterDataPipe as Zipper
from tessera.utils.data.datapipes.iter.files import FileListerIterDataPipe as FileLister
from tessera.utils.data.datapipes.iter.files import FileOpenerIterDataPipe as FileOpener
from tessera.utils.data.datapipes.iter.files import RoutedDecoderIterDataPipe as RoutedDecoder
from tessera.utils.data.datapipes.iter.files import StreamReaderIterDataPipe as StreamReader
from tessera.utils.data.datapipes.iter.grouping import BatcherIterDataPipe as Batcher
from tessera.utils.data.datapipes.iter.grouping import GrouperIterDataPipe as Grouper
from tessera.utils.data.datapipes.iter.grouping import UnBatcherIterDataPipe as UnBatcher
from tessera.utils.data.datapipes.iter.selecting import FilterIterDataPipe as Filter
from tessera.utils.data.datapipes.iter.sharding import ShardingFilterIterDataPipe as ShardingFilter
from tessera.utils.data.datapipes.iter.utils import IterableWrapperIterDataPipe as IterableWrapper

__all__ = [
    "Batcher",
    "Collator",
    "Concater",
    "Demultiplexer",
    "FileLister",
    "FileOpener",
    "Filter",
    "Forker",
    "Grouper",
    "IterableWrapper",
    "Mapper",
    "Multiplexer",
    "RoutedDecoder",
    "Sampler",
    "ShardingFilter",
    "Shuffler",
    "StreamReader",
    "UnBatcher",
    "Zipper",
]
