"""The kubelet's list of pods, encoded by protobuf itself, as holders of GPUs."""

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from exporter.records.pods import GpuHolder
from exporter.sources.pod_list import PodList, read_pod_list
from tests.kubelet import pod, pod_list

A = "GPU-0000000a-1111-2222-3333-44444444444a"
B = "GPU-0000000b-1111-2222-3333-44444444444b"
SLICE = "MIG-0000000c-1111-2222-3333-44444444444c"


def holder(uuid: str, name: str = "blue-0") -> GpuHolder:
    return GpuHolder(uuid=uuid, namespace="serving", pod=name, container="vllm")


def claimed(driver: str, device_name: str, *cdi_names: str) -> dict[str, object]:
    resource = {
        "driver_name": driver,
        "pool_name": "node-1",
        "device_name": device_name,
        "cdi_devices": [{"name": name} for name in cdi_names],
    }
    claim = {"claim_name": "gpu", "claim_namespace": "serving", "claim_resources": [resource]}
    container = {"name": "vllm", "dynamic_resources": [claim]}
    return {"name": "blue-0", "namespace": "serving", "containers": [container]}


def test_a_node_without_pods_has_no_holders() -> None:
    assert read_pod_list(b"") == PodList((), 0)


def test_each_gpu_of_each_container_has_its_holder() -> None:
    message = pod_list(pod("blue-0", [A, B]), pod("green-0", [B], namespace="test", container="m"))
    assert read_pod_list(message) == PodList(
        (holder(A), holder(B), GpuHolder(B, "test", "green-0", "m")), 0
    )


@pytest.mark.parametrize(
    ("resource", "device_id", "uuid"),
    [
        pytest.param("nvidia.com/gpu", A, A, id="whole"),
        pytest.param("nvidia.com/gpu", f"{A}::3", A, id="time-slicing"),
        pytest.param("nvidia.com/gpu.shared", f"{A}::0", A, id="renamed, time-slicing"),
        pytest.param("example.com/our-gpu", A, A, id="renamed altogether"),
        pytest.param("nvidia.com/gpu", f"{A}-7", A, id="shares of other plugins"),
        pytest.param("nvidia.com/mig-1g.18gb", SLICE, SLICE, id="MIG"),
        pytest.param("nvidia.com/mig-1g.18gb.shared", f"{SLICE}::1", SLICE, id="shared MIG"),
        pytest.param("nvidia.com/gpu", SLICE, SLICE, id="MIG, strategy single"),
        pytest.param("nvidia.com/mig-1g.5gb", f"MIG-{A}/7/0", A, id="MIG of drivers before 470"),
        pytest.param("nvidia.com/mig-1g.5gb", f"{A}/7/0", A, id="GPU and instances"),
    ],
)
def test_a_device_is_known_by_the_uuid_in_its_id(resource: str, device_id: str, uuid: str) -> None:
    message = pod_list(pod("blue-0", [device_id], resource=resource))
    assert read_pod_list(message) == PodList((holder(uuid),), 0)


def test_two_shares_of_one_gpu_in_one_container_are_one_holder_and_in_two_pods_are_two() -> None:
    message = pod_list(pod("blue-0", [f"{A}::0", f"{A}::1"]), pod("blue-1", [f"{A}::2"]))
    assert read_pod_list(message) == PodList((holder(A), holder(A, "blue-1")), 0)


@pytest.mark.parametrize(
    ("resource", "device_id", "unnamed"),
    [
        pytest.param("nvidia.com/gpu", "nvidia0", 1, id="minor number of a cloud's plugin"),
        pytest.param("nvidia.com/gpu", "", 1, id="empty"),
        pytest.param("nvidia.com/mig-1g.5gb", "nvidia0/gi7", 1, id="MIG of a cloud's plugin"),
        pytest.param("nvidia.com/gpu", A[:-1], 1, id="uuid cut off"),
        pytest.param("nvidia.com/gpu", f"{A}0", 1, id="uuid too long"),
        pytest.param("nvidia.com/gpu", f"x{A}", 1, id="something before the uuid"),
        pytest.param("nvidia.com/rdma", "mlx5_0", 0, id="no GPU"),
        pytest.param("amd.com/gpu", "0000:03:00.0", 0, id="GPU of another make"),
    ],
)
def test_a_gpu_without_uuid_is_counted_and_not_guessed(
    resource: str, device_id: str, unnamed: int
) -> None:
    message = pod_list(pod("blue-0", [device_id], resource=resource))
    assert read_pod_list(message) == PodList((), unnamed)


@pytest.mark.parametrize(
    ("claim", "expected"),
    [
        pytest.param(
            claimed("gpu.nvidia.com", "gpu-0", "k8s.gpu.nvidia.com/claim=5f0e-gpu-0"),
            PodList((), 1),
            id="named by number",
        ),
        pytest.param(
            claimed("gpu.nvidia.com", "gpu-0", f"k8s.gpu.nvidia.com/device={A}"),
            PodList((holder(A),), 0),
            id="uuid in the CDI name",
        ),
        pytest.param(
            claimed("gpu.nvidia.com", SLICE), PodList((holder(SLICE),), 0), id="uuid as device name"
        ),
        pytest.param(claimed("rdma.example.com", "nic-0"), PodList((), 0), id="no GPU"),
    ],
)
def test_a_claimed_device_counts_when_its_name_is_a_uuid(
    claim: dict[str, object], expected: PodList
) -> None:
    assert read_pod_list(pod_list(claim)) == expected


NAMES = st.text(max_size=20)


@given(st.lists(st.tuples(NAMES, NAMES, NAMES, st.sampled_from([A, B, SLICE])), max_size=5))
def test_whatever_the_names_are_they_come_as_they_were_sent(
    rows: list[tuple[str, str, str, str]],
) -> None:
    message = pod_list(
        *(pod(name, [uuid], namespace=space, container=box) for name, space, box, uuid in rows)
    )
    expected = dict.fromkeys(GpuHolder(uuid, space, name, box) for name, space, box, uuid in rows)
    assert read_pod_list(message) == PodList(tuple(expected), 0)


def test_fields_of_later_versions_are_passed_over() -> None:
    later = b"\x98\x06\x07" + b"\xa1\x06" + bytes(8) + b"\xad\x06" + bytes(4) + b"\xb2\x06\x02ab"
    assert read_pod_list(later + pod_list(pod("blue-0", [A])) + later).holders == (holder(A),)


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        pytest.param(b"\x0a", "byte 1: a number without end", id="no length"),
        pytest.param(b"\x0a\x05ab", "byte 2: a field of 5 bytes goes beyond the end", id="short"),
        pytest.param(b"\x0a" + b"\xff" * 11, "byte 1: a number without end", id="endless length"),
        pytest.param(b"\x0b\x0c", "byte 1: wire type 3", id="group"),
        pytest.param(b"\x08\x01", "byte 1: field 1 has wire type 0", id="number, not message"),
        pytest.param(b"\x15\x01", "byte 1: a field of 4 bytes goes", id="short fixed number"),
        pytest.param(b"\x0a\x03\x0a\x01\xff", "'utf-8' codec can't decode", id="name not UTF-8"),
    ],
)
def test_what_is_no_list_is_refused_with_its_place(message: bytes, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        read_pod_list(message)


@given(st.binary(max_size=200))
def test_no_bytes_give_anything_but_a_list_or_a_value_error(message: bytes) -> None:
    with suppress(ValueError):
        assert isinstance(read_pod_list(message), PodList)
