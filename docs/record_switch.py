# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Records `make demo` and keeps its switch of a pool as docs/images/switch.cast (asciicast v2) and switch.svg.

Ansible's own lines about tasks and hosts are left out, and pauses are shortened.

`make recording` calls it. With --cut it records nothing and uses the last recording. With --draw it draws switch.svg
from the switch.cast that is there.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import re
import subprocess
import typing as t

ROOT = pathlib.Path(__file__).resolve().parents[1]
PROGRAMS = ROOT / ".build" / "recording" / "bin"
CAST, PICTURE = ROOT / "docs" / "images" / "switch.cast", ROOT / "docs" / "images" / "switch.svg"
COLUMNS, ROWS = 122, 27

#: The parts of the demonstration that are kept: each begins at a line with the first text and ends before the second.
PARTS = (("── Switch the pool from", "── And back to"), ("packets sent in", "How long it took"))
LONGEST_PAUSE = 1.5  # seconds
LAST_PAUSE = 6000  # milliseconds for which the last screen stays
#: Lines that are left out.
_NOISE = re.compile(r"(?:ok|skipping|changed|included): |TASK |PLAY |node\d +: ok=|$")
#: The lines that show routes are kept of the first node alone.
_ROUTES = re.compile(r"(node\d)\$ ip route")
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")

#: An event of asciicast v2: seconds since the start, the kind ("o" is output), the data.
Event = t.Tuple[float, str, str]


def record(path: pathlib.Path) -> None:
    """Run the demonstration and write its recording to `path`. Raise CalledProcessError if it fails."""
    size = ["--cols", str(COLUMNS), "--rows", str(ROWS)]
    command = [str(PROGRAMS / "asciinema"), "rec", "--quiet", "--overwrite", *size, "-c", "tests/run/demo", str(path)]
    subprocess.run(command, cwd=ROOT, check=True)


def lines(events: t.Iterable[Event]) -> t.Iterator[t.Tuple[float, str]]:
    """Yield the lines of output, without their ends, each with the time of its last part."""
    pending, at = "", 0.0
    for at, kind, data in events:
        if kind != "o":
            continue
        *whole, pending = (pending + data).replace("\r\n", "\n").split("\n")
        for line in whole:
            yield at, line
    if pending:
        yield at, pending


def cut(events: t.Iterable[Event]) -> t.List[Event]:
    """Return the parts of the recording that are kept, line by line, with its pauses shortened.

    Raise ValueError if a part is missing.
    """
    kept: t.List[Event] = []
    parts = iter(PARTS)
    begin, end = next(parts)
    inside, shown, before, now = False, True, 0.0, 0.0
    for at, line in lines(events):
        text = _ESCAPES.sub("", line)
        if inside and end in text:
            inside = False
            begin, end = next(parts, ("", ""))
        if not inside and begin and begin in text:
            inside, before = True, at
        routes = _ROUTES.match(text)
        shown = routes[1] == "node1" if routes else shown or not text.startswith("  ")
        if inside and shown and not _NOISE.match(text):
            now += min(at - before, LONGEST_PAUSE)
            before = at
            kept.append((round(now, 3), "o", f"{line.replace(f'{ROOT}/', '')}\r\n"))
    if begin:
        raise ValueError(f"The demonstration did not print {begin!r} and, after it, {end!r}.")
    return kept


def write(events: t.Iterable[Event], path: pathlib.Path) -> None:
    """Write events as asciicast v2 with nothing of the machine in it that recorded them."""
    header = {"version": 2, "width": COLUMNS, "height": ROWS}
    text = [json.dumps(header), *(json.dumps(event, ensure_ascii=False) for event in events)]
    path.write_text("\n".join(text) + "\n", "utf-8")


def read(path: pathlib.Path) -> t.List[Event]:
    """Return the events of a recording in asciicast v2."""
    found = [json.loads(line) for line in path.read_text("utf-8").splitlines()[1:]]
    return [(float(at), str(kind), str(data)) for at, kind, data in found]


def draw() -> None:
    """Draw the picture from the kept recording. Raise CalledProcessError if that fails."""
    command = [str(PROGRAMS / "termtosvg"), "render", str(CAST), str(PICTURE), "-t", "gjm8", "-D", str(LAST_PAUSE)]
    subprocess.run(command, cwd=ROOT, check=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="Record make demo and draw its switch of a pool.")
    parser.add_argument("--cut", action="store_true", help="cut and draw the whole recording of the last time")
    parser.add_argument("--draw", action="store_true", help="draw from the recording that is there")
    options = parser.parse_args()
    whole = ROOT / ".build" / "demo.cast"
    if not (options.cut or options.draw):
        record(whole)
    if not options.draw:
        write(cut(read(whole)), CAST)
    draw()


if __name__ == "__main__":
    main()
