"""Backends of torch.compile: what runs captured graphs."""
