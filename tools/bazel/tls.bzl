"""Thread-local variables of small calls."""

# They lie in the thread's static block beside the dispatcher's state (tensor/core/dispatch_key.h): a load instead of a call, of which a small operator made a dozen. Not for
# libraries that //python:_cuda links, too: the block of cudart, which it holds, has no room there.
TLS_COPTS = ["-ftls-model=initial-exec"]
