#!/usr/bin/env python3
"""Writes the tables of docs/costs.md from the figures in docs/figures. `make figures` calls it.

    scripts/costs.py           writes them
    scripts/costs.py --check   fails if they are not those of the figures

A table stands between `<!-- table: NAME -->` and `<!-- end -->`.
"""

import csv
import re
import sys
from pathlib import Path

DOCS = Path(__file__).resolve().parent.parent / "docs"
PAGE = DOCS / "costs.md"


def rows_of(name):
    with open(DOCS / "figures" / f"{name}.csv", newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def table(head, rows):
    """The first column has words, the others figures."""
    ruler = ["---"] + ["---:"] * (len(head) - 1)
    return "".join(f"| {' | '.join(row)} |\n" for row in [head, ruler, *rows])


def ratio(value, base):
    return f"{value / base:.2f} x"


def machine():
    facts = rows_of("machine")[0]
    server = re.sub(r" \(.*\)", "", facts["server"])
    machine = f"{server}, {facts['cores']} cores ({facts['processor']})"
    return f"Measured on {machine}. All figures of a table are from one run.\n"


def calls(name, base):
    rows = rows_of(name)
    ns = {row["call"]: float(row["ns"]) for row in rows}
    head = ["one call, net of the query around it", "ns", f"of `{base}`"]
    return table(head, ([f"`{call}`", f"{value:.1f}", ratio(value, ns[base])] for call, value in ns.items()))


def filling():
    rows = rows_of("filling")
    base = rows[0]
    figures = []
    for row in rows:
        cells = [f"`{row['key']}`"]
        for column in ["insert_seconds", "copy_seconds"]:
            cells += [f"{float(row[column]):.2f}", ratio(float(row[column]), float(base[column]))]
        figures.append([*cells, f"{float(row['primary_key_megabytes']):.1f}"])
    head = ["key", "`INSERT .. SELECT`, s", f"of {base['key']}", "`COPY`, s", f"of {base['key']}", "primary key, MB"]
    return table(head, figures)


def throughput():
    sessions, calls_of = {}, {}
    for row in rows_of("throughput"):
        sessions[row["sessions"]] = None
        calls_of.setdefault(row["call"], {})[row["sessions"]] = int(row["numbers_per_second"]) / 1e6
    head = ["million numbers per second", *(f"{count} session{'' if count == '1' else 's'}" for count in sessions)]
    return table(head, ([f"`{call}`", *(f"{of[count]:.1f}" for count in sessions)] for call, of in calls_of.items()))


def saturation():
    allowed = 4_096_000  # Of layout `standard`.
    rows = ([row["sessions"], f"{int(row['ids_per_second']):,}", f"{100 * int(row['ids_per_second']) / allowed:.1f} %"]
            for row in rows_of("saturation"))
    return table(["sessions", "IDs per second", "of what the layout allows"], rows)


def time(ns):
    if ns < 10_000:
        return f"{ns} ns"
    return f"{ns / 1e3:.1f} µs" if ns < 1_000_000 else f"{ns / 1e6:.1f} ms"


def latency(where):
    loads, percentiles = {}, {}
    for row in rows_of("latency"):
        if row["where"] == where:
            percentiles[row["percentile"]] = None
            calls_of = loads.setdefault(row["load"], {})
            calls_of.setdefault(row["call"], {})[row["percentile"]] = time(int(row["ns"]))
    names = {"100": "longest"}
    text = []
    for load, calls_of in loads.items():
        head = [load, *(names.get(each, f"{each} %") for each in percentiles)]
        text.append(table(head, ([call, *(of[each] for each in percentiles)] for call, of in calls_of.items())))
    return "\n".join(text)


TABLES = {
    "machine": machine,
    "calls": lambda: calls("calls", "nextval()"),
    "reading": lambda: calls("reading", "to_timestamp(double precision)"),
    "showing": lambda: calls("showing", "encode(int8send(id), 'hex')"),
    "filling": filling,
    "throughput": throughput,
    "saturation": saturation,
    "latency in the server": lambda: latency("server"),
    "latency for a client": lambda: latency("client"),
}


def main():
    page = PAGE.read_text(encoding="utf-8")
    mark = re.compile(r"(<!-- table: (.+?) -->\n\n).*?(\n?<!-- end -->)", re.DOTALL)
    missing = set(TABLES) - {found[1] for found in mark.findall(page)}
    if missing:
        sys.exit(f"{PAGE.name} has no place for: {', '.join(sorted(missing))}")
    written = mark.sub(lambda found: f"{found[1]}{TABLES[found[2]]()}\n<!-- end -->", page)
    if sys.argv[1:] == ["--check"]:
        if written != page:
            sys.exit("docs/costs.md has other figures than docs/figures: run scripts/costs.py")
    else:
        PAGE.write_text(written, encoding="utf-8")


main()
