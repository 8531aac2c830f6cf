"""The page at ``/``: what this is, whether it is a replay, where to go; nothing from elsewhere."""

from base64 import b64encode
from hashlib import sha256
from html import escape

from exporter import __version__
from exporter.records.view import View

_STYLE = """
:root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }
body { max-width: 44rem; margin: 3rem auto; padding: 0 1rem; }
h1 { font-size: 1.5rem; margin: 0; }
pre { padding: .75rem 1rem; border: 1px solid #8886; border-radius: .375rem; overflow-x: auto; }
dt { font-family: ui-monospace, monospace; margin-top: .5rem; }
dd { margin: 0; opacity: .75; }
.live { display: inline-block; padding: .5rem 1rem; border: 1px solid; border-radius: .375rem; }
.replay { padding: .5rem 1rem; border-left: .25rem solid #d97706; background: #d9770622; }
"""

SECURITY_POLICY = (
    "default-src 'none'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'; "
    f"style-src 'sha256-{b64encode(sha256(_STYLE.encode()).digest()).decode()}'"
)


def landing(view: View | None, telemetry_path: str, host: str) -> str:
    """The page as HTML.

    Args: view: None before the first. host: as the client calls this server, for the snippet.
    """
    path = escape(telemetry_path)
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<title>vllm-memory-exporter</title>
<style>{_STYLE}</style>
</head>
<body>
<h1>vllm-memory-exporter</h1>
<p>Version {escape(__version__)}: why the GPU's memory is full, who owns it, and what to change.</p>
{_state(view)}
<p><a class="live" href="/live">Look at the GPUs now</a></p>
<dl>
<dt><a href="/live">/live</a></dt><dd>a heatmap of every GPU's memory, as it happens</dd>
<dt><a href="{path}">{path}</a></dt><dd>metrics for Prometheus, text and OpenMetrics</dd>
<dt><a href="/api/view">/api/view</a></dt><dd>the same moment as JSON</dd>
<dt><a href="/api/conflicts">/api/conflicts</a></dt><dd>who took an engine's memory, and when</dd>
<dt><a href="/-/healthy">/-/healthy</a></dt><dd>200 while samples are fresh</dd>
<dt><a href="/-/ready">/-/ready</a></dt><dd>200 once there is something to scrape</dd>
</dl>
<p>In prometheus.yml:</p>
<pre>scrape_configs:
  - job_name: vllm-memory
    scrape_interval: 1s
    metrics_path: {path}
    static_configs:
      - targets: ["{escape(host)}"]</pre>
</body>
</html>
"""


def _state(view: View | None) -> str:
    if view is None:
        return "<p>The first samples are being taken.</p>"
    seen = f"<p>GPUs: {len(view.devices)}. vLLM engines: {len(view.engines)}.</p>"
    if view.replay is None:
        return seen
    banner = f"Replay of <b>{escape(view.replay)}</b>: these figures are not of this machine."
    return f'<p class="replay">{banner}</p>\n{seen}'
