"""A driver that is wrong in one place fails in the emulator, for its reason and by its name."""

from __future__ import annotations

import bench
import pytest
from bench import Patch

from poet_mcu.emulator.fault import MachineFault

CLOCK = "stm32f7/clock.c"
CORE = "stm32f7/core.c"
CARD = "stm32f7/sdmmc.c"
COMMAND = "stm32f7/sdmmc_command.c"
STREAM = "stm32f7/sdmmc_dma.c"
BOARD = "stm32f746g_disco/board.c"


def test_the_driver_as_it_is() -> None:
    """What every sabotage below starts from."""
    run = bench.run(bench.firmware())
    assert run.values["open"] == ["ok"]
    assert run.values["write"] == run.values["read"] == ["ok", "ok"]
    assert run.values["same"] == run.values["kept"] == ["1", "1"]
    assert run.machine.trace.complaints == []
    assert run.machine.rcc.hclk() == 216_000_000
    assert run.machine.rcc.clock48() == 48_000_000


@pytest.mark.parametrize("offset", [1, 4, 16])
def test_buffers_off_their_lines_work(offset: int) -> None:
    run = bench.run(bench.firmware(defines=(f"OFFSET={offset}u",)))
    assert run.values["same"] == run.values["kept"] == ["1", "1"]


#: name -> (patches of the driver, how the fault begins)
FAULTS: dict[str, tuple[tuple[Patch, ...], str]] = {
    "no over-drive": (
        (Patch(CLOCK, " || !start_overdrive()", ""),),
        r"pwr: CSR1: expected HCLK of at most 180000000 Hz .*over-drive off.*got 216000000 Hz",
    ),
    "over-drive not waited for": (
        (Patch(CLOCK, "if (!ready(&PWR_CSR1, PWR_CSR1_ODRDY, PWR_CSR1_ODRDY))", "if (false)"),),
        r"pwr: CR1: expected ODRDY before ODSWEN",
    ),
    "too few wait states": (
        (
            Patch(CLOCK, "latency = FLASH_ACR_7_WAIT_STATES |", "latency = 5u |"),
            Patch(CLOCK, "0xFu, FLASH_ACR_7_WAIT_STATES", "0xFu, 5u"),
        ),
        r"flash: ACR: expected 7 wait states or more at 216000000 Hz, got 5",
    ),
    "PLL before its crystal": (
        (Patch(CLOCK, "RCC_CR |= RCC_CR_PLLON;", "RCC_CR = 0x01000083u;"),),
        r"rcc: CR: expected HSERDY before PLLON, got 0",
    ),
    "APB1 too fast": (
        (Patch(CLOCK, "RCC_CFGR |= RCC_CFGR_PPRE1_4 |", "RCC_CFGR |="),),
        r"rcc: CFGR: expected PCLK1 of at most 54000000 Hz, got 216000000 Hz",
    ),
    "console on the wrong function": (
        (Patch(BOARD, "{PORT_A, 9u, 7u}", "{PORT_A, 9u, 8u}"),),
        r"usart1: TX: expected PA9 in alternate function 7, got alternate function 8",
    ),
    "card pin on the wrong function": (
        (Patch(BOARD, "{PORT_D, 2u, 12u}", "{PORT_D, 2u, 11u}"),),
        r"sdmmc1: CMD: expected PD2 in alternate function 12, got alternate function 11",
    ),
    "DMA without its clock": (
        (Patch(COMMAND, "RCC_AHB1ENR |= RCC_AHB1ENR_DMA2;", ""),),
        r"dma2: expected its clock on \(RCC_AHB1ENR bit 22\)",
    ),
    "card without its clock": (
        (Patch(COMMAND, "RCC_APB2ENR |= 1u << config->enable_bit;", ""),),
        r"sdmmc1: expected its clock on \(RCC_APB2ENR bit 11\)",
    ),
    "another channel": (
        (Patch(BOARD, ".dma_channel = 4u", ".dma_channel = 5u"),),
        r"dma2 stream 6: CR: expected a channel that is modelled for this stream, got 5",
    ),
    "identified too fast": (
        (Patch(COMMAND, "#define CLOCK_400_KHZ 118u", "#define CLOCK_400_KHZ 0u"),),
        r"sdmmc1: CLKCR: expected a card clock of at most 400000 Hz .*got 24000000 Hz",
    ),
    "48 MHz without high speed": (
        (Patch(COMMAND, "SET_HIGH_SPEED 0x80FFFFF1u", "SET_HIGH_SPEED 0x00FFFFF1u"),),
        r"sdmmc1: CLKCR: expected a card clock of at most 25000000 Hz .*got 48000000 Hz",
    ),
    "commands before the card has power": (
        (Patch(COMMAND, "    pause_us(POWER_US);", "    (void)pause_us;"),),
        r"sdmmc1: CMD: expected 74 clocks before the first command",
    ),
    "cache enabled with what stood in it": (
        (Patch(CORE, "    drop_data_cache();", "    (void)drop_data_cache;"),),
        r"scs: CCR: expected all 128 lines invalidated by DCISW before DC is set, got 0",
    ),
    "nothing cleaned": (
        (Patch(CARD, "    poet_stm32f7_clean(memory, card->chunk_bytes);", ""),),
        r"d-cache: 0x200[1-4][0-9a-f]{4}: expected dma2 stream 6 to read what the core wrote",
    ),
    "not invalidated before": (
        (Patch(CARD, "SD_READ_MULTIPLE;\n    poet_stm32f7_invalidate(memory, card->chunk_bytes);",
               "SD_READ_MULTIPLE;"),),
        r"d-cache: 0x200[1-4][0-9a-f]{4}: expected dma2 stream 3 to write where .* a dirty line",
    ),
    "not invalidated after": (
        (Patch(CARD, "while the DMA wrote. */\n        poet_stm32f7_invalidate(chunk_memory(card), "
               "card->chunk_bytes);", "while the DMA wrote. */"),),
        r"d-cache: 0x200[1-4][0-9a-f]{4}: expected the core to read this line after it was inval",
    ),
    "flags of the last stream": (
        (Patch(STREAM, "    DMA2_CLEAR(stream / 4u) = DMA_FLAG_ALL << flag_shift(stream);", ""),),
        r"dma2: S[36]CR: expected the stream's flags clear before EN",
    ),
    "burst longer than its threshold": (
        (Patch(STREAM, "regs->fcr = DMA_FCR_FIFO_FULL;", "regs->fcr = 5u;"),),
        r"dma2 stream 6: FCR: expected a threshold of whole bursts of 16 bytes, got 8",
    ),
    "stream in the wrong direction": (
        (Patch(STREAM, "!= NULL ? 0u : DMA_CR_TO_PERIPHERAL", "!= NULL ? 0u : 0u"),),
        r"sdmmc1: DCTRL: expected dma2 stream 6 in direction 1, got 0",
    ),
    "stream changed while it runs": (
        (Patch(STREAM, "    regs->cr |= DMA_CR_EN;",
               "    regs->cr |= DMA_CR_EN; regs->m0ar = 0u;"),),
        r"dma2: S6M0AR: expected a write with EN 0",
    ),
    "armed before its length": (
        (Patch(CARD, "    regs->dlen = card->chunk_bytes;\n", ""),),
        r"sdmmc1: DCTRL: expected DTIMER and DLEN written before DTEN",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", FAULTS)
def test_a_wrong_driver_faults(name: str) -> None:
    patches, text = FAULTS[name]
    with pytest.raises(MachineFault, match=f"^{text}"):
        bench.run(bench.firmware(patches))


NO_BOUNCE = Patch(CARD, "blocks == 0u || (uintptr_t)next % LINE_BYTES != 0u", "blocks == 0u")


def test_a_buffer_off_its_words() -> None:
    image = bench.firmware((NO_BOUNCE,), ("OFFSET=2u",))
    with pytest.raises(MachineFault, match=r"^dma2 stream 6: M0AR: expected a multiple of 4, got"):
        bench.run(image)


def test_a_burst_across_a_kibibyte() -> None:
    image = bench.firmware((NO_BOUNCE,), ("OFFSET=4u",))
    with pytest.raises(MachineFault, match=r"^dma2 stream 6: M0AR: expected a burst that stays"):
        bench.run(image)


def test_a_line_shared_with_a_neighbour() -> None:
    """Aligned enough for DMA, not for the cache: the neighbour's dirty bytes are dropped."""
    run = bench.run(bench.firmware((NO_BOUNCE,), ("OFFSET=16u",)))
    assert run.values["kept"] == ["0", "0"]


def test_data_before_the_write_command() -> None:
    """The card does not listen yet; the data path gets no answer to its block."""
    swapped = Patch(
        CARD,
        "    POET_TRY(poet_sdmmc_ask(card, command, card_address(card)));\n"
        "    start_data(card, memory, 0u);",
        "    start_data(card, memory, 0u);\n"
        "    POET_TRY(poet_sdmmc_ask(card, command, card_address(card)));",
    )
    run = bench.run(bench.firmware((swapped,)), until_complaint=True)
    assert run.machine.trace.complaints[0].startswith(
        "sdmmc1: DCTRL: expected the card in state rcv before data goes"
    )


def test_read_command_before_the_data_path() -> None:
    """A fast card's first block is gone before anybody waits for it."""
    swapped = Patch(
        CARD,
        "    start_data(card, memory, SDMMC_DCTRL_FROM_CARD);\n"
        "    enter(card, POET_SDMMC_DATA_IN);\n"
        "    return poet_sdmmc_ask(card, command, card_address(card));",
        "    POET_TRY(poet_sdmmc_ask(card, command, card_address(card)));\n"
        "    start_data(card, memory, SDMMC_DCTRL_FROM_CARD);\n"
        "    enter(card, POET_SDMMC_DATA_IN);\n"
        "    return POET_OK;",
    )
    run = bench.run(bench.firmware((swapped,)), until_complaint=True)
    assert run.machine.trace.complaints[0].startswith(
        "sdmmc1: DCTRL: expected the data path armed before the card sends"
    )


def test_no_stop_after_many_blocks_read() -> None:
    """Without CMD12 the card goes on sending and takes no other transfer, until it is recovered."""
    endless = Patch(
        CARD,
        "if (card->chunk_blocks > 1u) {\n        /* R1's bits",
        "if (false) {\n        /* R1's bits",
    )
    run = bench.run(bench.firmware((endless,)))
    assert run.machine.trace.complaints[0].startswith(
        "sdcard: CMD17: expected it in state tran, got it in state data"
    )


def test_no_stop_after_many_blocks_written() -> None:
    """Without CMD12 the card waits for more blocks; the driver waits for it to program in vain."""
    endless = Patch(
        CARD,
        "if (card->chunk_blocks > 1u) {\n        const poet_status status = poet_sdmmc_ask",
        "if (false) {\n        const poet_status status = poet_sdmmc_ask",
    )
    run = bench.run(bench.firmware((endless,), bench.HASTY))
    assert run.values["write"][0] == "card stayed busy too long"
