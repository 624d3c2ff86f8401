-- In which account of the CRM the records are that the links of a tenant name. A tenant without a row has not been to a CRM since accounts
-- are noted. The next push notes it.
CREATE TABLE crm_accounts (
  tenant_id  TEXT    NOT NULL PRIMARY KEY,
  -- NULL while the links of the account before are being forgotten. Nobody may push meanwhile.
  account    TEXT,
  updated_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
