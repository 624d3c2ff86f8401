-- Open dead letters by the subject of their message, which is JSON text of any kind: for who looks for one. A run writes no letter, so its rows are as before.
CREATE INDEX dead_letters_by_subject ON dead_letters (tenant_id, iif(json_valid(body), substr(body->>'subject', 1, 1000), NULL), captured_at, id) WHERE state = 'open';

-- The audit of one person, of one verb, and without the things of bulk actions. Three entries more for an action, of which there are few, and two for a thing of a bulk action.
CREATE INDEX actions_by_actor ON actions (tenant_id, actor, at, id);
CREATE INDEX actions_by_verb ON actions (tenant_id, verb, at, id);
CREATE INDEX actions_by_themselves ON actions (tenant_id, at, id) WHERE detail->>'bulk' IS NULL;
