"""Command lines fit to be shown: without secrets, on one line, of bounded length.

Errs on the side of hiding: what has the name or the look of a secret is taken for one.
"""

import re
from collections.abc import Iterable, Iterator, Sequence

MAX_CHARS = 512
HIDDEN = "***"

_MAX_READ_CHARS = 4096  # bounds the time; far beyond what is shown, so that no secret is cut open
_NAME = r"[A-Za-z_][\w.\-]*"
_WHOLE = re.compile(rf"(-{{0,2}}({_NAME})(?:=|:\s+))(?=.)", re.DOTALL)  # NAME=…, Header: …
_INSIDE = re.compile(rf"(?<![\w.\-])({_NAME})[\"']?[=:]([\"']?)(?=[^\s\"'])")
_VALUE = re.compile(r"[^\s\"'&;,}\])]+")
_OPENER = re.compile(
    rf"(?:^[\"']?--?({_NAME})|(?<![\w.\-])({_NAME})[\"']?:|\b(bearer):?)[\"']?$", re.IGNORECASE
)
_SCHEMES = {"bearer", "basic", "digest", "token"}  # words between "Authorization:" and its secret
_TAKING_SEVERAL = ("api-key", "api-keys", "api_key")  # vLLM's --api-key KEY [KEY …]
_MAX_DEPTH = 6  # of quotes in quotes
_PIECE = re.compile(r"(?:\"[^\"]*\"|'[^']*'|\S)+")

_URL_USER = re.compile(
    r"(?<![A-Za-z0-9+.\-])([A-Za-z][A-Za-z0-9+.\-]*://)"
    r"(?:[^\s/?#@]+|[^\s/?#@:]*:(?!\d{1,5}(?:[/?#,\s]|$))\S*)@"
)
_USER_FLAGS = {"-u", "--user", "--proxy-user"}  # curl's user:password

_MARKS = re.compile(
    "passw|passphrase|secret|credential|apikey|accesskey|privatekey|authorization|cookie"
)
_SECRET_LAST_WORDS = {"token", "key", "keys", "pass", "pwd", "bearer", "auth"}
_PUBLIC_LAST_WORDS = {"file", "path", "dir", "mode", "type", "len", "length", "size", "count"}
_WORD = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])")

_TOKENS = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----.*"
    r"|(?<![\w./\-])(?:hf_[A-Za-z0-9]{10,}|sk-[\w\-]{8,}|nvapi-[\w\-]{8,})(?![\w./])"
    r"|\b(?:A3T|AKIA|ASIA)[A-Z0-9]{16}\b"
    r"|\bgh[oprsu]_[A-Za-z0-9]{20,}|\bgithub_pat_\w{20,}|\bglpat-[\w\-]{16,}"
    r"|\bxox[abeprs]-[\w\-]{10,}|\bAIza[\w\-]{30,}"
    r"|\beyJ[\w\-]{8,}\.[\w\-]+(?:\.[\w\-]*)?",
    re.DOTALL,
)


def redacted(argv: Sequence[str]) -> str:
    """The command line in one line of at most 512 characters, its secrets replaced by ``***``.

    Hidden are: values of flags, variables, JSON and header fields, and query parameters whose name
    smells of a secret; users of URLs; what follows "Bearer"; strings with the look of well-known
    tokens and keys. Also inside an argument that is a command line itself. Unprintable characters
    become blanks; "…" ends what was cut.

    Args: argv: the arguments as the process was given them.
    """
    text = " ".join(_redacted_each(_bounded(argv), depth=0))
    line = "".join(char if char.isprintable() else " " for char in text)
    return line if len(line) <= MAX_CHARS else line[: MAX_CHARS - 1] + "…"


def _bounded(argv: Sequence[str]) -> Iterator[str]:
    left = _MAX_READ_CHARS
    for argument in argv:
        if left <= 0:
            return
        yield argument[:left]
        left -= len(argument) + 1


def _redacted_each(texts: Iterable[str], depth: int) -> Iterator[str]:
    """Arguments, or pieces of one, of which one can say that the next is a secret."""
    hides_next = hides_until_flag = is_user_next = False
    for text in texts:
        is_hidden = (hides_next and not text.startswith("--")) or (
            hides_until_flag and not text.startswith("-")
        )
        if is_hidden:
            hides_next = text.strip("\"'").lower() in _SCHEMES  # the secret itself is still to come
            yield HIDDEN
        elif is_user_next and ":" in text:
            is_user_next = False
            yield f"{text.partition(':')[0]}:{HIDDEN}"
        else:
            hides_next = _opens_secret(text)
            hides_until_flag = hides_next and text.endswith(_TAKING_SEVERAL)
            is_user_next = text in _USER_FLAGS
            yield _redacted_text(text, depth)


def _redacted_text(text: str, depth: int) -> str:
    whole = _WHOLE.match(text)
    if whole and _smells(whole[2]):
        return whole[1] + HIDDEN
    text = _TOKENS.sub(HIDDEN, _URL_USER.sub(rf"\1{HIDDEN}@", text))
    if depth < _MAX_DEPTH and any(char.isspace() for char in text):
        if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'":
            return text[0] + _redacted_text(text[1:-1], depth + 1) + text[0]
        return " ".join(_redacted_each(_PIECE.findall(text), depth + 1))
    return _without_values(text)


def _without_values(text: str) -> str:
    """The text without what stands behind secret names in it: JSON fields, query parameters."""
    parts, end = [], 0
    for name in _INSIDE.finditer(text):
        if name.start() >= end and _smells(name[1]):
            parts += [text[end : name.end()], HIDDEN]
            quote_at = text.find(name[2], name.end()) if name[2] else -1
            value = _VALUE.match(text, name.end())
            end = quote_at if quote_at >= 0 else value.end() if value else name.end()
    return "".join([*parts, text[end:]])


def _opens_secret(text: str) -> bool:
    opener = _OPENER.search(text)
    return opener is not None and (bool(opener[3]) or _smells(opener[1] or opener[2]))


def _smells(name: str) -> bool:
    """Whether a value under this name is taken for a secret."""
    words = [word.lower() for word in _WORD.findall(name)]
    if not words or words[-1] in _PUBLIC_LAST_WORDS:
        return False
    return words[-1] in _SECRET_LAST_WORDS or _MARKS.search("".join(words)) is not None
