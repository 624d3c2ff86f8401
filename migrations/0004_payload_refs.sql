-- Who refers to a payload in R2: asked before an old object is removed. Few messages are that large, so few rows have an entry.
CREATE INDEX instances_by_payload ON instances (envelope->>'payload_ref') WHERE envelope->>'payload_ref' IS NOT NULL;
CREATE INDEX signals_by_payload ON signals (envelope->>'payload_ref') WHERE envelope->>'payload_ref' IS NOT NULL;
