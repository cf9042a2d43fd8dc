"""ChannelShuffle."""

from tessera.nn import functional as F

from ._declared import layer
from .module import Module

__all__ = ["ChannelShuffle"]


@layer("groups", "F.channel_shuffle(input, groups)", "groups=")
class ChannelShuffle(Module):
    """Interleaves the channels of `groups` groups of (N, C, *)."""
