# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes docs/reference/metrics.md. With --check it writes nothing and fails if the file is not what it would write.

Metrics come from plugins/module_utils/agent/metrics/instruments.py, alerts from the rules that are shipped.
"""

from __future__ import annotations

import pathlib
import re
import sys

import yaml

ROOT = pathlib.Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "reference" / "metrics.md"
ALERTS = ROOT / "roles" / "calico_node" / "files" / "monitoring" / "alerts.yml"
sys.path[:0] = [str(ROOT), str(ROOT / "docs")]

from generate_variables import cell, written  # noqa: E402

HEAD = """\
<!--
Copyright (c) 2026, baremetal.host_routing contributors
GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
SPDX-License-Identifier: GPL-3.0-or-later
-->
<!-- Written by `make docs` from plugins/module_utils/agent/metrics/instruments.py and the alert rules. -->
# Metrics and health

Each node's agent answers by HTTP on 127.0.0.1, port 9091, where Felix has its metrics. `metrics_address` and
`metrics_port` in `/etc/calico/agent.json` choose another place; port 0 turns it off. There is no access control: on an
address that others reach, guard it with a firewall.

| page | what it answers |
|---|---|
| `GET /metrics` | the metrics below, in Prometheus' text format 0.0.4 |
| `GET /liveness` | 200 while the agent is at work, 503 and what is wrong when it is stuck |
| `GET /readiness` | 200 once the node is as it shall be and workloads can be added, else 503 and what is missing |

A Prometheus on the node itself, or one that comes in through an SSH tunnel, needs no more than this:

```yaml
scrape_configs:
  - job_name: calico-agent
    static_configs:
      - targets: ["127.0.0.1:9091"]
rule_files: [calico-alerts.yml]
```

Alert rules and a Grafana dashboard are in `roles/calico_node/files/monitoring/`. They take the job to be named
`calico-agent`; each node is one `instance`.

Nothing is counted by workload, and nothing by BGP peer: in a full mesh that would be series by the square of the nodes.
`calicoctl node status` and `playbooks/status.yml` name them.

## Metrics

The column on the right has what Felix (or Calico's kube-controllers) calls the same, or what comes nearest to it.

"""


def page() -> str:
    from plugins.module_utils.agent.metrics.instruments import Instruments
    from plugins.module_utils.agent.metrics.metrics import Registry

    instruments = Instruments(Registry())
    lines = ["| metric | type | labels | what it is | Felix's |", "|---|---|---|---|---|"]
    for metric in instruments.registry.metrics():
        name = metric.name + ("_total" if metric.kind == "counter" else "")
        labels = ", ".join(f"`{label}`" for label in metric.labels)
        felix = ", ".join(f"`{word}`" for word in re.findall(r"\w+_\w+", instruments.felix.get(metric.name, "")))
        lines.append(f"| `{name}` | {metric.kind} | {labels} | {cell(metric.help)} | {felix} |")
    lines += ["", "## Alerts", "", "| alert | severity | when | what it says |", "|---|---|---|---|"]
    for group in yaml.safe_load(ALERTS.read_text("utf-8"))["groups"]:
        for rule in group["rules"]:
            when = f"`{cell(rule['expr'])}`" + (f" for {rule['for']}" if "for" in rule else "")
            says = re.sub(r"\{\{ *\$(?:labels\.)?(\w+)[^}]*\}\}", r"*\1*", rule["annotations"]["summary"])
            lines.append(f"| `{rule['alert']}` | {rule['labels']['severity']} | {when} | {cell(says)} |")
    return HEAD + "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(written(PAGE, page()))
