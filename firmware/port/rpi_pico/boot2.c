/* Second boot stage of the RP2040: the first 256 bytes of flash.
 *
 * The boot ROM copies them to RAM, compares the last word with the CRC-32 of the 252 bytes before
 * it (polynomial 0x04C11DB7, start 0xFFFFFFFF, nothing reflected: RP2040 datasheet 2.8.1.3.1) and
 * runs them. They make the flash readable at 0x10000000 by serial reads (command 0x03, 24 address
 * bits, which every chip knows up to some 33 MHz) at a quarter of the system clock, and go on with
 * the vector table behind them (4.10, SSI). Position independent; registers r0 to r5 only.
 *
 * A test computes the checksum again: when the code changes it says the new one.
 */
__asm__(".syntax unified\n"
        ".section .boot2, \"ax\", %progbits\n"
        ".balign 256\n"
        ".global poet_rp2040_boot2\n"
        ".type poet_rp2040_boot2, %function\n"
        ".thumb_func\n"
        "poet_rp2040_boot2:\n"
        "    adr  r0, 2f\n"
        "    ldmia r0!, {r1}\n" /* base of the SSI */
        "1:  ldmia r0!, {r2, r3}\n" /* offset, value; the list ends where both are 0 */
        "    adds r4, r2, r3\n"
        "    beq  3f\n"
        "    str  r3, [r1, r2]\n"
        "    b    1b\n"
        "3:  ldmia r0!, {r1, r2}\n" /* vector table, VTOR */
        "    str  r1, [r2]\n"
        "    ldmia r1!, {r4, r5}\n"
        "    msr  msp, r4\n"
        "    bx   r5\n"
        ".balign 4\n"
        "2:  .word 0x18000000\n"
        "    .word 0x08, 0\n"          /* SSIENR: off while it is set up */
        "    .word 0x14, 4\n"          /* BAUDR: system clock / 4 */
        "    .word 0x00, 0x001F0300\n" /* CTRLR0: one line, frames of 32 bits, send then receive */
        "    .word 0x04, 0\n"          /* CTRLR1: one frame */
        "    .word 0xF4, 0x03000218\n" /* SPI_CTRLR0: command 0x03 of 8 bits, 24 address bits */
        "    .word 0x08, 1\n"          /* SSIENR: on */
        "    .word 0, 0\n"
        "    .word 0x10000100\n" /* the vector table */
        "    .word 0xE000ED08\n" /* VTOR */
        ".org poet_rp2040_boot2 + 252, 0\n"
        "    .word 0x4E5568AC\n"
        ".size poet_rp2040_boot2, 256\n"
        ".text\n");
