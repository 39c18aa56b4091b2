# Copyright (c) 2026, baremetal.host_routing contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later
"""The look of a page: one style sheet for light and dark, screen and paper, and the signs beside each colour."""

from __future__ import annotations

from markupsafe import Markup

#: The signs of a state, drawn once. Each has a form of its own, so that nobody has to tell colours apart.
SIGNS = Markup(
    '<svg width="0" height="0" aria-hidden="true" class="store"><defs>'
    '<symbol id="good" viewBox="0 0 12 12"><path d="M2.5 6.5 5 9l4.5-6"/></symbol>'
    '<symbol id="warn" viewBox="0 0 12 12"><path d="M6 2v5M6 9.2v.8"/></symbol>'
    '<symbol id="bad" viewBox="0 0 12 12"><path d="m3 3 6 6M9 3 3 9"/></symbol>'
    '<symbol id="unknown" viewBox="0 0 12 12"><path d="M3.8 4.2a2.2 2.2 0 1 1 2.9 2.1c-.5.2-.7.6-.7 1.2M6 9.5v.6"/>'
    "</symbol></defs></svg>"
)

STYLE = Markup(
    """
:root{color-scheme:light dark;--bg:#fff;--card:#f6f8fa;--ink:#1f2328;--dim:#59636e;--line:#d1d9e0;--good:#1a7f37;
--goodbg:#dafbe1;--warn:#8a5a00;--warnbg:#fff4c9;--bad:#c4121f;--badbg:#ffe3e0;--unknown:#59636e;--unknownbg:#e9edf1;
--link:#8fa3b5;--tube:#d8e3ee;--bar:#2f6fb2;--barbg:#e3e9ef}
@media (prefers-color-scheme:dark){:root{--bg:#0d1117;--card:#151b23;--ink:#e6edf3;--dim:#9aa5b1;--line:#323b45;
--good:#4cc06a;--goodbg:#12321d;--warn:#e0ab3c;--warnbg:#3a2c08;--bad:#ff7b72;--badbg:#4a1715;--unknown:#9aa5b1;
--unknownbg:#262d36;--link:#5d7186;--tube:#22303f;--bar:#5b9fe3;--barbg:#252d37}}
*{box-sizing:border-box}
body{margin:0;background:var(--bg);color:var(--ink);font:15px/1.5 system-ui,"Segoe UI",Roboto,"Liberation Sans",
"DejaVu Sans",sans-serif;overflow-wrap:anywhere}
main{max-width:1120px;margin:0 auto;padding:20px 20px 48px}
h1{font-size:25px;line-height:1.25;margin:0 0 12px}
h2{font-size:18px;margin:34px 0 10px;padding-bottom:5px;border-bottom:1px solid var(--line)}
h3{font-size:15px;margin:16px 0 6px}
p{margin:6px 0}
code,.mono{font-family:ui-monospace,"SFMono-Regular",Menlo,Consolas,"Liberation Mono","DejaVu Sans Mono",monospace;
font-size:.9em;unicode-bidi:isolate}
.dim{color:var(--dim)}
.store{position:absolute}
.i{width:1em;height:1em;vertical-align:-.13em;fill:none;stroke:currentColor;stroke-width:1.9;stroke-linecap:round;
stroke-linejoin:round;margin-right:.3em;flex:none}
.good{color:var(--good)}.warn{color:var(--warn)}.bad{color:var(--bad)}.unknown{color:var(--unknown)}
.state{font-weight:600}

.banner{display:flex;gap:8px;align-items:flex-start;padding:10px 14px;border:1px solid;border-radius:8px;
font-weight:600}
.banner .i{margin-top:.28em}
.banner.good{background:var(--goodbg)}.banner.warn{background:var(--warnbg)}.banner.bad{background:var(--badbg)}
.meta{display:grid;grid-template-columns:max-content 1fr;gap:2px 16px;margin:14px 0;font-size:14px}
.meta dt{color:var(--dim)}.meta dd{margin:0}
.tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(140px,1fr));gap:10px;margin:16px 0}
.tile{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:9px 12px;break-inside:avoid}
.tile b{display:block;font-size:19px;line-height:1.3;color:var(--ink);overflow-wrap:normal}
.tile span{font-size:13px;color:var(--dim)}
ul.list{margin:6px 0;padding:0;list-style:none}
ul.list li{padding:3px 0 3px 1.4em;text-indent:-1.4em}
ul.list li .i{width:1.05em;height:1.05em;text-indent:0}
.map{display:grid;grid-template-columns:minmax(0,540px) minmax(0,1fr);gap:18px;align-items:start}
.draw{width:100%;height:auto;display:block}
.wide{overflow-x:auto}
.wide .draw{min-width:440px;max-width:680px}
.draw text{font:11px system-ui,"Liberation Sans","DejaVu Sans",sans-serif;fill:var(--ink)}
.draw .small{font-size:9.5px;fill:var(--dim)}
.draw .halo{paint-order:stroke;stroke:var(--bg);stroke-width:3.5px;stroke-linejoin:round}
.draw .chord{fill:none;stroke:var(--link);stroke-width:1.2}
.draw .tube{fill:none;stroke:var(--tube);stroke-width:6;stroke-linecap:round}
.draw .chord.bad{stroke:var(--bad);stroke-width:2.2;stroke-dasharray:6 3}
.draw .band{fill:none;stroke:var(--card);stroke-width:26;stroke-linecap:round}
.draw .edge{fill:none;stroke:var(--line);stroke-width:28;stroke-linecap:round}
.draw .spot{fill:var(--bg);stroke:currentColor;stroke-width:1.8}
.draw .sign,.cells .sign{fill:none;stroke:currentColor;stroke-width:1.9;stroke-linecap:round;stroke-linejoin:round}
.draw .redtext{fill:var(--bad);font-weight:700}
.draw .cell.good{fill:var(--goodbg)}.draw .cell.bad{fill:var(--badbg);stroke:var(--bad)}
.draw .cell.unknown{fill:var(--unknownbg)}
.draw .axis{stroke:var(--line);stroke-width:1}
.draw .step{fill:var(--card);stroke:var(--line)}
.draw .step.bad{fill:var(--badbg);stroke:var(--bad)}
.draw .lossbar{fill:var(--bad)}
.racks{display:grid;grid-template-columns:repeat(auto-fill,minmax(186px,1fr));gap:10px}
.rack{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:8px 10px;break-inside:avoid}
.rack h3{margin:0 0 4px;font-size:14px}
.rack p{margin:2px 0 6px;font-size:13px}.rack .state{white-space:normal}
.rack ul{list-style:none;margin:0;padding:0;font-size:13px}
.rack li{display:flex;gap:6px;align-items:center}
.rack li .i{margin:0}
.rack li span{min-width:0}
.rack li span:last-child{margin-left:auto;color:var(--dim);padding-left:6px;text-align:right}
.cells{display:block;max-width:100%;height:auto}
.cells rect{stroke:currentColor;stroke-width:1}
.cells .good rect{fill:var(--goodbg)}.cells .warn rect{fill:var(--warnbg)}.cells .bad rect{fill:var(--badbg)}
.cells .unknown rect{fill:var(--unknownbg)}
.legend{display:flex;flex-wrap:wrap;gap:4px 16px;font-size:13px;color:var(--dim);margin:8px 0}
.legend svg.key{display:inline-block;width:30px;height:12px;vertical-align:-1px;margin-right:5px}
table{width:100%;border-collapse:collapse;font-size:14px;margin:8px 0}
th,td{text-align:left;padding:5px 10px 5px 0;border-bottom:1px solid var(--line);vertical-align:top}
td{min-width:4em}td:has(.state){min-width:7.5em}
th{font-size:12.5px;color:var(--dim);font-weight:600;white-space:nowrap}
.name{min-width:6.5em}
.num{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
th.num{text-align:right}
td.num+td,th.num+th{padding-left:14px}
tr{break-inside:avoid}
.bar{display:inline-block;width:90px;max-width:100%;height:9px;background:var(--barbg);border:1px solid var(--line);
border-radius:3px;vertical-align:middle;margin-right:7px;overflow:hidden}
.bar rect{fill:var(--bar)}
.bar.full rect{fill:var(--warn)}
details{border:1px solid var(--line);border-radius:8px;padding:0 12px;margin:8px 0;background:var(--bg)}
summary{cursor:pointer;padding:8px 0;font-weight:600}
summary:focus-visible{outline:2px solid var(--bar);outline-offset:2px}
.lines{margin:0 0 10px;padding:0;list-style:none;font-size:13px}
.lines li{border-top:1px solid var(--line);padding:4px 0}
.lines li>span{display:block;color:var(--dim);font-size:12.5px}
footer{margin-top:40px;padding-top:10px;border-top:1px solid var(--line);font-size:13px;color:var(--dim)}
@media screen and (max-width:720px){
td,td:has(.state){min-width:0}
.name{min-width:0}
main{padding:14px 14px 36px}
h1{font-size:21px}
.map{grid-template-columns:minmax(0,1fr)}
.meta{grid-template-columns:minmax(0,1fr)}
.meta dd{margin-bottom:6px}
.tiles{grid-template-columns:repeat(2,minmax(0,1fr))}
.racks{grid-template-columns:repeat(auto-fill,minmax(150px,1fr))}
table.stack thead{display:none}
table.stack tr{display:block;border:1px solid var(--line);border-radius:8px;padding:6px 10px;margin:8px 0}
table.stack td{display:grid;grid-template-columns:minmax(5em,auto) minmax(0,1fr);column-gap:14px;border:0;padding:2px 0;
text-align:right;white-space:normal}
table.stack td>*{grid-column:2}
table.stack td::before{content:attr(data-l);color:var(--dim);font-size:13px;grid-column:1;text-align:left}
table.stack td:first-child{font-weight:600}
td.num+td,th.num+th{padding-left:0}
}
@media print{
:root{color-scheme:light;--bg:#fff;--card:#fff;--ink:#000;--dim:#444;--line:#999;--good:#12632a;--goodbg:#e8f7ec;
--warn:#7a5000;--warnbg:#fff6d6;--bad:#b0101c;--badbg:#ffe9e7;--unknown:#444;--unknownbg:#eee;--link:#678;
--tube:#dde6ee;--bar:#2f6fb2;--barbg:#eee}
*{print-color-adjust:exact;-webkit-print-color-adjust:exact}
body{font-size:10.5pt}
main{max-width:none;padding:0}
h1{font-size:17pt}h2{font-size:13pt;margin-top:16pt;break-after:avoid}
table{font-size:9pt}
.map{grid-template-columns:minmax(0,11cm) minmax(0,1fr);break-inside:avoid}
.tiles{grid-template-columns:repeat(4,1fr)}
details:not([open]){display:none}
details{border:0;padding:0}
@page{size:A4;margin:14mm 12mm}
}
"""
)
