"""What can be had of a model hub, without waiting for it."""

import socket
from urllib.parse import urlparse
from urllib.request import getproxies

import huggingface_hub

from .errors import ModelError


def cached(name: str, file: str = "config.json") -> bool:
    """Whether a model, told by one of its files, is in the local cache of the hub.

    Raises
    ------
    ModelError
        If the name can be no hub id.
    """
    try:
        return isinstance(huggingface_hub.try_to_load_from_cache(name, file), str)
    except huggingface_hub.errors.HFValidationError as error:
        raise ModelError(f"model {name!r} is neither a local folder nor a valid hub id: check the name") from error


def answers() -> bool:
    """Whether the hub's name resolves. transformers alone would retry for half a minute before it gives up."""
    if huggingface_hub.constants.HF_HUB_OFFLINE:
        return False
    if getproxies():
        return True
    try:
        socket.getaddrinfo(urlparse(huggingface_hub.constants.ENDPOINT).hostname, 443)
    except OSError:
        return False
    return True
