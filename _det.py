import sys, hashlib, msgspec
from harness.config import run_config
from harness.simulate import simulate
cfg=run_config({"seed":int(sys.argv[3]),"workload":sys.argv[1],"nemesis":sys.argv[2],"duration_s":6,"rate":40,"verb_deadline_s":5,"transaction_timeout_s":4,"fault_s":2.0,"calm_s":1.0})
s=simulate(cfg)
h=hashlib.sha256()
for n,l in s.journals: h.update(n.encode()); h.update(msgspec.json.encode(l))
print(h.hexdigest()[:16], s.calls)
