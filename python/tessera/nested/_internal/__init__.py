"""How nested tensors are made and what operators do with them."""
