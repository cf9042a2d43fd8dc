"""Models from repositories: a repository's file `hubconf.py` has a function for each model that it offers (its *entry
points*: all callables whose names begin without an underscore), and a list `dependencies` of the packages it needs.

    model = tessera.hub.load("my/folder", "resnet18", source="local", pretrained=True)

Downloads are kept in `get_dir()`.
"""

import hashlib
import importlib.util
import os
import re
import shutil
import sys
import tempfile
import uuid
import warnings
import zipfile
from urllib.error import HTTPError
from urllib.parse import urlparse
from urllib.request import Request, urlopen

__all__ = ["download_url_to_file", "get_dir", "help", "list", "load", "load_state_dict_from_url", "set_dir"]

# Owners whose repositories are run without a question.
_TRUSTED_OWNERS = ("facebookresearch", "facebookincubator", "pytorch", "fairinternal")
_CONF = "hubconf.py"
_TRUSTED_LIST = "trusted_list"
HASH_REGEX = re.compile(r"-([0-9a-f]{6,})\.")  # of file names; other packages look for it here
_PIECE = 1 << 17  # bytes read at a time

_folder = None


def get_dir():
    """The folder of downloads: what `set_dir` was given, else $TORCH_HOME/hub, else $XDG_CACHE_HOME/torch/hub, else
    ~/.cache/torch/hub."""
    if _folder is not None:
        return _folder
    return os.path.join(_get_torch_home(), "hub")


def _get_torch_home():
    """The folder above the default `get_dir()`; other packages keep their downloads in it, too."""
    cache = os.environ.get("XDG_CACHE_HOME", "~/.cache")
    return os.path.expanduser(os.environ.get("TORCH_HOME", os.path.join(cache, "torch")))


def set_dir(d):
    """Sets the folder of downloads."""
    global _folder
    _folder = os.path.expanduser(d)


def load(
    repo_or_dir,
    model,
    *args,
    source="github",
    trust_repo="check",
    force_reload=False,
    verbose=True,
    skip_validation=False,
    **kwargs,
):
    """Calls an entry point and returns what it returns, mostly a module.

    Args:
        repo_or_dir: "owner/name" or "owner/name:branch_or_tag" on GitHub (without the latter: main, or master), or the
            path of a folder if source is "local".
        model: the name of the entry point.
        *args, **kwargs: for the entry point.
        source: "github" or "local".
        trust_repo: whether a repository's code may run: True (and it is remembered), False (asks), "check" (asks for
            repositories that are not remembered), None (warns).
        force_reload: download it although it is there.
        verbose: say where things are taken from.
        skip_validation: don't ask GitHub whether the branch exists.

    Raises: ValueError for another source, RuntimeError if the entry point or a package is missing.
    """
    folder = _folder_of(repo_or_dir, source, trust_repo, force_reload, verbose, skip_validation)
    return _entry_point(folder, model)(*args, **kwargs)


def list(github, force_reload=False, skip_validation=False, trust_repo="check", verbose=True):
    """The names of a GitHub repository's entry points. Arguments: as of `load`."""
    module = _conf_of(_folder_of(github, "github", trust_repo, force_reload, verbose, skip_validation))
    return [name for name, value in vars(module).items() if callable(value) and not name.startswith("_")]


def help(github, model, force_reload=False, skip_validation=False, trust_repo="check"):
    """The docstring of an entry point of a GitHub repository. Arguments: as of `load`."""
    return _entry_point(_folder_of(github, "github", trust_repo, force_reload, True, skip_validation), model).__doc__


def download_url_to_file(url, dst, hash_prefix=None, progress=True):
    """Downloads a file; `dst` is the whole file or none of it.

    Args:
        url: its address (http, https, ftp or file).
        dst: the path to save it under.
        hash_prefix: what the SHA256 sum of the file has to begin with, in hexadecimal.
        progress: show a bar on stderr.

    Raises: RuntimeError for another sum, URLError if the address can't be read.
    """
    dst = os.path.expanduser(dst)
    with (
        urlopen(Request(url, headers={"User-Agent": "torch.hub"})) as response,
        tempfile.NamedTemporaryFile(
            dir=os.path.dirname(dst) or ".", prefix=os.path.basename(dst), suffix=".partial", delete=False
        ) as part,
    ):
        try:
            total = response.headers.get("Content-Length")
            digest = hashlib.sha256()
            with _Bar(int(total) if total else None, shown=progress) as bar:
                while piece := response.read(_PIECE):
                    part.write(piece)
                    digest.update(piece)
                    bar.update(len(piece))
            part.close()
            if hash_prefix is not None and not digest.hexdigest().startswith(hash_prefix):
                raise RuntimeError(
                    f"{url}: invalid hash value: expected a SHA256 sum that begins with {hash_prefix!r}, but got "
                    f"{digest.hexdigest()!r}"
                )
            shutil.move(part.name, dst)
        finally:
            if os.path.exists(part.name):
                os.remove(part.name)


def load_state_dict_from_url(
    url, model_dir=None, map_location=None, progress=True, check_hash=False, file_name=None, weights_only=False
):
    """Loads a checkpoint from an address, which is downloaded once.

    Args:
        url: the address of a file that `save` wrote, or of a zip archive with that file alone.
        model_dir: the folder to keep it in; default: `get_dir()`/checkpoints.
        map_location, weights_only: as for `load` of the top-level namespace.
        progress: show a bar while downloading.
        check_hash: the file's name is "name-<sha256>.ext", with at least 6 digits of its SHA256 sum, which is checked.
        file_name: the name to keep it under; default: that of the address.
    """
    import tessera

    folder = os.path.join(get_dir(), "checkpoints") if model_dir is None else model_dir
    os.makedirs(folder, exist_ok=True)
    name = file_name or os.path.basename(urlparse(url).path)
    path = os.path.join(folder, name)
    if not os.path.exists(path):
        sys.stderr.write(f'Downloading: "{url}" to {path}\n')
        found = HASH_REGEX.search(name) if check_hash else None
        download_url_to_file(url, path, found and found.group(1), progress=progress)
    with open(path, "rb") as file:
        inner = _legacy_archive_member(file)
    if inner is not None:
        with zipfile.ZipFile(path) as archive:
            path = archive.extract(inner, folder)
    return tessera.load(path, map_location=map_location, weights_only=weights_only)


def _legacy_archive_member(file):
    """The name of the one file in a zip archive that is no checkpoint itself; None for checkpoints."""
    if not zipfile.is_zipfile(file):
        return None
    with zipfile.ZipFile(file) as archive:
        names = archive.namelist()
    if any(name.endswith(("/data.pkl", "/constants.pkl")) for name in names):
        return None
    if len(names) != 1:
        raise RuntimeError(f"expected one file in the archive, but it has {len(names)}")
    return names[0]


# --- Repositories


def _folder_of(repo_or_dir, source, trust_repo, force_reload, verbose, skip_validation):
    """The folder with hubconf.py."""
    if source == "local":
        return os.path.abspath(os.path.expanduser(repo_or_dir))
    if source != "github":
        raise ValueError(f'Unknown source: "{source}". Allowed values: "github" | "local".')
    owner, name, ref = _parse_repository(repo_or_dir)
    os.makedirs(get_dir(), exist_ok=True)
    folder = os.path.join(get_dir(), "_".join((owner, name, ref.replace("/", "_"))))
    _check_trust(owner, name, trust_repo)
    if os.path.exists(folder) and not force_reload:
        if verbose:
            sys.stderr.write(f"Using cache found in {folder}\n")
        return folder
    if not skip_validation:
        _check_reference(owner, name, ref)
    _unpack_repository(f"https://github.com/{owner}/{name}/zipball/{ref}", folder, verbose)
    return folder


def _parse_repository(text):
    repository, _, ref = text.partition(":")
    owner, slash, name = repository.partition("/")
    if not slash or not owner or not name or "/" in name:
        raise ValueError(f"expected a repository as owner/name[:branch_or_tag], but got {text!r}")
    if ref:
        return owner, name, ref
    try:
        urlopen(f"https://github.com/{owner}/{name}/tree/main/").close()
        return owner, name, "main"
    except HTTPError as error:
        if error.code == 404:
            return owner, name, "master"
        raise
    except OSError:
        # Without a network, whatever was downloaded before.
        for ref in ("main", "master"):
            if os.path.exists(os.path.join(get_dir(), f"{owner}_{name}_{ref}")):
                return owner, name, ref
        raise RuntimeError(
            f"{text}: GitHub can't be reached, and there is no download of this repository in {get_dir()}"
        ) from None


def _check_reference(owner, name, ref):
    import json

    headers = {"Accept": "application/vnd.github.v3+json"}
    if token := os.environ.get("GITHUB_TOKEN"):
        headers["Authorization"] = f"token {token}"
    for kind in ("branches", "tags"):
        page = 1
        while True:
            address = f"https://api.github.com/repos/{owner}/{name}/{kind}?per_page=100&page={page}"
            with urlopen(Request(address, headers=headers)) as response:
                found = json.loads(response.read())
            if not found:
                break
            if any(item["name"] == ref or item["commit"]["sha"].startswith(ref) for item in found):
                return
            page += 1
    raise ValueError(
        f"Cannot find {ref} in https://github.com/{owner}/{name}: a commit of a fork has to be given as owner/name of "
        f"the fork, with a branch or tag"
    )


def _check_trust(owner, name, trust_repo):
    path = os.path.join(get_dir(), _TRUSTED_LIST)
    known = set()
    if os.path.exists(path):
        with open(path) as file:
            known = {line.strip() for line in file}
    repository = f"{owner}_{name}"
    trusted = repository in known or owner in _TRUSTED_OWNERS
    if trusted and trust_repo is not False:
        return
    if trust_repo is None:
        warnings.warn(
            f"The code of {owner}/{name} runs although it is not among the trusted repositories; trust_repo=True says "
            f"that it may, trust_repo=False asks each time",
            stacklevel=4,
        )
        return
    if trust_repo is not True:
        if trust_repo not in (False, "check"):
            raise ValueError(f'trust_repo: expected True, False, "check" or None, but got {trust_repo!r}')
        answer = input(
            f"The repository {owner}/{name} is not trusted, and its code will run on this machine. Trust it from now "
            f"on (y/N)? "
        )
        if answer.lower() not in ("y", "yes"):
            raise Exception("Untrusted repository: nothing was loaded")
    if repository not in known:
        with open(path, "a") as file:
            file.write(repository + "\n")


def _unpack_repository(url, folder, verbose):
    with tempfile.TemporaryDirectory(dir=get_dir()) as room:
        archive_path = os.path.join(room, "repository.zip")
        if verbose:
            sys.stderr.write(f'Downloading: "{url}" to {folder}\n')
        download_url_to_file(url, archive_path, progress=False)
        with zipfile.ZipFile(archive_path) as archive:
            top = archive.namelist()[0].split("/")[0]
            archive.extractall(room)
        shutil.rmtree(folder, ignore_errors=True)
        shutil.move(os.path.join(room, top), folder)


def _conf_of(folder):
    """The module that a repository's hubconf.py makes. It imports its neighbours while it is run."""
    path = os.path.join(folder, _CONF)
    sys.path.insert(0, folder)
    try:
        spec = importlib.util.spec_from_file_location(f"hubconf_{uuid.uuid4().hex}", path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(folder)
    return module


def _entry_point(folder, name):
    if not isinstance(name, str):
        raise ValueError(f"Invalid input: the name of an entry point is a str, but got {type(name).__name__}")
    module = _conf_of(folder)
    missing = [package for package in getattr(module, "dependencies", ()) if not _importable(package)]
    if missing:
        raise RuntimeError(f"Missing dependencies: {', '.join(missing)}")
    function = getattr(module, name, None)
    if not callable(function):
        raise RuntimeError(f"Cannot find callable {name} in hubconf")
    return function


def _importable(package):
    return package in sys.modules or importlib.util.find_spec(package) is not None


class _Bar:
    """Progress of a download on stderr: by tqdm if it is installed, else as a line of percents."""

    def __init__(self, total, shown):
        self._total, self._shown, self._done, self._tqdm = total, shown, 0, None

    def __enter__(self):
        if self._shown:
            try:
                from tqdm import tqdm
            except ImportError:
                pass
            else:
                self._tqdm = tqdm(total=self._total, unit="B", unit_scale=True, unit_divisor=1024)
        return self

    def update(self, n):
        self._done += n
        if self._tqdm is not None:
            self._tqdm.update(n)
        elif self._shown:
            share = f"{100 * self._done / self._total:.1f}%" if self._total else f"{self._done} bytes"
            sys.stderr.write(f"\r{share}")
            sys.stderr.flush()

    def __exit__(self, exc_type, exc_value, traceback):
        if self._tqdm is not None:
            self._tqdm.close()
        elif self._shown:
            sys.stderr.write("\n")
