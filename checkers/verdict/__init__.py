"""The verdict of a run: what was found, whether it is allowed, what could not be decided, and examples.

clients         The clients of a run as its history has them.
incidents       What happened in a run without being planned, and which checks it keeps from deciding.
judged_logs     What a run had of brokers' logs, and what that leaves undecided: the section `logs`
                of its verdict.
judged_run      The verdict itself.
mixed_clusters  Another cluster in a recording: where one answered, nothing that was found
                is this cluster's doing.
repeat          The command line that repeats a run.
requirements    What a user requires of a run beside a valid verdict.
subjects        What a history holds that checks can judge; a check whose subject a run lacks is not
                asked.
summary         Words of a verdict: what a run comes to, in one sentence; why that is not more.
witness         Examples of findings for people: the sentence, the ops and records, the faults in force.
"""
