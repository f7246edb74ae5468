"""The proof that merging, packing and distributing change no gradient: a real model, autograd, and the losses in use.

Needs PyTorch, which is not among the project's dependencies: `.ci/trainer` (or `make trainer`) makes an environment and runs it there.
"""
