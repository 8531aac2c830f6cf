"""vLLM's /metrics, of several versions and set-ups, to figures of each engine."""

from pathlib import Path

import pytest

from exporter.sources.engine_families import EngineFamilies, Exposition, read_exposition

SAMPLES = Path(__file__).parents[1] / "samples"
ONE = '{engine="0",model_name="m"}'


def read(text: str) -> Exposition:
    return read_exposition(text.encode())


def engine_of(text: str) -> EngineFamilies:
    (engine,) = read(text).engines.values()
    return engine


def test_a_busy_server_of_0_30() -> None:
    exposition = read_exposition((SAMPLES / "vllm_0.30.0_busy.txt").read_bytes())
    assert list(exposition.engines) == ["0"]
    engine = exposition.engines["0"]
    assert engine.model_name() == "served"
    assert engine.ratio("usage") == 37 / 39
    assert engine.requests("running") == 5
    assert engine.requests("waiting") == 19
    assert engine.requests_by("waiting_by_reason", "reason") == 19
    assert engine.count("query_tokens") == 1568
    assert engine.count("hit_tokens") == 1440
    assert engine.count("preemptions") == 9
    assert engine.fact("num_gpu_blocks") == "40"
    assert engine.fact("block_size") == "32"
    assert not exposition.faults


def test_c2_two_engines_of_one_server_stay_two() -> None:
    body = (SAMPLES / "vllm_0.30.0_two_engines.txt").read_bytes()
    assert [
        (
            name,
            engine.ratio("usage"),
            engine.requests("running"),
            engine.requests("waiting"),
            engine.count("preemptions"),
            engine.fact("num_gpu_blocks"),
        )
        for name, engine in read_exposition(body).engines.items()
    ] == [("0", 12 / 39, 1, 11, 1, "80"), ("1", 36 / 39, 5, 4, 12, "80")]


@pytest.mark.parametrize(
    ("text", "ratio"),
    [
        pytest.param(f"vllm:kv_cache_usage_perc{ONE} 0.25\n", 0.25, id="new"),
        pytest.param(f"vllm:gpu_cache_usage_perc{ONE} 0.25\n", 0.25, id="until 0.11"),
        pytest.param(f"vllm_kv_cache_usage_perc{ONE} 0.25\n", 0.25, id="underscore"),
        pytest.param('vllm:gpu_cache_usage_perc{model_name="m"} 0.25\n', 0.25, id="V0"),
        pytest.param("vllm:kv_cache_usage_perc 0.25\n", 0.25, id="no labels"),
        pytest.param(f"vllm:kv_cache_usage_perc{ONE} 0.25 17\n", 0.25, id="timestamp"),
        pytest.param(
            f"vllm:gpu_cache_usage_perc{ONE} 0.5\nvllm:kv_cache_usage_perc{ONE} 0.25\n",
            0.25,
            id="both names: the new one",
        ),
        pytest.param(
            'vllm:kv_cache_usage_perc{engine="0",pid="277"} 0.0\n'
            'vllm:kv_cache_usage_perc{engine="0",pid="273"} 0.65\n'
            'vllm:kv_cache_usage_perc{engine="0",pid="271"} 0.0\n',
            0.65,
            id="one for each API server, of which one has it",
        ),
    ],
)
def test_c1_usage_by_any_of_its_names(text: str, ratio: float) -> None:
    assert engine_of(text).ratio("usage") == ratio


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (1, 2, 0)])
def test_c3_of_several_api_servers_that_tell_of_one_engine_the_fullest_counts(
    order: tuple[int, int, int],
) -> None:
    told = [
        f'vllm:kv_cache_usage_perc{{engine="0",pid="{270 + number}"}} {usage}\n'
        for number, usage in enumerate((0.0, 0.65, 0.1))
    ]
    assert engine_of("".join(told[number] for number in order)).ratio("usage") == 0.65


@pytest.mark.parametrize(
    "lines",
    [
        [f"vllm:prefix_cache_queries_total{ONE} 4.089047e+06"],
        [f"vllm:prefix_cache_queries{ONE} 4089047"],
        [f"vllm_prefix_cache_queries_total{ONE} 4089047"],
        [
            "# HELP vllm:gpu_prefix_cache_queries_total In terms of number of queried tokens.",
            f"vllm:gpu_prefix_cache_queries_total{ONE} 4089047.0",
        ],
        [
            'vllm:prefix_cache_queries_total{engine="0",pid="1"} 4089000',
            'vllm:prefix_cache_queries_total{engine="0",pid="2"} 47',
        ],
    ],
    ids=["now", "without _total", "underscore", "until 0.11", "summed over API servers"],
)
def test_c1_a_counter_by_any_of_its_names(lines: list[str]) -> None:
    assert engine_of("\n".join(lines) + "\n").count("query_tokens") == 4_089_047


def test_counters_in_blocks_are_not_tokens() -> None:
    engine = engine_of(
        "# HELP vllm:gpu_prefix_cache_queries_total GPU prefix cache queries, in terms of number"
        " of queried blocks.\n"
        f"vllm:gpu_prefix_cache_queries_total{ONE} 90\nvllm:num_preemptions_total{ONE} 3\n"
    )
    assert engine.count("query_tokens") is None
    assert engine.count("preemptions") == 3


def test_each_engine_has_its_own_figures() -> None:
    exposition = read(
        'vllm:kv_cache_usage_perc{engine="1",model_name="m"} 0.97\n'
        'vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.1\n'
        'vllm:num_requests_waiting{engine="1",model_name="m"} 7\n'
    )
    assert [
        (name, engine.ratio("usage"), engine.requests("waiting"))
        for name, engine in exposition.engines.items()
    ] == [("0", 0.1, None), ("1", 0.97, 7)]


def test_several_models_under_one_engine_are_all_named_and_the_fullest_counts() -> None:
    engine = engine_of(
        'vllm:kv_cache_usage_perc{engine="0",model_name="b"} 0.1\n'
        'vllm:kv_cache_usage_perc{engine="0",model_name="a"} 0.9\n'
    )
    assert (engine.model_name(), engine.ratio("usage")) == ("a,b", 0.9)


def test_waiting_by_reason_adds_up_the_reasons_but_not_the_api_servers() -> None:
    engine = engine_of(
        'vllm:num_requests_waiting_by_reason{engine="0",pid="1",reason="capacity"} 4\n'
        'vllm:num_requests_waiting_by_reason{engine="0",pid="2",reason="capacity"} 0\n'
        'vllm:num_requests_waiting_by_reason{engine="0",pid="1",reason="deferred"} 3\n'
    )
    assert engine.requests_by("waiting_by_reason", "reason") == 7


@pytest.mark.parametrize(
    ("infos", "fact"),
    [
        ([], None),
        (['num_gpu_blocks="40"'], "40"),
        (['num_gpu_blocks="None"'], None),
        (['num_gpu_blocks=""'], None),
        (['block_size="16"'], None),
        (['num_gpu_blocks="40",pid="1"', 'num_gpu_blocks="40",pid="2"'], "40"),
        (['num_gpu_blocks="40",pid="1"', 'num_gpu_blocks="99",pid="2"'], None),
    ],
    ids=["none", "told", "None", "empty", "missing", "agreed", "of a server that ran before, too"],
)
def test_a_fact_is_what_all_infos_agree_on(infos: list[str], fact: str | None) -> None:
    text = "".join(f'vllm:cache_config_info{{engine="0",{info}}} 1.0\n' for info in infos)
    engine = engine_of(text + f"vllm:num_requests_running{ONE} 1\n")
    assert engine.fact("num_gpu_blocks") == fact


@pytest.mark.parametrize("value", ["NaN", "+Inf", "-1", "1.5", "1e300", "9" * 300])
def test_a_figure_that_makes_no_sense_is_void_and_counted(value: str) -> None:
    text = f"vllm:kv_cache_usage_perc{ONE} {value}\nvllm:num_requests_running{ONE} {value}\n"
    text += f"vllm:num_preemptions_total{ONE} {value}\nvllm:num_requests_waiting{ONE} 2\n"
    text += f'vllm:num_requests_waiting_by_reason{{engine="0",reason="capacity"}} {value}\n'
    exposition = read(text)
    engine = exposition.engines["0"]
    assert engine.ratio("usage") is None
    assert engine.requests("running") is None
    assert engine.count("preemptions") is None
    assert engine.requests_by("waiting_by_reason", "reason") is None
    assert engine.requests("waiting") == 2
    assert exposition.faults == {
        "invalid_usage": 1,
        "invalid_running": 1,
        "invalid_preemptions": 1,
        "invalid_waiting_by_reason": 1,
    }


@pytest.mark.parametrize(
    "line",
    [
        'vllm:kv_cache_usage_perc{engine="0" 0.5',
        'vllm:kv_cache_usage_perc{engine="0"} half',
        'vllm:kv_cache_usage_perc{engine="0"} ' + "9" * 400,
        'vllm:kv_cache_usage_perc{engine="0"}',
        "vllm:kv_cache_usage_perc{{{",
        'vllm:kv_cache_usage_perc{engine="0"} 0.5 then',
    ],
)
def test_a_malformed_line_is_counted_and_spoils_no_other(line: str) -> None:
    exposition = read(f"{line}\nvllm:num_requests_running{ONE} 1\n")
    assert exposition.engines["0"].requests("running") == 1
    assert exposition.engines["0"].ratio("usage") is None
    assert exposition.faults == {"malformed_line": 1}


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<!DOCTYPE html><html><body>vllm:num_requests_running 1</body></html>",
        b"\xff\xfe\x00" * 1000,
        b"\x1f\x8b\x08" + b"\0" * 100,
        b"python_info 1\nvllm:iteration_tokens_total_sum 7\nvllm:lora_requests_info 1\n",
        b'vllm_kv_cache_usage_ratio{engine="0"} 0.5\nvllm_engine_up{engine="0"} 1\n',
        b"# HELP vllm:num_requests_running x\n# TYPE vllm:num_requests_running gauge\n",
    ],
    ids=["empty", "HTML", "bytes", "gzip", "other families", "our own metrics", "only headings"],
)
def test_without_vllms_families_there_is_no_engine(body: bytes) -> None:
    assert read_exposition(body) == Exposition(engines={}, faults=read_exposition(b"").faults)
