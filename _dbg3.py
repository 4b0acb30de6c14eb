import sys
sys.argv=['x']
from harness.config import run_config
from harness import simulate as S
from harness.simulation import nodes, scheduler
import model.broker as B
log=[]
orig=nodes.SimNode._ask
def ask(self, w):
    if self.me==2 and w.node==1 and w.channel=='fetch':
        log.append((self._scheduler.now, 'ask', str(w.request)[:200]))
    return orig(self,w)
nodes.SimNode._ask=ask
oa=B.Broker.answered
def answered(self, now, node, ch, a):
    if self.me==2 and node==1 and ch=='fetch': log.append((now,'answered',str(a)[:300]))
    return oa(self,now,node,ch,a)
B.Broker.answered=answered

ores=nodes.SimNode.resume
def resume(self):
    if self.me==2: print('resume', self._scheduler.now, self.paused, len(self._backlog))
    r=ores(self)
    if self.me==2: print('resumed', len(self._backlog), self.paused)
nodes.SimNode.resume=resume
op=nodes.SimNode.pause
def pause(self):
    if self.me==2: print('pause', self._scheduler.now, self.up, self.paused)
    return op(self)
nodes.SimNode.pause=pause
cfg=run_config({"seed":2,"workload":"transactions","nemesis":"pause","duration_s":10,"rate":40,"verb_deadline_s":5,"transaction_timeout_s":4, "fault_s":2.5,"calm_s":1.5,"recovery_deadline_s":20})
s=S.simulate(cfg)
for l in log[-6:]: print(l)
print([ (e.name,e.ns/1e6) for e in s.events if hasattr(e,"name")])
b=s.cluster.sim[2].broker
print(b.following.under_way.get(1))
