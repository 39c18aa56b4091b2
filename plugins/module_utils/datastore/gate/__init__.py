# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The gate before a member of etcd: it passes what agents ask, and nothing else.

    agent ──TLS──► gate ──TLS──► etcd, which listens where no agent reaches it

The etcd of Debian 12 and 13 does not confine its users: a transaction inside a transaction is not checked
(CVE-2026-33343), an alarm needs no right and switches all checks off (CVE-2026-33413, etcd's pull request 22386), and
leases, compaction and leadership are open to everybody. So a request is read, and written anew from the fields that
agents use; a path or a field that is not known is refused. etcd then checks the token's rights.

Anybody can fill the database with keys of its own, and while its space is exceeded etcd checks no rights of deletions.
So the gate also remembers whose the tokens are, and passes a write below the user's own prefixes alone.
"""
