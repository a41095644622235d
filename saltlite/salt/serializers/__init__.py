"""`salt.serializers`: data as text and back."""

from saltlite.salt.exceptions import SaltException, SaltRenderError


class DeserializationError(SaltRenderError, RuntimeError):
    """A text cannot be read."""


class SerializationError(SaltException, RuntimeError):
    """Data cannot be written."""
