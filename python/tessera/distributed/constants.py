"""How long groups wait unless told otherwise."""

from datetime import timedelta

__all__ = ["default_pg_nccl_timeout", "default_pg_timeout"]

default_pg_timeout = timedelta(minutes=30)
default_pg_nccl_timeout = timedelta(minutes=10)
_DEFAULT_PG_TIMEOUT, _DEFAULT_PG_NCCL_TIMEOUT = default_pg_timeout, default_pg_nccl_timeout
