-- The research of a tenant, newest first, for all of its brands.
CREATE INDEX research_by_time ON research (tenant_id, researched_at, id);
