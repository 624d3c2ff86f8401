-- Which wish a run by hand has answered, as a hash of its key. The same wish is the same run, whatever the schedule says by then.
ALTER TABLE schedule_runs ADD COLUMN occasion TEXT CHECK (occasion IS NULL OR state = 'by_hand');

CREATE UNIQUE INDEX schedule_runs_by_occasion ON schedule_runs (tenant_id, name, occasion) WHERE occasion IS NOT NULL;

-- The key of its command ends with that hash.
UPDATE OR IGNORE schedule_runs SET occasion = (SELECT substr(i.idempotency_key, -32) FROM instances i WHERE i.id = schedule_runs.instance_id)
WHERE state = 'by_hand';
