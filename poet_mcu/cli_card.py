"""``poet-mcu card``: look at a card, check it, take the weights from it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from poet_mcu.cli_target import JsonOpt, emit_json
from poet_mcu.errors import CheckFailed
from poet_mcu.pipeline.card import card_info, check_card, export_card

ImageArg = Annotated[
    Path, typer.Argument(metavar="IMAGE", help="A card's image, or its device, e.g. /dev/sdb.")
]
BuildOpt = Annotated[
    Path | None, typer.Option("--build", metavar="DIR", help="The build it belongs to.")
]
BlockOpt = Annotated[
    int | None, typer.Option("--block", min=0, help="Of the region's header; default: look for it.")
]


app = typer.Typer(help="Look at a card or its image.", no_args_is_help=True)
_out = Console(highlight=False, markup=False, soft_wrap=True)


def _show(facts: dict[str, Any], as_json: bool) -> None:
    if as_json:
        emit_json(facts)
        return
    for line in _lines(facts):
        _out.print(line)


@app.command()
def info(
    image: ImageArg, build: BuildOpt = None, block: BlockOpt = None, as_json: JsonOpt = False
) -> None:
    """Show the region of a card and its checkpoints."""
    _show(card_info(image, build, block), as_json)


@app.command()
def check(
    image: ImageArg, build: BuildOpt = None, block: BlockOpt = None, as_json: JsonOpt = False
) -> None:
    """Check headers and checksums; with --build, that the card is of this build."""
    facts, faults = check_card(image, build, block)
    _show(facts | {"ok": not faults, "faults": list(faults)}, as_json)
    if faults:
        raise CheckFailed("\n".join(f"{image}: {fault}" for fault in faults))


@app.command()
def export(
    image: ImageArg,
    build: Annotated[Path, typer.Option("--build", metavar="DIR", help="Its build.")],
    save: Annotated[Path, typer.Option("--save", help="Write the ONNX model here.")],
    as_json: JsonOpt = False,
) -> None:
    """Write the weights of the newest checkpoint back as ONNX."""
    facts = export_card(image, build, save)
    if as_json:
        emit_json(facts)
    else:
        _out.print(f"{facts['saved']}: the weights after {facts['step']} steps")
        if facts["doubt"] is not None:
            _out.print(facts["doubt"])


def _lines(facts: dict[str, Any]) -> list[str]:
    region = f"region of {facts['region_blocks']} blocks at block {facts['region_block']}"
    lines = [f"{facts['image']}: build {facts['build_id']}, {region}"]
    for slot in facts["slots"]:
        line = f"slot {slot['slot']}: {slot['state']}"
        if slot["state"] not in ("empty", "torn"):
            line += f", checkpoint {slot['sequence']}, {slot['step']} steps, loss {slot['loss']}"
        if slot["slot"] == facts["newest_slot"]:
            line += " (newest)"
        lines.append(line)
    if facts["doubt"] is not None:
        lines.append(facts["doubt"])
    return lines
