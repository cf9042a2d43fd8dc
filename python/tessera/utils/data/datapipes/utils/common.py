"""Files of pipes."""

import fnmatch
import os

__all__ = ["StreamWrapper", "file_paths", "get_file_pathnames_from_root", "match_masks"]


def match_masks(name, masks):
    """Whether a file's name matches one of the patterns (a text or a list of them); all match none."""
    if not masks:
        return True
    return any(fnmatch.fnmatch(name, mask) for mask in ([masks] if isinstance(masks, str) else masks))


def _raise(error):
    raise error


def file_paths(root, masks="", recursive=False, abspath=False, non_deterministic=False):
    """Paths of the files below `root` whose names match; `root` itself if it is a file. OSError if it is not there."""
    root = os.path.abspath(root) if abspath else os.fspath(root)
    if os.path.isfile(root):
        if match_masks(os.path.basename(root), masks):
            yield root
        return
    for folder, folders, names in os.walk(root, onerror=_raise):
        if not non_deterministic:
            folders.sort()
            names.sort()
        yield from (os.path.join(folder, name) for name in names if match_masks(name, masks))
        if not recursive:
            return


get_file_pathnames_from_root = file_paths


class StreamWrapper:
    """A file that closes with the last reference to it. All attributes are the file's."""

    def __init__(self, file_obj, name=None):
        self.file_obj, self.name = file_obj, name
        self.closed = False

    def __getattr__(self, name):
        return getattr(self.__dict__["file_obj"], name)

    def close(self, *args, **kwargs):
        """Closes the file."""
        if not self.closed:
            self.closed = True
            self.file_obj.close(*args, **kwargs)

    def __del__(self):
        if not self.__dict__.get("closed", True):
            self.close()

    def __iter__(self):
        yield from self.file_obj

    def __next__(self):
        return next(self.file_obj)

    def __repr__(self):
        return f"StreamWrapper<{self.file_obj if self.name is None else self.name}>"

    def __getstate__(self):
        return self.file_obj

    def __setstate__(self, file_obj):
        self.__init__(file_obj)
