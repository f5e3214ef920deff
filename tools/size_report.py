"""Prints what a linked firmware uses, and what changed against an earlier report.

    python tools/size_report.py OUT/firmware.elf [--top 20] [--json]
    python tools/size_report.py OUT/firmware.elf --against earlier.json

An earlier report is the output of --json.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

from poet_mcu.errors import PoetError
from poet_mcu.toolchain.elf import measure, symbols


def report(elf: Path) -> dict[str, Any]:
    """Sizes of the program and of each function and object."""
    sizes = measure(elf)
    totals = asdict(sizes) | {"flash_bytes": sizes.flash_bytes, "ram_bytes": sizes.ram_bytes}
    totals.pop("entry")
    parts: dict[str, int] = {}
    for symbol in symbols(elf):
        parts[symbol.name] = parts.get(symbol.name, 0) + symbol.size_bytes
    return {"totals": totals, "symbols": parts}


def differences(new: dict[str, int], old: dict[str, int]) -> list[str]:
    """'name old -> new (change)' for what changed, largest change first."""
    changed = [n for n in {*new, *old} if new.get(n, 0) != old.get(n, 0)]
    changed.sort(key=lambda n: (-abs(new.get(n, 0) - old.get(n, 0)), n))
    return [
        f"{n:<40} {old.get(n, 0):>8} -> {new.get(n, 0):>8} ({new.get(n, 0) - old.get(n, 0):+d})"
        for n in changed
    ]


def main(arguments: list[str] | None = None) -> int:
    """0, or 2 when a file cannot be used."""
    parser = argparse.ArgumentParser(description="sizes of a linked firmware")
    parser.add_argument("elf", type=Path)
    parser.add_argument("--top", type=int, default=20, help="symbols to list (20)")
    parser.add_argument("--json", action="store_true", help="everything as one JSON object")
    parser.add_argument("--against", type=Path, help="an earlier --json report")
    options = parser.parse_args(arguments)
    try:
        new = report(options.elf)
    except PoetError as error:
        print(error, file=sys.stderr)
        return error.exit_code
    if options.json:
        print(json.dumps(new, indent=1, sort_keys=True))
        return 0
    if options.against:
        old = json.loads(options.against.read_text(encoding="utf-8"))
        lines = differences(new["totals"], old["totals"])
        lines += differences(new["symbols"], old["symbols"])
        print("\n".join(lines) or "no change")
        return 0
    for name, size in new["totals"].items():
        print(f"{name:<40} {size:>8} bytes")
    print()
    for name, size in list(new["symbols"].items())[: options.top]:
        print(f"{name:<40} {size:>8} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
