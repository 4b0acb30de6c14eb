-- Ten checks of docs/checks.md in DuckDB's SQL on the sealed tables, for the benchmark `benchmarks.duckdb_checks`.
-- They hold for its synthetic histories: transactions alone, complete final reads, no rewinds.
-- isolation 1 = read_committed; outcome 0 = OK, 1 = FAIL, 2 = INFO; phase 6 = FINAL.

CREATE TEMP TABLE counting AS
SELECT DISTINCT tp, value FROM reads WHERE isolation = 1 AND (op_outcome = 0 OR phase = 6);

CREATE TEMP TABLE proven AS
SELECT DISTINCT op FROM sends SEMI JOIN counting USING (tp, value) WHERE op_outcome = 2;

CREATE TEMP TABLE judged AS
SELECT s.*, op_outcome <> 1 AND outcome <> 1 AND (op_outcome = 0 OR p.op IS NOT NULL) AS committed
FROM sends s LEFT JOIN proven p ON s.op = p.op;

CREATE TEMP TABLE final_values AS
SELECT DISTINCT tp, value FROM reads WHERE isolation = 1 AND phase = 6;

CREATE TEMP TABLE pairs AS
SELECT DISTINCT tp, "offset", value FROM reads
UNION
SELECT tp, "offset", value FROM judged WHERE committed AND "offset" >= 0;

-- what a consumer has to see, with the number of such offsets up to each
CREATE TEMP TABLE seen_by_ru AS
SELECT tp, "offset", row_number() OVER (PARTITION BY tp ORDER BY "offset") AS n
FROM (SELECT DISTINCT tp, "offset" FROM reads WHERE phase = 6);
CREATE TEMP TABLE seen_by_rc AS
SELECT tp, "offset", row_number() OVER (PARTITION BY tp ORDER BY "offset") AS n
FROM (
    SELECT DISTINCT r.tp, r."offset" FROM reads r LEFT JOIN judged s ON r.tp = s.tp AND r.value = s.value
    WHERE r.phase = 6 AND (r.isolation = 1 OR s.committed)
);

CREATE TEMP TABLE steps AS
SELECT tp, op, before_op, isolation, before, "offset" AS after
FROM (
    SELECT tp, op, isolation, "offset", assignment,
           lag(op) OVER w AS before_op, lag("offset") OVER w AS before, lag(assignment) OVER w AS was
    FROM reads WINDOW w AS (PARTITION BY tp, process ORDER BY op, pos)
)
WHERE before IS NOT NULL AND assignment = was;

CREATE TEMP TABLE skips AS
SELECT t.op = t.before_op AS inside
FROM steps t
ASOF JOIN (SELECT tp, "offset", n, 0 AS isolation FROM seen_by_ru
           UNION ALL SELECT tp, "offset", n, 1 FROM seen_by_rc) low
  ON t.tp = low.tp AND t.isolation = low.isolation AND t.before >= low."offset"
ASOF JOIN (SELECT tp, "offset", n, 0 AS isolation FROM seen_by_ru
           UNION ALL SELECT tp, "offset", n, 1 FROM seen_by_rc) high
  ON t.tp = high.tp AND t.isolation = high.isolation AND t.after > high."offset"
WHERE t.after > t.before AND high.n > low.n;

CREATE TEMP TABLE neighbours AS
SELECT op, place, lag(op) OVER w AS before_op, lag(place) OVER w AS before
FROM sends WHERE place >= 0 WINDOW w AS (PARTITION BY tp, process ORDER BY op, pos);

CREATE TEMP TABLE highest AS
SELECT tp, ack_ns, max("offset") OVER (PARTITION BY tp ORDER BY ack_ns) AS bound
FROM sends WHERE "offset" >= 0 AND ack_ns >= 0;

-- what nobody ever saw of a transaction in doubt is torn, not lost
SELECT 'lost-write' AS anomaly, count(*) AS number
FROM (SELECT * FROM judged ANTI JOIN final_values USING (tp, value) WHERE committed) missing
LEFT JOIN counting c ON missing.tp = c.tp AND missing.value = c.value
WHERE missing.op_outcome = 0 OR c.value IS NOT NULL
UNION ALL
SELECT 'duplicate', count(*) FROM (SELECT tp, value FROM pairs GROUP BY tp, value HAVING count(*) > 1)
UNION ALL
SELECT 'inconsistent-offsets', count(*)
FROM (SELECT tp, "offset" FROM pairs GROUP BY tp, "offset" HAVING count(*) > 1)
UNION ALL
SELECT 'phantom-read', count(*)
FROM (SELECT DISTINCT tp, "offset", value FROM reads ANTI JOIN sends USING (tp, value)
      UNION ALL SELECT DISTINCT tp, "offset", -1 FROM foreign_rows WHERE reason = 3)
UNION ALL
SELECT 'aborted-read', count(*)
FROM (
    SELECT DISTINCT r.tp, r.value, r.op FROM reads r JOIN sends s ON r.tp = s.tp AND r.value = s.value
    WHERE (s.outcome = 1 OR s.op_outcome = 1) AND (r.isolation = 1 OR r.phase <> 6)
)
UNION ALL
SELECT 'torn-txn', count(*)
FROM (
    SELECT s.op FROM judged s
    LEFT JOIN counting c ON s.tp = c.tp AND s.value = c.value
    LEFT JOIN final_values f ON s.tp = f.tp AND s.value = f.value
    WHERE s.op_outcome <> 1 AND s.outcome <> 1
    GROUP BY s.op
    HAVING count(c.value) > 0 AND count(*) FILTER (WHERE c.value IS NULL AND f.value IS NULL) > 0
)
UNION ALL
SELECT 'nonmonotonic-send', count(*) FROM neighbours WHERE op <> before_op AND place < before
UNION ALL
SELECT 'nonmonotonic-poll', count(*) FROM steps WHERE op <> before_op AND after <= before
UNION ALL
SELECT 'int-nonmonotonic-poll', count(*) FROM steps WHERE op = before_op AND after <= before
UNION ALL
SELECT CASE WHEN inside THEN 'int-poll-skip' ELSE 'poll-skip' END, count(*) FROM skips GROUP BY 1
UNION ALL
SELECT 'offset-realtime-inversion', count(*)
FROM sends t ASOF JOIN highest s ON t.tp = s.tp AND t.invoke_ns > s.ack_ns
WHERE t.place >= 0 AND s.bound > t.place;
