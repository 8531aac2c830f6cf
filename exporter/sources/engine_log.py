"""vLLM's stats line in its log to a record: pure, knows no file and no log format around the line.

The line is the same in text, in colour and inside any JSON object; what stands around it is
someone's formatter, a container runtime or vLLM's own ``(APIServer pid=1) ``. Of its figures these
are no state and are left out: throughputs, ``Preemptions`` (of one interval) and the hit rates
(rolling over about a thousand requests, so neither the last 60 s nor a count).
"""

import re

from exporter.records.trace import BARE_INTERVAL_S, SCHEMA_VERSION, KvRecord

_MARK = " KV cache usage: "
_MAX_CHARACTERS = 4096  # ten times a stats line in JSON in a container's JSON

# The whole message, up to the end of its line or JSON string. In what users sent and vLLM logs, a
# quote or a parenthesis follows first: that is no message.
_MESSAGE = re.compile(
    r"(?:Engine (?P<engine>\d{1,9}): |(?P<engines>\d+) Engines Aggregated: )?"
    r"Avg prompt throughput: (?P<figures>[^\"'\\(=\x1b]++)(?:\"|\\n\"|\\u001b|\x1b|$)"
)
_USAGE = re.compile(r"(?P<device>\w+) KV cache usage: (?P<percent>\d+(?:\.\d+)?)%")
_RUNNING = re.compile(r", Running: (\d+) reqs")
_WAITING = re.compile(r", (?:Waiting|Pending): (\d+) reqs")


def stats_record(line: str, replica: str, ts_unix_ns: int) -> KvRecord | None:
    """What a log line tells of an engine, with origin ``log``; None when it is no stats line.

    `engine` is the number in ``Engine 000``, empty where the line names none: the V0 engine, and
    several engines aggregated, whose usage is a mean and therefore left out. Iteration lines
    (``Engine 000: Iteration(7): …``) are no stats lines.

    Args: replica: whose log it is; ts_unix_ns: when the line came, which is all its age that is
    known (it has no year and no zone).
    """
    if _MARK not in line or len(line) > _MAX_CHARACTERS:
        return None
    message = _MESSAGE.search(line)
    if message is None:
        return None
    figures = message["figures"]
    percents = {usage["device"]: float(usage["percent"]) for usage in _USAGE.finditer(figures)}
    return KvRecord(
        v=SCHEMA_VERSION,
        ts_unix_ns=ts_unix_ns,
        replica=replica,
        engine=str(int(message["engine"])) if message["engine"] else "",
        interval_s=BARE_INTERVAL_S,
        model_name="",
        origin="log",
        usage_ratio=None if message["engines"] else _usage_ratio(percents),
        running=_count(_RUNNING.search(figures)),
        waiting=_count(_WAITING.search(figures)),
    )


def _usage_ratio(percents: dict[str, float]) -> float | None:
    """The KV pool's usage, by device. V0 tells of the GPU and of the CPU, its swap space.

    Later versions tell of one device, which can be a CPU.
    """
    percent = percents.get("GPU", next(iter(percents.values()), None))
    return round(percent / 100, 6) if percent is not None and percent <= 100 else None


def _count(found: re.Match[str] | None) -> int | None:
    return int(found[1]) if found and len(found[1]) <= 15 else None
