# The settings that the scripts themselves use, with the defaults of src/foundation/base/config.ts.
export BERTH_STATE_DIR=${BERTH_STATE_DIR:-/var/lib/berth}
export BERTH_RUNTIME_DIR=${BERTH_RUNTIME_DIR:-/run/berth}
export BERTH_API_PORT=${BERTH_API_PORT:-8443}
export BERTH_SFTP_PORT=${BERTH_SFTP_PORT:-2222}
