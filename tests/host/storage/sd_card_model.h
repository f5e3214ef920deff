/* An SD card on an SPI bus, for tests: written from the SD Physical Layer Simplified Specification
 * (chapter 7, SPI mode; 5.1 OCR; 5.3 CSD), and strict where cards are lenient. Shares no code with
 * the driver. Time is virtual: each byte takes eight clocks.
 */
#ifndef POET_TESTS_SD_CARD_MODEL_H
#define POET_TESTS_SD_CARD_MODEL_H

#include <stdbool.h>
#include <stdint.h>

#include "poet/spi_bus.h"

typedef enum { CARD_SDSC_V1, CARD_SDSC, CARD_SDHC, CARD_SDXC, CARD_MMC, CARD_SDUC } card_kind;

/* What the card was doing when the host started. */
typedef enum { CARD_OFF, CARD_IN_READ, CARD_IN_MULTI_READ, CARD_IN_WRITE, CARD_IN_MULTI_WRITE,
               CARD_AWAITS_TOKEN, CARD_BUSY_WRITING } card_start;

typedef struct {
    card_kind kind;
    uint32_t blocks;
    card_start start;
    bool absent;
    bool low_voltage;         /* OCR without 3.3 V */
    bool refuses_voltage;     /* CMD8 echo without the voltage */
    uint8_t floating;         /* what the bus reads with no card or none selected */
    uint32_t power_up_us;     /* no answer at all before */
    uint32_t init_us;         /* ACMD41 says idle for so long */
    uint32_t response_delay;  /* 0xFF bytes before a response, 0..8 */
    uint32_t garbage;         /* bytes with bit 7 set before a response */
    uint32_t data_delay;      /* 0xFF bytes before a data token */
    uint32_t busy_us;         /* after each written block and after the stop token */
    uint32_t damaged_blocks;  /* so many blocks read come with a wrong CRC */
    uint32_t damage_after;    /* ... after so many good ones */
    uint32_t refused_blocks;  /* so many written blocks get the data response "CRC error" */
    uint32_t refuse_after;
    uint32_t misheard;        /* so many commands of the next number get R1 "CRC error" */
    uint32_t misheard_command;
    uint32_t misheard_echoes; /* so many echoes of CMD8 come with another pattern */
    uint32_t write_error_at;  /* block whose write gets "write error"; UINT32_MAX: none */
    uint32_t program_error_at; /* block accepted and then lost; told by CMD13 only */
    uint32_t read_error_at;    /* block that comes as an error token */
    uint32_t rot_at;           /* block whose stored bytes are one bit off; told by nothing */
    uint32_t real_blocks;      /* 0, or the capacity behind the one that is claimed: it wraps */
    bool write_protected;      /* every written block gets "write error" */
    bool stuck;                /* no data token ever comes */
    uint64_t remove_at;        /* number of the byte at which the card is pulled out */
} card_options;

/* No faults, a fresh card of this kind and size. */
card_options card_plain(card_kind kind, uint32_t blocks);

typedef enum { DISTURB_NONE, DISTURB_RX_ONES, DISTURB_RX_ZEROS, DISTURB_RX_FLIP, DISTURB_TX_FLIP,
               DISTURB_TX_ONES, DISTURB_KINDS } disturb_kind;

typedef struct {
    disturb_kind kind;
    uint64_t at;
    uint64_t length;
    uint8_t bit;
} disturbance;

/* Counted by the model, whatever the driver believes. */
typedef struct {
    uint64_t bytes;
    uint64_t now_ns;
    uint32_t violations; /* things a host must not do */
    const char *violation;
    uint32_t blocks_read;
    uint32_t blocks_written;
    uint32_t pre_erase; /* last ACMD23 */
    uint32_t commands[64];
} card_counters;

/* There is one card and one bus. */
void card_insert(const card_options *options);
/* The same card, with power on and in the middle of its work, behaves otherwise from here on. */
void card_change(const card_options *options);
void card_disturb(const disturbance *disturb);
/* The medium; NULL: never written. */
const uint8_t *card_medium(uint32_t block);
void card_set_medium(uint32_t block, const uint8_t *bytes);
void card_wipe(void);
extern card_counters card_seen;
extern const poet_spi_bus card_bus;
/* Called when virtual time passes this limit: the driver loops. */
extern uint64_t card_time_limit_ns;

/* Between card and bus. */
extern uint64_t card_byte_ns;
void card_bus_reset(uint64_t removal);
void card_bus_remove(uint64_t removal);
void card_violation(const char *what);
bool card_is_idle(void);
uint8_t card_byte(uint8_t out, bool selected, bool removed);

#endif
