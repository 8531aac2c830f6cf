"""The source of the kubelet's pod-resources API: who holds which GPU. The only user of gRPC.

Importing this module needs the extra ``kubernetes`` and costs about 16 MB of resident memory, so it
is imported only where the source is asked for.
"""

import os
from collections import Counter
from urllib.parse import quote

import grpc

from exporter.clock import Clock
from exporter.errors import SourceUnavailable
from exporter.records.pods import PodReading
from exporter.sources.pod_list import read_pod_list

INTERVAL_S = 10.0
TIMEOUT_S = 2.0
MAX_BODY_BYTES = 16 * 2**20
METHOD = "/v1.PodResourcesLister/List"

_REASONS = {
    grpc.StatusCode.UNAVAILABLE: "unreachable",
    grpc.StatusCode.DEADLINE_EXCEEDED: "timed_out",
}
_FIXES = {
    grpc.StatusCode.UNAVAILABLE: "mount the kubelet's directory of that socket, and let this user"
    " connect to it (root, as a rule); it is asked again",
    grpc.StatusCode.DEADLINE_EXCEEDED: "the kubelet hangs or is overloaded; it is asked again",
    grpc.StatusCode.UNIMPLEMENTED: "let --kubernetes.pod-resources name the kubelet's socket,"
    " usually /var/lib/kubelet/pod-resources/kubelet.sock",
}


class PodResourcesSource:
    """Asks the kubelet of this node every ten seconds.

    `errors` counts GPUs in answers that are not named by a uuid (``gpu_without_uuid``).
    """

    name = "pod_resources"
    interval_s = INTERVAL_S

    def __init__(self, socket_path: str, clock: Clock) -> None:
        self.errors: Counter[str] = Counter()
        self._path = os.path.abspath(socket_path)
        self._clock = clock

    def read(self) -> PodReading:
        """All holders as of now.

        Raises: SourceUnavailable: no answer, or none of the kubelet.
        """
        message = self._list()
        ts_unix_ns = self._clock.unix_ns()
        try:
            pods = read_pod_list(message)
        except ValueError as exc:
            raise SourceUnavailable(
                "bad_response", f"{self._path} answers what is no list of pods: {exc}"
            ) from exc
        self.errors.update(["gpu_without_uuid"] * pods.unnamed)
        return PodReading(ts_unix_ns=ts_unix_ns, interval_s=INTERVAL_S, holders=pods.holders)

    def close(self) -> None:
        """Nothing is held open: each read has its own connection, so none outlives a kubelet."""

    def _list(self) -> bytes:
        options = (
            ("grpc.max_receive_message_length", MAX_BODY_BYTES),
            ("grpc.use_local_subchannel_pool", 1),  # else a refusal is remembered between reads
            ("grpc.enable_http_proxy", 0),
            ("grpc.enable_retries", 0),
        )
        with grpc.insecure_channel(f"unix:{quote(self._path)}", options) as channel:
            ask = channel.unary_unary(METHOD, bytes, bytes)
            try:
                return ask(b"", timeout=TIMEOUT_S)
            except grpc.RpcError as exc:
                raise self._unavailable(exc) from exc

    def _unavailable(self, error: grpc.RpcError) -> SourceUnavailable:
        code, details = error.code(), error.details() or ""
        return SourceUnavailable(
            _REASONS.get(code, code.name.lower()),
            f"{self._path}: {' '.join(details.split())}",
            _FIXES.get(code, "see the kubelet's log"),
        )
