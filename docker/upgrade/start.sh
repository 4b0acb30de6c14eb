# Entry point of a node that has two versions of Kafka: start the one that /etc/kafka/home names, at first the
# one of /opt/kafka.
set -eu

home=/opt/kafka
[ ! -e /etc/kafka/home ] || home=$(cat /etc/kafka/home)
exec /bin/sh "$home/start.sh"
