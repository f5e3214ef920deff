"""Any string as a C identifier, as a C string literal, as text of a C comment, or on the board.

ONNX names are arbitrary UTF-8 from strangers' files; nothing of them may reach the compiler as
anything but a name, a literal or a comment.
"""

from __future__ import annotations

import hashlib
import re
import zlib
from collections.abc import Sequence

# C11 (N1570) 6.4.1 and C++11 (N3337) 2.12: generated headers are included from both.
_RESERVED_TEXT = """
auto break case char const continue default do double else enum extern float for goto if inline
int long register restrict return short signed sizeof static struct switch typedef union
unsigned void volatile while alignas alignof and and_eq asm bitand bitor bool catch char16_t
char32_t class compl const_cast constexpr decltype delete dynamic_cast explicit export false
friend mutable namespace new noexcept not not_eq nullptr operator or or_eq private protected
public reinterpret_cast static_assert static_cast template this thread_local throw true try
typeid typename using virtual wchar_t xor xor_eq
"""
# Macros and names that freestanding headers, our own ones or the linker bring into every file.
_TAKEN_TEXT = """
NULL true false bool offsetof main errno assert complex imaginary I noreturn unix linux arm
size_t ptrdiff_t int8_t int16_t int32_t int64_t uint8_t uint16_t uint32_t uint64_t intptr_t
uintptr_t memcpy memset memmove memcmp strlen
"""
_FORBIDDEN = frozenset((_RESERVED_TEXT + _TAKEN_TEXT).split())
# C11 5.2.4.1: at least 63 initial characters of an internal identifier are significant.
_MAX_CHARS = 63

# The longest name that firmware/train/requests_tensor.c fits into an answer.
_BOARD_BYTES = 400
_DIGEST_CHARS = 32

_INVALID = re.compile(r"[^A-Za-z0-9]+")
_SIMPLE_ESCAPES = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\t": "\\t", "\r": "\\r"}


def identifier(text: str, prefix: str = "") -> str:
    """A valid C11 and C++11 identifier for ``text``, at most 63 characters, never reserved.

    ``prefix`` is put in front with an underscore and must be an identifier itself. Runs of other
    characters become one underscore (double underscores are reserved in C++). Two texts may give
    one name: use ``Names`` where that matters.
    """
    body = _INVALID.sub("_", text).strip("_")
    if not body:
        body = "unnamed"
    name = f"{prefix}_{body}" if prefix else body
    if name[0].isdigit() or name in _FORBIDDEN:
        name = f"n_{name}"
    if len(name) <= _MAX_CHARS:
        return name
    return _shorten(name, f"_{zlib.crc32(text.encode('utf-8', 'surrogatepass')):08x}")


def _shorten(name: str, suffix: str) -> str:
    return name[: _MAX_CHARS - len(suffix)].rstrip("_") + suffix


class Names:
    """Hands out identifiers that differ from each other; the same calls give the same names."""

    def __init__(self, taken: tuple[str, ...] = ()) -> None:
        self._used = set(taken)

    def unique(self, text: str, prefix: str = "") -> str:
        """``identifier(text, prefix)``, with a number behind it when that is taken already."""
        name = identifier(text, prefix)
        count = 2
        while name in self._used:
            suffix = f"_{count}"
            base = identifier(text, prefix)
            name = base + suffix if len(base + suffix) <= _MAX_CHARS else _shorten(base, suffix)
            count += 1
        self._used.add(name)
        return name


def c_string(text: str | bytes) -> str:
    """``text`` as a C string literal in quotes, ASCII only.

    Other bytes of the UTF-8 form become three-digit octal escapes (a hex escape would swallow
    following digits). A question mark after another is escaped: trigraphs are on under -std=c11
    (C11 5.2.1.1). Lone surrogates are kept as their three bytes.
    """
    raw = text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text
    out: list[str] = []
    for byte in raw:
        char = chr(byte)
        if char in _SIMPLE_ESCAPES:
            out.append(_SIMPLE_ESCAPES[char])
        elif char == "?" and out and out[-1] in {"?", "\\?"}:
            out.append("\\?")
        elif 0x20 <= byte < 0x7F:
            out.append(char)
        else:
            out.append(f"\\{byte:03o}")
    return '"' + "".join(out) + '"'


def comment_text(text: str) -> str:
    """``text`` as one line that is safe inside /* */ and after //, ASCII only.

    Comment marks and trigraphs are broken up by a space, a backslash becomes a slash of the other
    direction (it could splice lines), and what is not printable ASCII is shown as <U+XXXX>
    (bidirectional controls are an error of gcc 12, CVE-2021-42574).
    """
    line = " ".join(text.replace("\\", "/").split())
    shown = "".join(c if " " <= c <= "~" else f"<U+{ord(c):04X}>" for c in line)
    for pair in ("*/", "/*", "//", "??"):
        while pair in shown:
            shown = shown.replace(pair, f"{pair[0]} {pair[1]}")
    return shown


def board_name(text: str) -> str:
    """``text`` as the board tells it: of more than 400 bytes the first, and a digest of all."""
    raw = text.encode("utf-8", "surrogatepass")
    if len(raw) <= _BOARD_BYTES:
        return text
    head = raw[: _BOARD_BYTES - _DIGEST_CHARS - 1].decode("utf-8", "ignore")
    return f"{head}~{hashlib.sha256(raw).hexdigest()[:_DIGEST_CHARS]}"


def board_names(texts: Sequence[str]) -> list[str]:
    """``board_name`` of each; one that is taken by an earlier one gets a number behind it."""
    names: dict[str, None] = {}
    for text in texts:
        name, count = board_name(text), 1
        while name in names:
            count += 1
            name = board_name(f"{text}~{count}")
        names[name] = None
    return list(names)
