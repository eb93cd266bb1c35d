# tests/chaos/producer.py in a container of its own; tests/compose/run puts it and its packages beside this file.
FROM debian:bookworm-slim
RUN apt-get update -q && apt-get install -q -y --no-install-recommends python3 && rm -rf /var/lib/apt/lists/*
COPY . /producer
ENTRYPOINT ["python3", "-u", "/producer/producer.py"]
