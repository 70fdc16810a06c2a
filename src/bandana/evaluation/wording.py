"""What verdicts call the things that they speak of."""

from bandana.evaluation.link_quality import DECODER

WORDS = {
    "shared neighbours": "Counting shared neighbours",
    "Adamic-Adar": "Counting shared neighbours by Adamic-Adar",
    "resource allocation": "Counting shared neighbours by resource allocation",
    "popularity of the ends": "Multiplying the degrees of the two ends",
    "untrained encoder": "The same encoder without any training",
    "raw features": "Reading the plain features",
    DECODER: "The method's own decoder",
}


def in_words(name: str) -> str:
    """A floor as it stands at the beginning of a sentence."""
    return WORDS.get(name, name)


def inside(name: str) -> str:
    """A floor as it stands within a sentence."""
    words = in_words(name)
    return words[0].lower() + words[1:]


def how_many(number: int, thing: str) -> str:
    """So many of a thing, such as ``1 link`` or ``1,200 links``."""
    return f"{number:,} {thing}{'' if number == 1 else 's'}"
