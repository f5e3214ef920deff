"""Who is called through a pointer from where: the one list that the stack computation trusts.

Named by hand, as no compiler knows. A call through a pointer in a file that is not listed fails the
build; ``tests/unit/test_stack.py`` demands of every board that each function whose address is
taken stands here.
"""

from __future__ import annotations

_BLOCK_DEVICE = ("sd_*", "sdmmc_*", "file_*")
_SPI_BUS = ("ssi_*", "spi_*", "poet_pl022_*", "poet_stm32f7_spi_*")
_WEIGHTS = ("weight_*",)
_BLOCKS = ("up_*", "up3_*", "down_*", "down3_*", "any_*", "edge_up_*", "edge_down_*")

#: file of the call -> patterns of the functions that may be meant, in whatever file
ANYWHERE: dict[str, tuple[str, ...]] = {
    "checkpoint.c": _BLOCK_DEVICE,
    "page_store.c": _BLOCK_DEVICE,
    "sd_bus.c": _SPI_BUS,
    "sd_spi.c": _SPI_BUS,
    "pl022.c": ("select_card",),
    "port.c": ("bind_card", "card_interrupt"),
    "poet_schedule.c": ("watch_action",),
    "step.c": ("poet_generated_train_step", "poet_generated_eval_step"),
    "trainer.c": ("on_*", "poet_on_*"),
}
#: the same for tables of kernel blocks, which stay in the file that is compiled
SAME_FILE: dict[str, tuple[str, ...]] = {
    "conv_blocks.h": _BLOCKS,
    "conv_single.h": ("any_row", "nine_row"),
    "conv_weights.h": _WEIGHTS,
    "plane_lanes.h": ("plane_lanes_up*", "plane_lanes_down*"),
    "correlate.h": ("run_rectangle", "run_packed", "edge_row_*", "plane_two_*", "plane_three_*"),
    "product.c": ("any_*", "rows_rows_*", "terms_rows_*", "terms_terms_*"),
}
#: exceptions that begin a stack of their own, so they add nothing to the one they interrupt
FRESH_STACK = ("poet_cortex_m_fault",)
