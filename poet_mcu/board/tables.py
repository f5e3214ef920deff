"""The tables of a board file as frozen data. Units stand in the key names, SI.

``source`` says where numbers are from. Ranges are wide: they catch wrong units (KiB for bytes, mW
for W), not unusual boards.
"""

from __future__ import annotations

from typing import Annotated, Literal, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

_Kernel = Literal[
    "conv_fwd",
    "conv_bwd_x",
    "conv_bwd_w",
    "dense_fwd",
    "dense_bwd",
    "pool",
    "elementwise",
    "loss",
    "update",
]
_Optional = Literal["conv_general", "conv_packed"]
Family = Literal[_Kernel, _Optional]

KERNEL_FAMILIES: tuple[str, ...] = get_args(_Kernel)
#: forms of kernels that a board need not price: convolutions without blocks of their own (else
#: they cost what their direction does), and the same by way of workspace (else not chosen)
OPTIONAL_FAMILIES: tuple[str, ...] = get_args(_Optional)

#: cores whose name alone means floating-point MVE (gcc manual, ARM options, -mcpu)
MVE_CORES = ("cortex-m55", "cortex-m85")

Bytes = Annotated[int, Field(ge=0, le=2**32)]
Watts = Annotated[float, Field(ge=0, le=50)]
Cycles = Annotated[float, Field(ge=0, le=1e6)]
Source = Annotated[str, Field(min_length=8, max_length=1000)]


def _as_tuple(value: object) -> object:
    """TOML has lists only; tuples keep the model hashable and frozen all the way down."""
    return tuple(value) if isinstance(value, list) else value


Strings = Annotated[tuple[str, ...], BeforeValidator(_as_tuple)]


#: a word of a compiler's or emulator's command line: no blanks, commas or paths
Word = Annotated[str, Field(pattern=r"^([a-z0-9][a-z0-9.+-]*)?$", max_length=60)]


class Table(BaseModel):
    """Base of every table: unknown keys are errors, nothing is converted silently."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class Core(Table):
    """The core and how C is compiled for it.

    ``cpu`` is what follows -mcpu=, '' for the host's compiler; ``fpu`` follows -mfpu= and may be
    '' (none, or implied by the cpu). ``fma`` is the target's one choice of POET_FMA: fused where
    the core has a fused multiply-add and it pays, else separate. ``flush_subnormals``: subnormal
    operands and results are zero, as MVE's vectors have it; scalar code and the host's twin follow.
    """

    cpu: Word
    fpu: Word = ""
    float_abi: Literal["soft", "hard", ""]
    fma: Literal["fused", "separate"]
    flush_subnormals: bool = False
    clock_hz: Annotated[int, Field(ge=1_000_000, le=10_000_000_000)]
    source: Source


class CostRow(Table):
    """Cycles of one kernel family; a run costs the sum of each feature times its price."""

    cycles_per_mac: Cycles
    cycles_per_element: Cycles
    cycles_per_transcendental: Cycles
    cycles_per_call: Cycles
    estimated: bool = False
    source: Source


class MemoryPart(Table):
    """A piece of a memory that differs from its neighbours.

    ``bytes_per_cycle``: the most that loads get in a core cycle, when no cache has it. ``cached``:
    the data cache keeps lines of it. ``dma``: the DMA of the block device reaches it. ``cost``: the
    rows of the board's table that are others when all operands of a kernel lie here.
    """

    name: Annotated[str, Field(min_length=1, max_length=40)]
    origin: Annotated[int, Field(ge=0, le=2**32 - 1)]
    size_bytes: Annotated[int, Field(ge=1024, le=2**32)]
    bytes_per_cycle: Annotated[float, Field(ge=0.01, le=64)]
    cached: bool
    dma: bool
    estimated: bool = False
    source: Source
    cost: dict[Family, CostRow] = {}

    @property
    def end(self) -> int:
        """The first address behind it."""
        return self.origin + self.size_bytes


Parts = Annotated[tuple[MemoryPart, ...], BeforeValidator(_as_tuple)]


class Memory(Table):
    """A contiguous range of addresses [origin, origin + size_bytes).

    ``parts``, where it is not the same everywhere, follow one another from its first byte to its
    last. ``boot_bytes`` at its start are the port's boot stage, in front of the vector table.
    """

    origin: Annotated[int, Field(ge=0, le=2**32 - 1)]
    size_bytes: Annotated[int, Field(ge=1024, le=2**32)]
    source: Source
    parts: Parts = ()
    boot_bytes: Annotated[int, Field(ge=0, le=65536)] = 0

    @property
    def end(self) -> int:
        """The first address behind the range."""
        return self.origin + self.size_bytes


class Runtime(Table):
    """What our own C needs of the RAM beside the arena.

    ``static_bytes`` bounds .data + .bss without the arena, with room for the 8 bytes that each
    page adds. The linker gives the stack exactly ``stack_bytes``; the sum of everything is checked
    against the budget in every linked ELF.
    """

    stack_bytes: Annotated[int, Field(ge=256, le=2**24)]
    static_bytes: Annotated[int, Field(ge=0, le=2**24)]
    source: Source

    @property
    def reserved_bytes(self) -> int:
        """Stack and statics together."""
        return self.stack_bytes + self.static_bytes


class Arena(Table):
    """Where values live: the alignment of every slot, and RAM beside ``memory.sram``.

    ``parts`` hold values alone, no stack and no statics. None lies behind another: no value
    crosses from one into the next. Values fill them in the order of the file, then ``memory.sram``.
    """

    alignment_bytes: Annotated[int, Field(ge=4, le=4096)]
    source: Source
    parts: Parts = ()


Seconds = Annotated[tuple[Annotated[float, Field(ge=0, le=10)], ...], BeforeValidator(_as_tuple)]


class TransferTimes(Table):
    """Seconds of one transfer by its size, one way, the checksum of a page among them.

    ``transfer_bytes`` rise; the other lists run parallel: the median of many transfers and, empty
    where not known, their 99th percentile and the worst.
    """

    transfer_bytes: Annotated[
        tuple[Annotated[int, Field(ge=1, le=2**30)], ...], BeforeValidator(_as_tuple)
    ]
    median_s: Seconds
    p99_s: Seconds = ()
    worst_s: Seconds = ()
    estimated: bool = False
    source: Source


class Storage(Table):
    """The block device for pages and its cost: seconds = latency_s + bytes / throughput.

    ``read_times`` and ``write_times``, where they were measured, count instead of that line up to
    their largest size; behind it the throughput goes on.

    ``region_first_block`` is the first block of the raw region. ``transfer_granule_bytes`` is the
    unit in which the device moves and is charged for bytes. ``overlap``: true when a transfer
    runs beside compute (DMA), false when it holds the CPU.
    """

    driver: Literal["sd_spi", "sdmmc", "semihosting", "file"]
    block_bytes: Literal[512]
    region_first_block: Annotated[int, Field(ge=0, le=2**31)]
    transfer_granule_bytes: Annotated[int, Field(ge=1, le=2**22)]
    overlap: bool
    read_latency_s: Annotated[float, Field(ge=0, le=1)]
    read_throughput_bytes_per_s: Annotated[float, Field(ge=1e3, le=1e11)]
    write_latency_s: Annotated[float, Field(ge=0, le=1)]
    write_throughput_bytes_per_s: Annotated[float, Field(ge=1e3, le=1e11)]
    estimated: bool = False
    source: Source
    read_times: TransferTimes | None = None
    write_times: TransferTimes | None = None


class Power(Table):
    """Electrical power, not energy.

    ``active_w`` is the CPU computing; ``sd_read_w`` and ``sd_write_w`` are what the card draws on
    top during a transfer; ``idle_w`` is everything waiting between steps.
    """

    active_w: Watts
    sd_read_w: Watts
    sd_write_w: Watts
    idle_w: Watts
    estimated: bool = False
    source: Source


class Emulator(Table):
    """What stands in for the board.

    ``kind`` qemu: the core, started with -M ``machine`` -cpu ``cpu`` ('' for the machine's own).
    ``kind`` registers: this board's chip to its registers (``poet_mcu.emulator``), ``machine`` is
    its name there.
    """

    kind: Literal["qemu", "registers"] = "qemu"
    machine: Word
    cpu: Word = ""
    source: Source


class Flashing(Table):
    """How firmware comes onto the board; '' and empty where a way does not exist.

    ``pyocd_target``: pyOCD's name of the target. ``openocd``: arguments before the commands, as
    ``-f board/x.cfg``. ``st_flash``: whether st-flash programs it. ``under_reset``: connect while
    the reset line holds the core, which a core that sleeps needs. ``uf2_family``: the family id of
    UF2 blocks, ``uf2_board`` the Board-ID in INFO_UF2.TXT of the boot loader's volume.
    ``console_usb``: 'vid:pid' (hex) of what carries the console, and the probe with it.
    """

    pyocd_target: str = ""
    openocd: Strings = ()
    st_flash: bool = False
    under_reset: bool = False
    uf2_family: Annotated[int, Field(ge=0, le=2**32 - 1)] = 0
    uf2_board: str = ""
    console_usb: Annotated[
        tuple[Annotated[str, Field(pattern=r"^[0-9a-f]{4}:[0-9a-f]{4}$")], ...],
        BeforeValidator(_as_tuple),
    ] = ()
    source: Source
