"""`salt.loader.dunder`: the dunder names as values that follow the call that runs now."""

from saltlite.salt.loader.context import LoaderContext

loader_context = LoaderContext()

__file_client__ = loader_context.named_context("__file_client__", default=None)
__opts__ = loader_context.named_context("__opts__")
__context__ = loader_context.named_context("__context__")
__pillar__ = loader_context.named_context("__pillar__")
__grains__ = loader_context.named_context("__grains__")
__salt__ = loader_context.named_context("__salt__")
__utils__ = loader_context.named_context("__utils__")
