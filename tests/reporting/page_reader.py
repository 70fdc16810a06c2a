"""An HTML page as its elements, texts and scripts, read by the standard library."""

import json
from collections import Counter
from html.parser import HTMLParser
from typing import Any

VOID = {"meta", "link", "input", "path", "rect", "circle"}


class Reader(HTMLParser):
    """Counts elements, keeps the texts, and insists that every element is closed where it should be."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: Counter[tuple[str, tuple[str, ...]]] = Counter()
        self.attributes: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.texts: list[str] = []
        self.scripts: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements[tag, tuple(sorted(name for name, _ in attrs))] += 1
        self.attributes.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)
        if tag == "script":
            self.scripts.append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in VOID
        self.handle_starttag(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1:] == ["script"]:
            self.scripts[-1] += data
        elif self.open[-1:] != ["style"]:
            self.texts.append(data)

    @property
    def map_data(self) -> dict[str, Any]:
        return json.loads(self.scripts[0])
