"""The kubelet's answer about pods → who holds which GPU. Pure: bytes in, holders out.

Of the protobuf messages only the few text fields that we need are read, so there is no generated
code to keep in step. Field numbers: kubernetes/kubelet, pkg/apis/podresources/v1/api.proto. Wire
format: protobuf.dev/programming-guides/encoding.
"""

import re
from collections.abc import Iterator

from msgspec import Struct

from exporter.records.pods import GpuHolder

_PODS = 1  # of ListPodResourcesResponse
_POD_NAME, _POD_NAMESPACE, _POD_CONTAINERS = 1, 2, 3  # of PodResources
_CONTAINER_NAME, _CONTAINER_DEVICES, _CONTAINER_CLAIMED = 1, 2, 5  # of ContainerResources
_RESOURCE_NAME, _DEVICE_IDS = 1, 2  # of ContainerDevices
_CLAIM_RESOURCES = 4  # of DynamicResource
_CDI_DEVICES, _DRIVER_NAME, _DEVICE_NAME = 1, 2, 4  # of ClaimResource
_CDI_NAME = 1  # of CDIDevice

_VARINT, _EIGHT_BYTES, _LENGTH, _FOUR_BYTES = 0, 1, 2, 5
_LONGEST_VARINT = 10

# GPU-…, MIG-…, with ::2 of a shared one, or MIG-GPU-…/1/0 as drivers before 470 name a slice.
_DEVICE_ID = re.compile(
    r"(?:MIG-(?=GPU-))?((?:GPU|MIG)-[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})(?:[:/-].*)?"
)
_GPU_RESOURCE = re.compile(r"nvidia\.com/(?:gpu|mig-)")
_GPU_DRIVER = "gpu.nvidia.com"


class PodList(Struct, frozen=True):
    """Holders, each once; `unnamed`: GPUs that were given away but are not named by a uuid."""

    holders: tuple[GpuHolder, ...]
    unnamed: int


def read_pod_list(message: bytes) -> PodList:
    """Holders of GPUs in a ListPodResourcesResponse.

    A device counts by the form of its id, whatever its resource is called: resources are renamed,
    and GPUs handed out in shares. Devices that dynamic resource allocation calls ``gpu-0`` have no
    uuid here, and neither have the ``nvidia0`` of some clouds: such a number need not be NVML's, so
    they are only counted.

    Raises: ValueError: this is no such message.
    """
    holders: dict[GpuHolder, None] = {}
    unnamed = 0
    for pod in _parts(message, _PODS):
        namespace, name = _text(pod, _POD_NAMESPACE), _text(pod, _POD_NAME)
        for container in _parts(pod, _POD_CONTAINERS):
            container_name = _text(container, _CONTAINER_NAME)
            for uuid in _gpus(container):
                if uuid is None:
                    unnamed += 1
                else:
                    holders[GpuHolder(uuid, namespace, name, container_name)] = None
    return PodList(tuple(holders), unnamed)


def _gpus(container: bytes) -> Iterator[str | None]:
    """Uuid of each GPU of a container; None for one that is not named by a uuid."""
    for devices in _parts(container, _CONTAINER_DEVICES):
        is_gpu = _GPU_RESOURCE.match(_text(devices, _RESOURCE_NAME))
        for device_id in _texts(devices, _DEVICE_IDS):
            if match := _DEVICE_ID.fullmatch(device_id):
                yield match[1]
            elif is_gpu:
                yield None
    for claimed in _parts(container, _CONTAINER_CLAIMED):
        for resource in _parts(claimed, _CLAIM_RESOURCES):
            names = [_text(resource, _DEVICE_NAME)]
            names += (
                _text(device, _CDI_NAME).rpartition("=")[2]
                for device in _parts(resource, _CDI_DEVICES)
            )
            matches = [match[1] for name in names if (match := _DEVICE_ID.fullmatch(name))]
            if matches:
                yield from matches
            elif _text(resource, _DRIVER_NAME) == _GPU_DRIVER:
                yield None


def _text(message: bytes, number: int) -> str:
    """The text field; the last one counts, as everywhere in protobuf; empty when there is none."""
    return next(reversed(_texts(message, number)), "")


def _texts(message: bytes, number: int) -> list[str]:
    return [part.decode() for part in _parts(message, number)]


def _parts(message: bytes, number: int) -> Iterator[bytes]:
    """Contents of the length-delimited fields with this number; other fields are passed over."""
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        start, kind = at, tag & 7
        if kind == _VARINT:
            _, at = _varint(message, at)
        elif kind == _LENGTH:
            length, start = _varint(message, at)
            at = start + length
        elif kind in (_EIGHT_BYTES, _FOUR_BYTES):
            at += 8 if kind == _EIGHT_BYTES else 4
        else:
            raise ValueError(f"byte {at}: wire type {kind}")
        if at > len(message):
            raise ValueError(f"byte {start}: a field of {at - start} bytes goes beyond the end")
        if tag >> 3 == number:
            if kind != _LENGTH:
                raise ValueError(f"byte {start}: field {number} has wire type {kind}")
            yield message[start:at]


def _varint(message: bytes, at: int) -> tuple[int, int]:
    """The number at this place, and where it ends."""
    value = 0
    for place, byte in enumerate(message[at : at + _LONGEST_VARINT]):
        value |= (byte & 0x7F) << (7 * place)
        if byte < 0x80:
            return value, at + place + 1
    raise ValueError(f"byte {at}: a number without end")
