"""The system `external`: a cluster that the harness did not start (`--cluster FILE`).

belongings   Topics and groups of a cluster: which are the run's, which are not, and taking away
             those that are.
cluster      A cluster that the harness did not start, as a run uses it.
disks        What nodes left, as far as the hook `collect` brings it.
docker_ends  Containers of the user's that ended unasked.
docker_hooks  The shorthand `docker`: hooks by the program `docker`, whose engine has a
             container for each node.
file         The file of a cluster: where it is, how it is secured, and what breaks and heals it.
hooked_nodes  Nodes that hooks break and heal: capabilities of a cluster that the harness did not
             start.
hooks        Hooks: commands of the user's shell that break nodes of the cluster and heal them.
kubernetes_hooks  The shorthand `kubernetes`: hooks by the program `kubectl`, of the user's PATH and
             configuration.
kubernetes_pods  Which pods are the nodes of a cluster, as `kubectl` says, and whether signals reach the
             programs in them.
means        By what means hooks reach the nodes of a cluster: what its file says, what a shorthand of it
             gives.
named        The file of the cluster that the user named, for this process and its children.
nodes        What hooks have to know of a cluster's nodes.
placements   Replicas of internal topics that a run moves: where they were, and putting them back.
reaper       The reaper of a run on an external cluster: it heals and clears up after a harness
             that was killed.
survey       What a cluster says of itself before a run.
system       A cluster that the harness did not start, as a system under test.
trial        `inquest doctor --cluster FILE`: is the cluster one that a run can use, and does each
             hook do what it says?

The file comes from the command line or the environment, never from a run folder; so do its commands. Secrets
are in the environment, in the memory of processes and on their pipes, and nowhere else: a config has the
prefix, the numbers of nodes, and the settings of brokers that the cluster itself names.

What the run may touch begins with its prefix: workloads name their topics, groups and transactional ids so
(`workloads.prefixed`). A cluster that has others is refused, unless the user owns it. `start` begins nothing
where something of the prefix exists already. `stop` heals, deletes and names what stayed; where the harness
is killed, its reaper does.

Plans and verdicts read `broker_settings` as with other systems. Here these say what the brokers are set to:
the cluster is asked for them, and no broker is ever changed.
"""
