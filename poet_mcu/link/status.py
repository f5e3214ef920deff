"""Status codes of the board: names, texts and what to do.

The table repeats firmware/include/poet/status.h; a test compares the two.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Status:
    """One status code of ``firmware/include/poet/status.h``; ``advice`` is for people."""

    name: str
    value: int
    text: str
    advice: str


_ASKED = "check the tensor, its role and the range that were asked for"
_CARD = "check the card and its wiring, then reset the model"
_CONTACT = "check wiring and bus clock, then reset the model"

STATUSES: tuple[Status, ...] = (
    Status("POET_OK", 0, "ok", "nothing to do"),
    Status("POET_E_ARG", -1, "argument out of range", _ASKED),
    Status(
        "POET_E_STATE",
        -2,
        "not allowed in this state",
        "reset the model, then train again from step 0",
    ),
    Status("POET_E_TIMEOUT", -3, "timed out", _CARD),
    Status("POET_E_NO_CARD", -4, "no SD card answers", "insert a card, then reset the model"),
    Status(
        "POET_E_CARD_TYPE",
        -5,
        "card type or voltage not supported",
        "use an SDSC, SDHC or SDXC card that works at 3.3 V",
    ),
    Status("POET_E_CARD_CMD", -6, "card rejected a command", _CARD),
    Status("POET_E_CARD_CRC", -7, "CRC error on the card bus", _CONTACT),
    Status("POET_E_CARD_READ", -8, "card could not read a block", "replace the card"),
    Status("POET_E_CARD_WRITE", -9, "card could not write a block", "replace the card"),
    Status(
        "POET_E_CARD_BUSY", -10, "card stayed busy too long", "reset the model or use a faster card"
    ),
    Status("POET_E_CARD_SMALL", -11, "card is smaller than the plan needs", "use a larger card"),
    Status(
        "POET_E_CARD_IMAGE",
        -12,
        "card was not prepared for this build",
        "format the card's page region, or write the card.img of this build to it",
    ),
    Status(
        "POET_E_PAGE_CRC",
        -13,
        "a page's checksum does not match",
        "the card lost or mixed up a write: replace it, then reset the model",
    ),
    Status("POET_E_IO", -14, "input or output error", _CARD),
    Status("POET_E_FRAME", -15, "damaged frame", "check the serial line"),
    Status(
        "POET_E_PROTOCOL",
        -16,
        "message not understood",
        "build and flash the firmware with this version of poet-mcu",
    ),
    Status(
        "POET_E_BUILD",
        -17,
        "message is for another build",
        "flash the firmware of this build",
    ),
    Status("POET_E_NONFINITE", -18, "loss is not finite", "lower the learning rate"),
    Status(
        "POET_E_CHECKPOINT",
        -19,
        "no whole checkpoint on the card",
        "train from the start, without --resume",
    ),
    Status(
        "POET_E_CHECKPOINT_BUILD",
        -20,
        "checkpoint of another model or build",
        "flash the build that wrote it, or train from the start, without --resume",
    ),
)

_BY_VALUE = {status.value: status for status in STATUSES}
OK = 0
E_ARG = -1
E_STATE = -2
E_NO_CARD = -4
E_CARD_IMAGE = -12
E_PAGE_CRC = -13
E_PROTOCOL = -16
E_BUILD = -17
E_CHECKPOINT = -19


def find(value: int) -> Status:
    """The status with this value; one that says so for a value we do not know."""
    known = _BY_VALUE.get(value)
    if known is not None:
        return known
    return Status(f"status {value}", value, "unknown status", "use the matching poet-mcu version")


def describe(value: int) -> str:
    """``POET_E_NO_CARD (no SD card answers)``."""
    status = find(value)
    return f"{status.name} ({status.text})"
