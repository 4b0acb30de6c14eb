# Entry point of a node: format its log directory once, then become the server.
# Reads /etc/kafka/node.properties; CLUSTER_ID is the same on all nodes of a cluster.
set -eu

properties=/etc/kafka/node.properties
flags="-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xshare:auto"
# All of the server's log goes to stderr, stamped in UTC: `docker logs` is the server log.
log="-Dorg.slf4j.simpleLogger.defaultLogLevel=info
     -Dorg.slf4j.simpleLogger.showDateTime=true
     -Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd'T'HH:mm:ss.SSS'Z'
     -Dorg.slf4j.simpleLogger.showThreadName=false
     -Duser.timezone=UTC"

if [ ! -e /data/meta.properties ]; then
    # shellcheck disable=SC2086  # the flags are words
    java $flags -Xmx64m -Dorg.slf4j.simpleLogger.defaultLogLevel=warn -cp '/opt/kafka/libs/*' \
        kafka.tools.StorageTool format -t "$CLUSTER_ID" -c "$properties"
fi
# shellcheck disable=SC2086
exec java $flags $log -Xms${HEAP:-384m} -Xmx${HEAP:-384m} -cp '/opt/kafka/libs/*' \
    kafka.Kafka "$properties"
