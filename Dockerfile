# The service on a CPU, the bundled models inside: docs/how-to/deploy-in-a-container.md
#   docker build -t elmokit .
FROM python:3.12-slim AS build
# torch for CPUs alone is much smaller; an empty value takes the one of the usual index.
ARG TORCH_INDEX=https://download.pytorch.org/whl/cpu
ARG EXTRAS=service,korean
WORKDIR /src
COPY pyproject.toml constraints.txt README.md LICENSE NOTICE ./
RUN python -m venv /opt/elmokit
RUN /opt/elmokit/bin/pip install --no-cache-dir --constraint constraints.txt ${TORCH_INDEX:+--extra-index-url "$TORCH_INDEX"} torch
COPY elmokit ./elmokit
RUN /opt/elmokit/bin/pip install --no-cache-dir --constraint constraints.txt ".[$EXTRAS]"
# The models are there, and load.
RUN cd /tmp && /opt/elmokit/bin/elmo info english-small && /opt/elmokit/bin/elmo info korean-small

FROM python:3.12-slim
COPY --from=build /opt/elmokit /opt/elmokit
ENV PATH=/opt/elmokit/bin:$PATH HOME=/tmp ELMOKIT_CACHE=/tmp/elmokit PYTHONDONTWRITEBYTECODE=1
WORKDIR /tmp
USER 10001:10001
EXPOSE 8017
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 \
  CMD ["python", "-c", "from urllib.request import urlopen; urlopen('http://127.0.0.1:8017/ready', timeout=4)"]
ENTRYPOINT ["elmo", "serve", "--host", "0.0.0.0"]
CMD ["--model", "english-small"]
