# berth in a container: its sshd and `berth serve` under tini. In step with scripts/start: the same packages, the same keeper.
#
#   docker build --build-arg VERSION="$(scripts/lib/version)" -t berth .
#   docker run -d --name berth -p 8443:8443 -p 2222:2222 -v berth-state:/var/lib/berth -v berth-jails:/srv/berth/jails \
#     --cap-add SYS_PTRACE --sysctl net.core.somaxconn=65535 -e BERTH_SFTP_HOST=sftp.example.com berth
#   docker exec berth berth account create 'Acme Corp' --plan business
#
# With podman: `podman build --format docker …`, whose default format has no HEALTHCHECK.
# SYS_PTRACE, beyond the defaults of Docker and Podman, shows which files a session holds open; without it berth does not start. Nothing
# is mounted, so SYS_ADMIN is not needed. Who gives powers one by one (--cap-drop ALL --cap-add ...) gives these:
# Powers: CHOWN, DAC_OVERRIDE, FOWNER, KILL, SETGID, SETUID, SYS_CHROOT, SYS_PTRACE
# A container may not raise net.core.somaxconn itself: without --sysctl (which --network host does not allow) it says so, and
# sessions wait earlier when berth is stuck. `docker stop` ends all sessions.

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

# What openssh/in-namespace does elsewhere: here the whole container is berth's, so the files are simply in place. The base
# image's own accounts go; what berth writes below its state folder is all that there is. /etc/machine is itself.
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
