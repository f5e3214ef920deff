/* Inside the host port: what its two files share. */
#ifndef POET_HOST_PORT_H
#define POET_HOST_PORT_H

#include "poet/bdev.h"

/* Block device over an ordinary file of whole blocks; the file is never created or resized.
 * POET_E_NO_CARD while path is NULL or cannot be opened. */
typedef struct {
    const char *path;
    int fd;            /* -1: closed */
    uint32_t blocks;   /* capacity */
    poet_status ended; /* status of the last transfer, until waited for */
} poet_bdev_file;

extern const poet_bdev_ops poet_bdev_file_ops;

#endif
