# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The watch: which paths to probe in this second, and which of them are down.

It has no clock and no socket. The caller calls `tick` once a second, after it passed on what had arrived, and sends the
probes that `tick` returns.

A probe is lost if no answer came within a second. A path is down after LOSSES lost probes in a row over at least
DOWN_SECONDS, and up after the first answer, or again after ANSWERS in a row. A path with a loss is suspected: it is
probed each second, as far as the rate permits, until it is known whether it is down.
"""

from __future__ import annotations

import typing as t

from ..state.derived import path_loss
from ..state.derived.path_loss import REASONS
from ..state.derived.probe_paths import ProbePath
from . import schedule
from .paths import DOWN, UP, PathTable
from .payload import SESSION_BEGINNING, Payload
from .round_trips import RoundTrips

#: The losses in a row, and the seconds from the first lost probe on, after which a path is down.
LOSSES, DOWN_SECONDS = 5, 5.0
#: The answers in a row after which a path that was down is up.
ANSWERS = 2
#: The seconds after which a probe without an answer is lost. Ticks are a second apart, but not exactly.
PATIENCE = 0.9
#: The seconds between two probes of a path that is down, at least.
_RETRY = 5.0
#: The most paths that wait at a time to be probed each second. Others are suspected again in the next round.
_SUSPECTS = 64
#: The most paths that one tick looks at to find those that are down.
_LOOKED_AT = 512
#: An answer to an earlier probe counts as long as no more than this many were sent after it.
_LATE = 8
#: The other end hears probes if it has heard one of the last so many. Both ends read and send once a second.
_BEHIND = 3
_THERE, _BACK = map(path_loss.DIRECTIONS.index, (path_loss.THERE, path_loss.BACK))


class Probe(t.NamedTuple):
    """A probe to send: the whole packet has `size` bytes. `path` is its number in `PathWatch.table`."""

    path: int
    source: str
    address: bytes
    size: int
    payload: Payload


class PathWatch:
    """The watch over the paths of one node. `session` are 8 random bytes, by which answers are recognised.

    Times are in seconds of one clock, which never goes back.
    """

    def __init__(self, session: bytes) -> None:
        self.session = session
        self.table = PathTable()
        self.round = schedule.Round(())
        self.round_trips: dict[str, RoundTrips] = {}
        self._fast: list[int] = []
        self._under_way: list[int] = []
        self._looked = 0
        self._ticked: t.Optional[float] = None

    def update(self, paths: t.Sequence[ProbePath]) -> None:
        """Watch these paths from now on. What is known of a path with the same source and address stays."""
        earlier, self.table = self.table, PathTable(paths)
        self.table.keep(earlier)
        place = self.table.position
        self._fast, self._under_way = (
            [place[earlier.addresses[path]] for path in old if earlier.addresses[path] in place]
            for old in (self._fast, self._under_way)
        )
        self.round = schedule.Round(self.table.ranges(), int.from_bytes(self.session[-4:], "big"))
        self.round_trips = {name: self.round_trips.get(name) or RoundTrips() for name in self.table.names}
        self._looked = 0

    def tick(self, now: float) -> list[Probe]:
        """Judge the probes of earlier ticks, and return those to send now: at most PACKETS."""
        table = self.table
        under_way, self._under_way = self._under_way, []
        for path in under_way:
            if not table.waiting[path]:
                continue
            if now - table.sent_at[path] < PATIENCE:
                self._under_way.append(path)
                continue
            table.waiting[path] = 0
            self._lose(path, now)
        self.round.add(0.0 if self._ticked is None else max(0.0, min(now - self._ticked, 2.0)))
        self._ticked = now
        return [self._probe(path, now) for path in self._chosen(now)]

    def answered(self, sender: bytes, payload: Payload, now: float, arrived: float) -> None:
        """Count an answer from the address `sender`, which arrived at `arrived`. An answer to no probe is ignored."""
        table = self.table
        path = table.position.get(sender)
        if path is None or payload.session != self.session:
            return
        if not table.answered[path] < payload.number <= table.number[path] < payload.number + _LATE:
            return
        table.answered[path] = payload.number
        if payload.number == table.number[path]:
            table.waiting[path] = 0
            self.round_trips[table.names[table.pool[path]]].add(arrived - payload.sent_at)
        table.lost[path] = table.reason[path] = table.by[path] = 0
        table.good[path] = min(table.good[path] + 1, 255)
        if table.state[path] != DOWN or table.good[path] >= ANSWERS:
            table.state[path] = UP
        else:
            self._hurry(path)

    def requested(self, sender: bytes, payload: Payload, now: float) -> None:
        """Note a probe from the address `sender`, and what it says that its node heard from here."""
        table = self.table
        path = table.position.get(sender)
        if path is None:
            return
        session = int.from_bytes(payload.session[:SESSION_BEGINNING], "big")
        table.heard_session[path], table.heard[path], table.heard_at[path] = session, payload.number, now
        if table.lost[path] and now >= table.lost_at[path] + PATIENCE:
            own = payload.heard_session == self.session[:SESSION_BEGINNING]
            lately = max(table.lost_number[path], table.number[path] - _BEHIND)
            table.way[path] = _BACK if own and payload.heard >= lately else _THERE
            table.untold[path] = 0

    def refused(self, path: int, reason: str, by: str = "") -> None:
        """Note that the kernel refused to send the last probe of `path`, for one of REASONS."""
        table = self.table
        table.reason[path], table.by[path] = REASONS.index(reason) + 1, table.speaker(by)
        table.quiet[path] = 0

    def error(self, address: bytes, number: int, reason: str, by: str) -> None:
        """Note that `by` reported one of REASONS about a probe to `address`; `number` are the last 16 bits of its own.

        It explains a loss, and makes none. An error about none of the last probes is ignored.
        """
        path = self.table.position.get(address)
        if path is None or (self.table.number[path] - number) & 0xFFFF >= _LATE:
            return
        self.refused(path, reason, by)

    def forgive(self) -> None:
        """Stop waiting for the probes under way, without counting them as lost, after answers were dropped unread."""
        for path in self._under_way:
            self.table.waiting[path] = 0
        self._under_way.clear()

    def _lose(self, path: int, now: float) -> None:
        table = self.table
        if not table.lost[path]:
            table.lost_at[path], table.lost_number[path] = table.sent_at[path], table.number[path]
            table.way[path] = 0
        table.lost[path] = min(table.lost[path] + 1, 255)
        table.good[path] = 0
        table.quiet[path] = min(table.quiet[path] + 1, 255)
        if table.quiet[path] > LOSSES:
            table.reason[path] = table.by[path] = 0
        table.untold[path] = min(table.untold[path] + 1, 255)
        if table.untold[path] > LOSSES:
            table.way[path] = 0
        if table.state[path] == DOWN:
            return
        if table.lost[path] >= LOSSES and now - table.lost_at[path] >= DOWN_SECONDS:
            table.state[path], table.since[path] = DOWN, table.lost_at[path]
        else:
            self._hurry(path)

    def _hurry(self, path: int) -> None:
        if len(self._fast) < _SUSPECTS and path not in self._fast:
            self._fast.append(path)

    def _chosen(self, now: float) -> list[int]:
        """Return the paths to probe now: suspected ones, in the order of suspicion, some that are down, and others."""
        table = self.table
        self._fast = [path for path in self._fast if self._undecided(path)]
        found = [path for path in self._fast if not table.waiting[path]][: schedule.FAST]
        found += self._down_for_long(now, found)
        # A path is not probed twice within a second, whatever its turn.
        return found + self.round.take(
            schedule.PACKETS - len(found),
            lambda path: path not in found and not table.waiting[path] and now - table.sent_at[path] >= PATIENCE,
        )

    def _undecided(self, path: int) -> bool:
        table = self.table
        return table.good[path] > 0 if table.state[path] == DOWN else table.lost[path] > 0

    def _down_for_long(self, now: float, found: t.Sequence[int]) -> list[int]:
        """Return paths that are down and were not probed for some seconds, from where the last call ended."""
        table, taken = self.table, list[int]()
        for dummy in range(min(len(table), _LOOKED_AT)):
            if len(taken) == schedule.RETRIED:
                break
            path = self._looked
            self._looked = path + 1 if path + 1 < len(table) else 0
            if table.state[path] == DOWN and not table.waiting[path] and now - table.sent_at[path] >= _RETRY:
                if path not in found:
                    taken.append(path)
        return taken

    def _probe(self, path: int, now: float) -> Probe:
        table = self.table
        table.number[path] += 1
        table.sent_at[path], table.waiting[path] = now, 1
        self._under_way.append(path)
        heard = table.heard_session[path].to_bytes(SESSION_BEGINNING, "big")
        payload = Payload(self.session, table.number[path], now, heard, table.heard[path])
        source = table.sources[table.source[path]]
        return Probe(path, source, table.addresses[path], table.size[path], payload)

    def direction(self, path: int) -> str:
        """Return where the probes of a path that is down are lost; "": not known.

        An error about a probe shows that it was lost on the way there. Otherwise, what the other end told during the
        last losses counts.
        """
        if self.table.reason[path]:
            return path_loss.THERE
        return path_loss.DIRECTIONS[self.table.way[path]]
