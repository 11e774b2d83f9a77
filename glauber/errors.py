"""The errors of this package: each names the thing, the value and the remedy in one sentence."""


class GlauberError(Exception):
    """Base of every error that this package raises on purpose."""

    def _render_traceback_(self) -> list[str]:
        # IPython calls this hook: in a notebook the sentence is the whole message, since the fault lies in
        # the input and a traceback through our code would only bury it.
        return [f"{type(self).__name__}: {self}"]


class ParameterError(GlauberError):
    """A notebook or function parameter is unknown, missing, or outside its range."""


class ModelError(GlauberError):
    """A model cannot be loaded, is not a masked language model, or cannot take this input."""


class PassageError(GlauberError):
    """Starting texts cannot be read or are too short."""


class EmbeddingError(GlauberError):
    """A sentence model cannot be loaded, or cannot take a text."""


class RunError(GlauberError):
    """A run directory holds something else, is damaged, or cannot be written."""
