"""How much agents say."""

__all__ = ["get_log_level"]


def get_log_level():
    """The level of agents' logs where LOGLEVEL is not set."""
    return "WARNING"
