# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""Writes docs/reference/metrics.md. With --check it writes nothing, and fails if that page is out of date.

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

from generate_variables import cell, opening, written  # noqa: E402

HEAD = f"""\
{opening("plugins/module_utils/agent/metrics/instruments.py and the alert rules")}\
# Metrics and health

Monitor the fleet's agents with Prometheus and Grafana. This page has each metric and each alert.

## Scrape the agents

Each node's agent serves HTTP on 127.0.0.1, port 9091, the same port as Felix:

| page | answer |
|---|---|
| `GET /metrics` | the metrics below, in Prometheus' text format 0.0.4 |
| `GET /liveness` | 200 while the agent works, 503 and the reason when it is stuck |
| `GET /readiness` | 200 while the node is in sync and workloads can be added, otherwise 503 and what is missing |

This is enough for a Prometheus on the node itself, or one that reaches the node by an SSH tunnel:

```yaml
scrape_configs:
  - job_name: calico-agent
    static_configs:
      - targets: ["127.0.0.1:9091"]
rule_files: [calico-alerts.yml]
```

- **Another address**: set `calico_node_agent_metrics_address` and `calico_node_agent_metrics_port` in the inventory.
  The role writes them to `/etc/calico/agent.json`. Port 0 turns HTTP off.
- **No access control**: if other hosts can reach the address, protect it by a firewall.
- **Alerts and dashboard**: alert rules for Prometheus and a Grafana dashboard are in
  `roles/calico_node/files/monitoring/`. They expect the job name `calico-agent`, and one `instance` for each node.
  The tests run each query of the dashboard and each alert in Debian's Prometheus. No test loads the dashboard into
  Grafana, because no package registry has it.
- **No series for single workloads or BGP peers**: in a full mesh, their number would grow quadratically with the nodes.
  `calicoctl node status` and `playbooks/status.yml` show workloads and peers.

## Metrics

The last column has the metric of Felix, or of Calico's kube-controllers, with the same or nearly the same meaning.

"""


def page() -> str:
    from plugins.module_utils.agent.metrics.instruments import Instruments
    from plugins.module_utils.agent.metrics.metrics import Registry

    instruments = Instruments(Registry())
    lines = ["| metric | type | labels | meaning | Felix's |", "|---|---|---|---|---|"]
    for metric in instruments.registry.metrics():
        name = metric.name + ("_total" if metric.kind == "counter" else "")
        labels = ", ".join(f"`{label}`" for label in metric.labels)
        felix = ", ".join(f"`{word}`" for word in re.findall(r"\w+_\w+", instruments.felix.get(metric.name, "")))
        lines.append(f"| `{name}` | {metric.kind} | {labels} | {cell(metric.help)} | {felix} |")
    lines += ["", "## Alerts", "", "| alert | severity | condition | message |", "|---|---|---|---|"]
    for group in yaml.safe_load(ALERTS.read_text("utf-8"))["groups"]:
        for rule in group["rules"]:
            when = f"`{cell(rule['expr'])}`" + (f" for {rule['for']}" if "for" in rule else "")
            says = re.sub(r"\{\{ *\$(?:labels\.)?(\w+)[^}]*\}\}", r"*\1*", rule["annotations"]["summary"])
            lines.append(f"| `{rule['alert']}` | {rule['labels']['severity']} | {when} | {cell(says)} |")
    return HEAD + "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(written(PAGE, page()))
