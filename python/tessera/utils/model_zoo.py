"""The older names of what `hub` has."""

from tessera.hub import _get_torch_home, download_url_to_file
from tessera.hub import load_state_dict_from_url as load_url

__all__ = ["_get_torch_home", "download_url_to_file", "load_url"]


def __getattr__(name):
    if name == "tqdm":  # other packages take the progress bar from here
        from tqdm.auto import tqdm

        return tqdm
    raise AttributeError(f"module 'torch.utils.model_zoo' has no attribute {name!r}")
