# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The tokens of etcd that went through the gate, by which it knows the user of a request."""

from __future__ import annotations

import typing as t

from ...base.typed_json import parse_table
from .. import gateway

#: The most tokens of a user that are remembered: a node's agent has one, and each command another.
_TOKENS = 16


class Tokens:
    """The users of the tokens that went through the gate."""

    def __init__(self) -> None:
        self._users: dict[str, str] = {}
        self._of: dict[str, dict[str, None]] = {}  # those of each user, the one that was used least recently first

    def note(self, request: bytes, answer: bytes) -> None:
        """Remember the token in the answer to an authentication, and forget the user's least used one."""
        try:
            token = gateway.token_of(gateway.decode(answer))
        except gateway.EtcdError:
            return
        user = str(parse_table(request).get("name", ""))
        mine = self._of.setdefault(user, {})
        mine[token] = None
        self._users[token] = user
        if len(mine) > _TOKENS:
            self.forget(next(iter(mine)))

    def user(self, token: str) -> t.Optional[str]:
        """Return the user of a token, None if it is not known."""
        user = self._users.get(token)
        if user is not None:
            mine = self._of[user]
            mine[token] = mine.pop(token)
        return user

    def forget(self, token: str) -> None:
        """Forget a token that the member does not know any more, if it is known here."""
        user = self._users.pop(token, None)
        if user is not None:
            del self._of[user][token]
            if not self._of[user]:
                del self._of[user]
