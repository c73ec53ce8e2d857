#!/usr/bin/env python3
"""Checks a site on disk: each link and each anchor leads somewhere, and no page loads anything from elsewhere.

    scripts/book_check.py target/book
"""

import re
import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADED = {"src", "srcset", "data", "poster"}


class Page(HTMLParser):
    def __init__(self, text):
        super().__init__()
        self.anchors, self.links, self.loaded = set(), [], []
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        for name, value in attributes:
            if name == "id" or (name == "name" and tag == "a"):
                self.anchors.add(value)
            elif name in LOADED or (name == "href" and tag == "link"):
                # What stands behind the address in a srcset is a width.
                self.loaded += [part.split()[0] for part in value.split(",")] if name == "srcset" else [value]
            elif name == "href":
                self.links.append(value)


def is_elsewhere(address):
    parts = urlsplit(address)
    return parts.scheme not in ("", "data") or bool(parts.netloc)


def problems(site):
    pages = {file.resolve(): Page(file.read_text(encoding="utf-8")) for file in site.rglob("*.html")}
    if not pages:
        yield f"{site}: no pages"
    for file, page in pages.items():
        name = file.relative_to(site.resolve())
        for address in page.loaded:
            if is_elsewhere(address):
                yield f"{name}: loads {address}"
        for address in page.links + page.loaded:
            if is_elsewhere(address) or address.startswith("data:"):
                continue
            parts = urlsplit(address)
            target = (file.parent / unquote(parts.path)).resolve() if parts.path else file
            if target.is_dir():
                target /= "index.html"
            if not target.exists():
                yield f"{name}: {address} leads nowhere"
            elif parts.fragment and target in pages and unquote(parts.fragment) not in pages[target].anchors:
                yield f"{name}: {address} has no such anchor"
    for file in site.rglob("*.css"):
        text = re.sub(r"/\*.*?\*/", "", file.read_text(encoding="utf-8"), flags=re.DOTALL)
        for address in re.findall(r"(?:url\(|@import)\s*['\"]?([^'\")\s]+)", text):
            if is_elsewhere(address):
                yield f"{file.relative_to(site)}: loads {address}"


def main():
    found = sorted(set(problems(Path(sys.argv[1]))))
    print("\n".join(found), end="\n" if found else "", file=sys.stderr)
    sys.exit(bool(found))


main()
