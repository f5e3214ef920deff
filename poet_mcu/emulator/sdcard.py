"""An SD card in SD mode: the states, commands and answers of the physical layer specification.

Its content is an image file. It knows nothing of the host's controller: bits on wires are the
controller's business, whether a CRC is right is said.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from poet_mcu.emulator.agenda import Agenda
from poet_mcu.emulator.card_faults import CardFaults
from poet_mcu.emulator.sdcard_medium import Medium
from poet_mcu.emulator.sdcard_registers import (
    BLOCK,
    CCS,
    CID,
    KINDS,
    POWERED_UP,
    CardKind,
    csd,
    function_status,
    scr,
)

IDLE, READY, IDENT, STBY, TRAN, DATA, RCV, PRG = range(8)
STATES = ("idle", "ready", "ident", "stby", "tran", "data", "rcv", "prg")
# Card status, 4.10.1
OUT_OF_RANGE, ADDRESS_ERROR, BLOCK_LEN_ERROR = 1 << 31, 1 << 30, 1 << 29
COM_CRC_ERROR, ILLEGAL_COMMAND, CARD_ECC_FAILED, ERROR = 1 << 23, 1 << 22, 1 << 21, 1 << 19
READY_FOR_DATA, APP_CMD = 1 << 8, 1 << 5
_RCA = 0xB368
#: initialisation takes up to a second (4.2.3); this one asks for some rounds of ACMD41
_BUSY_ROUNDS = 3
#: no card is that fast (hardware notes, 3.2): polling one takes a hundred times that of the host
_PROGRAM_S = 10e-6
#: what it was doing, with power on, when the host started: a fault's kind -> its state
_AWAKE = {"awake-reading": DATA, "awake-writing": RCV, "awake-programming": PRG}
_AWAKE_PROGRAM_S = 0.2


@dataclass(frozen=True, slots=True)
class Answer:
    """A response on the command line. ``words``: one, or four of R2. ``crc``: whether it has one.

    ``index`` is what stands in its command field, 63 for R2 and R3.
    """

    words: tuple[int, ...]
    index: int
    crc: bool = True
    spoilt: bool = False


@dataclass(frozen=True, slots=True)
class Block:
    """Data on the data lines."""

    data: bytes
    spoilt: bool = False


_Act = Callable[["SdCard", int], Answer | None]
_ANY = (IDLE, READY, IDENT, STBY, TRAN, DATA, RCV, PRG)


class SdCard:
    """The card. ``complain`` is told what the specification forbids the host."""

    def __init__(
        self,
        image: Path,
        agenda: Agenda,
        faults: CardFaults,
        complain: Callable[[str], None],
        kind: CardKind = KINDS["sdhc"],
    ) -> None:
        self.kind = kind
        self._agenda = agenda
        self._faults = faults
        self._complain = complain
        self._medium = Medium(image, faults)
        self.blocks = self._medium.blocks
        self.cycles: Callable[[float], float] = lambda seconds: seconds
        self.wide = False
        self.high_speed = False
        #: block of the last command that reads or writes
        self.first = 0
        self.power_up()

    def power_up(self) -> None:
        """Power comes, unless the card has kept it, and what it was doing, while the host had none.

        That is a fault's doing.
        """
        self._start()
        for kind, state in _AWAKE.items():
            if self._faults.strikes(kind):
                self.state, self._multiple, self.wide, self.high_speed = state, True, True, True
                self._busy_until = self._agenda.now
                self._program(_AWAKE_PROGRAM_S if state == PRG else 0.0)

    def _start(self) -> None:
        self.state = IDLE
        self._unnoticed = False  # the host cannot know yet that it has lost its power
        self._application = False
        self._knows_voltage = False
        self._rounds = 0
        self._status = 0
        self._next = 0
        self._multiple = False
        self._special: bytes | None = None
        self._busy_until = 0
        self.wide = False
        self.high_speed = False

    @property
    def present(self) -> bool:
        """Whether a card is in the slot."""
        return not self._faults.gone()

    @property
    def identifying(self) -> bool:
        """Whether it may be clocked at 400 kHz at most."""
        return self.state in {IDLE, READY, IDENT} and not self._unnoticed

    def busy(self) -> bool:
        """Whether it holds D0 low: programming."""
        return self.present and self._agenda.now < self._busy_until

    @property
    def sending(self) -> bool:
        """Whether blocks come from it."""
        return self.present and self.state == DATA

    @property
    def receiving(self) -> bool:
        """Whether it waits for blocks."""
        return self.present and self.state == RCV

    def command(self, index: int, argument: int) -> Answer | None:
        """What it answers, None for nothing."""
        self._faults.count("commands")
        if not self.present:
            return None
        if self._faults.strikes("reset"):
            fast = self.high_speed
            self._start()
            self._unnoticed, self.high_speed = True, fast
        if self._faults.strikes("command-lost"):
            self._status |= COM_CRC_ERROR
            return None
        if self.state == PRG and not self.busy():
            self.state = TRAN
        answer = self._act(index, argument)
        if self._faults.strikes("no-response"):
            return None
        if answer is not None and self._faults.strikes("command-crc"):
            return replace(answer, spoilt=True)
        if answer is not None and self._faults.strikes("command-index"):
            return replace(answer, index=answer.index ^ 1)
        return answer

    def _act(self, index: int, argument: int) -> Answer | None:
        application, self._application = self._application, False
        key = f"acmd{index}" if application and f"acmd{index}" in self._commands else f"cmd{index}"
        if key in self.kind.unknown:
            self._status |= ILLEGAL_COMMAND
            return None
        states, act = self._commands.get(key, ((), None))
        if act is None or self.state not in states:
            self._refuse(key, states)
            return None
        return act(self, argument)

    def next_block(self) -> Block | None:
        """The next block on the data lines; None when none comes."""
        if self._special is not None:
            data, self._special = self._special, None
            self.state = TRAN
            return Block(data)
        self._faults.count("blocks")
        self._faults.count("reads")
        if not self.present or self._faults.strikes("read-timeout"):
            return None
        if self._next >= self.blocks or self._faults.strikes("read-error"):
            self._status |= OUT_OF_RANGE if self._next >= self.blocks else CARD_ECC_FAILED
            return None
        data = self._medium.read(self._next)
        self._next += 1
        if not self._multiple:
            self.state = TRAN
        pulled = self._faults.pull()
        return Block(data, spoilt=pulled or self._faults.strikes("read-crc") is not None)

    def take_block(self, data: bytes) -> bool | None:
        """A block from the host: True accepted, False its CRC was wrong, None no answer."""
        self._faults.count("blocks")
        self._faults.count("writes")
        if not self.present or self._faults.pull():
            return None
        if self._faults.strikes("write-crc"):
            return False
        busy = self._faults.strikes("busy")
        if busy is not None:
            self._program(busy.value)
        if self._faults.strikes("write-error"):
            self._status |= ERROR
        elif self._next < self.blocks:
            self._medium.write(self._next, data)
        else:
            self._status |= OUT_OF_RANGE
        self._next += 1
        if not self._multiple:
            self.state = PRG
            self._program(_PROGRAM_S)
        return True

    def _program(self, seconds: float) -> None:
        begin = max(self._agenda.now, self._busy_until)
        self._busy_until = begin + round(self.cycles(seconds))

    def _refuse(self, key: str, states: tuple[int, ...]) -> None:
        self._status |= ILLEGAL_COMMAND
        wanted = " or ".join(STATES[s] for s in states) or "no such command"
        self._complain(
            f"sdcard: {key.upper()}: expected it in state {wanted}, got it in state "
            f"{STATES[self.state]}; it is not answered"
        )

    # Answers

    def _r1(self, index: int, state: int | None = None) -> Answer:
        """R1 with the state in which the command was received; errors are told once."""
        ready = 0 if self.busy() else READY_FOR_DATA
        shown = self.state if state is None else state
        word = self._status | shown << 9 | ready | (APP_CMD if self._application else 0)
        self._status = 0
        return Answer((word,), index)

    def _r2(self, register: bytes) -> Answer:
        words = tuple(int.from_bytes(register[at : at + 4], "big") for at in range(0, 16, 4))
        return Answer(words, 63)

    # Commands, in the order of their numbers

    def _go_idle(self, _: int) -> None:
        self._start()

    def _multimedia(self, _: int) -> Answer:
        return Answer((self.kind.ocr,), 63, crc=False)

    def _all_send_cid(self, _: int) -> Answer:
        self.state = IDENT
        return self._r2(CID)

    def _send_address(self, _: int) -> Answer:
        status = self._status
        self._status = 0
        low = status >> 8 & 0xC000 | status >> 6 & 0x2000 | self.state << 9 | READY_FOR_DATA
        self.state = STBY
        return Answer((_RCA << 16 | low,), 3)

    def _switch_function(self, argument: int) -> Answer:
        answer = self._r1(6)
        self._special = self._functions(argument)
        self.state = DATA
        return answer

    def _functions(self, argument: int) -> bytes:
        """The 64 bytes of CMD6 (4.3.10): group 1 has default and high speed."""
        wanted = argument & 0xF
        chosen = wanted if wanted in {0, 1} else (int(self.high_speed) if wanted == 0xF else 0xF)
        if argument >> 31 and chosen != 0xF:
            self.high_speed = chosen == 1
        return function_status(chosen)

    def _bus_width(self, argument: int) -> Answer:
        self.wide = argument & 3 == 2
        return self._r1(6)

    def _select(self, argument: int) -> Answer | None:
        if argument >> 16 != _RCA:
            self.state = STBY
            return None
        answer = self._r1(7)
        self.state = TRAN
        return answer

    def _interface(self, argument: int) -> Answer | None:
        if argument >> 8 & 0xF != 1:
            return None
        self._knows_voltage = True
        return Answer((argument & 0xFFF,), 8)

    def _send_csd(self, argument: int) -> Answer | None:
        return self._r2(csd(self.kind, self.blocks)) if argument >> 16 == _RCA else None

    def _send_cid(self, argument: int) -> Answer | None:
        return self._r2(CID) if argument >> 16 == _RCA else None

    def _stop(self, _: int) -> Answer:
        answer = self._r1(12)
        if self.state == RCV:
            self.state = PRG
            self._program(_PROGRAM_S)
        else:
            self.state = TRAN
        self._special = None
        return answer

    def _send_status(self, argument: int) -> Answer | None:
        return self._r1(13) if argument >> 16 == _RCA else None

    def _sd_status(self, _: int) -> Answer:
        answer = self._r1(13)
        self._special = bytes((self.wide << 7, *[0] * 7, 4, 3, 0x90, *[0] * 53))
        self.state = DATA
        return answer

    def _block_length(self, argument: int) -> Answer:
        self._status |= 0 if argument == BLOCK else BLOCK_LEN_ERROR
        return self._r1(16)

    def _transfer(self, index: int, argument: int, state: int, multiple: bool) -> Answer:
        block, rest = (argument, 0) if self.kind.high_capacity else divmod(argument, BLOCK)
        wrong = ADDRESS_ERROR if rest else OUT_OF_RANGE if block >= self.blocks else 0
        if wrong:
            self._status |= wrong
            return self._r1(index)
        answer = self._r1(index)
        self.first, self._next = block, block
        self._multiple, self.state = multiple, state
        return answer

    def _pre_erase(self, _: int) -> Answer:
        return self._r1(23)

    def _initialise(self, argument: int) -> Answer:
        """ACMD41 (4.2.3): high capacity starts for a host only that has sent CMD8 and says HCS."""
        word = self.kind.ocr & ~(POWERED_UP | CCS)
        self._rounds += argument & word != 0 and not self._faults.strikes("never-ready")
        welcome = not self.kind.high_capacity or (self._knows_voltage and argument & CCS)
        if self._rounds > _BUSY_ROUNDS and welcome:
            word = self.kind.ocr
            self.state = READY
        return Answer((word,), 63, crc=False)

    def _configuration(self, _: int) -> Answer:
        answer = self._r1(51)
        self._special = scr(self.kind)
        self.state = DATA
        return answer

    def _application_command(self, argument: int) -> Answer | None:
        if self.state != IDLE and argument >> 16 != _RCA:
            return None
        self._application = True
        return self._r1(55)

    def _read_one(self, argument: int) -> Answer:
        return self._transfer(17, argument, DATA, False)

    def _read_many(self, argument: int) -> Answer:
        return self._transfer(18, argument, DATA, True)

    def _write_one(self, argument: int) -> Answer:
        return self._transfer(24, argument, RCV, False)

    def _write_many(self, argument: int) -> Answer:
        return self._transfer(25, argument, RCV, True)

    #: command -> the states that allow it (4.8, table 4-35), what it does
    _commands: ClassVar[Mapping[str, tuple[tuple[int, ...], _Act]]] = {
        "cmd0": (_ANY, _go_idle),
        "cmd1": ((IDLE,), _multimedia),
        "cmd2": ((READY,), _all_send_cid),
        "cmd3": ((IDENT, STBY), _send_address),
        "cmd6": ((TRAN,), _switch_function),
        "acmd6": ((TRAN,), _bus_width),
        "cmd7": ((STBY, TRAN, DATA, PRG), _select),
        "cmd8": ((IDLE,), _interface),
        "cmd9": ((STBY,), _send_csd),
        "cmd10": ((STBY,), _send_cid),
        "cmd12": ((DATA, RCV), _stop),
        "cmd13": ((STBY, TRAN, DATA, RCV, PRG), _send_status),
        "acmd13": ((TRAN,), _sd_status),
        "cmd16": ((TRAN,), _block_length),
        "cmd17": ((TRAN,), _read_one),
        "cmd18": ((TRAN,), _read_many),
        "acmd23": ((TRAN,), _pre_erase),
        "cmd24": ((TRAN,), _write_one),
        "cmd25": ((TRAN,), _write_many),
        "acmd41": ((IDLE,), _initialise),
        "acmd51": ((TRAN,), _configuration),
        "cmd55": ((IDLE, STBY, TRAN, DATA, RCV, PRG), _application_command),
    }
