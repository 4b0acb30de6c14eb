import sys
sys.argv=['x']
from _sim import go
s,t,tally,bad=go('transactions','pause',2)
for f in bad[:3]: print(f)
for n,node in s.cluster.sim.items():
    b=node.broker
    for tp in [('transactions',0)]:
        r=b.node.replicas.get(tp)
        print(n, r.state, r.log.end, r.high_watermark, r.proposed, r.truncating, r.asked_epoch, {k:(v.end,v.caught_up_ms) for k,v in r.remotes.items()}, b.fenced, b._again, b.node.broker_epoch, {k:(v.epoch,v.fenced) for k,v in b.node.image.brokers.items()}, b.following.under_way.keys(), b.following.pause, b.node.now)
b=s.cluster.sim[2].broker; rq=b.following.under_way[1]; print(rq)
inc=s.cluster.sim[1]._incoming
for k,i in inc.items():
    if i.connection.client==2: print(k, i.busy, len(i.queue), i.connection.closed, i.connection.listener, list(i.answer)[:2])
l=s.cluster.sim[1].broker
print({tp:[(f.request.replica,f.until,f.answered) for f in fs] for tp,fs in l.serving.parked.items()}, l.node.now)
