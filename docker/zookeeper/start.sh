# Entry point of a node of the ZooKeeper time: ROLE is `broker` or `zookeeper`.
# Reads /etc/kafka/node.properties. A broker has CLUSTER_ID, the same on all nodes of a cluster, and ZOOKEEPER,
# where to write it; a node of ZooKeeper has ZOOKEEPER_ID.
# With the argument `archive` (when the image is built): start both once, and keep what the JVM learned of the
# classes in an archive, which halves the processor time of every later start.
set -eu

properties=/etc/kafka/node.properties
archive=/opt/kafka/classes.jsa
# Spelled out and so in a fixed order: the archive is only valid for this very class path.
classpath=$(printf '%s:' /opt/kafka/libs/*.jar)
classpath=${classpath%:}
flags="-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
# All of the program's log goes to stderr, stamped in UTC: `docker logs` is the log. Versions differ in what
# stands behind slf4j. ZooKeeper before 3.5 needs Log4j.
log="-Dorg.slf4j.simpleLogger.defaultLogLevel=info
     -Dorg.slf4j.simpleLogger.showDateTime=true
     -Dorg.slf4j.simpleLogger.dateTimeFormat=yyyy-MM-dd'T'HH:mm:ss.SSS'Z'
     -Dorg.slf4j.simpleLogger.showThreadName=false
     -Dlog4j.configuration=file:/opt/kafka/log4j.properties
     -Dzookeeper.jmx.log4j.disable=true
     -Duser.timezone=UTC"
server=org.apache.zookeeper.server.quorum.QuorumPeerMain

# Commands of ZooKeeper's shell, one a line on stdin.
ask() {
    # shellcheck disable=SC2086  # the flags are words
    java $flags -Xmx64m $log -Dorg.slf4j.simpleLogger.defaultLogLevel=off -cp "$classpath" \
        org.apache.zookeeper.ZooKeeperMain -timeout 5000 -server "$ZOOKEEPER" 2>/dev/null
}

# A broker makes up an id where the cluster has none: the run's is written before its first start. The
# first broker has written it for all; ZooKeeper may still be starting.
name_cluster() {
    id="{\"version\":\"1\",\"id\":\"$CLUSTER_ID\"}"
    until printf 'create /cluster kafka\ncreate /cluster/id %s\nget /cluster/id\nquit\n' "$id" |
        ask | grep -F "$id" >/dev/null; do
        sleep 0.2
    done
}

# A broker ends at once where its id is registered yet, by the session that it had when it was killed. Where
# ZooKeeper does not answer (a fault may cut the link), nothing is known: a reply counts that names the cluster.
outlive_session() {
    number=$(sed -n 's/^broker\.id=//p' "$properties")
    until reply=$(printf 'get /brokers/ids/%s\nget /cluster/id\nquit\n' "$number" | ask || true) &&
        printf '%s' "$reply" | grep -F "\"$CLUSTER_ID\"" >/dev/null &&
        ! printf '%s' "$reply" | grep endpoints >/dev/null; do
        sleep 0.2
    done
}

# until_logged FILE TEXT PID: shows the file and fails where the process ends before.
until_logged() {
    tries=600
    until grep -q "$2" "$1"; do
        tries=$((tries - 1))
        if [ $tries = 0 ] || ! kill -0 "$3"; then
            cat "$1"
            exit 1
        fi
        sleep 0.1
    done
}

if [ "${1:-}" = archive ]; then
    mkdir -p "${properties%/*}"
    printf '%s\n' dataDir=/zookeeper clientPort=2181 admin.enableServer=false >/tmp/zookeeper.properties
    printf '%s\n' broker.id=1 zookeeper.connect=localhost:2181 listeners=PLAINTEXT://localhost:9092 \
        log.dirs=/data zookeeper.connection.timeout.ms=60000 >"$properties"
    # shellcheck disable=SC2086
    java $flags $log -cp "$classpath" $server /tmp/zookeeper.properties >/tmp/zookeeper.log 2>&1 &
    zookeeper=$!
    # shellcheck disable=SC2086
    java $flags $log -XX:ArchiveClassesAtExit="$archive" -cp "$classpath" \
        kafka.Kafka "$properties" >/tmp/log 2>&1 &
    broker=$!
    until_logged /tmp/log '\] started (kafka.server.KafkaServer)\|KafkaServer.*started' $broker
    kill $broker
    wait $broker || true # ends by the signal
    kill $zookeeper
    wait $zookeeper || true
    rm -rf /data /zookeeper /tmp/*.log /tmp/log /tmp/zookeeper.properties "$properties"
    test -s "$archive"
    exit
fi

flags="$flags -XX:SharedArchiveFile=$archive -Xshare:auto"
if [ "$ROLE" = zookeeper ]; then
    mkdir -p /data
    echo "$ZOOKEEPER_ID" >/data/myid
    main=$server
else
    if [ -e /data/meta.properties ]; then
        outlive_session
    else
        name_cluster
    fi
    main=kafka.Kafka
fi
# shellcheck disable=SC2086
exec java $flags $log -Xms${HEAP:-384m} -Xmx${HEAP:-384m} -cp "$classpath" $main "$properties"
