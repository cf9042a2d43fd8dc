"""The older name of `hub.load_state_dict_from_url`."""

from tessera.hub import load_state_dict_from_url as load_url

__all__ = ["load_url"]
