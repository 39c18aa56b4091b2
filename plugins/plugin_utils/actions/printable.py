# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What leaves an action, as a terminal can show it.

Ansible prints messages, warnings, diffs and, for a failed or an ad-hoc task, the whole result unchanged, and playbooks
quote registered results. Root on a node writes texts in them. Names that the collection accepts have no such
characters.
"""

from __future__ import annotations

import dataclasses
import re
import typing as t

from ansible.errors import AnsibleConnectionFailure, AnsibleError
from ansible_collections.baremetal.host_routing.plugins.module_utils.base import terminal_text

_IN_JSON = re.compile(r"[^\t\n\x20-\x7e]")


def shown(value: t.Any) -> t.Any:
    """Return `value` with every text in it escaped by terminal_text.text, also in keys and in Ansible's summaries.

    Mappings become dicts, and tuples lists, except in summaries. Values of other types are returned as they are.
    """
    if isinstance(value, str):
        text = terminal_text.text(value)
        return value if text == value else text
    if isinstance(value, t.Mapping):
        return {shown(key): shown(entry) for key, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [shown(entry) for entry in value]
    # Ansible 2.19 has a dataclass for each warning or error.
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _summary(value)
    return value


def _summary(value: t.Any) -> t.Any:
    changed: dict[str, t.Any] = {}
    for field in dataclasses.fields(value):
        before = getattr(value, field.name)
        after = shown(before)
        if after != before:
            changed[field.name] = tuple(after) if isinstance(before, tuple) else after
    return dataclasses.replace(value, **changed) if changed else value


def error(raised: Exception) -> Exception:
    """Return the exception to raise in the place of `raised`: itself, or an AnsibleError whose message is escaped.

    An AnsibleConnectionFailure stays one. Messages of connections and commands repeat what the node printed.
    """
    text = raised.message if isinstance(raised, AnsibleError) else str(raised)
    escaped = terminal_text.text(text)
    if escaped == text:
        return raised
    kind: type[Exception] = AnsibleConnectionFailure if isinstance(raised, AnsibleConnectionFailure) else AnsibleError
    return kind(escaped)


def json_text(text: str) -> str:
    r"""Return a module's output with all characters that are no ASCII text written as JSON does, such as `\u001b`.

    Inside the strings of a JSON document this means the same. Ansible prints what follows the document as a warning.
    The ends of lines that a pseudo-terminal writes stay.
    """
    return _IN_JSON.sub(_json_escape, text)


def _json_escape(found: re.Match[str]) -> str:
    code = ord(found.group())
    if code == 0x0D and found.string.startswith("\n", found.end()):
        return "\r"
    if code < 0x10000:
        return f"\\u{code:04x}"
    code -= 0x10000
    return f"\\u{0xD800 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"
