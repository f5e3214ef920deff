"""The data path of the SDMMC: blocks, FIFO of 32 words, requests to DMA2 (RM0385 35.4.2, 35.8)."""

from __future__ import annotations

import struct
from collections import deque
from dataclasses import dataclass, field

from poet_mcu.emulator.agenda import Agenda, Due
from poet_mcu.emulator.dma import MEMORY_TO_PERIPHERAL, PERIPHERAL_TO_MEMORY, Dma, Stream
from poet_mcu.emulator.registers import Peripheral
from poet_mcu.emulator.sdcard import Block, SdCard
from poet_mcu.emulator.sdcard_registers import BLOCK
from poet_mcu.emulator.sdmmc_clock import CardClock
from poet_mcu.emulator.sdmmc_registers import (
    CLKCR,
    DATAEND,
    DBCKEND,
    DCOUNT,
    DCRCFAIL,
    DCTRL,
    DLEN,
    DTIMEOUT,
    DTIMER,
    FIFO,
    RXACT,
    RXOVERR,
    SHORT_CLOCKS,
    STA,
    TXACT,
    TXUNDERR,
)
from poet_mcu.emulator.trace import Trace

_FIFO_WORDS = 32
#: the FIFO asks for DMA, and sets its half flags, at eight words (RM0385 35.8.11)
_HALF_WORDS = 8
#: CRC, end bit, and the card's answer to a block written
_CRC_CLOCKS, _STATUS_CLOCKS, _GAP_CLOCKS = 17, 8, 8


@dataclass(slots=True)
class _Transfer:
    """A data path that was armed: ``left`` bytes of DLEN; the block under way and where in it."""

    receive: bool
    left: int
    block: Block | None = None
    at: int = 0
    got: bytearray = field(default_factory=bytearray)
    timer: Due | None = None
    requested: int = 0
    heard: bool = False
    began: int = 0


class DataPath:
    """What stands behind DCTRL; its registers lie in ``bank``."""

    def __init__(
        self,
        agenda: Agenda,
        bank: Peripheral,
        clock: CardClock,
        dma: Dma,
        card: SdCard,
        trace: Trace,
    ) -> None:
        self._agenda = agenda
        self._bank = bank
        self._clock = clock
        self._dma = dma
        self._card = card
        self._trace = trace
        self._fifo: deque[int] = deque()
        self._transfer: _Transfer | None = None
        self._fresh = 0  # which of DTIMER and DLEN were written since the last DCTRL
        self._coming = False
        self._first = False  # the block that comes is the first one behind its command

    @property
    def active(self) -> bool:
        """Whether a transfer is armed or under way."""
        return self._transfer is not None

    @property
    def words_left(self) -> int:
        """FIFOCNT."""
        return -(-(self._transfer.left if self._transfer else 0) // 4)

    def prepare(self, offset: int) -> None:
        """DTIMER or DLEN is written."""
        if self._transfer is not None:
            raise self._bank.fault(
                offset, "expected no data transfer when it is written, got one under way"
            )
        self._fresh |= 1 if offset == DTIMER else 2

    def read_command_taken(self) -> None:
        """A command has made the card send: the first block is on its way.

        The card of the model is the fastest one: its data comes right behind its answer.
        """
        if not self._coming:
            self._coming = self._first = True
            self._agenda.after(self._clock.cycles(SHORT_CLOCKS), self._card_sends)

    def abort(self) -> None:
        """The peripheral is reset: nothing is under way any more."""
        if self._transfer is not None:
            self._agenda.call_off(self._transfer.timer)
        self._transfer = None
        self._fifo.clear()
        self._fresh = 0

    def pop(self) -> int:
        """A load of the FIFO."""
        if not self._fifo:
            raise self._bank.fault(FIFO, "expected RXDAVL before a word is read, got an empty FIFO")
        return self._fifo.popleft()

    def control(self, value: int) -> None:
        """DCTRL is written."""
        if not value & 1:
            self._bank.values[DCTRL] = value
            self._end_data(0)
            return
        if self._transfer is not None:
            raise self._bank.fault(
                DCTRL, "expected no data transfer when DTEN is set, got one under way"
            )
        size = 1 << (value >> 4 & 0xF)
        length = self._bank.values[DLEN]
        if self._fresh != 3:
            raise self._bank.fault(
                DCTRL, "expected DTIMER and DLEN written before DTEN, got it first"
            )
        if value & 4:
            raise self._bank.fault(
                DCTRL, "expected blocks (DTMODE 0) with an SD card, got a stream"
            )
        if not length or length % size or length >= 1 << 25:
            raise self._bank.fault(DCTRL, f"expected DLEN of whole blocks of {size}, got {length}")
        self._fresh = 0
        self._bank.values[DCTRL], self._bank.values[DCOUNT] = value, length
        self._fifo.clear()
        self._transfer = transfer = _Transfer(
            receive=bool(value & 2), left=length, began=self._agenda.now
        )
        self._bank.values[STA] |= RXACT if transfer.receive else TXACT
        self._await(transfer)
        if transfer.receive:
            transfer.requested = length // 4
            if self._card.sending and not self._coming:
                self._coming = True
                self._agenda.after(self._clock.cycles(_GAP_CLOCKS), self._card_sends)
            return
        transfer.requested = length // 4
        self._request()
        self._agenda.after(self._clock.cycles(_GAP_CLOCKS), lambda: self._begin_send(transfer))

    def _await(self, transfer: _Transfer) -> None:
        """DTIMER runs from here (RM0385 35.4.2: Wait_R and Busy)."""
        self._agenda.call_off(transfer.timer)
        clocks = self._clock.cycles(self._bank.values[DTIMER])
        transfer.timer = self._agenda.after(clocks, lambda: self._end_data(DTIMEOUT))

    def _end_data(self, flag: int) -> None:
        """The data path goes idle."""
        transfer, self._transfer = self._transfer, None
        self._bank.values[STA] = self._bank.values[STA] & ~(RXACT | TXACT) | flag
        if transfer is None:
            return
        self._agenda.call_off(transfer.timer)
        self._trace.moved(
            "transfer",
            direction="read" if transfer.receive else "write",
            block=self._card.first,
            began=transfer.began,
            left=transfer.left,
            state="done" if flag == DATAEND else "failed",
        )
        if not transfer.receive or flag != DATAEND:
            self._fifo.clear()
        stream = self._stream()
        if stream is not None and flag == DATAEND:
            stream.last()

    def _stream(self) -> Stream | None:
        if not self._bank.field(DCTRL, 3):
            return None
        stream = self._dma.stream_of(self._bank.name)
        if stream is not None and self._transfer is not None:
            wanted = PERIPHERAL_TO_MEMORY if self._transfer.receive else MEMORY_TO_PERIPHERAL
            if stream.direction != wanted:
                raise self._bank.fault(
                    DCTRL, f"expected {stream.user} in direction {wanted}, got {stream.direction}"
                )
        return stream

    def _request(self, last: bool = False) -> None:
        """Ask DMA2 to empty or fill the FIFO."""
        transfer = self._transfer
        stream = self._stream()
        if stream is None or transfer is None:
            return
        if transfer.receive:
            while len(self._fifo) >= _HALF_WORDS or (last and self._fifo):
                stream.put([self._fifo.popleft() for _ in range(min(4, len(self._fifo)))])
            return
        while transfer.requested and len(self._fifo) <= _FIFO_WORDS - 4:
            words = min(4, transfer.requested)
            self._fifo.extend(stream.get(words))
            transfer.requested -= words

    def push(self, value: int) -> None:
        """A store to the FIFO."""
        if self._transfer is None or self._transfer.receive or len(self._fifo) >= _FIFO_WORDS:
            raise self._bank.fault(FIFO, "expected room in a FIFO that sends, got none")
        self._fifo.append(value)

    # Receiving

    def _card_sends(self) -> None:
        """The card has a block for us; where nobody waits for it, it is lost."""
        first, self._first = self._first, False
        self._coming = False
        if not self._card.sending:
            return
        transfer = self._transfer
        if transfer is None or not transfer.receive:
            self._card.next_block()
            if first:  # others are lost behind an error, until the card is stopped
                self._trace.complain(
                    "sdmmc1: DCTRL: expected the data path armed before the card sends, got a "
                    "block that nobody takes; set DTEN before the read command"
                )
            return
        block = self._card.next_block()
        if block is None:
            return  # nothing comes: DTIMER ends it
        transfer.block, transfer.at = block, 0
        self._agenda.call_off(transfer.timer)
        self._coming = True
        self._agenda.after(self._chunk(), lambda: self._receive(transfer))

    def _chunk(self) -> float:
        return self._clock.cycles(_HALF_WORDS * 4 * self._clock.byte_clocks())

    def _receive(self, transfer: _Transfer) -> None:
        """Eight words have come."""
        block = transfer.block
        if self._transfer is not transfer or block is None:
            self._coming = False
            return
        part = block.data[transfer.at : transfer.at + _HALF_WORDS * 4]
        words = struct.unpack(f"<{len(part) // 4}I", part)
        if len(self._fifo) + len(words) > _FIFO_WORDS:
            if not self._bank.field(CLKCR, 14):
                self._coming = False
                self._end_data(RXOVERR)
                return
            self._agenda.after(self._chunk(), lambda: self._receive(transfer))
            return
        self._fifo.extend(words)
        transfer.at += len(part)
        whole = transfer.at >= len(block.data)
        self._request(last=whole)
        if not whole:
            self._agenda.after(self._chunk(), lambda: self._receive(transfer))
        else:
            self._agenda.after(
                self._clock.cycles(_CRC_CLOCKS), lambda: self._received(transfer, block)
            )

    def _received(self, transfer: _Transfer, block: Block) -> None:
        self._coming = False
        if self._transfer is not transfer:
            return
        transfer.left = max(0, transfer.left - len(block.data))
        self._bank.values[DCOUNT] = transfer.left
        if block.spoilt or self._clock.wide() != self._card.wide:
            self._end_data(DCRCFAIL)
            return
        self._bank.values[STA] |= DBCKEND
        if not transfer.left:
            self._end_data(DATAEND)
            return
        self._await(transfer)
        self._coming = True
        self._agenda.after(self._clock.cycles(_GAP_CLOCKS), self._card_sends)

    # Sending

    def _begin_send(self, transfer: _Transfer) -> None:
        """Wait_S: a block begins when the FIFO has something and the card is not busy."""
        if self._transfer is not transfer:
            return
        if not self._fifo or self._card.busy():
            self._agenda.after(
                self._clock.cycles(_GAP_CLOCKS * 4), lambda: self._begin_send(transfer)
            )
            return
        self._agenda.call_off(transfer.timer)
        transfer.got.clear()
        transfer.heard = self._card.receiving
        if not transfer.heard and self._card.present:
            self._trace.complain(
                "sdmmc1: DCTRL: expected the card in state rcv before data goes, got another; "
                "set DTEN after the answer to the write command"
            )
        self._agenda.after(self._chunk(), lambda: self._send(transfer))

    def _send(self, transfer: _Transfer) -> None:
        """Eight words have gone."""
        if self._transfer is not transfer:
            return
        size = 1 << self._bank.field(DCTRL, 4, 4)
        wanted = min(_HALF_WORDS, (size - len(transfer.got)) // 4)
        if len(self._fifo) < wanted:
            if self._bank.field(CLKCR, 14):
                self._agenda.after(self._chunk(), lambda: self._send(transfer))
            else:
                self._end_data(TXUNDERR)
            return
        words = [self._fifo.popleft() for _ in range(wanted)]
        transfer.got += struct.pack(f"<{wanted}I", *words)
        self._request()
        if len(transfer.got) < size:
            self._agenda.after(self._chunk(), lambda: self._send(transfer))
        else:
            clocks = _CRC_CLOCKS + _STATUS_CLOCKS
            self._agenda.after(self._clock.cycles(clocks), lambda: self._sent(transfer))

    def _sent(self, transfer: _Transfer) -> None:
        if self._transfer is not transfer:
            return
        whole = transfer.heard and len(transfer.got) == BLOCK
        accepted = self._card.take_block(bytes(transfer.got)) if whole else None
        if accepted is None or self._clock.wide() != self._card.wide:
            self._await(transfer)  # no answer comes
            return
        if not accepted:
            self._end_data(DCRCFAIL)
            return
        transfer.left -= len(transfer.got)
        self._bank.values[DCOUNT] = transfer.left
        self._bank.values[STA] |= DBCKEND
        if not transfer.left:
            self._end_data(DATAEND)
            return
        self._await(transfer)
        self._begin_send(transfer)

    def status(self) -> int:
        """STA: static flags and what follows from the FIFO."""
        held, transfer = len(self._fifo), self._transfer
        word = self._bank.values[STA]
        if transfer is not None and not transfer.receive:
            word |= (held <= _FIFO_WORDS - _HALF_WORDS) << 14 | (held == _FIFO_WORDS) << 16
            word |= (held == 0) << 18 | (held > 0) << 20
        else:
            word |= (held >= _HALF_WORDS) << 15 | (held == _FIFO_WORDS) << 17
            word |= (held == 0) << 19 | (held > 0) << 21
        return word
