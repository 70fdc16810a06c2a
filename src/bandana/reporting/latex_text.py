"""Any text as LaTeX, without a sign that it would read as a command or could not set."""

import unicodedata

_MATH = dict(
    zip(
        "<>|±×−στεαμ²³·≤≥≈→∞",
        (
            *("<", ">", "|", r"\pm", r"\times", "-", r"\sigma", r"\tau", r"\varepsilon", r"\alpha", r"\mu"),
            *("^2", "^3", r"\cdot", r"\le", r"\ge", r"\approx", r"\to", r"\infty"),
        ),
        strict=True,
    )
)
_TEXT = dict(
    zip(
        "\\~^–—…‰’‘“”",
        (
            *(r"\textbackslash{}", r"\textasciitilde{}", r"\textasciicircum{}", "--", "---", r"\ldots{}"),
            *("per~mille", "'", "`", "``", "''"),
        ),
        strict=True,
    )
)
_LATEX = {
    **{sign: f"\\{sign}" for sign in "&%$#_{}"},
    **{sign: f"${math}$" for sign, math in _MATH.items()},
    **_TEXT,
    "\n": " ",
}


def escaped(text: str) -> str:
    """Text without a character that LaTeX would read as a command or could not set; an option keeps both hyphens."""
    parts = text.split("--")
    return "-{}-".join("".join(_LATEX.get(sign) or _plain(sign) for sign in part) for part in parts)


def _plain(sign: str) -> str:
    return sign if ord(sign) < 0x180 else _named(sign)


def _named(sign: str) -> str:
    return f"[{unicodedata.name(sign, 'sign').lower()}]"
