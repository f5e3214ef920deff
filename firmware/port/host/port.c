/* Host port: the firmware as an ordinary process, the bit-exact twin of a board.
 *
 *   firmware [--card FILE] [--listen PORT]
 *
 * The console is a TCP socket on 127.0.0.1 (port 0, the default: any free one), one connection
 * after another; stdout tells the port. The process ends by REBOOT, by SIGTERM, and when its
 * standard input closes, so that it never outlives the program that started it.
 */
#define _POSIX_C_SOURCE 200809L

#include "poet/port.h"
#if defined(POET_FLUSH_SUBNORMALS) && POET_FLUSH_SUBNORMALS
#include "poet/flush_twin.h"
#define POET_HOST_FLUSHES 1
#else
#define POET_HOST_FLUSHES 0
#endif

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "host_port.h"

#define BUFFER_BYTES 4096u
#define IDLE_MS 1000      /* how long getc waits for something to happen */
#define SEND_TIMEOUT_S 10 /* the host does not read: drop the connection */
#define NANOSECONDS 1000000000u

static struct {
    int argc;
    char **argv;
    int listener;
    int client; /* -1: nobody */
    poet_bdev_file card;
    size_t in_fill, in_next, out_fill;
    uint8_t in[BUFFER_BYTES], out[BUFFER_BYTES];
} host = {.listener = -1, .client = -1, .card = {.fd = -1}};

static const poet_bdev card_device = {.ops = &poet_bdev_file_ops, .state = &host.card};

static _Noreturn void fail(const char *what, const char *detail)
{
    (void)fprintf(stderr, "firmware: %s: %s\n", what, detail);
    exit(2);
}

/* main() takes no arguments on a board, so the host port fetches its own: glibc hands those of
 * main to every constructor. */
__attribute__((constructor)) static void keep_arguments(int argc, char **argv)
{
    host.argc = argc;
    host.argv = argv;
}

static in_port_t parse_port(const char *text)
{
    char *end = NULL;
    const long port = strtol(text, &end, 10);
    if (end == text || *end != '\0' || port < 0 || port > 65535) {
        fail("--listen: expected a port number 0..65535, got", text);
    }
    return (in_port_t)port;
}

static in_port_t parse_arguments(void)
{
    in_port_t port = 0;
    for (int i = 1; i < host.argc; i += 2) {
        const char *option = host.argv[i];
        if (i + 1 >= host.argc) {
            fail("expected [--card FILE] [--listen PORT], got a lone", option);
        }
        if (strcmp(option, "--card") == 0) {
            host.card.path = host.argv[i + 1];
        } else if (strcmp(option, "--listen") == 0) {
            port = parse_port(host.argv[i + 1]);
        } else {
            fail("expected [--card FILE] [--listen PORT], got", option);
        }
    }
    return port;
}

void poet_port_init(void)
{
#if POET_HOST_FLUSHES
    poet_flush_subnormals();
#endif
    struct sockaddr_in address = {
        .sin_family = AF_INET,
        .sin_port = htons(parse_arguments()),
        .sin_addr = {.s_addr = htonl(INADDR_LOOPBACK)},
    };
    socklen_t length = sizeof(address);
    const int reuse = 1;
    host.listener = socket(AF_INET, SOCK_STREAM, 0);
    if (host.listener < 0 ||
        setsockopt(host.listener, SOL_SOCKET, SO_REUSEADDR, &reuse, sizeof(reuse)) != 0 ||
        bind(host.listener, (struct sockaddr *)&address, sizeof(address)) != 0 ||
        listen(host.listener, 1) != 0 ||
        getsockname(host.listener, (struct sockaddr *)&address, &length) != 0) {
        fail("cannot listen on 127.0.0.1", strerror(errno));
    }
    (void)printf("poet: listening on 127.0.0.1:%u\n", (unsigned)ntohs(address.sin_port));
    (void)fflush(stdout);
}

/* ---- console ---- */

static void hang_up(void)
{
    (void)close(host.client);
    host.client = -1;
    host.in_fill = 0u;
    host.in_next = 0u;
    host.out_fill = 0u;
}

static void answer_call(void)
{
    host.client = accept(host.listener, NULL, NULL);
    if (host.client < 0) {
        return;
    }
    const int on = 1;
    const struct timeval patience = {.tv_sec = SEND_TIMEOUT_S, .tv_usec = 0};
    (void)setsockopt(host.client, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    (void)setsockopt(host.client, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
}

/* Standard input carries nothing; its end is the end of us. */
static void check_parent(const struct pollfd *input)
{
    if (input->revents != 0) {
        uint8_t ignored[64];
        if (read(STDIN_FILENO, ignored, sizeof(ignored)) <= 0) {
            exit(0);
        }
    }
}

static void wait_for_bytes(void)
{
    const bool called = host.client >= 0;
    struct pollfd watched[2] = {
        {.fd = STDIN_FILENO, .events = POLLIN, .revents = 0},
        {.fd = called ? host.client : host.listener, .events = POLLIN, .revents = 0},
    };
    if (poll(watched, 2, IDLE_MS) <= 0) {
        return;
    }
    check_parent(&watched[0]);
    if (watched[1].revents == 0) {
        return;
    }
    if (!called) {
        answer_call();
        return;
    }
    const ssize_t got = recv(host.client, host.in, sizeof(host.in), 0);
    if (got <= 0) {
        hang_up();
        return;
    }
    host.in_fill = (size_t)got;
    host.in_next = 0u;
}

int poet_port_getc(void)
{
    if (host.in_next == host.in_fill) {
        wait_for_bytes();
    }
    if (host.in_next == host.in_fill) {
        return -1;
    }
    return host.in[host.in_next++];
}

void poet_port_flush(void)
{
    size_t sent = 0u;
    while (host.client >= 0 && sent < host.out_fill) {
        const ssize_t put =
            send(host.client, &host.out[sent], host.out_fill - sent, MSG_NOSIGNAL);
        if (put <= 0) {
            hang_up();
            return;
        }
        sent += (size_t)put;
    }
    host.out_fill = 0u;
}

void poet_port_putc(uint8_t byte)
{
    if (host.out_fill == sizeof(host.out)) {
        poet_port_flush();
    }
    host.out[host.out_fill++] = byte;
}

/* ---- time, card, stack ---- */

static uint64_t nanoseconds(void)
{
    struct timespec now = {0, 0};
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * NANOSECONDS + (uint64_t)now.tv_nsec;
}

uint32_t poet_port_micros(void)
{
    return (uint32_t)(nanoseconds() / 1000u);
}

uint64_t poet_port_cycles(void)
{
    return nanoseconds();
}

uint32_t poet_port_cycle_hz(void)
{
    return NANOSECONDS;
}

const poet_bdev *poet_port_bdev(void)
{
    return &card_device;
}

/* 0 of 0: a process does not measure its stack. */
uint32_t poet_port_stack_free_bytes(void)
{
    return 0u;
}

uint32_t poet_port_stack_bytes(void)
{
    return 0u;
}

_Noreturn void poet_port_reset(void)
{
    poet_port_flush();
    exit(0);
}
