"""A kubelet's pod-resources API as a real gRPC server on a unix socket.

Messages are encoded by protobuf itself after the published api.proto, so that what our decoder
takes them for is checked against another implementation.
"""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.json_format import ParseDict
from google.protobuf.message_factory import GetMessageClass

METHOD = "/v1.PodResourcesLister/List"

MESSAGES: dict[str, tuple[str, ...]] = {
    "NUMANode": ("int64 ID 1",),
    "TopologyInfo": ("repeated NUMANode nodes 1",),
    "ContainerMemory": ("string memory_type 1", "uint64 size 2", "TopologyInfo topology 3"),
    "ContainerDevices": (
        "string resource_name 1",
        "repeated string device_ids 2",
        "TopologyInfo topology 3",
    ),
    "CDIDevice": ("string name 1",),
    "ClaimResource": (
        "repeated CDIDevice cdi_devices 1",
        "string driver_name 2",
        "string pool_name 3",
        "string device_name 4",
    ),
    "DynamicResource": (
        "string claim_name 2",
        "string claim_namespace 3",
        "repeated ClaimResource claim_resources 4",
    ),
    "ContainerResources": (
        "string name 1",
        "repeated ContainerDevices devices 2",
        "repeated int64 cpu_ids 3",
        "repeated ContainerMemory memory 4",
        "repeated DynamicResource dynamic_resources 5",
    ),
    "PodResources": (
        "string name 1",
        "string namespace 2",
        "repeated ContainerResources containers 3",
        "repeated int64 cpu_ids 4",
        "repeated ContainerMemory memory 5",
    ),
    "ListPodResourcesResponse": ("repeated PodResources pod_resources 1",),
}
_TYPES = {
    "string": FieldDescriptorProto.TYPE_STRING,
    "int64": FieldDescriptorProto.TYPE_INT64,
    "uint64": FieldDescriptorProto.TYPE_UINT64,
}


def pod_list(*pods: Mapping[str, object]) -> bytes:
    """A ListPodResourcesResponse; fields by the names that api.proto gives them."""
    answer = ParseDict({"pod_resources": pods}, _response_class()())
    encoded: bytes = answer.SerializeToString()
    return encoded


def pod(
    name: str,
    device_ids: Sequence[str],
    *,
    namespace: str = "serving",
    container: str = "vllm",
    resource: str = "nvidia.com/gpu",
) -> dict[str, object]:
    """A pod with one container that the device plugin gave these devices."""
    devices = {
        "resource_name": resource,
        "device_ids": list(device_ids),
        "topology": {"nodes": [{"ID": 1}]},
    }
    resources = {
        "name": container,
        "devices": [devices],
        "cpu_ids": [2, 3, 500],
        "memory": [{"memory_type": "memory", "size": 2**40, "topology": {"nodes": [{"ID": 1}]}}],
    }
    return {"name": name, "namespace": namespace, "containers": [resources]}


class Kubelet:
    """What the server answers; may be changed while it runs. `asked` is set at each question."""

    def __init__(self, socket_path: Path, *pods: Mapping[str, object]) -> None:
        self.socket_path = socket_path
        self.answer: Callable[[grpc.ServicerContext], bytes] = lambda _context: b""
        self.asked = threading.Event()
        self.ended = threading.Event()
        self.lists(*pods)

    def lists(self, *pods: Mapping[str, object]) -> None:
        """From now on these are all pods of the node."""
        message = pod_list(*pods)
        self.answer = lambda _context: message

    def fails(self, code: grpc.StatusCode, details: str) -> None:
        """From now on every question is refused."""

        def refuse(context: grpc.ServicerContext) -> bytes:
            context.abort(code, details)

        self.answer = refuse

    def hangs(self) -> None:
        """From now on it answers only when it ends."""

        def wait(_context: grpc.ServicerContext) -> bytes:
            self.ended.wait()
            return b""

        self.answer = wait

    def handle(self, request: bytes, context: grpc.ServicerContext) -> bytes:
        """Answer one question."""
        self.asked.set()
        assert request == b""
        return self.answer(context)


@contextmanager
def serving(kubelet: Kubelet) -> Iterator[Kubelet]:
    """Serve until the block ends; then the socket's file is gone, as after a kubelet's end."""
    server = grpc.server(ThreadPoolExecutor(4))
    handler = grpc.unary_unary_rpc_method_handler(kubelet.handle, bytes, bytes)
    service, method = METHOD.strip("/").split("/")
    server.add_generic_rpc_handlers(
        [grpc.method_handlers_generic_handler(service, {method: handler})]
    )
    server.add_insecure_port(f"unix:{kubelet.socket_path}")
    server.start()
    try:
        yield kubelet
    finally:
        kubelet.ended.set()
        server.stop(grace=None).wait()
        kubelet.socket_path.unlink(missing_ok=True)


def _response_class() -> type[Any]:
    file = FileDescriptorProto(name="pod_resources.proto", package="v1", syntax="proto3")
    for name, fields in MESSAGES.items():
        message = file.message_type.add(name=name)
        for field in fields:
            *repeated, kind, field_name, number = field.split()
            made = message.field.add(name=field_name, number=int(number))
            made.label = made.LABEL_REPEATED if repeated else made.LABEL_OPTIONAL
            if kind in _TYPES:
                made.type = _TYPES[kind]
            else:
                made.type, made.type_name = made.TYPE_MESSAGE, f".v1.{kind}"
    pool = DescriptorPool()
    pool.Add(file)
    return GetMessageClass(pool.FindMessageTypeByName("v1.ListPodResourcesResponse"))
