-- What people did to one instance: to itself, to its effects, and to its questions. One entry more for an action on an instance.
CREATE INDEX actions_by_instance ON actions (tenant_id, instance_id, at, id) WHERE instance_id IS NOT NULL;
