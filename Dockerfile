# The daemon in a container: the Debian package, installed in a Debian.
#
#   docker build .                                                   builds the package, in the checkout
#   docker build --build-arg PACKAGE=pipectl_1.0.0-1_amd64.deb .     takes that file of the folder, e.g. of a release
#
# The tests build this file with podman and run the image. They have no registry: BUILDER and BASE are a Debian of their own.
# See docs/install.md and compose.yaml.
ARG BUILDER=node:24-trixie
ARG BASE=debian:trixie-slim

FROM ${BUILDER} AS build
ARG PACKAGE=
WORKDIR /src
COPY . .
RUN if [ -n "$PACKAGE" ]; then cp "$PACKAGE" /pipectl.deb; \
  else npm ci && npm run package:deb -- --directory /tmp && mv /tmp/pipectl_*.deb /pipectl.deb; fi

# With a C library that uWebSockets loads on.
FROM ${BASE}
# A fixed number, so that the owner of a secret's file on the host can be given.
RUN groupadd --system --gid 990 pipectl \
  && useradd --system --uid 990 --gid 990 --home-dir /var/lib/pipectl --no-create-home --shell /usr/sbin/nologin pipectl
COPY --from=build /pipectl.deb /tmp/pipectl.deb
# The package makes a sealing key: one in an image would be everybody's.
RUN apt-get update \
  && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends /tmp/pipectl.deb \
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
