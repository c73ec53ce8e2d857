#!/usr/bin/env python3
"""A preprocessor of mdBook: mends links that are right in the repository and would lead nowhere in the book.

    README.md of a folder    is index.html in the book
    files beside the pages   are not in the book, as source code: a link to one becomes its path
"""

import json
import os
import re
import sys

LINK = re.compile(r"\[([^\[\]]*)\]\(([^()\s]+)\)")
FENCE = re.compile(r"(^```.*?^```$)", re.DOTALL | re.MULTILINE)
COPIED = (".svg", ".csv")


def chapters(items):
    for item in items:
        if "Chapter" in item:
            yield item["Chapter"]
            yield from chapters(item["Chapter"]["sub_items"])


def mended(link, page, pages):
    text, target = link.groups()
    path, mark, anchor = target.partition("#")
    if not path or ":" in path:
        return link[0]
    found = os.path.normpath(os.path.join(os.path.dirname(page), path))
    if found in pages:
        if os.path.basename(found) == "README.md":
            path = path.removesuffix("README.md") + "index.md"
        return f"[{text}]({path}{mark}{anchor})"
    if found.endswith(COPIED) and not found.startswith(".."):
        return link[0]
    found = os.path.normpath(os.path.join("docs", found))
    return f"`{found}`" if found.endswith(text.strip("`")) else f"{text} (`{found}`)"


def main():
    if sys.argv[1:2] == ["supports"]:
        return
    _, book = json.load(sys.stdin)
    pages = {chapter["source_path"] for chapter in chapters(book["items"])}
    for chapter in chapters(book["items"]):
        parts = FENCE.split(chapter["content"])
        # Every other one is code.
        parts[::2] = [LINK.sub(lambda link: mended(link, chapter["source_path"], pages), part) for part in parts[::2]]
        chapter["content"] = "".join(parts)
    json.dump(book, sys.stdout)


main()
