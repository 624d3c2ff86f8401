-- How many instances of each workflow are errored now, for a gauge. Only what failed is in it.
CREATE INDEX instances_errored_by_workflow ON instances (workflow) WHERE status = 'errored';
