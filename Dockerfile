# pawl: all its programs. `docker run pawl --type t1` is a worker, `docker run pawl pawl-status` another program; see docs/containers.md.

FROM debian:bookworm-slim AS build
COPY scripts/install-dependencies /pawl/scripts/
RUN /pawl/scripts/install-dependencies
COPY . /pawl
WORKDIR /pawl
RUN cmake --preset release -B /build -DPAWL_TESTS=OFF -DPAWL_FAULTS=OFF && cmake --build /build -j "$(nproc)" && \
    DESTDIR=/staging cmake --install /build --strip

# Debian with the libraries, without what only installs further packages.
FROM debian:bookworm-slim AS libraries
RUN apt-get update -q && \
    DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends ca-certificates libev4 libinih1 libisal2 libmicrohttpd12 \
      libmongoc-1.0-0 libncursesw6 libsystemd0 libzstd1 socat tini && \
    useradd --uid 10001 --user-group --home-dir /nonexistent --no-create-home --shell /usr/sbin/nologin pawl && \
    install -d -m 0750 -o pawl -g pawl /var/lib/pawl && install -d -m 0755 -o pawl -g pawl /var/lib/pawl-starts && \
    install -d -m 0755 -o pawl -g pawl /var/lib/pawl-state && \
    dpkg --purge --force-depends --force-remove-essential --force-remove-protected apt libapt-pkg6.0 perl-base && \
    rm -rf /var/lib/apt /var/cache/* /var/log/* /tmp/* && \
    find / -xdev -type f -perm /6000 -exec chmod a-s {} +

FROM scratch
ARG VERSION=0.1.0
ARG REVISION=
LABEL org.opencontainers.image.title="pawl" \
      org.opencontainers.image.description="Drains a MongoDB message queue into append-only files, each message exactly once" \
      org.opencontainers.image.base.name="docker.io/library/debian:bookworm-slim" \
      org.opencontainers.image.version="$VERSION" \
      org.opencontainers.image.revision="$REVISION"
COPY --from=libraries / /
COPY --from=build /staging/usr/local/bin /usr/local/bin
COPY deploy/docker/entrypoint deploy/docker/healthy /usr/local/bin/
ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin PAWL_DIR=/var/lib/pawl PAWL_LISTEN=9464
# Where pawl-enqueue keeps its last _id. Not a VOLUME: one without a name would be a new one each time, and no warning.
ENV XDG_STATE_HOME=/var/lib/pawl-state
# In numbers, so that Kubernetes can see that it is not root.
USER 10001:10001
WORKDIR /var/lib/pawl
# Also when no volume is named, the files outlive the container.
VOLUME /var/lib/pawl
EXPOSE 9464
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=10s --retries=3 CMD ["healthy"]
ENTRYPOINT ["entrypoint"]
