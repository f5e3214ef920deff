"""Colours and patterns of all pictures, for light and dark.

The states take the palette of Okabe and Ito ("Color Universal Design", 2008), which people with
any common colour blindness tell apart; each state also has a letter or a hatch.
"""

from __future__ import annotations

_LIGHT = """
--bg:#ffffff;--panel:#f6f7f9;--ink:#1d2733;--muted:#5c6875;--line:#d5dae0;--grid:#e9ecef;
--compute:#0072b2;--recompute:#e69f00;--held:#c9d7e4;--pageout:#cc79a7;--pagein:#009e73;
--on-compute:#ffffff;--on-recompute:#1d1300;--on-pageout:#22101a;--on-pagein:#ffffff;
--stall:#c4cad1;--runtime:#b4bcc5;--param:#8f9baa;--value:#7fb4d9;--work:#f0c766;
--gradient:#e8b04a;--given:#4db897;--loss:#cc79a7;--alarm:#c2410c;--hatch:#ffffff
"""
_DARK = """
--bg:#14181d;--panel:#1c2229;--ink:#e4e8ec;--muted:#98a4b1;--line:#39424d;--grid:#262d35;
--compute:#56b4e9;--recompute:#f0b63a;--held:#34495c;--pageout:#e09cc2;--pagein:#2fc49a;
--on-compute:#06121c;--on-recompute:#1d1300;--on-pageout:#22101a;--on-pagein:#04140e;
--stall:#4b545f;--runtime:#4d5763;--param:#6d7a8a;--value:#2f75a3;--work:#a8822a;
--gradient:#b98526;--given:#23836a;--loss:#a85e88;--alarm:#ff8a5c;--hatch:#ffffff
"""

#: shared by the page and by every picture that is a file of its own
STYLE = (
    f":root{{{_LIGHT}}}@media (prefers-color-scheme:dark){{:root{{{_DARK}}}}}"
    """
svg{font-family:system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif;
font-size:11px}
svg text{fill:var(--ink)}svg .muted{fill:var(--muted)}svg .strong{font-weight:600}
svg .middle{dominant-baseline:central}svg .back{fill:var(--bg)}
svg .axis{stroke:var(--muted);stroke-width:1}svg .rule{stroke:var(--grid);stroke-width:1}
svg .divide{stroke:var(--muted);stroke-width:1;stroke-dasharray:2 3}
svg .budget{stroke:var(--alarm);stroke-width:1.5;stroke-dasharray:6 4;fill:none}
svg .alarm{fill:var(--alarm)}svg .gap{stroke:var(--bg);stroke-width:1}
svg .compute{fill:var(--compute)}svg .recompute{fill:var(--recompute)}svg .held{fill:var(--held)}
svg .pageout{fill:var(--pageout)}svg .pagein{fill:var(--pagein)}svg .stall{fill:var(--stall)}
svg .on-compute{fill:var(--on-compute)}svg .on-recompute{fill:var(--on-recompute)}
svg .on-pageout{fill:var(--on-pageout)}svg .on-pagein{fill:var(--on-pagein)}
svg .runtime{fill:var(--runtime)}svg .param{fill:var(--param)}svg .value{fill:var(--value)}
svg .work{fill:var(--work)}svg .gradient{fill:var(--gradient)}svg .given{fill:var(--given)}
svg .loss{fill:var(--loss)}svg .box{stroke:var(--bg);stroke-width:.75}
svg .hatch{fill:url(#poet-hatch)}svg .dots{fill:url(#poet-dots)}
svg .card{stroke:var(--pageout);stroke-width:2;stroke-dasharray:2 3;fill:none}
svg .hit{fill:transparent}svg .hit:hover{fill:var(--ink);fill-opacity:.08}
svg .mark{fill:var(--bg);stroke:var(--ink);stroke-width:1.5}
svg .curve{fill:none;stroke-width:2}svg .s0{stroke:var(--compute)}svg .s1{stroke:var(--pageout)}
svg .s2{stroke:var(--recompute)}svg .s3{stroke:var(--pagein)}
svg .thin{stroke-dasharray:5 4;stroke-width:1.5}
svg .f0{fill:var(--compute)}svg .f1{fill:var(--pageout)}svg .f2{fill:var(--recompute)}
svg .f3{fill:var(--pagein)}svg .f4{fill:var(--muted)}
svg .quiet{pointer-events:none}
svg .halo{paint-order:stroke;stroke:var(--bg);stroke-width:3px;stroke-linejoin:round}
svg .none{fill:url(#poet-none)}
"""
)

DEFS = (
    "<defs>"
    '<pattern id="poet-hatch" width="5" height="5" patternUnits="userSpaceOnUse" '
    'patternTransform="rotate(45)"><rect width="1.6" height="5" fill="var(--hatch)" '
    'fill-opacity=".5"/></pattern>'
    '<pattern id="poet-dots" width="4" height="4" patternUnits="userSpaceOnUse">'
    '<circle cx="1" cy="1" r=".8" fill="var(--hatch)" fill-opacity=".75"/></pattern>'
    '<pattern id="poet-none" width="7" height="7" patternUnits="userSpaceOnUse" '
    'patternTransform="rotate(45)"><rect width="1" height="7" fill="var(--alarm)" '
    'fill-opacity=".35"/></pattern>'
    "</defs>"
)
