import sys, time, collections
from harness.config import run_config
from harness.simulate import simulate
from harness.process_rows import rows_of
from harness import events as ev
from checkers.pipeline import check_tables
from checkers.catalogue import allowed
def go(workload, nemesis, seed, **kw):
    cfg=run_config({"seed":seed,"workload":workload,"nemesis":nemesis,"duration_s":10,"rate":kw.pop('rate',40),"verb_deadline_s":5,"transaction_timeout_s":4, "fault_s":2.5,"calm_s":1.5, **kw})
    w0=time.process_time(); s=simulate(cfg); w1=time.process_time()
    rows=rows_of(s.journals)
    b=[e for e in s.events if isinstance(e, ev.BoundsListed)]
    rows.add_bounds(b[-1].rows if b else ())
    t=rows.tables()
    tally=check_tables(t, portable=False, events=s.events)
    w2=time.process_time()
    faults=[e.name for e in s.events if isinstance(e, ev.FaultStarted)]
    failed=[(e.name,e.why) for e in s.events if isinstance(e, ev.FaultFailed)]
    bad=[f for f in tally.findings if f.variant!="log" and not allowed(cfg, faults, f)[0]]
    o=collections.Counter(t['ops'].column('outcome').to_pylist())
    rec=[e for e in s.events if isinstance(e, ev.Recovered)]
    print(workload, nemesis, seed, 'bad', collections.Counter(f.name for f in bad), 'ops', dict(o), 'sim', round(s.simulated_s,1), 'calls', s.calls, 'ev/s', round(s.calls/(w1-w0)), 'sim s/s', round(s.simulated_s/(w1-w0),1), 'check', round(w2-w1,2), 'faults', faults, failed, 'rec', rec[-1].recovered if rec else None, rec[-1].why if rec else '', 'unread', tally.unread[:3], 'crashed', list(tally.crashed)[:2])
    return s, t, tally, bad
if __name__=='__main__':
    for w in sys.argv[1].split(','):
        for n in sys.argv[2].split(';'):
            for seed in range(int(sys.argv[3]), int(sys.argv[4])):
                try: go(w,n,seed)
                except Exception as e:
                    import traceback; traceback.print_exc(limit=-4); print('FAILED', w,n,seed)
