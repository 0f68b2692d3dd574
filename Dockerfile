# berth in a container: sshd and `berth serve` under tini. Keep its packages and its keeper in step with scripts/start.
#
#   docker build --build-arg VERSION="$(scripts/lib/version)" -t berth .
#   docker run -d --name berth -p 8443:8443 -p 2222:2222 -v berth-state:/var/lib/berth -v berth-jails:/srv/berth/jails \
#     --cap-add SYS_PTRACE --sysctl net.core.somaxconn=65535 -e BERTH_SFTP_HOST=sftp.example.com berth
#   docker exec berth berth account create 'Acme Corp' --plan business
#
# podman's default image format has no HEALTHCHECK: build with `podman build --format docker …`.
# SYS_PTRACE, the only capability beyond the defaults of Docker and Podman, shows which files a session holds open; berth does not
# start without it. Nothing is mounted, so SYS_ADMIN is not needed. With --cap-drop ALL, add these back:
# Powers: CHOWN, DAC_OVERRIDE, FOWNER, KILL, SETGID, SETUID, SYS_CHROOT, SYS_PTRACE
# A container cannot raise net.core.somaxconn itself. Without --sysctl (which --network host does not allow) it logs a warning, and
# sessions block sooner when berth is stuck. `docker stop` ends all sessions first, so that berth records how their uploads ended.

FROM node:24-trixie-slim AS build
WORKDIR /build
COPY . .
ARG VERSION
RUN scripts/lib/stage /opt/berth && cp scripts/container /opt/berth/scripts

FROM node:24-trixie-slim
RUN apt-get update \
  && apt-get install -y --no-install-recommends \
    openssh-server libnss-systemd openssl ca-certificates util-linux procps tini \
  && rm -rf /var/lib/apt/lists/* /etc/ssh/ssh_host_* \
  && mkdir -p /run/sshd
COPY --from=build /opt/berth /opt/berth
ARG VERSION
LABEL org.opencontainers.image.title=berth org.opencontainers.image.version=$VERSION

# Takes the place of openssh/in-namespace: the whole container is berth's, so sshd's files are simply in place. The base image's own
# accounts are removed; all others are in berth's state folder. /etc/machine is /etc itself.
RUN set -e; touch /etc/berth.image; ln -s . /etc/machine; \
  for name in nsswitch.conf passwd group shadow pam.d; do \
    rm -rf "/etc/$name"; ln -s "/var/lib/berth/sshd/etc/$name" "/etc/$name"; \
  done; \
  ln -s /var/lib/berth/userdb /etc/userdb; \
  ln -s /opt/berth/scripts/berth /usr/local/bin/berth

VOLUME ["/var/lib/berth", "/srv/berth/jails"]
EXPOSE 8443 2222
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s CMD ["/opt/berth/scripts/container", "--healthy"]
STOPSIGNAL SIGTERM
ENTRYPOINT ["tini", "--", "/opt/berth/scripts/container"]
