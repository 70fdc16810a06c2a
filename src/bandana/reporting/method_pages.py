"""A method's page in Markdown, put together from what the method says itself: docstring, facts, options and recipe."""

import ast
import inspect
import re
import sys
import textwrap
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from itertools import chain, groupby
from typing import Any, Literal, NamedTuple, get_args, get_origin, get_type_hints

from bandana.method import Method

Book = Mapping[str, Any]
"""A recipe file as it was read: ``sources``, and for each task the options of each data set."""

_SECTIONS = re.compile(r"^(?:(Idea)\.|(?=(Equations)\b)|(Paper):|(Deviations):)", flags=re.MULTILINE)
_LETTERS = "abcdefghijklmnopqrstuvwxyz"


class Option(NamedTuple):
    """One option of a configuration, with its dotted name."""

    name: str
    default: Any
    choices: tuple[Any, ...]
    explanation: str


def method_page(name: str, method: type[Method], book: Book) -> str:
    """The page of one method.

    Args:
        name: What it is registered as.
        method: Its class, which names facts and configuration.
        book: Its recipes.
    """
    facts, told = method.facts, _sections(sys.modules[method.__module__].__doc__ or "")
    parts = [
        f"# {name}",
        f"{_first_paragraph(method.__doc__)} Family: {facts.family}. Tasks: {', '.join(facts.tasks)}.",
        f"Cost of an epoch: {facts.cost}.",
        *(f"## {heading}\n\n{text}" for heading, text in told.items()),
        f"## Options\n\n{_first_paragraph(method.Config.__doc__)}\n\n{_option_table(list(options(method.Config())))}",
        *_recipe_sections(book),
        f"Source: `src/bandana/methods/{method.__module__.rpartition('.')[2]}.py`. "
        "This page is written by `bandana methods --write-docs docs/methods`.",
    ]
    return "\n\n".join(parts) + "\n"


def index_page(methods: Mapping[str, type[Method]]) -> str:
    """A table of all methods by family, each with a link to its page."""
    rows = ["| method | year | tasks | cost of an epoch | paper |", "|---|---|---|---|---|"]
    for family, members in groupby(in_families(methods), key=lambda name: methods[name].facts.family):
        rows.append(f"| **{family}** | | | | |")
        for name in members:
            facts = methods[name].facts
            cells = [f"[{name}]({name}.md)", str(facts.year), ", ".join(facts.tasks), facts.cost, facts.paper]
            rows.append(f"| {' | '.join(map(_cell, cells))} |")
    intro = "Each page is put together from the method's own file and its recipes, by `bandana methods --write-docs`."
    return "\n\n".join(["# Methods", intro, "\n".join(rows)]) + "\n"


def in_families(methods: Mapping[str, type[Method]]) -> list[str]:
    """Names of methods, those of a family together, the oldest family and the oldest member first, floors last."""
    facts = {name: method.facts for name, method in methods.items()}
    founded: dict[str, int] = {}
    for fact in facts.values():
        founded[fact.family] = min(fact.year, founded.get(fact.family, fact.year))

    def place(name: str) -> tuple[bool, int, str, int, str]:
        fact = facts[name]
        return fact.family == "floor", founded[fact.family], fact.family, fact.year, name

    return sorted(methods, key=place)


def options(config: Any, prefix: str = "") -> Iterator[Option]:
    """Every option of a configuration and of the configurations inside it, with its default and its explanation."""
    bases = (base for base in reversed(type(config).__mro__) if is_dataclass(base))
    explanations = {name: text for base in bases for name, text in _attribute_docstrings(base).items()}
    hints = get_type_hints(type(config))
    for field in fields(config):
        value = getattr(config, field.name)
        if is_dataclass(value):
            yield from options(value, f"{prefix}{field.name}.")
        else:
            hint = hints[field.name]
            members = [hint] if get_origin(hint) is Literal else get_args(hint)  # of `Literal[…] | None`
            choices = tuple(chain(*(get_args(member) for member in members if get_origin(member) is Literal)))
            yield Option(f"{prefix}{field.name}", value, choices, explanations.get(field.name, ""))


def _sections(docstring: str) -> dict[str, str]:
    """The docstring cut at its headings; what stands before the first is the one-line summary and is left out."""
    text = inspect.cleandoc(docstring)
    found = list(_SECTIONS.finditer(text))
    ends = [*(match.start() for match in found[1:]), len(text)]
    return {
        str(match[match.lastindex or 0]): _markdown(text[match.end() : end])
        for match, end in zip(found, ends, strict=True)
    }


def _markdown(text: str) -> str:
    """Paragraphs as they are, and what is indented as a block of code."""
    blocks = []
    for indented, group in groupby(text.strip("\n").splitlines(), key=lambda line: line.startswith("    ")):
        lines = "\n".join(group).strip("\n")
        if lines.strip():
            blocks.append(f"```\n{textwrap.dedent(lines)}\n```" if indented else _sentence(lines.strip()))
    return "\n\n".join(blocks)


def _sentence(text: str) -> str:
    """With a capital, unless it begins with the name of a file."""
    return text if "/" in text.split()[0] else text[0].upper() + text[1:]


def _option_table(found: list[Option]) -> str:
    if not found:
        return "It has none."
    rows = ["| option | default | meaning |", "|---|---|---|"]
    for option in found:
        choices = f"One of {', '.join(f'`{_value(choice)}`' for choice in option.choices)}." if option.choices else ""
        meaning = " ".join(filter(None, [option.explanation, choices]))
        default = "not set" if option.default is None else f"`{_value(option.default)}`"
        rows.append(f"| `model.{option.name}` | {default} | {_cell(meaning)} |")
    return "\n".join(rows)


def _recipe_sections(book: Book) -> Iterator[str]:
    """One table per task, options down and data sets across, with a letter at each value for where it comes from."""
    letters = dict(zip(book["sources"], _LETTERS, strict=False))
    titles = {"node": "Recipes for node classification", "link": "Recipes for link prediction"}
    for task, title in titles.items():
        if task not in book:
            continue
        columns: dict[str, Mapping[str, Any]] = dict(book[task])
        names = dict.fromkeys(option for entries in columns.values() for option in entries)
        rows = [f"| option | {' | '.join(columns)} |", "|---" * (len(columns) + 1) + "|"]
        for option in names:
            cells = (_recipe_cell(entries.get(option), letters) for entries in columns.values())
            rows.append(f"| `{option}` | {' | '.join(cells)} |")
        yield "\n".join([f"## {title}\n", *rows])
    legend = [f"- {letters[key]}: {text}" for key, text in book["sources"].items()]
    yield "\n".join(["An empty cell takes the value under `defaults`, or else the option's own. Sources:\n", *legend])


def _recipe_cell(entry: tuple[Any, str] | None, letters: Mapping[str, str]) -> str:
    return "" if entry is None else f"{_cell(_value(entry[0]))} ({letters[entry[1]]})"


def _value(value: Any) -> str:
    """As it would be written after ``--set option=``."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_value, value))}]"
    return f"{value:g}" if isinstance(value, float) else str(value)


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _first_paragraph(docstring: str | None) -> str:
    return " ".join(inspect.cleandoc(docstring or "").split("\n\n")[0].split())


def _attribute_docstrings(cls: type) -> dict[str, str]:
    """The string that follows each annotated attribute in the class body, which Python itself does not keep."""
    (body,) = ast.parse(textwrap.dedent(inspect.getsource(cls))).body
    assert isinstance(body, ast.ClassDef)
    found = {}
    for attribute, following in zip(body.body, body.body[1:], strict=False):
        if not (isinstance(attribute, ast.AnnAssign) and isinstance(attribute.target, ast.Name)):
            continue
        if isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant):
            found[attribute.target.id] = " ".join(str(following.value.value).split())
    return found
