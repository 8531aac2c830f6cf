# The exporter's image. The same Python as the test suite's, so that what was tested is what runs.
#   docker build -t vllm-memory-exporter:0.1.0 .
ARG PYTHON=python:3.11.14-slim-bookworm

FROM ${PYTHON} AS wheel
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY exporter ./exporter
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

# Wheels only: nothing is compiled, so no build tools are needed or left behind. pip stays outside.
FROM ${PYTHON} AS installed
COPY --from=wheel /wheels /wheels
RUN python -m venv --without-pip /opt/exporter \
    && pip --python /opt/exporter/bin/python install --no-cache-dir --only-binary :all: "$(ls /wheels/*.whl)[kubernetes]"

FROM ${PYTHON}
ARG VERSION=0.1.0
ARG REVISION=unknown
LABEL org.opencontainers.image.title="vllm-memory-exporter" \
    org.opencontainers.image.description="Prometheus exporter that says why a vLLM server's GPU memory is full, who owns it, and what to change" \
    org.opencontainers.image.licenses="Apache-2.0" \
    org.opencontainers.image.version="${VERSION}" \
    org.opencontainers.image.revision="${REVISION}"
ENV PATH=/opt/exporter/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1
COPY --from=installed /opt/exporter /opt/exporter
# For the plugin: deploy/docker/vllm.Dockerfile takes it from here, so that both have one version.
COPY --from=wheel /wheels /wheels
# A number: the kubelet checks runAsNonRoot without looking names up.
USER 65532:65532
EXPOSE 10411
# Not urllib: that would ask the proxy of the environment.
HEALTHCHECK --interval=30s --timeout=5s --start-period=15s \
    CMD ["python", "-Ic", "from http.client import HTTPConnection as C; c = C('127.0.0.1', 10411, timeout=4); c.request('GET', '/-/healthy'); raise SystemExit(c.getresponse().status != 200)"]
ENTRYPOINT ["vllm-memory-exporter"]
CMD ["serve"]
