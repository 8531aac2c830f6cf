# vLLM's image with the plugin, from the wheel inside the exporter's image. Where the base image does
# not run as root, put `USER root` before the second line and its own user after it.
#   docker build -t my-vllm -f deploy/docker/vllm.Dockerfile .
FROM vllm/vllm-openai:v0.30.0
RUN --mount=from=vllm-memory-exporter:0.1.0,source=/wheels,target=/wheels python3 -m pip install --no-cache-dir --no-deps /wheels/*.whl
