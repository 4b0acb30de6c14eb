import sys
sys.argv=['x']
from _sim import go
s,t,tally,bad=go('transactions','pause',2)
for f in bad[:3]: print(f)
import pyarrow.parquet
sends=t['sends'].to_pandas(); reads=t['reads'].to_pandas()
f=bad[0]; v=f.key[1]; row=sends[sends.value==v]; print(row.T)
tp=f.tp
print(sends[(sends.op==row.op.iloc[0])][['tp','pos','value','offset','outcome','op_outcome','ack_ns']])
print(t['bounds'].to_pandas())
print(reads[(reads.tp==tp)&(reads.offset.between(row.offset.iloc[0]-2,row.offset.iloc[0]+2))][['op','process','isolation','phase','offset','value']].to_string())
tpn=t['tps'].to_pandas(); print(tpn)
name=tuple(tpn[tpn.tp==tp][['topic','partition']].iloc[0]); name=(name[0],int(name[1]))
for n,node in s.cluster.sim.items():
    r=node.broker.node.replicas.get(name) if node.broker else None
    if r: print(n, r.state, r.log.end, r.high_watermark, r.log.epochs, [b for b in r.log.batches if abs(b.base-row.offset.iloc[0])<4])
