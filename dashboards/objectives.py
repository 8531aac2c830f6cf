"""Row "Objectives": how fast vLLM's latency histograms use up the error budget."""

from dashboards.absence import NO_OBJECTIVE
from dashboards.figures import stat
from dashboards.graphs import timeseries
from dashboards.panels import GREEN, ORANGE, RED, Steps
from dashboards.queries import OBJECTIVE, Json, recorded, target

BURN: Steps = ((None, GREEN), (1, ORANGE), (14.4, RED))
"""1 uses up a month's budget in a month, 14.4 a fiftieth of it in an hour."""
_TOLD = (
    "1 means that just as many requests are slow as the objective allows; 14.4 over 1 h and 5 m "
    "uses 2 % of a month's budget in an hour and is worth a page. Threshold and budget stand at "
    "the top of deploy/prometheus/rules/slo.yml."
)


def _burn_now(title: str, what: str, histogram: str) -> Json:
    return stat(
        title,
        f"Share of requests whose {what} in the last hour, over the share that may. {_TOLD}",
        target(f"max({recorded(f'job_model:{histogram}_slo_burn:ratio_rate1h', OBJECTIVE)})"),
        unit="short",
        no_value=NO_OBJECTIVE,
        steps=BURN,
        height=8,
    )


def _burn(title: str, what: str, histogram: str) -> Json:
    return timeseries(
        title,
        f"Share of requests whose {what}, over the share that may, in windows of 5 m to 6 h. A "
        f"short window tells of now, a long one of damage done. {_TOLD}",
        *(
            target(
                recorded(f"job_model:{histogram}_slo_burn:ratio_rate{window}", OBJECTIVE),
                f"{{{{job}}}} {{{{model_name}}}} {window}",
            )
            for window in ("5m", "30m", "1h", "6h")
        ),
        unit="short",
        no_value=NO_OBJECTIVE,
        steps=BURN,
        width=8,
    )


_FIRST_TOKEN = ("first token is late", "vllm_time_to_first_token")
_REQUEST = ("answer takes too long", "vllm_e2e_request_latency")

OBJECTIVES = [
    _burn_now("Burn rate of first tokens", *_FIRST_TOKEN),
    _burn("First tokens, burn rate over time", *_FIRST_TOKEN),
    _burn_now("Burn rate of requests", *_REQUEST),
    _burn("Requests, burn rate over time", *_REQUEST),
]
