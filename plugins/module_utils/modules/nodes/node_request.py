# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""What the action of the module node adds to a task, as one packed option."""

from __future__ import annotations

import dataclasses
import typing as t

from ...base import packed_json
from ...base.typed_json import Unreadable, anything, items, maybe, secret, table, text, whole

#: A path to probe: address, size in bytes, name of the node, pool and source address.
PathToProbe = tuple[str, int, str, str, str]


@dataclasses.dataclass(frozen=True)
class NodeRequest:
    """The part of a call that the user does not write.

    `phases` are those that lead to the state, for their plans in check mode: each has its name as `phase`, a NodeState
    as `state`, and `bird_config`, the content of bird.cfg or None. `bgp_passwords` and `datastore` are packed, see
    `bgp.passwords` and `node.write.datastore_files`. `change` is the name with which the change is confirmed.
    `absent_nodes` do not take part in the run. `targets` are the paths to probe, and `secret` is the run's for them, in
    hexadecimal digits. `engine_digest` is that of the
    engine that the node shall have, "" for its own. `engine` is the path on the node of a packed engine with the
    SHA-256 `engine_sha256`, "" if none was sent. `previous` is what the node reverts to if its address changes: its
    stored state with the new address as `state`, and the `bird_config` of that; empty if the address stays.
    """

    phases: t.Sequence[t.Mapping[str, t.Any]] = ()
    bgp_passwords: str = ""
    datastore: str = ""
    change: str = ""
    absent_nodes: t.Sequence[str] = ()
    targets: t.Sequence[PathToProbe] = ()
    secret: str = ""
    engine_digest: str = ""
    engine: str = ""
    engine_sha256: str = ""
    previous: t.Mapping[str, t.Any] = dataclasses.field(default_factory=dict)

    def pack(self) -> str:
        """Return the request as text without its defaults, "" if it has nothing else."""
        fields = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        asked = {name: value for name, value in fields.items() if value}
        return packed_json.pack(asked) if asked else ""

    @classmethod
    def unpack(cls, packed: t.Optional[str]) -> NodeRequest:
        """Return the request that `pack` packed, one with nothing for None and "". Raise ValueError for other texts.

        The error shows none of the secrets. States are not looked into.
        """
        if not packed:
            return cls()
        try:
            return cls(**_REQUEST(packed_json.unpack(packed)))
        except ValueError as error:
            raise ValueError(f"request: {error}. The module's action makes the request.") from None


def _target(value: t.Any) -> PathToProbe:
    if not isinstance(value, list) or len(value) != 5:
        raise Unreadable("", "not an address, a size, a name, a pool and a source address")
    name = text(253)
    return text(64)(value[0]), whole(0, 65_535)(value[1]), name(value[2]), name(value[3]), text(64)(value[4])


_PHASE = table({"phase": text(32), "state": anything}, {"bird_config": maybe(text(packed_json.LIMIT))})
_REQUEST = table(
    {},
    {
        "phases": items(_PHASE, 16),
        "bgp_passwords": secret(packed_json.LIMIT),
        "datastore": secret(packed_json.LIMIT),
        "change": text(64),
        "absent_nodes": items(text(253)),
        "targets": items(_target),
        "secret": secret(64),
        "engine_digest": text(64),
        "engine": text(),
        "engine_sha256": text(64),
        "previous": table({"state": anything}, {"bird_config": maybe(text(packed_json.LIMIT))}),
    },
)
