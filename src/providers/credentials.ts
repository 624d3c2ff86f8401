/** What the embedded programs accept where the variable that would hold the secret is unset. They are reachable by binding only. */
export const EMBEDDED_TOKEN = "embedded";
/** The account of the embedded social server where `SOCIAL_HANDLE` is unset. */
export const EMBEDDED_HANDLE = "brand.test";
/** The id of the embedded CRM's account where `CRM_ACCOUNT` is unset. */
export const PORTAL_ID = 4_224_001;
/** The property of contacts and companies that holds our name for a record, where `CRM_ID_PROPERTY` is unset. */
export const ID_PROPERTY = "millrace_id";
