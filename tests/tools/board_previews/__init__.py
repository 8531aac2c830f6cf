"""Previews of the Grafana boards, drawn from their JSON and from recordings; see `__main__`."""
