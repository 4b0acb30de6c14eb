# Entry point of a node: format its log directory once, then become the server.
# Reads /etc/kafka/node.properties; CLUSTER_ID is the same on all nodes of a cluster; FORMAT has further options
# of the format.
# With the argument `archive` (when the image is built): start once, and keep what the JVM learned
# of the classes in an archive, which halves the processor time of every later start.
set -eu

properties=/etc/kafka/node.properties
home=${0%/*} # an image of two versions has two
archive=$home/classes.jsa
# Spelled out and so in a fixed order: the archive is only valid for this very class path.
classpath=$(printf '%s:' "$home"/libs/*.jar)
classpath=${classpath%:}
flags="-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
# All of the server's log goes to stderr, stamped in UTC: `docker logs` is the server log.
log="-Dorg.slf4j.simpleLogger.defaultLogLevel=info
     -Dorg.slf4j.simpleLogger.showDateTime=true
     -Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd'T'HH:mm:ss.SSS'Z'
     -Dorg.slf4j.simpleLogger.showThreadName=false
     -Duser.timezone=UTC"

format() {
    # shellcheck disable=SC2086  # the flags are words
    java $flags -Xmx64m -Dorg.slf4j.simpleLogger.defaultLogLevel=warn -cp "$classpath" \
        kafka.tools.StorageTool format --cluster-id="$CLUSTER_ID" --config="$properties" ${FORMAT:-}
}

if [ "${1:-}" = archive ]; then
    mkdir -p "${properties%/*}"
    cat >"$properties" <<'END'
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@localhost:9093
controller.listener.names=CONTROLLER
listeners=BROKER://localhost:9092,CONTROLLER://localhost:9093
inter.broker.listener.name=BROKER
listener.security.protocol.map=BROKER:PLAINTEXT,CONTROLLER:PLAINTEXT
log.dirs=/data
END
    CLUSTER_ID=AAAAAAAAAAAAAAAAAAAAAA
    format
    # shellcheck disable=SC2086
    java $flags $log -XX:ArchiveClassesAtExit="$archive" -cp "$classpath" \
        kafka.Kafka "$properties" >/tmp/log 2>&1 &
    tries=600
    until grep -q 'Kafka Server started' /tmp/log; do
        tries=$((tries - 1))
        if [ $tries = 0 ] || ! kill -0 $!; then
            cat /tmp/log
            exit 1
        fi
        sleep 0.1
    done
    kill $!
    wait $! || true # ends by the signal
    rm -rf /data /tmp/log "$properties"
    test -s "$archive"
    exit
fi

flags="$flags -XX:SharedArchiveFile=$archive -Xshare:auto"
[ -e /data/meta.properties ] || format
# shellcheck disable=SC2086
exec java $flags $log -Xms${HEAP:-384m} -Xmx${HEAP:-384m} -cp "$classpath" kafka.Kafka "$properties"
