# The daemon in a container: the Debian package, installed in a Debian.
#
# The project's tests have no Docker: they read this file and install the same package in a Debian of their own, but they
# have never built this image. See docs/install.md and compose.yaml.
FROM node:24-trixie AS build
WORKDIR /src
COPY . .
RUN CFLAGS=-DHAVE_FDATASYNC npm ci && npm run package:deb -- --directory /tmp

# With a C library that uWebSockets loads on.
FROM debian:trixie-slim
# A fixed number, so that the owner of a secret's file on the host can be given.
RUN groupadd --system --gid 990 pipectl \
  && useradd --system --uid 990 --gid 990 --home-dir /var/lib/pipectl --no-create-home --shell /usr/sbin/nologin pipectl
COPY --from=build /tmp/pipectl_*.deb /tmp/pipectl.deb
# The package makes a sealing key: one in an image would be everybody's.
RUN apt-get update \
  && apt-get install --yes --no-install-recommends /tmp/pipectl.deb \
  && rm -rf /tmp/pipectl.deb /var/lib/apt/lists/* /etc/pipectl/sealing.key

ENV PIPECTL_CONFIG=/etc/pipectl/pipectl.toml \
  PIPECTL_LISTEN=0.0.0.0:8080 \
  PIPECTL_SECRETS_KEY_FILE=/run/secrets/pipectl-sealing-key \
  MALLOC_MMAP_THRESHOLD_=262144 \
  MALLOC_ARENA_MAX=2
USER pipectl
VOLUME /var/lib/pipectl
EXPOSE 8080
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 \
  CMD ["/usr/lib/pipectl/node", "-e", "fetch('http://127.0.0.1:8080/v1/ready').then((r) => process.exit(r.ok ? 0 : 1), () => process.exit(1))"]
ENTRYPOINT ["/usr/bin/pipectl"]
CMD ["serve", "--init"]
