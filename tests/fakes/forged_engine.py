# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The packed engine of this clone, and packed engines with other content than the builder gave them."""

from __future__ import annotations

import functools
import json
import pathlib
import typing as t
import zlib

from ansible_collections.baremetal.host_routing.plugins.module_utils.node.engine import bundle
from ansible_collections.baremetal.host_routing.plugins.module_utils.node.engine.carried_start import PackedEngine


@functools.cache
def whole_engine() -> PackedEngine:
    """Return this clone's engine as the controller packs it. It is built once in a process, since it takes seconds."""
    return bundle.build(str(pathlib.Path(bundle.__file__).resolve().parents[2]))


def forged(
    packed: PackedEngine,
    interpreter: t.Optional[str] = None,
    sources: t.Optional[t.Mapping[str, bytes]] = None,
    byte_code: t.Optional[t.Mapping[str, bytes]] = None,
) -> PackedEngine:
    """Return an engine like `packed`, with a sha256 of its own, in which other values replace those of the builder.

    `interpreter` is what it says about its byte code. `sources` and `byte_code` have contents by the paths of sources;
    a path that `packed` does not have is added.
    """
    line, dummy, rest = zlib.decompress(packed.data).partition(b"\n")
    head = json.loads(line)
    at, pieces = 0, []
    for size in [one[1] for one in head["files"]] + [one[2] for one in head["files"]]:
        pieces.append(rest[at : at + size])
        at += size
    names = [one[0] for one in head["files"]]
    texts = {**dict(zip(names, pieces)), **(sources or {})}
    codes = {**dict(zip(names, pieces[len(names) :])), **(byte_code or {})}
    files = [(name, texts.get(name, b""), codes.get(name, b"")) for name in {**texts, **codes}]
    line = json.dumps(
        {
            "interpreter": head["interpreter"] if interpreter is None else interpreter,
            "files": [(name, len(text), len(code)) for name, text, code in files],
        }
    ).encode()
    contents = [text for dummy, text, code in files] + [code for dummy, text, code in files]
    return PackedEngine.from_data(zlib.compress(b"".join((line, b"\n", *contents)), 1))
