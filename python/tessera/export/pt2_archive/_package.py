"""Reading and writing archives, and the tensors of programs in them."""

import contextlib
import io
import json
import math
import os
import pickle
import sys
import zipfile

import tessera
from tessera.export.pt2_archive import constants as names

_MODEL = "model"
_SAMPLE_INPUTS = names.SAMPLE_INPUTS_DIR + "model.json"
_MARKS = (names.ARCHIVE_FORMAT_PATH, names.ARCHIVE_VERSION_PATH, "byteorder", ".data/version", ".data/serialization_id")


def _opened(f):
    """What zipfile opens: a path as text, or a file."""
    return os.fspath(f) if isinstance(f, (str, os.PathLike)) else f


class PT2ArchiveWriter:
    """Writes an archive; a context manager.

    Args:
        archive_path_or_buffer: path, or a binary file.
    """

    def __init__(self, archive_path_or_buffer):
        self._zip = zipfile.ZipFile(_opened(archive_path_or_buffer), "w", zipfile.ZIP_STORED, allowZip64=True)
        self._names = set()
        self.write_string(names.ARCHIVE_FORMAT_PATH, names.ARCHIVE_FORMAT_VALUE)
        self.write_string(names.ARCHIVE_VERSION_PATH, names.ARCHIVE_VERSION_VALUE)
        self.write_string("byteorder", sys.byteorder)
        self.write_string(".data/version", "6\n")

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self.close()

    def has_record(self, name):
        """Whether an entry has been written."""
        return name in self._names

    def count_prefix(self, prefix):
        """How many entries begin with a text."""
        return sum(name.startswith(prefix) for name in self._names)

    def write_bytes(self, name, data):
        """Writes an entry. AssertionError for other data than bytes, RuntimeError for a second one of the name."""
        if not isinstance(data, (bytes, bytearray, memoryview)):
            raise AssertionError(f"Expected bytes but got {type(data)}")
        if name in self._names:
            raise RuntimeError(f"the archive has an entry {name!r} already")
        self._names.add(name)
        info = zipfile.ZipInfo("archive/" + name)  # its time is fixed: the same program gives the same file
        with self._zip.open(info, "w", force_zip64=len(data) > 1 << 30) as entry:
            entry.write(data)

    def write_string(self, name, data):
        """Writes a text as an entry."""
        if not isinstance(data, str):
            raise AssertionError(f"Expected string but got {type(data)}")
        self.write_bytes(name, data.encode())

    def write_file(self, name, file_path):
        """Writes a file's content as an entry."""
        if not os.path.isfile(file_path):
            raise AssertionError(f"{file_path} is not a valid file path")
        with open(file_path, "rb") as f:
            self.write_bytes(name, f.read())

    def write_folder(self, archive_dir, folder_dir):
        """Writes the files of a folder, and of folders in it, as entries below `archive_dir`."""
        if not os.path.isdir(folder_dir):
            raise AssertionError(f"{folder_dir} is not a valid folder path")
        for place, _, files in os.walk(folder_dir):
            for file in files:
                path = os.path.join(place, file)
                self.write_file(os.path.join(archive_dir, os.path.relpath(path, folder_dir)), path)

    def close(self):
        """Ends the archive."""
        self._zip.close()


class PT2ArchiveReader:
    """Reads an archive; a context manager.

    Args:
        archive_path_or_buffer: path, or a binary file.

    Errors: RuntimeError for files that are no archives of programs.
    """

    def __init__(self, archive_path_or_buffer):
        if hasattr(archive_path_or_buffer, "seek"):
            archive_path_or_buffer.seek(0)
        try:
            self._zip = zipfile.ZipFile(_opened(archive_path_or_buffer))
        except zipfile.BadZipFile as error:
            raise RuntimeError(f"not a zip archive: {error}") from None
        self._entries = {}
        for info in self._zip.infolist():
            root, _, name = info.filename.partition("/")
            if info.compress_type != zipfile.ZIP_STORED or info.compress_size != info.file_size:
                raise RuntimeError(f"entry {info.filename!r} is compressed; entries of such archives are stored")
            if name in self._entries:
                raise RuntimeError(f"the archive has two entries {name!r}")
            self._entries[name] = info
        if self._text_or_none(names.ARCHIVE_FORMAT_PATH) != names.ARCHIVE_FORMAT_VALUE:
            raise RuntimeError(f"the archive has no entry {names.ARCHIVE_FORMAT_PATH!r} that says 'pt2'")

    def _text_or_none(self, name):
        return self.read_string(name).strip() if name in self._entries else None

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self._zip.close()

    def read_bytes(self, name):
        """An entry's content. RuntimeError if there is none, or it is damaged."""
        if name not in self._entries:
            raise RuntimeError(f"the archive has no entry {name!r}")
        try:
            return self._zip.read(self._entries[name])
        except (zipfile.BadZipFile, EOFError, OSError, NotImplementedError) as error:
            raise RuntimeError(f"entry {name!r} cannot be read: {error}") from None

    def read_string(self, name):
        """An entry as text."""
        return self.read_bytes(name).decode()

    def archive_version(self):
        """The archive's version: 0."""
        text = self._text_or_none(names.ARCHIVE_VERSION_PATH)
        return 0 if text is None else int(text)

    def get_file_names(self):
        """Names of the entries: a list."""
        return list(self._entries)


def is_pt2_package(serialized_model):
    """Whether a file (path or binary file) is an archive of a program."""
    try:
        with PT2ArchiveReader(serialized_model):
            return True
    except (RuntimeError, OSError):
        return False


# --- tensors ---


def _bytes_of(tensor):
    flat = tessera.empty(0, dtype=tessera.uint8).set_(tensor.untyped_storage())
    return flat.numpy().tobytes()


class _TensorWriter:
    """Writes tensors, each storage once."""

    def __init__(self, archive, folder, prefix):
        self._archive, self._folder, self._prefix = archive, folder, prefix
        self._written, self.config = {}, {}

    def write(self, path, tensor, is_parameter):
        held = tensor.detach()
        if held.device.type != "cpu":
            held = held.cpu() if held.device.type != "meta" else held
        if held.layout is not tessera.strided:
            return self._write_pickled(path, held, tensor, is_parameter)
        if held.numel() * held.element_size() != held.untyped_storage().nbytes() and not self._is_shared(held):
            held = held.contiguous().clone()
        key = held.untyped_storage()._cdata
        if key not in self._written or held.device.type == "meta":
            name = f"{self._prefix}{len(self._written)}"
            self._archive.write_bytes(self._folder + name, b"" if held.device.type == "meta" else _bytes_of(held))
            self._written[key] = name, held  # which keeps the storage alive, and its address its own
        self._note(path, self._written[key][0], held, tensor, is_parameter, False)

    def _note(self, path, name, held, tensor, is_parameter, pickled):
        from tessera.export._serialize import tensor_meta

        meta = tensor_meta(held)
        meta["device"] = {"type": tensor.device.type, "index": tensor.device.index}
        meta["requires_grad"] = tensor.requires_grad
        self.config[path] = dict(path_name=name, is_param=is_parameter, use_pickle=pickled, tensor_meta=meta)

    def _write_pickled(self, path, held, tensor, is_parameter):
        """A tensor that has indices and values instead of memory of its own, as tessera.save() writes it."""
        file, name = io.BytesIO(), f"{self._prefix}{len(self._written)}"
        tessera.save(held, file)
        self._archive.write_bytes(self._folder + name, file.getvalue())
        self._written[name] = name, held
        self._note(path, name, held, tensor, is_parameter, True)

    def _is_shared(self, tensor):
        return tensor.untyped_storage()._cdata in self._written


def _read_tensor(archive, folder, entry, loaded):
    """A tensor of a config entry; `loaded` keeps the storages by name."""
    from tessera.export._serialize import read_device, read_tensor_meta

    name, meta = entry["path_name"], entry["tensor_meta"]
    if not isinstance(name, str):
        raise ValueError(f"expected a name of an entry, got {name!r}")
    if entry.get("use_pickle"):
        try:
            made = tessera.load(io.BytesIO(archive.read_bytes(folder + name)), weights_only=True)
        except pickle.UnpicklingError as error:
            raise ValueError(f"the entry {name!r} is no file of tensors: {error}") from error
        if not isinstance(made, tessera.Tensor):
            raise ValueError(f"expected a tensor in the entry {name!r}, got {type(made).__name__}")
        return _placed(made, entry, read_device(meta["device"]), bool(meta["requires_grad"]))
    sizes, strides, offset, dtype, device, requires_grad = read_tensor_meta(meta)
    if device.type == "meta":
        made = tessera.empty_strided(sizes, strides, dtype=dtype, device="meta")
    else:
        if name not in loaded:
            data = archive.read_bytes(folder + name)
            loaded[name] = tessera.frombuffer(bytearray(data), dtype=tessera.uint8) if data else tessera.empty(
                0, dtype=tessera.uint8)  # fmt: skip
        storage = loaded[name].untyped_storage()
        last = offset + sum((n - 1) * s for n, s in zip(sizes, strides)) if math.prod(sizes) else offset - 1
        itemsize = tessera.empty(0, dtype=dtype).element_size()
        if (last + 1) * itemsize > storage.nbytes():
            raise ValueError(
                f"entry {name!r} has {storage.nbytes()} bytes, but its tensor needs {(last + 1) * itemsize}"
            )
        made = tessera.empty(0, dtype=dtype).set_(storage, offset, sizes, strides)
    return _placed(made, entry, device, requires_grad)


def _placed(made, entry, device, requires_grad):
    made = made.detach() if made.device.type == device.type else made.detach().to(device)
    if entry.get("is_param"):
        return tessera.nn.Parameter(made, requires_grad=requires_grad)
    return made.requires_grad_() if requires_grad else made


def _write_tensors(archive, tensors, parameters, config, folder, prefix):
    writer = _TensorWriter(archive, folder, prefix)
    for path, tensor in tensors.items():
        if not isinstance(tensor, tessera.Tensor):
            raise NotImplementedError(
                f"save: the constant {path!r} is a {type(tensor).__name__}; only tensors are saved"
            )
        writer.write(path, tensor, path in parameters)
    archive.write_string(config.format(_MODEL), json.dumps({"config": writer.config}))


def _read_tensors(archive, config, folder):
    table = json.loads(archive.read_string(config.format(_MODEL)))["config"]
    loaded = {}
    return {path: _read_tensor(archive, folder, entry, loaded) for path, entry in table.items()}


# --- programs ---


def _write_inputs(archive, example_inputs):
    """The example inputs: their structure, and their leaves. None if they have types without a name in files."""
    from tessera.export._serialize import plain_argument
    from tessera.utils import _pytree

    if example_inputs is None:
        return
    leaves, spec = _pytree.tree_flatten(example_inputs)
    writer = _TensorWriter(archive, names.SAMPLE_INPUTS_DIR, "tensor_")
    shown = []
    for i, leaf in enumerate(leaves):
        if isinstance(leaf, tessera.Tensor):
            writer.write(str(i), leaf, False)
            shown.append({"as_tensor": {"name": str(i)}})
        else:
            shown.append(plain_argument(leaf))
    text = {"spec": _pytree.treespec_dumps(spec), "leaves": shown, "config": writer.config}
    archive.write_string(_SAMPLE_INPUTS, json.dumps(text))


def _read_inputs(archive):
    from tessera.export._serialize import read_plain_argument
    from tessera.utils import _pytree

    if _SAMPLE_INPUTS not in archive.get_file_names():
        return None
    data, loaded = json.loads(archive.read_string(_SAMPLE_INPUTS)), {}
    leaves = [
        _read_tensor(archive, names.SAMPLE_INPUTS_DIR, data["config"][leaf["as_tensor"]["name"]], loaded)
        if "as_tensor" in leaf
        else read_plain_argument(leaf)
        for leaf in data["leaves"]
    ]
    return _pytree.tree_unflatten(leaves, _pytree.treespec_loads(data["spec"]))


def save_program(program, f, extra_files, opset_version, pickle_protocol):
    """Writes a program; see export.save."""
    from tessera.export._serialize import program_to_dict

    if type(pickle_protocol) is not int:
        raise TypeError(f"save: expected pickle_protocol to be an int, got {type(pickle_protocol).__name__}")
    if isinstance(f, (str, os.PathLike)):
        folder = os.path.dirname(os.fspath(f))
        if folder and not os.path.isdir(folder):
            raise RuntimeError(f"Parent directory {folder} does not exist.")
    text = json.dumps(program_to_dict(program, opset_version))
    with PT2ArchiveWriter(f) as archive:
        archive.write_string(names.MODELS_FILENAME_FORMAT.format(_MODEL), text)
        parameters = set(program.graph_signature.parameters)
        state, constants = program.state_dict, program.constants
        _write_tensors(
            archive, state, parameters, names.WEIGHTS_CONFIG_FILENAME_FORMAT, names.WEIGHTS_DIR,
            names.WEIGHT_FILENAME_PREFIX,
        )  # fmt: skip
        _write_tensors(
            archive, constants, parameters, names.CONSTANTS_CONFIG_FILENAME_FORMAT, names.CONSTANTS_DIR,
            names.TENSOR_CONSTANT_FILENAME_PREFIX,
        )  # fmt: skip
        _write_inputs(archive, program.example_inputs)
        for name, content in (extra_files or {}).items():
            archive.write_bytes(names.EXTRA_DIR + name, content.encode() if isinstance(content, str) else content)


_BROKEN = (
    ArithmeticError, AssertionError, AttributeError, LookupError, NotImplementedError, RecursionError, StopIteration,
    TypeError,
    ValueError, zipfile.BadZipFile,
)  # fmt: skip


def load_program(f, extra_files, expected_opset_version):
    """Reads a program; see export.load."""
    try:
        with PT2ArchiveReader(f) as archive:
            return _load(archive, extra_files, expected_opset_version)
    except (*_BROKEN, tessera._export.verifier.SpecViolationError) as error:
        shown = f if isinstance(f, (str, os.PathLike)) else "the file"
        raise RuntimeError(f"{shown} is not a program that save() wrote: {type(error).__name__}: {error}") from error


def _load(archive, extra_files, expected_opset_version):
    from tessera.export._deserialize import program_of_dict

    if archive.archive_version() > int(names.ARCHIVE_VERSION_VALUE):
        raise RuntimeError(f"the archive is of version {archive.archive_version()}; this is known: 0")
    data = json.loads(archive.read_string(names.MODELS_FILENAME_FORMAT.format(_MODEL)))
    for namespace, most in (expected_opset_version or {}).items():
        found = data["opset_version"].get(namespace)
        if found is None or found > most:
            raise RuntimeError(f"the program's opset {namespace!r} has version {found}, expected at most {most}")
    state = _read_tensors(archive, names.WEIGHTS_CONFIG_FILENAME_FORMAT, names.WEIGHTS_DIR)
    constants = _read_tensors(archive, names.CONSTANTS_CONFIG_FILENAME_FORMAT, names.CONSTANTS_DIR)
    program = program_of_dict(data, state, constants, _read_inputs(archive))
    present = set(archive.get_file_names())
    for name in extra_files or {}:
        if names.EXTRA_DIR + name in present:
            content = archive.read_bytes(names.EXTRA_DIR + name)
            with contextlib.suppress(UnicodeDecodeError):  # what save() was given as bytes may be no text
                content = content.decode()
            extra_files[name] = content
    return program
