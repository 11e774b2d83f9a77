"""A text with each token shaded by its local margin."""

import html

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..models import Text

FULL = 6.0  # nats at which the shade is deepest
DEEPEST = 0.5  # opacity there; the page's own text colour stays readable on it, light or dark


def shade(text: Text, state: ArrayLike, margins: NDArray[np.float64]) -> str:
    """HTML of one state: blue where the token is the likeliest there, orange and underlined where another is likelier.

    The number stands in each token's ``title``. The backgrounds are translucent and the text keeps the page's colour, so
    that it can be read on a light and on a dark page.

    Parameters
    ----------
    text : Text
        For the token strings.
    state : array of int, shape (n,)
    margins : array of float, shape (n,)
        Nats, from `glauber.escape.local_margins`.
    """
    ids = [int(i) for i in np.asarray(state)]
    names = text.tokens(ids)
    marked = any(name.startswith(("Ġ", "▁")) for name in names)  # tokenizers that mark the start of a word
    pieces = []
    for place, (i, name, margin) in enumerate(zip(ids, names, margins, strict=True)):
        joined = name.startswith("##") or (marked and not name.startswith(("Ġ", "▁")))
        shown = name.removeprefix("##") if name.startswith("##") else text.decode([i]).strip() or name
        pieces.append("" if joined or place == 0 else " ")
        pieces.append(_span(shown, float(margin), f"{name}: margin {margin:+.2f} nats"))
    legend = " ".join(_span(f"{m:+g}", m, f"margin {m:+g} nats") for m in (-3.0, 1.0, 3.0, FULL))
    return (
        f'<p style="line-height: 1.9">{"".join(pieces)}</p>'
        f'<p style="font-size: 80%">local margin in nats: {legend}; underlined: another token is likelier</p>'
    )


def _span(shown: str, margin: float, title: str) -> str:
    colour = "0, 114, 178" if margin >= 0 else "213, 94, 0"
    opacity = DEEPEST * min(abs(margin), FULL) / FULL
    line = "" if margin >= 0 else "; text-decoration: underline dotted"
    return (
        f'<span title="{html.escape(title, quote=True)}" style="background: rgba({colour}, {opacity:.2f}); '
        f'padding: 0.1em 0.15em; border-radius: 0.2em{line}">{html.escape(shown)}</span>'
    )
