"""Thread-local variables of small calls."""

# They lie in the thread's static block beside the dispatcher's state (tensor/core/dispatch_key.h): a load instead of a call, of which a small operator made a dozen.
TLS_COPTS = ["-ftls-model=initial-exec"]
