"""Starting texts: the embedded passages, any local file, or MS MARCO from the hub; and states cut from them."""

from .reading import EMBEDDED, Passage, read_passages
from .starts import MAX_DROPPED, Starts, account, common_states, starting_states

__all__ = [
    "EMBEDDED",
    "MAX_DROPPED",
    "Passage",
    "Starts",
    "account",
    "common_states",
    "read_passages",
    "starting_states",
]
