# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The order in which a command looks for the way to the datastore.

First the file of -c, then /etc/calico/calicoctl.cfg, then the environment, as in Calico, and at last the settings that
a run of site.yml wrote on this node. A command with -i asks the inventory, and none of these.
"""

from __future__ import annotations

import os
import typing as t

from ..errors import CommandError

if t.TYPE_CHECKING:
    from ...datastore.settings import DatastoreSettings

DEFAULT_FILE = "/etc/calico/calicoctl.cfg"
_V = t.TypeVar("_V")


class NotOurs(Exception):
    """An etcd without the keys of this collection."""

    def __init__(self) -> None:
        super().__init__("its etcd has no blocks of a fleet of this collection. It may be a Calico's.")


class Way(t.NamedTuple):
    """Settings and where they are from. `given`: by -c, so that a failure is not passed over."""

    origin: str
    settings: DatastoreSettings
    given: bool = False


class DatastoreWays:
    """The ways to the datastore, in their order.

    `given` is the file of -c, "" for none. `default` is the path of Calico's file and `own` that of the node's
    settings. `warn` gets a sentence about each way that is passed over.
    """

    def __init__(
        self, given: str, default: str, own: str, environment: t.Mapping[str, str], warn: t.Callable[[str], None]
    ) -> None:
        self._given, self._default, self._own = given, default, own
        self._environment = environment
        self._warn = warn

    @property
    def possible(self) -> bool:
        """Whether there may be a way, found without loading the code of a client."""
        variables = ("DATASTORE_TYPE", "ETCD_ENDPOINTS", "CALICO_DATASTORE_TYPE", "CALICO_ETCD_ENDPOINTS")
        there = any(os.path.lexists(path) for path in (self._default, self._own))
        return bool(self._given) or there or any(self._environment.get(name) for name in variables)

    def check(self) -> None:
        """Raise CommandError if the file of -c cannot be used, also for a command that does not need it."""
        if self._given:
            self._of_given()

    def ways(self) -> t.Iterator[Way]:
        """Yield the ways. Raise CommandError for an unusable file of -c, DatastoreSettingsError for the node's."""
        from ...datastore import settings as own_settings  # it takes 0.1 s to load, which few commands need
        from . import api_config

        if self._given:
            yield Way(self._given, self._of_given(), True)
            return
        for origin, read in ((self._default, self._of_default), ("the environment", self._of_environment)):
            try:
                found = read()
            except api_config.NotUsable as error:
                self._warn(f"{origin} is ignored: it {error}")
            except OSError as error:
                self._warn(f"{origin} is ignored: it cannot be read: {error.strerror or error}.")
            else:
                if found is not None:
                    yield Way(origin, found)
        own = own_settings.load(self._own)
        if own is not None:
            yield Way("", own)

    def _of_given(self) -> DatastoreSettings:
        from . import api_config

        try:
            return api_config.of_file(self._given, self._warn)
        except api_config.NotUsable as error:
            raise CommandError(f"-c {self._given} {error}") from error
        except OSError as error:
            raise CommandError(f"Error reading config file: {self._given}: {error.strerror or error}.") from error

    def _of_default(self) -> t.Optional[DatastoreSettings]:
        from . import api_config

        try:
            return api_config.of_file(self._default, self._warn)
        except FileNotFoundError:
            return None

    def _of_environment(self) -> t.Optional[DatastoreSettings]:
        from . import api_config

        return api_config.of_environment(self._environment, self._warn)

    def first(self, ask: t.Callable[[DatastoreSettings], _V], failures: tuple[type[Exception], ...]) -> t.Optional[_V]:
        """Return what `ask` answers by the first way on which it raises none of `failures`; None if there is no way.

        Raise the failure of the node's own settings, and CommandError for that of -c; of other ways it is a warning.
        """
        for way in self.ways():
            try:
                return ask(way.settings)
            except failures as error:
                if not way.origin:
                    raise
                if way.given:
                    raise CommandError(f"-c {way.origin} leads to no datastore of a fleet: {error}") from error
                self._warn(f"{way.origin} is ignored: {error}")
        return None
