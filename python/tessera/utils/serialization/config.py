"""What `save` and `load` do where their arguments do not say: the attributes of `config.save` and `config.load`.

save.compute_crc32: write checksums (True).
load.mmap: leave storages in the file and map it (False); load.mmap_flags: how it is mapped (mmap.MAP_PRIVATE);
load.endianness: the byte order of files that do not tell (None: this machine's).

>>> tessera.utils.serialization.config.load.mmap
False
"""

from tessera import serialization


class _Config:
    """Settings as attributes: name -> (function that reads it, function that checks and sets it)."""

    def __init__(self, name, settings):
        self.__dict__.update(_name=name, _settings=settings)

    def _setting(self, name):
        if name not in self._settings:
            raise AttributeError(f"{self._name} has no setting {name!r}, only {', '.join(self._settings)}")
        return self._settings[name]

    def __getattr__(self, name):
        return self._setting(name)[0]()

    def __setattr__(self, name, value):
        self._setting(name)[1](value)

    def __dir__(self):
        return list(self._settings)


def _set_maps(value):
    if not isinstance(value, bool):
        raise TypeError(f"config.load.mmap must be a bool, but got {type(value).__name__}")
    serialization._Options.maps = value


load = _Config(
    "config.load",
    {
        "mmap": (lambda: serialization._Options.maps, _set_maps),
        "mmap_flags": (serialization.get_default_mmap_options, serialization.set_default_mmap_options),
        "endianness": (serialization.get_default_load_endianness, serialization.set_default_load_endianness),
    },
)
save = _Config("config.save", {"compute_crc32": (serialization.get_crc32_options, serialization.set_crc32_options)})
