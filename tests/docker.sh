# For the scripts that test in containers, to be sourced from the top folder.
#
#   docker_begin        Docker, from here on, with debian:bookworm-slim: installed where it is missing; where no daemon runs, as the
#                       service would start one, until docker_end. False: it cannot be had, and docker_why says why.
docker_daemon='' docker_why=''

docker_answers() { timeout 20 docker version >/dev/null 2>&1; }
docker_lacks() { docker_why=$*; return 1; }

docker_start() { # folder for the log
  [ -z "${DOCKER_HOST:-}" ] || docker_lacks "no Docker daemon at $DOCKER_HOST" || return
  [ "$(id -u)" -eq 0 ] || docker_lacks "no Docker daemon answers to this user, and only root can start one" || return
  echo "docker: starting the daemon"
  dockerd >"$1/docker.log" 2>&1 &
  docker_daemon=$!
  local end=$((SECONDS + 60))
  until docker_answers; do
    { kill -0 $docker_daemon 2>/dev/null && [ $SECONDS -lt $end ]; } ||
      docker_lacks "the Docker daemon does not start: $(tail -n 2 "$1/docker.log" | tr '\n' ' ')" || return
    sleep 0.2
  done
}

docker_begin() { # folder for the log
  { command -v docker && { command -v docker-compose || docker compose version; }; } >/dev/null 2>&1 || scripts/install-dependencies --compose
  docker_answers || docker_start "$1" || return
  scripts/images || docker_lacks "the images cannot be made" || return
  docker run --rm --network none debian:bookworm-slim true || docker_lacks "Docker starts no container here"
}

docker_end() {
  [ -n "$docker_daemon" ] || return 0
  kill "$docker_daemon" 2>/dev/null
  wait "$docker_daemon"
}
