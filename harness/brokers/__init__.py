"""What the harness asks of any brokers behind Kafka's protocol, and what it puts in front of them.

addresses     Addresses of one cluster: ports on the host's loopback, a private subnet and
              ports in it; and its id.
admin         Questions to chosen brokers by Kafka's raw protocol.
dead_letters  Reads the dead-letter queue of share groups to its end.
endpoint      Where clients reach brokers behind Kafka's protocol.
node_ends     The ends of nodes that the run had not asked for: each is seen once,
              and no new start hides one.
peer_proxies  Proxies between brokers in containers: one in the network of each broker, at
              the port that others dial.
proxies       Proxies in front of brokers: toxiproxy, and the ones that know frames,
              for clients and between brokers.
questions     What the harness asks brokers over a listener of its own: the part of a
              cluster that is the same wherever its brokers run.
toxiproxy     Toxiproxy in front of the brokers' client listeners, so that the links of
              clients can be made bad.

Not here: how brokers are hosted. That is each system's own.
"""
