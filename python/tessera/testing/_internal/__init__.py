"""What tests of other libraries take from PyTorch's own: `common_utils.TestCase` and what goes with it."""
