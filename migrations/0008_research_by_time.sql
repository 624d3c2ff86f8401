-- An index for the list of all research of a tenant in all brands, newest first.
CREATE INDEX research_by_time ON research (tenant_id, researched_at, id);
