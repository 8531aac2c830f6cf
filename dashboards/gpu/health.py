"""Row "Health of the hardware": what a driver tells before a GPU is lost."""

from dashboards.absence import NO_XID, NOT_TOLD_BY_GPU
from dashboards.graphs import timeseries
from dashboards.queries import BY_GPU, GPU, GPU_LEGEND, gauge, increase, rate, target

HEALTH = [
    timeseries(
        "Driver errors (Xid)",
        "How often the driver reported an error since the exporter started, by Xid code; NVIDIA "
        "lists what each means. 13, 31 and 43 come from a program; 48, 63, 64, 74, 79, 94 and 95 "
        "from the hardware. Normal is none.",
        target(
            gauge("gpu_xid_errors_total", GPU, f"{BY_GPU}, xid"), f"{GPU_LEGEND} Xid {{{{xid}}}}"
        ),
        unit="short",
        no_value=NO_XID,
        width=8,
        is_stepped=True,
    ),
    timeseries(
        "New memory errors (ECC)",
        "Errors in device memory in each window. Corrected ones now and then are normal; an "
        "uncorrected one ends the program that used the memory.",
        target(
            increase("gpu_ecc_errors_total", GPU, f"{BY_GPU}, kind"), f"{GPU_LEGEND} {{{{kind}}}}"
        ),
        unit="short",
        no_value=NOT_TOLD_BY_GPU,
        width=8,
        is_stepped=True,
    ),
    timeseries(
        "Remapped rows",
        "Rows of device memory that were replaced. pending at 1 waits for a reset of the GPU; "
        "failure at 1 means that the GPU has to be exchanged. A few replaced rows are normal.",
        target(gauge("gpu_remapped_rows", GPU, f"{BY_GPU}, kind"), f"{GPU_LEGEND} {{{{kind}}}}"),
        unit="short",
        no_value=NOT_TOLD_BY_GPU,
        width=8,
        is_stepped=True,
    ),
    timeseries(
        "NVLink traffic",
        "What the GPUs of one engine send one another (tensor parallel). It follows tokens/s; much "
        "less on one GPU than on its siblings is a link that is down.",
        target(rate("gpu_nvlink_transmit_bytes_total", GPU, BY_GPU), f"{GPU_LEGEND} sent"),
        target(rate("gpu_nvlink_receive_bytes_total", GPU, BY_GPU), f"{GPU_LEGEND} received"),
        unit="Bps",
        no_value=NOT_TOLD_BY_GPU,
    ),
    timeseries(
        "Errors on links",
        "PCIe packets that were sent again, and NVLink errors by kind, in each window. A few are "
        "normal; a steady stream is a cable, a slot or a bridge.",
        target(increase("gpu_pcie_replays_total", GPU, BY_GPU), f"{GPU_LEGEND} PCIe replays"),
        target(
            increase("gpu_nvlink_errors_total", GPU, f"{BY_GPU}, kind"),
            f"{GPU_LEGEND} NVLink {{{{kind}}}}",
        ),
        unit="short",
        no_value=NOT_TOLD_BY_GPU,
        is_stepped=True,
    ),
]
