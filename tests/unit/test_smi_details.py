"""What nvidia-smi says, in our units and under our names."""

from tests.gpu.smi_details import details_of

SMI = """<?xml version="1.0" ?>
<nvidia_smi_log><gpu id="00000000:1B:00.0">
<pci><pci_gpu_link_info><pcie_gen><max_link_gen>5</max_link_gen>
<current_link_gen>4</current_link_gen></pcie_gen><link_widths><max_link_width>16x</max_link_width>
<current_link_width>8x</current_link_width></link_widths></pci_gpu_link_info>
<replay_counter>11</replay_counter></pci>
<bar1_memory_usage><total>262144 MiB</total><used>2 MiB</used></bar1_memory_usage>
<ecc_errors><volatile><sram_correctable>3</sram_correctable>
<sram_uncorrectable_parity>1</sram_uncorrectable_parity>
<sram_uncorrectable_secded>20</sram_uncorrectable_secded>
<dram_correctable>4</dram_correctable><dram_uncorrectable>300</dram_uncorrectable></volatile>
<aggregate><sram_correctable>N/A</sram_correctable></aggregate></ecc_errors>
<remapped_rows><remapped_row_corr>6</remapped_row_corr><remapped_row_unc>5</remapped_row_unc>
<remapped_row_pending>Yes</remapped_row_pending>
<remapped_row_failure>No</remapped_row_failure></remapped_rows>
<gpu_power_readings><current_power_limit>700.50 W</current_power_limit></gpu_power_readings>
</gpu></nvidia_smi_log>"""


def test_details_have_our_names_and_units() -> None:
    assert details_of(SMI) == [
        {
            "gpu_bar1_total_bytes": 274_877_906_944,
            "gpu_bar1_used_bytes": 2_097_152,
            "gpu_pcie_replays_total": 11,
            "gpu_pcie_link_generation": 4,
            "gpu_pcie_link_max_generation": 5,
            "gpu_pcie_link_lanes": 8,
            "gpu_pcie_link_max_lanes": 16,
            "gpu_remapped_rows[correctable]": 6,
            "gpu_remapped_rows[uncorrectable]": 5,
            "gpu_remapped_rows[pending]": 1,
            "gpu_remapped_rows[failure]": 0,
            "gpu_ecc_errors_total[corrected_volatile]": 7,
            "gpu_ecc_errors_total[uncorrected_volatile]": 321,
            "gpu_power_limit_watts": 700.5,
        }
    ]
